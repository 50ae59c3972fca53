// AWS Step Functions: a state machine is executed under the run's id as its name.
//
//   start  StartExecution        the same name and input is the same execution
//   look   ListExecutions        those that run, a thousand a page (running_list.h)
//          DescribeExecution     those that the list does not have, and where there are few of a state machine, all
//          GetExecutionHistory   retries, and what is waited for: a few executions a look, those that moved last first
//   stop   StopExecution
//   tell   SendTaskSuccess, SendTaskFailure
//
// A call is a POST that libcurl signs. When AWS says that it is asked too often, nothing is asked for a while, and from
// then on less often, until it has been content for long enough.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "providers/history.h"
#include "providers/provider.h"
#include "providers/running_list.h"
#include "providers/transport.h"

namespace pawl::providers {

struct StepFunctionsOptions {
  std::string endpoint;  // empty: Amazon's own, of the region that the state machine's ARN names
  AwsAccess access;
};

class StepFunctionsClient final : public Client {
 public:
  explicit StepFunctionsClient(StepFunctionsOptions options);

  Provider provider() const override { return Provider::stepfunctions; }
  std::vector<Outcome> start(const std::vector<Carried>& runs) override;
  std::vector<Outcome> stop(const std::vector<Carried>& runs) override;
  std::vector<Outcome> tell(const std::vector<Decided>& decided) override;
  std::optional<std::string> find_target_problem(const Target& target) override;
  void give_up() override {
    acting_.stop();
    looking_.stop();
  }
  void watch(const Carried& run) override;
  void forget(RunId run) override;
  Look look() override;

 private:
  struct Watched {
    Carried run;
    History history;
    // Whose turn it is: those whose history moved come again soon, the others ever later.
    std::chrono::steady_clock::time_point history_read, history_due;
    std::chrono::steady_clock::duration pause{};
    std::uint64_t described = 0;  // by which look
    bool is_running = false;      // as it was last seen
  };
  struct Machine {
    std::set<RunId> runs;
    stepfunctions::RunningList list;
    bool is_settled = false;  // all of them are in the list as it is
  };

  Request request(std::string_view operation, const Target& target, const Json& body) const;
  Outcome adopt(const Carried& run);
  // Adds those of which the list does not say that they run.
  void look_by_list(const std::string& arn, Machine& machine, std::vector<RunId>& to_describe, Look& look);
  void describe(std::vector<RunId> runs, Look& look);
  Request history_request(const Watched& watched, const std::string& token = {}) const;
  // `response`: to the first of those requests.
  bool read_history(Watched& watched, Response response, Look& look);
  void read_histories(Look& look);
  bool note_throttling(const Response& response, Look& look);
  void keep_quiet();
  Sighting running(const Watched& watched) const;

  StepFunctionsOptions options_;
  Transport acting_, looking_;

  std::unordered_map<RunId, Watched> watched_;
  std::map<std::string, Machine> machines_;  // by ARN
  std::uint64_t looks_ = 0;
  bool is_throttled_ = false;  // by the last look
  std::chrono::steady_clock::duration quiet_for_{};
  std::chrono::steady_clock::time_point quiet_until_;
};

}  // namespace pawl::providers
