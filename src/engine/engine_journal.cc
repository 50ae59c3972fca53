// Engine, the part that writes: turns, folding, and finding everything again after a restart.
#include <algorithm>
#include <utility>

#include "core/snapshot.h"
#include "core/vocabulary.h"
#include "crypto/sha256.h"
#include "engine/engine.h"
#include "engine/resident.h"

namespace pawl {

// ---- Turns

Turn Engine::take_turn() {
  Position next = position_ + 1;
  Frame& frame = turn_.frame;
  std::size_t bytes = frame.parts.size();
  for (const Resident* resident : touched_) bytes += part_header_bytes_max + resident->turn_bytes();
  frame.parts.reserve(bytes);
  for (Resident* resident : touched_) {
    StreamPart part = resident->end_turn();
    resident->changed_at = next;
    weigh(*resident);
    if (shared_) {
      fold(*resident);
      continue;
    }
    append_part(frame.parts, part);
    if (!resident->dirty) {
      resident->dirty = true;
      resident->first_unfolded = next;
      unfolded_.push_back({next, journal_bytes_, resident->run.id});
    }
    if (is_parked(*resident) || std::exchange(resident->fold_wanted, false) ||
        (is_over_limit() && !resident->holds_leases()))
      fold(*resident);
  }
  touched_.clear();
  if (shared_) end_shared_turn();
  fold_oldest();
  for (Worker& worker : workers_)
    if (!worker.granted.empty())
      turn_.grants.push_back({worker.name, worker.sink, std::nullopt, std::exchange(worker.granted, {})});
  turn_.needs_commit = !frame.parts.empty() || !frame.runs.empty() || !frame.tenants.empty();
  if (turn_.needs_commit) {
    position_ = next;
    frame.position = next;
    frame.folded_before = unfolded_.empty() ? next : unfolded_.front().first;
    journal_bytes_ += frame.parts.size();
  }
  return std::exchange(turn_, {});
}

RunFold fold_of(const Run& run, const Hash& head, Instant updated_at, Instant now) {
  RunFold out;
  for (const Step& step : run.steps) out.leases += step.status == StepStatus::running;
  out.row = {.tenant = run.tenant,
             .id = run.id,
             .workflow = run.workflow->name,
             .version = run.workflow->version,
             .workspace = run.workspace,
             .status = run.status,
             .phase = phase_of(run),
             .error_code = run.diagnostic ? run.diagnostic->error_code : std::string(),
             .created_at = run.created_at,
             .updated_at = updated_at,
             .due_at = next_due(run, now),
             .leased = out.leases > 0,
             .seq = run.seq,
             .head = head,
             .snapshot = write_snapshot(run)};
  out.ready = ready_steps(run);
  return out;
}

std::vector<ReadyStep> ready_steps(const Run& run) {
  std::vector<ReadyStep> out;
  bool fresh = run.status == RunStatus::created;
  for (StepIndex i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].status == StepStatus::ready)
      out.push_back({run.tenant, run.workspace, run.workflow->name, run.definition(i).tool, run.id, i, fresh});
  if (starts_at_gate(run)) out.push_back({run.tenant, run.workspace, run.workflow->name, ToolName{}, run.id, 0, true});
  return out;
}

std::vector<ApprovalRow> approval_rows(const Run& run) {
  std::vector<ApprovalRow> out;
  for (const Approval& approval : run.approvals)
    out.push_back({run.tenant, approval.id, run.id, run.definition(approval.step).id, approval.status,
                   approval.terms.tier, approval.requested_at, approval.expires_at});
  return out;
}

ReceiptRow receipt_row(const Run& run, const Receipt& receipt) {
  return {run.tenant, receipt.id, run.id, receipt.status, receipt.proposal->action.idempotency_key};
}

void Engine::fold(Resident& resident) {
  Run& run = resident.run;
  RunFold out = fold_of(run, resident.head, resident.updated_at, clock_.now());
  out.follows = resident.folded_head;
  out.history = resident.take_history();
  out.is_new = !resident.in_rows;
  if (out.is_new) out.request_keys = request_keys(run);
  if (resident.approvals_changed) out.approvals = approval_rows(run);
  if (shared_) fold_shared(resident, out);
  for (ReceiptId receipt : std::exchange(resident.changed_receipts, {}))
    out.receipts.push_back(receipt_row(run, *find_receipt(run, receipt)));
  resident.approvals_changed = false;
  resident.in_rows = true;
  resident.dirty = false;
  resident.changed_at = position_ + 1;
  folded_.push_back({position_ + 1, run.id});
  weigh(resident);
  turn_.frame.runs.push_back(std::move(out));
}

// Keeps the unfolded journal short: what has been changing for longest is written, however busy it is.
void Engine::fold_oldest() {
  while (!unfolded_.empty()) {
    const Unfolded& oldest = unfolded_.front();
    auto found = residents_.find(oldest.run);
    bool folded = found == residents_.end() || !found->second->dirty || found->second->first_unfolded != oldest.first;
    if (!folded) {
      if (journal_bytes_ - oldest.bytes_before <= limits_.unfolded_bytes_max) break;
      fold(*found->second);
    }
    unfolded_.pop_front();
  }
}

// Queues are first come, first served: what is written or queued in one go keeps that order.
std::vector<Engine::Resident*> Engine::residents_by_age() const {
  std::vector<Resident*> out;
  out.reserve(residents_.size());
  for (auto& [id, resident] : residents_) out.push_back(resident.get());
  std::ranges::sort(out, {}, [](const Resident* resident) { return resident->run.id; });
  return out;
}

