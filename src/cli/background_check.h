// Checks everything in a store again and again, slowly, in a thread of its own: what a disk or another program changes
// is found although nobody asks for it.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "cli/verification.h"
#include "core/time.h"
#include "store/store.h"

namespace pawl {

struct BackgroundCheckOptions {
  // A view of the store at one moment, beside the writer. Each is closed soon: the writer's log cannot start over while
  // one is open.
  std::function<std::unique_ptr<Store>()> open_view;
  std::size_t bytes_per_second = 0;  // of events and snapshots
  Duration interval;                 // from the beginning of one pass to that of the next
  // All of these are called from its thread.
  std::function<void(const Problem& problem)> on_tenant_damage;
  std::function<void(RunId run, const Problem& problem)> on_run_damage;
  std::function<void(const ReceiptRow& receipt)> on_unfound_effect;  // holds its key, and the store does not know it
  std::function<void()> on_pass;                                     // everything was checked once
  std::function<void(const std::string& reason)> on_failure;         // the store could not be read
};

class BackgroundCheck {
 public:
  explicit BackgroundCheck(BackgroundCheckOptions options);

 private:
  void work(const std::stop_token& stop);
  void pass(const std::stop_token& stop);
  // The runs of the tenant from `place` on, a few; the next place, or nothing after the last.
  std::optional<RunId> check_some(TenantId tenant, RunId place, std::size_t& bytes);
  void check_tenants(std::vector<Tenant>& tenants);
  void wait(const std::stop_token& stop, std::chrono::nanoseconds span);

  BackgroundCheckOptions options_;
  std::optional<PublishedWorkflows> workflows_;  // as of a view of this pass
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace pawl
