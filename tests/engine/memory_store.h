// A store in memory that several engines write to, as exact about it as the real one: the engine's part of having
// several servers is tried on it, thousands of times in a second, in an order that the test decides.
#pragma once

#include <algorithm>
#include <map>
#include <set>

#include "engine/clock.h"
#include "store/shared_store.h"
#include "store/tenant_state.h"

namespace pawl::tests {

struct MemoryDatabase {
  explicit MemoryDatabase(const Clock& c) : clock(c) {}

  struct Row {
    RunRow row;
    int leases = 0;
    std::vector<ReadyStep> ready;
    Instant taken_until;
  };
  struct TenantRow {
    Tenant tenant;
    Hash head;
  };

  const Clock& clock;
  std::map<StreamKey, Row> runs;
  std::map<StreamKey, std::string> lines;
  std::map<StreamKey, std::uint64_t> seqs;
  std::map<TenantId, TenantRow> tenants;
  std::map<std::pair<TenantId, std::string>, RunId> requests;
  std::map<std::tuple<TenantId, WorkflowName, int>, WorkflowRow> workflows;
  std::map<std::pair<TenantId, ApprovalId>, ApprovalRow> approvals;
  std::map<std::pair<TenantId, ReceiptId>, ReceiptRow> receipts;
  std::vector<StartRow> starts;
  std::map<std::string, Position> followers;
  std::uint64_t lost = 0;
  std::uint64_t capped = 0;
  std::uint32_t servers = 0;

  Caps caps_of(TenantId tenant) const {
    auto found = tenants.find(tenant);
    return found == tenants.end() ? Caps{} : effective_caps(found->second.tenant);
  }
  int running(TenantId tenant) const {
    int count = 0;
    for (const auto& [key, row] : runs)
      if (key.tenant == tenant) count += row.leases;
    return count;
  }
};

class MemoryStore final : public SharedStore {
 public:
  explicit MemoryStore(MemoryDatabase& database) : db_(database), number_(++database.servers) {}

