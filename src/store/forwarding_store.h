// A store that passes every call on to another one: for those that change a few of them.
#pragma once

#include "store/store.h"

namespace pawl {

class ForwardingStore : public Store {
 public:
  // `store` must outlive this.
  explicit ForwardingStore(Store& store) : store_(store) {}

  std::vector<Lost> commit(std::span<const Frame> frames) override { return store_.commit(frames); }
  void tidy() override { store_.tidy(); }
  Position last_position() override { return store_.last_position(); }
  std::vector<Tenant> tenants() override { return store_.tenants(); }
  void for_each_workflow(const std::function<void(const WorkflowRow&)>& visit) override {
    store_.for_each_workflow(visit);
  }
  void for_each_frame(const std::function<void(Position, std::string_view parts)>& visit) override {
    store_.for_each_frame(visit);
  }
  void for_each_ready(const std::function<void(const ReadyStep&)>& visit) override { store_.for_each_ready(visit); }
  std::optional<KeptFrame> frame_after(Position position) override { return store_.frame_after(position); }
  std::optional<Position> follow(const std::string& follower, Duration hold) override {
    return store_.follow(follower, hold);
  }
  void followed(const std::string& follower, Position position) override { store_.followed(follower, position); }
  void unfollow(const std::string& follower) override { store_.unfollow(follower); }
  void for_each_start(Instant since, const std::function<void(const StartRow&)>& visit) override {
    store_.for_each_start(since, visit);
  }
  std::vector<DueRun> leased_runs() override { return store_.leased_runs(); }
  std::vector<DueRun> due_runs(Instant until, std::size_t limit, std::optional<DueRun> after) override {
    return store_.due_runs(until, limit, after);
  }
  std::vector<RunRow> load_from(TenantId tenant, RunId run, std::size_t limit) override {
    return store_.load_from(tenant, run, limit);
  }
  std::optional<RunId> find_request(TenantId tenant, const std::string& request_key) override {
    return store_.find_request(tenant, request_key);
  }
  WaitingFigures count_waiting() override { return store_.count_waiting(); }
  std::uint64_t count_requests() override { return store_.count_requests(); }
  std::vector<RunRow> list_runs(TenantId tenant, const RunFilter& filter) override {
    return store_.list_runs(tenant, filter);
  }
  std::optional<ApprovalRow> find_approval(TenantId tenant, ApprovalId approval) override {
    return store_.find_approval(tenant, approval);
  }
  std::optional<WorkflowRow> find_workflow(TenantId tenant, const WorkflowName& name, int version) override {
    return store_.find_workflow(tenant, name, version);
  }
  std::vector<ApprovalRow> list_approvals(TenantId tenant, const ApprovalFilter& filter) override {
    return store_.list_approvals(tenant, filter);
  }
  std::optional<ReceiptRow> find_receipt(TenantId tenant, ReceiptId receipt) override {
    return store_.find_receipt(tenant, receipt);
  }
  std::vector<ReceiptRow> find_effects(TenantId tenant, const std::string& key) override {
    return store_.find_effects(tenant, key);
  }
  std::vector<ReceiptRow> list_receipts(TenantId tenant, const ReceiptFilter& filter) override {
    return store_.list_receipts(tenant, filter);
  }
  std::optional<BundleRow> find_bundle(TenantId tenant, RunId run) override { return store_.find_bundle(tenant, run); }
  void for_each_bundle(TenantId tenant, const std::function<void(const BundleRow&)>& visit) override {
    store_.for_each_bundle(tenant, visit);
  }
  Stream history(StreamKey key) override { return store_.history(key); }
  void for_each_piece_back(StreamKey key,
                           const std::function<bool(std::uint64_t first_seq, std::string_view lines)>& visit) override {
    store_.for_each_piece_back(key, visit);
  }
  void for_each_stream(const std::function<void(StreamKey)>& visit) override { store_.for_each_stream(visit); }

 protected:
  Store& store_;
};

}  // namespace pawl
