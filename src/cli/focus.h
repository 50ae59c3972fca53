// A store that shows the engine the unfinished work of some runs only.
//
// One verb is about one run, but the engine goes on with everything it finds. Were others taken up on the side, they
// would be cut off in the middle of a step as soon as the verb is done. So their queues, leases and timers are hidden:
// they stay exactly as they were. Runs made meanwhile are not hidden, since they come from the engine itself.
#pragma once

#include <optional>
#include <set>

#include "store/store.h"

namespace pawl {

class FocusedStore final : public Store {
 public:
  // `store` must have no unfolded events (see fold_leftovers) and outlive this. Without `runs` everything is shown.
  FocusedStore(Store& store, std::optional<std::set<RunId>> runs) : store_(store), runs_(std::move(runs)) {}

  void for_each_ready(const std::function<void(const ReadyStep&)>& visit) override {
    store_.for_each_ready([&](const ReadyStep& ready) {
      if (shows(ready.run)) visit(ready);
    });
  }
  std::vector<DueRun> leased_runs() override {
    auto runs = store_.leased_runs();
    std::erase_if(runs, [&](const DueRun& due) { return !shows(due.run); });
    return runs;
  }
  // A page that is not full means "no more", so pages are filled up from the next ones.
  std::vector<DueRun> due_runs(Instant until, std::size_t limit, std::optional<DueRun> after) override {
    std::vector<DueRun> out;
    while (out.size() < limit) {
      auto page = store_.due_runs(until, limit, after);
      bool is_last = page.size() < limit;
      if (!page.empty()) after = page.back();
      for (const DueRun& due : page)
        if (shows(due.run) && out.size() < limit) out.push_back(due);
      if (is_last) break;
    }
    return out;
  }

  void commit(std::span<const Frame> frames) override { store_.commit(frames); }
  void tidy() override { store_.tidy(); }
  Position last_position() override { return store_.last_position(); }
  std::vector<Tenant> tenants() override { return store_.tenants(); }
  void for_each_workflow(const std::function<void(const WorkflowRow&)>& visit) override {
    store_.for_each_workflow(visit);
  }
  void for_each_frame(const std::function<void(Position, std::string_view parts)>& visit) override {
    store_.for_each_frame(visit);
  }
  void for_each_start(Instant since, const std::function<void(const StartRow&)>& visit) override {
    store_.for_each_start(since, visit);
  }
  std::optional<KeptFrame> frame_after(Position position) override { return store_.frame_after(position); }
  std::optional<ApprovalRow> find_approval(TenantId tenant, ApprovalId approval) override {
    return store_.find_approval(tenant, approval);
  }
  std::optional<WorkflowRow> find_workflow(TenantId tenant, const WorkflowName& name, int version) override {
    return store_.find_workflow(tenant, name, version);
  }
  std::optional<RunId> find_request(TenantId tenant, const std::string& request_key) override {
    return store_.find_request(tenant, request_key);
  }
  std::vector<RunRow> load_from(TenantId tenant, RunId run, std::size_t limit) override {
    return store_.load_from(tenant, run, limit);
  }
  std::vector<RunRow> list_runs(TenantId tenant, const RunFilter& filter) override {
    return store_.list_runs(tenant, filter);
  }
  std::vector<ApprovalRow> list_approvals(TenantId tenant, const ApprovalFilter& filter) override {
    return store_.list_approvals(tenant, filter);
  }
  Stream history(StreamKey key) override { return store_.history(key); }
  void for_each_stream(const std::function<void(StreamKey)>& visit) override { store_.for_each_stream(visit); }

 private:
  bool shows(RunId run) const { return !runs_ || runs_->contains(run); }

  Store& store_;
  std::optional<std::set<RunId>> runs_;
};

}  // namespace pawl