  std::vector<Lost> commit(std::span<const Frame> frames) override {
    std::vector<Lost> lost;
    for (const Frame& frame : frames) {
      for (const TenantFold& fold : frame.tenants)
        if (!write(fold)) lost.push_back({StreamKey::of(fold.tenant.id), fold.incarnation});
      auto is_lost = [&](TenantId tenant) {
        return std::ranges::any_of(lost, [&](const Lost& each) { return each.key == StreamKey::of(tenant); });
      };
      for (const WorkflowRow& row : frame.workflows)
        if (!is_lost(row.tenant)) db_.workflows[{row.tenant, row.name, row.version}] = row;
      for (const RunFold& fold : frame.runs) {
        StreamKey key = StreamKey::of(fold.row.tenant, fold.row.id);
        bool capped = false;
        if (!write(key, fold, capped)) {
          lost.push_back({key, fold.incarnation, capped});
          ++(capped ? db_.capped : db_.lost);
        }
      }
    }
    return lost;
  }
  void tidy() override {}
  Position last_position() override { return 0; }
  Position newest_position() override { return 0; }
  JournalEnd journal_end() override { return {.position = last_position(), .is_held_back = false}; }
  std::vector<Tenant> tenants() override {
    std::vector<Tenant> out;
    for (auto& [id, row] : db_.tenants) out.push_back(row.tenant);
    return out;
  }
  void for_each_workflow(const std::function<void(const WorkflowRow&)>& visit) override {
    for (auto& [key, row] : db_.workflows) visit(row);
  }
  void for_each_frame(const std::function<void(Position, std::string_view)>&) override {}
  void for_each_ready(const std::function<void(const ReadyStep&)>&) override {}
  std::optional<KeptFrame> frame_after(Position) override { return std::nullopt; }
  std::optional<Position> follow(const std::string& follower, Duration) override { return db_.followers[follower]; }
  void followed(const std::string& follower, Position position) override { db_.followers[follower] = position; }
  void for_each_start(Instant, const std::function<void(const StartRow&)>&) override {}
  std::vector<DueRun> leased_runs() override {
    std::vector<DueRun> out;
    for (auto& [key, each] : db_.runs)
      if (each.row.leased) out.push_back({key.tenant, each.row.id, each.row.due_at});
    return out;
  }
  std::vector<DueRun> due_runs(Instant until, std::size_t limit, std::optional<DueRun>) override {
    std::vector<DueRun> out;
    for (auto& [key, each] : db_.runs)
      if (each.row.due_at <= until) out.push_back({key.tenant, each.row.id, each.row.due_at});
    std::ranges::sort(out, {}, &DueRun::due_at);
    if (out.size() > limit) out.resize(limit);
    return out;
  }
  std::vector<RunRow> load_from(TenantId tenant, RunId run, std::size_t limit) override {
    std::vector<RunRow> out;
    for (auto at = db_.runs.lower_bound(StreamKey::of(tenant, run));
         at != db_.runs.end() && at->first.tenant == tenant && out.size() < limit; ++at)
      out.push_back(at->second.row);
    return out;
  }
  std::optional<RunId> find_request(TenantId tenant, const std::string& key) override {
    auto found = db_.requests.find({tenant, key});
    return found == db_.requests.end() ? std::nullopt : std::optional(found->second);
  }
  WaitingFigures count_waiting() override { return {}; }
  std::uint64_t count_requests() override { return db_.requests.size(); }
  std::vector<RunRow> list_runs(TenantId, const RunFilter&) override { return {}; }
  std::optional<ApprovalRow> find_approval(TenantId tenant, ApprovalId approval) override {
    auto found = db_.approvals.find({tenant, approval});
    return found == db_.approvals.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<WorkflowRow> find_workflow(TenantId tenant, const WorkflowName& name, int version) override {
    auto found = db_.workflows.find({tenant, name, version});
    return found == db_.workflows.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<ApprovalRow> list_approvals(TenantId, const ApprovalFilter&) override { return {}; }
  std::optional<ReceiptRow> find_receipt(TenantId tenant, ReceiptId receipt) override {
    auto found = db_.receipts.find({tenant, receipt});
    return found == db_.receipts.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<ReceiptRow> find_effects(TenantId tenant, const std::string& key) override {
    std::vector<ReceiptRow> out;
    for (auto& [id, row] : db_.receipts)
      if (row.tenant == tenant && row.key == key && holds_key(row.status)) out.push_back(row);
    return out;
  }
  std::vector<ReceiptRow> list_receipts(TenantId, const ReceiptFilter&) override { return {}; }
  void for_each_piece_back(StreamKey key,
                           const std::function<bool(std::uint64_t first_seq, std::string_view lines)>& visit) override {
    Stream stream = history(key);
    if (!stream.lines.empty()) visit(1, stream.lines);
  }
  std::optional<BundleRow> find_bundle(TenantId tenant, RunId run) override {
    std::optional<BundleRow> out;
    for_each_bundle(tenant, [&](const BundleRow& row) {
      if (row.stored.run == run) out = row;
    });
    return out;
  }
  void for_each_bundle(TenantId tenant, const std::function<void(const BundleRow&)>& visit) override {
    for (const BundleRow& row : stored_bundles(tenant, history(StreamKey::of(tenant)).lines)) visit(row);
  }
  Stream history(StreamKey key) override {
    auto found = db_.lines.find(key);
    if (found == db_.lines.end()) return {};
    return {found->second, db_.seqs[key], key.is_tenant() ? db_.tenants[key.tenant].head : db_.runs[key].row.head};
  }
  void for_each_stream(const std::function<void(StreamKey)>& visit) override {
    for (auto& [key, text] : db_.lines) visit(key);
  }

  Instant now() override { return db_.clock.now(); }
  std::uint32_t server_number() const override { return number_; }
  bool is_reachable() const override { return true; }
  void stop_waiting() override {}
  std::vector<DueRun> leased_runs_of(std::span<const std::uint32_t>) override { return leased_runs(); }
  std::vector<RunRow> load_all(std::span<const StreamKey> runs) override {
    std::vector<RunRow> out;
    for (const StreamKey& key : runs)
      if (auto found = db_.runs.find(key); found != db_.runs.end()) out.push_back(found->second.row);
    return out;
  }
  std::vector<CapUse> cap_use(TenantId) override { return {}; }
  Taken take_ready(std::span<const ToolName> tools, std::size_t per_tenant, Duration hold,
                   std::optional<TenantId> only) override {
    Taken out;
    std::map<TenantId, std::size_t> taken;
    Instant now = db_.clock.now();
    for (auto& [key, each] : db_.runs) {
      if ((only && key.tenant != *only) || each.taken_until > now) continue;
      Caps caps = db_.caps_of(key.tenant);
      for (const ReadyStep& step : each.ready) {
        if (std::ranges::find(tools, step.tool) == tools.end() || taken[key.tenant] >= per_tenant) continue;
        if (caps.max_concurrency &&
            db_.running(key.tenant) + static_cast<int>(taken[key.tenant]) >= *caps.max_concurrency)
          continue;
        ++taken[key.tenant];
        each.taken_until = now + hold;
        out.steps.push_back({step, each.row});
      }
    }
    return out;
  }
  std::vector<std::pair<TenantId, std::uint64_t>> tenant_heads() override {
    std::vector<std::pair<TenantId, std::uint64_t>> out;
    for (auto& [id, row] : db_.tenants) out.emplace_back(id, row.tenant.seq);
    return out;
  }
  std::optional<std::pair<Tenant, Hash>> load_tenant(TenantId tenant) override {
    auto found = db_.tenants.find(tenant);
    if (found == db_.tenants.end()) return std::nullopt;
    return std::pair(found->second.tenant, found->second.head);
  }
  std::vector<WorkflowRow> workflows_of(TenantId tenant) override {
    std::vector<WorkflowRow> out;
    for (auto& [key, row] : db_.workflows)
      if (row.tenant == tenant) out.push_back(row);
    return out;
  }
  News wait_for_news(Duration) override { return {}; }
  void tell(const News&, std::optional<std::uint32_t>) override {}

 private:
  bool write(const TenantFold& fold) {
    StreamKey key = StreamKey::of(fold.tenant.id);
    auto found = db_.tenants.find(fold.tenant.id);
    if (found == db_.tenants.end()) {
      if (fold.history.first_seq != 1) return false;
      for (auto& [id, row] : db_.tenants)
        if (row.tenant.name == fold.tenant.name) return false;
    } else if (found->second.tenant.seq + 1 != fold.history.first_seq || found->second.head != fold.follows) {
      return false;
    }
    db_.tenants[fold.tenant.id] = {fold.tenant, fold.history.head};
    db_.lines[key] += fold.history.lines;
    db_.seqs[key] = fold.history.last_seq;
    return true;
  }
  bool write(StreamKey key, const RunFold& fold, bool& capped) {
    auto found = db_.runs.find(key);
    const RunRow& row = fold.row;
    if (fold.is_new) {
      if (found != db_.runs.end()) return false;
      for (const std::string& name : fold.request_keys)
        if (db_.requests.contains({key.tenant, name})) return false;
      if (fold.wants_latest && db_.workflows.contains({key.tenant, row.workflow, row.version + 1})) return false;
    } else if (found == db_.runs.end() || found->second.row.revision != fold.follows_revision ||
               found->second.row.head != fold.follows) {
      return false;
    } else if (found->second.leases != fold.leases_before) {
      throw StoreFailure("the engine does not know how many leases a run had");
    }
    for (const ReceiptRow& receipt : fold.receipts)
      for (const ReceiptRow& other : find_effects(key.tenant, receipt.key))
        if (holds_key(receipt.status) && other.run != row.id) return false;
    int growth = fold.leases - fold.leases_before;
    Caps caps = db_.caps_of(key.tenant);
    if (growth > 0 && caps.max_concurrency && db_.running(key.tenant) + growth > *caps.max_concurrency) {
      capped = true;
      return false;
    }
    for (const std::string& name : fold.request_keys) db_.requests[{key.tenant, name}] = row.id;
    for (const ReceiptRow& receipt : fold.receipts) db_.receipts[{key.tenant, receipt.id}] = receipt;
    for (const ApprovalRow& approval : fold.approvals) db_.approvals[{key.tenant, approval.id}] = approval;
    Instant taken_until = fold.holds_ready ? db_.clock.now() + std::chrono::milliseconds(500) : Instant{};
    if (!fold.history.lines.empty() && fold.history.first_seq != db_.seqs[key] + 1)
      throw StoreFailure("a stream with a gap");
    db_.runs[key] = {row, fold.leases, fold.ready, taken_until};
    db_.lines[key] += fold.history.lines;
    db_.seqs[key] = row.seq;
    return true;
  }

  MemoryDatabase& db_;
  const std::uint32_t number_;
};

}  // namespace pawl::tests