void Engine::fold_all() {
  for (Resident* resident : residents_by_age()) {
    if (resident->in_turn())
      resident->fold_wanted = true;  // take_turn() folds it, once its events have their frame
    else if (resident->dirty)
      fold(*resident);
  }
}

// ---- Recovery

void Engine::recover() {
  if (shared_) {  // the rest is found when it is needed
    learn_tenants();
    recovered_ = true;
    return;
  }
  // Before any worker registers: one with a dead one's name would be taken for it.
  for (Resident* resident : restore()) pass_time(*resident);
  fold_all();
  sweep_timers();
}

void Engine::complete_tables() {
  restore();
  fold_all();
}

std::vector<Engine::Resident*> Engine::restore() {
  for (Tenant& tenant : store_.tenants()) {
    limit(tenant);
    for (const auto& [workspace, weight] : tenant.workspaces)
      scheduler_.set_workspace_weight(tenant.id, workspace, weight);
    Hash head = store_.history(StreamKey::of(tenant.id)).head;
    TenantId id = tenant.id;
    policy_cache_.put(tenant);
    tenants_[id] = {std::move(tenant), head};
  }
  store_.for_each_workflow([&](const WorkflowRow& row) {
    auto workflow = read_stored_workflow(row);
    if (!workflow || !tenants_.contains(row.tenant))
      throw StoreFailure("workflow " + row.name.text + " v" + std::to_string(row.version) + ": " +
                         (workflow ? "its tenant is not there" : workflow.error()));
    add_workflow(row.tenant, std::move(*workflow));
  });
  for (const auto& [id, entry] : tenants_)
    for (const auto& [name, latest] : entry.tenant.workflows)
      if (const Workflow* found = workflows_.find(id, name, latest.version); !found || found->digest != latest.digest)
        throw StoreFailure("workflow " + name.text + " v" + std::to_string(latest.version) +
                           ": it is not there, or not what was published");
  position_ = store_.last_position();
  recover_frames();
  auto without_worker = recover_leases();
  recover_queues();
  return without_worker;
}

void Engine::recover_frames() {
  store_.for_each_frame([&](Position position, std::string_view parts) {
    for_each_part(parts, [&](const StreamPart& part) {
      if (part.key.is_tenant()) return;  // a tenant's events are folded in the commit that brings them
      RunId id{part.key.stream};
      Resident* resident = find(part.key.tenant, id);
      if (!resident) {
        const Workflow& workflow = workflow_of(part.key.tenant, part.lines);
        Run run;
        run.workflow = &workflow;
        run.tenant = part.key.tenant;
        run.id = id;
        resident = &adopt(std::move(run), genesis(part.key));
      }
      bool unknown = resident->run.seq == 0;
      bool replayed = resident->replay(part);
      remember_effects(*resident);
      if (unknown)
        for (std::string& key : request_keys(resident->run)) requests_[{part.key.tenant, std::move(key)}] = id;
      if (replayed && !resident->dirty) {
        ++stats_.runs_recovered;
        resident->dirty = true;
        resident->first_unfolded = position;
        unfolded_.push_back({position, journal_bytes_, id});
      }
    });
    journal_bytes_ += parts.size();
  });
}

const Workflow& Engine::workflow_of(TenantId tenant, std::string_view lines) const {
  auto event = parse_run_event(lines.substr(0, lines.find('\n')));
  const RunCreated* created = event ? std::get_if<RunCreated>(&event->payload) : nullptr;
  const Workflow* workflow = created ? workflows_.find(tenant, created->workflow, created->version) : nullptr;
  if (!workflow) throw StoreFailure("a run in the journal has no beginning, or names a workflow that is not there");
  return *workflow;
}

std::vector<Engine::Resident*> Engine::recover_leases() {
  for (const DueRun& leased : store_.leased_runs()) find(leased.tenant, leased.run);
  Instant now = clock_.now();
  std::vector<Resident*> without_worker;
  for (auto& [id, resident] : residents_) {
    Run& run = resident->run;
    bool any_dead = false;
    for (StepIndex i = 0; i < run.steps.size(); ++i) {
      Step& step = run.steps[i];
      if (step.status != StepStatus::running) continue;
      scheduler_.lease_restored(resident->workflow_number);
      resident->lease_marks[i] = LeaseMark::counted;
      // In-process workers died with the last process. Others may well be alive, and their heartbeats were not
      // journaled: they get a whole lease to make themselves heard.
      bool dead = is_in_process(step);
      step.lease_expires_at =
          dead ? std::min(step.lease_expires_at, now) : std::max(step.lease_expires_at, now + run.definition(i).lease);
      any_dead = any_dead || dead;
    }
    if (any_dead) without_worker.push_back(resident.get());
  }
  return without_worker;
}

void Engine::recover_queues() {
  store_.for_each_start(clock_.now() - std::chrono::seconds(60), [&](const StartRow& start) {
    scheduler_.start_restored(start.tenant, start.workflow, start.at);
  });
  // Rows of runs that are in memory may be behind; memory speaks for those.
  store_.for_each_ready([&](const ReadyStep& ready) {
    if (residents_.contains(ready.run)) return;
    scheduler_.add(ready);
  });
  for (Resident* resident : residents_by_age()) {
    for (StepIndex i = 0; i < resident->run.steps.size(); ++i)
      if (resident->run.steps[i].status == StepStatus::ready) queue_step(*resident, i);
    if (starts_at_gate(resident->run)) queue_gate_start(*resident);
  }
}

}  // namespace pawl
