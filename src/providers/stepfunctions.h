// AWS Step Functions: a state machine is executed under the run's id as its name.
//
//   start  StartExecution        the same name and input is the same execution
//   look   ListExecutions        those that run, a page for many; for the others, and where there are few,
//   DescribeExecution
//          GetExecutionHistory   retries, and what is waited for: a few executions a look, those that moved last first
//   stop   StopExecution
//   tell   SendTaskSuccess, SendTaskFailure
//
// A call is a POST that libcurl signs. When AWS says that it is asked too often, nothing is asked for a while.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "providers/history.h"
#include "providers/provider.h"
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
    // When its history is worth a look again: soon after it moved, ever later while it does not.
    std::chrono::steady_clock::time_point next_history;
    std::chrono::steady_clock::duration pause{};
    bool is_running = false;  // as it was last seen
  };
  // Executions that run, of one state machine. A page that is the same as before need not be read again.
  struct Machine {
    std::set<RunId> runs;
    bool is_refused = false;  // it was not listed, and would not be
    bool is_settled = false;  // all of them were among those that run, by the pages as they are
    struct Page {
      std::size_t hash = 0;
      std::size_t bytes = 0;
      std::string next;
      std::vector<std::string> executions;
    };
    std::vector<Page> pages;
  };

  Request request(std::string_view operation, const Target& target, const Json& body) const;
  Outcome adopt(const Carried& run, const std::string& said);
  // Brings the pages up to date; false when it could not. `is_same`: they are as they were.
  bool list_running(const std::string& machine_arn, Machine& machine, bool& is_same, Look& look);
  void describe(const std::vector<RunId>& runs, Look& look);
  Request history_request(const Watched& watched, const std::string& token = {}) const;
  // `response`: to the first of those requests.
  bool read_history(Watched& watched, Response response, Look& look);
  void read_histories(Look& look);
  bool is_throttled(const Response& response, Look& look);
  Sighting running(const Watched& watched) const;

  StepFunctionsOptions options_;
  Transport acting_, looking_;

  std::unordered_map<RunId, Watched> watched_;
  std::map<std::string, Machine> machines_;  // by ARN
  std::chrono::steady_clock::time_point quiet_until_;
  std::chrono::steady_clock::duration quiet_for_{};
};

}  // namespace pawl::providers
