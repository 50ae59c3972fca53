#include "store/postgres/batch.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "core/invariant.h"
#include "crypto/sha256.h"
#include "store/tenant_state.h"

namespace pawl::postgres {
namespace {

constexpr std::uint64_t capped_kind = 1, tenant_kind = 2, paced_kind = 3;

bool follows(const RunFold& next, const RunFold& last) {
  return next.incarnation == last.incarnation && next.follows == last.row.head &&
         (next.follows_revision == 0 || next.follows_revision == last.row.revision);
}

// Where a stream stood before this.
std::uint64_t follows_seq(const History& history, std::uint64_t seq) {
  return history.lines.empty() ? seq : history.first_seq - 1;
}

// The lines of several folds, behind each other.
template <class Folds>
std::string lines_of(const Folds& folds) {
  std::string lines;
  for (const auto* fold : folds) lines += fold->history.lines;
  return lines;
}

template <class Folds>
std::uint64_t first_seq_of(const Folds& folds) {
  for (const auto* fold : folds)
    if (!fold->history.lines.empty()) return fold->history.first_seq;
  return 0;
}

void write_lines(Records& out, std::uint64_t first_seq, const std::string& lines) {
  out.u64(first_seq);
  lines.empty() ? out.null(type::bytea) : out.bytes(lines);
}

Hash head_after(const TenantFold& fold) { return fold.history.lines.empty() ? fold.follows : fold.history.head; }

}  // namespace

Batch::Batch(std::span<const Frame> frames) {
  for (const Frame& frame : frames) gather(frame);
  place_all();
  add_meters();
  for (const RunChain* chain : placed_) write(*chain);
  for (const RunChain* chain : placed_) write_beside(*chain);
  for (const auto& [tenant, chain] : tenant_chains_)
    if (!chain.broken) write(chain);
  for (const auto& [key, row] : workflow_rows_) write(*row);
  write_requests();
  write_receipts();
  write_starts();
  for (const auto& [meter, place] : meters_) {
    meter_keys_.begin();
    meter_keys_.id(meter.tenant.bits).text(meter.workflow.text);
    meter_keys_.end();
  }
}

void Batch::gather(const Frame& frame) {
  for (const RunFold& fold : frame.runs) gather(fold);
  for (const TenantFold& fold : frame.tenants) gather(fold);
  for (const WorkflowRow& row : frame.workflows) workflow_rows_[{row.tenant, row.name, row.version}] = &row;
  for (const StartRow& row : frame.starts) start_rows_.push_back(&row);
  for_each_part(frame.parts, [&](const StreamPart& part) {
    invariant(part.key.is_tenant() ? tenant_chains_.contains(part.key.tenant) : chains_.contains(part.key),
              "whatever appends events to a shared store also writes the row");
  });
}

void Batch::gather(const RunFold& fold) {
  const RunRow& row = fold.row;
  invariant(fold.history.lines.empty() || (fold.history.last_seq == row.seq && fold.history.head == row.head),
            "a run's row and its history end with the same event");
  invariant(!fold.is_new || fold.history.first_seq == 1, "a stream begins with its first event");
  RunChain& chain = chains_[StreamKey::of(row.tenant, row.id)];
  if (!chain.folds.empty() && !follows(fold, *chain.folds.back())) {
    // The run was loaded anew because somebody else had written it: what was decided on the state before is lost.
    lost_already_.push_back({StreamKey::of(row.tenant, row.id), chain.folds.back()->incarnation, false});
    chain.folds.clear();
  }
  chain.folds.push_back(&fold);
}

void Batch::gather(const TenantFold& fold) {
  TenantChain& chain = tenant_chains_[fold.tenant.id];
  // Tenants' folds do not say which load they were decided on: all of them or none.
  if (!chain.folds.empty() && fold.follows != head_after(*chain.folds.back())) chain.broken = true;
  chain.folds.push_back(&fold);
}

void Batch::place_all() {
  for (bool is_new : {false, true})
    for (auto& [key, chain] : chains_) {
      if (chain.folds.front()->is_new != is_new) continue;
      placed_.push_back(&chain);
      chain.place = static_cast<int>(placed_.size());
      if (!is_new) ++existing_;
    }
  for (auto& [tenant, chain] : tenant_chains_) {
    if (chain.broken) {
      lost_already_.push_back({StreamKey::of(tenant), 0, false});
      continue;
    }
    placed_tenants_.push_back(tenant);
    chain.place = static_cast<int>(placed_tenants_.size());
  }
}

// Those that may have to be locked: of runs that take or give back a lease or start, and whose caps may change.
void Batch::add_meters() {
  for (const StartRow* start : start_rows_) {
    auto found = chains_.find(StreamKey::of(start->tenant, start->run));
    if (found != chains_.end()) found->second.starts = 1;
  }
  for (const auto& [key, chain] : chains_)
    if (chain.starts > 0 || chain.claims() > 0 || chain.folds.back()->leases != chain.folds.front()->leases_before) {
      meters_[{key.tenant, {}}];
      meters_[{key.tenant, chain.folds.back()->row.workflow}];
    }
  for (const auto& [tenant, chain] : tenant_chains_) meters_[{tenant, {}}];
  for (const auto& [key, row] : workflow_rows_) meters_[{row->tenant, row->name}];
  int place = 0;
  for (auto& [meter, at] : meters_) at = ++place;
}

void Batch::write(const RunChain& chain) {
  const RunFold& first = *chain.folds.front();
  const RunFold& last = *chain.folds.back();
  const RunRow& row = last.row;
  auto place_of = [&](const WorkflowName& workflow) {
    auto found = meters_.find({row.tenant, workflow});
    return found == meters_.end() ? 0 : found->second;
  };
  std::vector<int> ready_steps;
  for (const ReadyStep& step : last.ready) ready_steps.push_back(static_cast<int>(step.step));

  runs_.begin();
  runs_.id(row.tenant.bits).id(row.id.bits);
  runs_.u64(follows_seq(first.history, first.row.seq)).hash(first.follows).u64(first.follows_revision);
  runs_.u64(row.seq).hash(row.head).u64(row.revision).bytes(row.snapshot);
  runs_.i16(static_cast<int>(row.status));
  row.due_at == end_of_time ? runs_.null(type::int8) : runs_.i64(row.due_at.ms);
  runs_.flag(row.leased).i32(last.leases).i32(first.leases_before).i32(chain.claims());
  runs_.i64(row.created_at.ms).i64(row.updated_at.ms).i32(row.version);
  runs_.text(row.workflow.text).text(row.workspace.text).text(row.error_code);
  runs_.i16(static_cast<int>(row.phase.value_or(RunPhase::plain)));
  write_lines(runs_, first_seq_of(chain.folds), lines_of(chain.folds));
  runs_.flag(first.was_ready).numbers(ready_steps);
  runs_.flag(first.wants_latest).i32(chain.starts);
  runs_.i32(place_of({})).i32(place_of(row.workflow));
  runs_.end();
}

void Batch::write_beside(const RunChain& chain) {
  const RunFold& last = *chain.folds.back();
  for (const ReadyStep& step : last.ready) {
    ready_.begin();
    ready_.i32(chain.place).id(step.tenant.bits).id(step.run.bits).i32(static_cast<int>(step.step));
    ready_.flag(step.fresh).flag(last.holds_ready);
    ready_.text(step.tool.text).text(step.workspace.text).text(step.workflow.text);
    ready_.end();
  }
  std::map<ApprovalId, const ApprovalRow*> approvals;
  for (const RunFold* fold : chain.folds)
    for (const ApprovalRow& row : fold->approvals) approvals[row.id] = &row;
  for (const auto& [id, row] : approvals) {
    approvals_.begin();
    approvals_.i32(chain.place).id(row->tenant.bits).id(id.bits).id(row->run.bits);
    approvals_.i64(row->requested_at.ms).i64(row->expires_at.ms);
    approvals_.i16(static_cast<int>(row->status)).i16(static_cast<int>(row->tier)).text(row->step.text);
    approvals_.end();
  }
}

void Batch::write(const TenantChain& chain) {
  const TenantFold& first = *chain.folds.front();
  const TenantFold& last = *chain.folds.back();
  const Tenant& tenant = last.tenant;
  std::uint64_t first_seq = first_seq_of(chain.folds);
  tenants_.begin();
  tenants_.id(tenant.id.bits).u64(first_seq == 0 ? tenant.seq : first_seq - 1).hash(first.follows);
  tenants_.u64(tenant.seq).hash(head_after(last)).text(tenant.name).bytes(write_tenant(tenant));
  write_lines(tenants_, first_seq, lines_of(chain.folds));
  const Caps caps = effective_caps(tenant);
  tenants_.i32(caps.max_concurrency).i32(caps.max_runs_per_min);
  tenants_.end();
}

void Batch::write(const WorkflowRow& row) {
  auto tenant = tenant_chains_.find(row.tenant);
  if (tenant != tenant_chains_.end() && tenant->second.broken) return;
  workflows_.begin();
  workflows_.i32(tenant == tenant_chains_.end() ? 0 : tenant->second.place).id(row.tenant.bits);
  workflows_.text(row.name.text).i32(row.version).text(row.digest).bytes(row.source);
  workflows_.i32(row.caps.max_concurrency).i32(row.caps.max_runs_per_min);
  workflows_.end();
}

void Batch::write_requests() {
  std::map<std::tuple<TenantId, std::string, int>, const RunChain*> ordered;
  for (const RunChain* chain : placed_)
    for (const RunFold* fold : chain->folds)
      for (const std::string& key : fold->request_keys)
        ordered[{fold->row.tenant, std::string(sha256(key, {}).view()), chain->place}] = chain;
  for (const auto& [key, chain] : ordered) {
    const auto& [tenant, digest, place] = key;
    requests_.begin();
    requests_.i32(place).id(tenant.bits).bytes(digest).id(chain->folds.front()->row.id.bits);
    requests_.end();
  }
}

void Batch::write_receipts() {
  std::map<std::tuple<TenantId, std::string, int, ReceiptId>, const ReceiptRow*> ordered;
  for (const RunChain* chain : placed_)
    for (const RunFold* fold : chain->folds)
      for (const ReceiptRow& row : fold->receipts)
        ordered[{row.tenant, std::string(sha256(row.key, {}).view()), chain->place, row.id}] = &row;
  for (const auto& [key, row] : ordered) {
    const auto& [tenant, digest, place, id] = key;
    receipts_.begin();
    receipts_.i32(place).id(tenant.bits).bytes(digest).id(id.bits).id(row->run.bits);
    receipts_.i16(static_cast<int>(row->status)).text(row->key);
    receipts_.end();
  }
}

void Batch::write_starts() {
  std::set<StreamKey> seen;
  for (const StartRow* start : start_rows_) {
    StreamKey key = StreamKey::of(start->tenant, start->run);
    // A run that was loaded anew may have been started twice here; it starts once.
    if (!start->run.is_nil() && !seen.insert(key).second) continue;
    auto run = chains_.find(key);
    starts_.begin();
    starts_.i32(run == chains_.end() ? 0 : run->second.place).id(start->tenant.bits).i64(start->at.ms);
    starts_.id(start->run.bits).text(start->workflow.text);
    starts_.end();
  }
}

void Batch::append_to(Values& values, const RecordTypes& types, Duration hold) const {
  values.i32(existing_).i64(hold.count());
  auto add = [&](RecordTypes::Type type, const Records& rows) { values.records(type.array, type.record, rows); };
  add(types.run, runs_);
  add(types.ready, ready_);
  add(types.request, requests_);
  add(types.approval, approvals_);
  add(types.receipt, receipts_);
  add(types.start, starts_);
  add(types.tenant, tenants_);
  add(types.workflow, workflows_);
  add(types.meter, meter_keys_);
}

std::vector<Lost> Batch::lost(std::span<const int> codes) const {
  std::vector<Lost> lost = lost_already_;
  for (int code : codes) {
    auto place = static_cast<std::size_t>(code) / 4 - 1;
    auto kind = static_cast<std::uint64_t>(code) % 4;
    if (kind == tenant_kind) {
      lost.push_back({StreamKey::of(placed_tenants_.at(place))});
      continue;
    }
    const RunFold& fold = *placed_.at(place)->folds.back();
    lost.push_back({StreamKey::of(fold.row.tenant, fold.row.id), fold.incarnation,
                    kind == capped_kind || kind == paced_kind, kind == paced_kind});
  }
  return lost;
}

}  // namespace pawl::postgres
