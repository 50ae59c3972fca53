// Restate: a handler of a service, an object or a workflow is called over the ingress, and looked at over the admin
// port.
//
//   start  POST  {ingress}/restate/send/{service}[/{key}]/{handler}     idempotency-key: the run's id
//   look   POST  {admin}/query                                          one SQL query for all that changed
//   stop   PATCH {admin}/invocations/{id}/cancel, and /kill for what has not ended a while later
//   tell   POST  {ingress}/restate/awakeables/{id}/resolve|reject, or a call of the workflow's own handler
//
// A look asks for what was modified since the last one, for what is being retried, for those that are new to it, and, a
// few at a time, for all the others: so what a look missed is found within a minute, and what is gone is noticed.
#pragma once

#include <chrono>
#include <deque>
#include <expected>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/clock.h"
#include "providers/provider.h"
#include "providers/transport.h"

namespace pawl::providers {

struct RestateOptions {
  std::string ingress;  // http://127.0.0.1:8080
  std::string admin;    // http://127.0.0.1:9070
  std::string token;    // sent as a bearer's; empty: none
  Duration kill_after = std::chrono::minutes(1);
};

class RestateClient final : public Client {
 public:
  // The clock outlives it.
  RestateClient(RestateOptions options, const Clock& clock);

  Provider provider() const override { return Provider::restate; }
  std::vector<Outcome> start(const std::vector<Carried>& runs) override;
  std::vector<Outcome> stop(const std::vector<Carried>& runs) override;
  Duration stopping_takes() const override { return options_.kill_after; }
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
  enum class Service { plain, object, workflow };
  struct Watched {
    RunId run;
    std::string service;
  };

  Request request(std::string method, std::string url, std::string body = {}) const;
  // Services by their kind; asked for once each, while they are there.
  std::map<std::string, Outcome> find_kinds(const std::set<std::string>& services);
  std::expected<std::string, Outcome> path_of(const Carried& run) const;
  std::vector<std::string> find_ids(const std::vector<Carried>& runs, std::vector<Outcome>& outcomes);
  std::vector<std::string> next_ids();
  std::string changes_query() const;
  void take_rows(const Response& response, const std::vector<std::string>& asked_for, Look& look,
                 std::set<std::string>& seen);
  void fetch_outputs(Look& look);
  void kill_due();

  RestateOptions options_;
  const Clock& clock_;
  Transport acting_, looking_;

  // Of who starts.
  std::map<std::string, Service> kinds_;

  // Of who looks.
  std::unordered_map<std::string, Watched> watched_;  // by invocation
  std::unordered_map<RunId, std::string> ids_;
  std::set<std::string> fresh_;          // to be asked for by their ids
  std::deque<std::string> round_;        // all of them, one after the other
  std::map<std::string, int> services_;  // of those that are watched
  std::string modified_;                 // the latest that was seen

  std::mutex mutex_;
  std::set<std::pair<Instant, std::string>> to_kill_;  // when, and which invocation
};

}  // namespace pawl::providers
