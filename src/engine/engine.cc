#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "core/invariant.h"
#include "core/snapshot.h"
#include "engine/refusals.h"
#include "engine/resident.h"

namespace pawl {

Engine::Engine(Store& store, const ToolCatalog& tools, const Clock& clock, Random& random, EngineLimits limits,
               LeaseTokens tokens)
    : store_(store),
      shared_(store.shared()),
      tools_(tools),
      clock_(clock),
      random_(random),
      ids_(random),
      tokens_(std::move(tokens)),
      limits_(std::move(limits)) {}

Engine::~Engine() = default;

// ---- Residents

Engine::Resident& Engine::adopt(Run run, const Hash& head) {
  RunId id = run.id;
  auto resident = std::make_unique<Resident>(std::move(run), head);
  resident->workflow_number = scheduler_.number_of(resident->run.tenant, resident->run.workflow->name);
  resident->incarnation = ++incarnations_;
  resident->verified_in = arrivals_;
  Resident& out = *resident;
  residents_[id] = std::move(resident);
  weigh(out);
  return out;
}

Engine::Resident* Engine::find(TenantId tenant, RunId run) {
  auto found = residents_.find(run);
  if (found == residents_.end()) return load(tenant, run);
  return found->second->run.tenant == tenant ? found->second.get() : nullptr;
}

Engine::Resident* Engine::load(TenantId tenant, RunId id) {
  std::erase_if(ahead_.rows, [&](const RunRow& row) { return row.id == id; });
  auto row = store_.load(tenant, id);
  return row ? adopt(std::move(*row)) : nullptr;
}

// A queue goes by age, and so do ids: the runs that follow by id are mostly those that will be wanted next.
Engine::Resident* Engine::find_queued(TenantId tenant, RunId id) {
  if (auto found = residents_.find(id); found != residents_.end()) return find(tenant, id);
  auto& rows = ahead_.rows;
  auto& count = ahead_.count;
  bool wasted = false;
  while (!rows.empty() && (rows.front().tenant != tenant || rows.front().id < id)) {
    rows.pop_front();
    wasted = true;
  }
  if (rows.empty() || rows.front().id != id) {
    constexpr std::size_t count_max = 64, bytes_max = 4 << 20;
    count = wasted || !rows.empty() ? 1 : std::min({2 * count, count_max, bytes_max / (ahead_.row_bytes + 1) + 1});
    rows.clear();
    ahead_.row_bytes = 0;
    for (RunRow& row : store_.load_from(tenant, id, count)) {
      ahead_.row_bytes = std::max(ahead_.row_bytes, row.snapshot.size());
      if (!residents_.contains(row.id) && (row.id == id || row.status == RunStatus::created))
        rows.push_back(std::move(row));
    }
  }
  if (rows.empty() || rows.front().id != id) return nullptr;
  RunRow row = std::move(rows.front());
  rows.pop_front();
  return adopt(std::move(row));
}

// What is stored is not this program's word: damage of it is reported, and is no bug.
void Engine::report_damage(const std::string& subject, const std::string& what) const {
  if (!damage_found_) throw StoreFailure(subject + ": " + what);
  damage_found_(subject, what);
}

Engine::Resident* Engine::adopt(RunRow row) {
  const Workflow* workflow = find_workflow(row.tenant, row.workflow, row.version);
  if (!workflow) {
    report_damage(row.id.str(), "its row names " + row.workflow.text + " v" + std::to_string(row.version) +
                                    ", which is not there or is not what was published");
    return nullptr;
  }
  auto run = read_snapshot(row.snapshot, *workflow);
  if (!run) run = fold_history(row, *workflow);
  ++stats_.runs_loaded;
  Resident& resident = adopt(std::move(*run), row.head);
  resident.in_rows = true;
  resident.updated_at = row.updated_at;
  if (shared_)
    find_place(resident, row);
  else if (row.due_at <= horizon_)
    resident.load_timer_at = row.due_at;
  folded_.push_back({position_, row.id});  // when it was loaded for nothing, it leaves again
  return &resident;
}

// When its snapshot cannot be read.
Run Engine::fold_history(const RunRow& row, const Workflow& workflow) {
  auto folded = fold_lines(row.tenant, row.id, workflow, store_.history(StreamKey::of(row.tenant, row.id)).lines);
  if (!folded) throw StoreFailure(folded.error());
  return std::move(*folded);
}

bool Engine::may_leave(const Resident& resident, Position durable) const {
  bool leased = shared_ ? holds_local_leases(resident) : resident.holds_leases();
  if (resident.dirty || resident.in_turn() || resident.rewrite_wanted || resident.changed_at > durable || leased)
    return false;
  return is_parked(resident) || is_over_limit();
}

// Nothing but somebody outside, or time, will move it.
bool Engine::is_parked(const Resident& resident) const {
  return is_terminal(resident.run.status) || resident.run.status == RunStatus::waiting;
}

void Engine::weigh(Resident& resident) {
  const std::size_t now = resident.bytes();
  working_set_bytes_ += now - std::exchange(resident.weighed_bytes, now);
}

void Engine::leave_memory(Resident& resident) {
  const Run& run = resident.run;
  Instant due = next_due(run, clock_.now());
  if (due <= horizon_ && due != resident.load_timer_at && !shared_) timers_.push({due, run.tenant, run.id, true});
  forget_requests(run);
  forget_effects(run);
  working_set_bytes_ -= resident.weighed_bytes;
  residents_.erase(RunId(run.id));
}

// What has been there for longest goes first.
void Engine::make_room() {
  while (is_over_limit() && !idle_.empty()) {
    auto found = residents_.find(idle_.front());
    idle_.pop_front();
    if (found == residents_.end()) continue;
    found->second->is_idle = false;
    if (may_leave(*found->second, durable_)) leave_memory(*found->second);
  }
  // Of those that are named there most may be gone.
  if (idle_.size() > 2 * residents_.size() + 1000)
    std::erase_if(idle_, [&](RunId id) { return !residents_.contains(id); });
}

void Engine::durable(Position position, std::span<const Lost> lost) {
  for (const Lost& each : lost) lose(each);
  durable_ = position;
  while (!folded_.empty() && folded_.front().first <= position) {
    RunId id = folded_.front().second;
    folded_.pop_front();
    auto found = residents_.find(id);
    if (found == residents_.end()) continue;
    Resident& resident = *found->second;
    if (may_leave(resident, position))
      leave_memory(resident);
    else if (!std::exchange(resident.is_idle, true))
      idle_.push_back(id);
  }
  make_room();
}

// A key may name another run by now: one that repeats a request whose run is not known here any more.
void Engine::forget_requests(const Run& run) {
  if (requests_.empty()) return;
  for (std::string& key : request_keys(run))
    if (auto found = requests_.find({run.tenant, std::move(key)}); found != requests_.end() && found->second == run.id)
      requests_.erase(found);
}

// ---- Deciding

RunAnswer Engine::answer_of(const Resident& resident, bool wants_state) const {
  const Run& run = resident.run;
  return {.run = run.id,
          .status = run.status,
          .seq = run.seq,
          .phase = phase_of(run),
          .state = wants_state ? std::make_shared<const Run>(run) : nullptr};
}

Basis Engine::basis_of(const Resident& resident) const {
  const TenantEntry& tenant = tenants_.at(resident.run.tenant);
  return {may_be_lost(resident) ? resident.incarnation : 0, may_be_lost(tenant) ? tenant.incarnation : 0};
}

// Who held the step's lease before an event moved it.
struct Engine::LeaseBefore {
  bool leased = false;
  std::uint64_t token = 0;
  WorkerName worker;
};

std::optional<Engine::Reporter> Engine::reporter_of(const RunCommand& command) {
  return std::visit(
      [](const auto& each) -> std::optional<Reporter> {
        using Command = std::remove_cvref_t<decltype(each)>;
        if constexpr (requires { each.proof; } && !std::is_same_v<Command, ChargeStep>) {
          // A program speaks for itself: the worker that runs it hears nothing of it.
          if (!each.proof.is_program()) return Reporter{each.step, each.proof};
        }
        return std::nullopt;
      },
      command);
}

void Engine::apply(Resident& resident, const std::vector<RunEvent>& events, std::optional<Reporter> reporter) {
  if (events.empty()) return;
  if (!resident.in_turn()) {
    resident.begin_turn();
    touched_.push_back(&resident);
  }
  std::size_t grown = 0;
  for (const RunEvent& event : events) {
    auto step = step_of(resident.run, event.payload);
    LeaseBefore before;
    if (step && resident.run.steps[*step].status == StepStatus::running) {
      const Step& state = resident.run.steps[*step];
      bool reported =
          reporter && reporter->step == resident.run.definition(*step).id && is_held_by(state, reporter->proof);
      before = {true, state.lease_token, reported ? WorkerName{} : state.lease_owner};
    }
    evolve(resident.run, event);
    resident.lease_marks.resize(resident.run.steps.size());  // an event may bring steps
    const std::size_t lines_before = resident.lines_bytes();
    resident.append(event);
    grown += resident.lines_bytes() - lines_before;
    ++stats_.events;
    react(resident, event, step, before);
  }
  register_timer(resident);
  count_stored(tenants_.at(resident.run.tenant), grown);
}

void Engine::react(Resident& resident, const RunEvent& event, std::optional<StepIndex> step,
                   const LeaseBefore& before) {
  Run& run = resident.run;
  if (step && before.leased) {
    bool same_lease = run.steps[*step].status == StepStatus::running && run.steps[*step].lease_token == before.token;
    if (!same_lease) {
      end_lease(resident, *step);
      // A claim that ends in a failure at once was never granted, so there is nothing to take back.
      bool stillborn = resident.claiming == *step && !std::holds_alternative<StepClaimed>(event.payload);
      Worker* worker = stillborn ? nullptr : find_worker(before.worker);
      if (worker) revoke(*worker, run, *step, before.token);
      if (shared_ && !worker && !stillborn) tell_owner(run, before.worker);
    }
  }
  if (step && run.steps[*step].status == StepStatus::ready) queue_step(resident, *step);
  if (concerns_approval(event.payload)) resident.approvals_changed = true;
  note_receipt(event.payload, resident.changed_receipts);
  if (const auto* moved = std::get_if<ReceiptMoved>(&event.payload); moved && moved->trigger == ReceiptTrigger::succeed)
    note_reversal(run, find_receipt(run, moved->receipt)->step, moved->receipt);
  if (const auto* intended = std::get_if<ReceiptIntended>(&event.payload)) remember_effect(run, *intended->proposal);
  count_outcome(resident, event, step);
  if (const auto* failed = std::get_if<StepFailed>(&event.payload))
    if (failed->diagnostic->error_code == "WRITE_CAP_EXCEEDED")
      scheduler_.count_held_back(run.tenant, &HeldBack::max_writes_per_run);
  if (const auto* moved = std::get_if<RunMoved>(&event.payload)) {
    // Steps that were queued as starts of this run are none any more; the stale tickets mean nothing when taken.
    if (moved->trigger == RunTrigger::start)
      for (StepIndex i = 0; i < run.steps.size(); ++i)
        if (run.steps[i].status == StepStatus::ready && run.steps.size() > 1 && resident.claiming != i)
          queue_step(resident, i);
  }
}

void Engine::revoke(Worker& worker, const Run& run, StepIndex step, std::uint64_t token) {
  // Granted in this very turn: the worker has not heard of it, and never will.
  auto unheard = std::erase_if(worker.granted, [&](const Lease& lease) {
    return lease.run == run.id && lease.step == run.definition(step).id && lease.token == token;
  });
  if (unheard > 0)
    worker.give_back(run.tenant, static_cast<int>(unheard));
  else
    turn_.revokes.push_back({worker.sink, run.id, run.definition(step).id, token, residents_.at(run.id)->incarnation});
}

Decision Engine::decide_on(Resident& resident, const RunCommand& command) {
  Decision decision = decide(resident.run, command, clock_.now(), {random_.signed_unit()});
  // What changes nothing is not checked by any commit: it must be true of the run as it is now.
  if ((decision.events.empty() || decision.refusal) && verify(resident))
    decision = decide(resident.run, command, clock_.now(), {random_.signed_unit()});
  return decision;
}

std::optional<Refusal> Engine::decide_and_apply(Resident& resident, const RunCommand& command) {
  Decision decision = decide_on(resident, command);
  bool sealed = is_terminal(resident.run.status);
  apply(resident, decision.events, reporter_of(command));
  if (decision.refusal && sealed) audit_on_sealed(resident, command, *decision.refusal);
  return decision.refusal;
}

void Engine::audit(Resident& resident, TransitionRefused refused) {
  if (!is_terminal(resident.run.status)) return apply(resident, {{clock_.now(), std::move(refused)}}, std::nullopt);
  Actor by = refused.by;
  append_tenant_event(tenants_.at(resident.run.tenant), RequestRefused{resident.run.id, std::move(refused)}, by);
}

void Engine::audit_on_sealed(const Resident& resident, const RunCommand& command, const Refusal& refusal) {
  TransitionRefused audit{.requested = {},
                          .state = std::string(to_string(resident.run.status)),
                          .code = std::string(to_string(refusal.code)),
                          .by = {}};
  if (const auto* resolve = std::get_if<ResolveApproval>(&command)) {
    audit.requested = resolve->approve ? "approve" : "reject";
    audit.by = resolve->by;
  } else if (const auto* cancel = std::get_if<CancelRun>(&command)) {
    audit.requested = "cancel";
    audit.by = cancel->by;
  } else if (const auto* answered = std::get_if<AnswerQuestion>(&command)) {
    audit.requested = "answer";
    audit.by = answered->by;
  } else if (const auto* report = std::get_if<ReportRun>(&command)) {
    audit.requested = to_string(report->trigger);
    audit.by = report->by;
  } else if (const auto* settle = std::get_if<SettleReceipt>(&command)) {
    audit.requested = "resolve " + settle->receipt.str();
    audit.by = settle->by;
  } else {
    return;  // a worker's late report: refused by its token, and that is all
  }
  Actor by = audit.by;
  append_tenant_event(tenants_.at(resident.run.tenant), RequestRefused{resident.run.id, std::move(audit)}, by);
}

// ---- Requests

void Engine::process(EngineRequest request) {
  std::visit([&](auto& pending) { process(request, pending); }, request);
  record_reversals();
}

// The one place where a request is answered, and kept as it was asked for as long as it may have to be decided again.
template <class R>
void Engine::process(EngineRequest& request, PendingRequest<R>& pending) {
  if constexpr (std::is_same_v<R, NewTask>)
    if (!pending.value.stream) pending.value.stream = ids_.make<RunId>(clock_.now());
  auto decide_once = [&] {
    if (!shared_) return handle(pending.value);
    R copy = pending.value;
    return handle(copy);
  };
  auto outcome = decide_once();
  if constexpr (std::is_same_v<R, Heartbeat>)
    if (!shared_ && pending.reply) return pending.reply(std::move(outcome.answer));
  if (outcome.basis == no_basis && !outcome.waits_for_turn) {
    if (!pending.reply && !deciding_again_) return;
    turn_.answers.push_back({.say =
                                 [reply = std::move(pending.reply), answer = std::move(outcome.answer)]() mutable {
                                   if (reply) reply(std::move(answer));
                                 },
                             .round = round_,
                             .was_open = deciding_again_});
    return;
  }
  auto kept = std::make_shared<EngineRequest>(std::move(request));
  std::move_only_function<void()> say;
  if (!outcome.waits_for_turn)
    say = [kept, answer = std::move(outcome.answer)]() mutable {
      auto& reply = std::get<PendingRequest<R>>(*kept).reply;
      if (reply) reply(std::move(answer));
    };
  turn_.answers.push_back({.say = std::move(say),
                           .basis = outcome.basis,
                           .again = std::move(kept),
                           .round = round_,
                           .was_open = deciding_again_});
}

void Engine::decide_again(Again again) {
  for (const SlotOffer& each : again.offers) offer(each);
  deciding_again_ = true;
  for (Again::Part& part : again.requests) {
    round_ = part.round;
    std::size_t before = turn_.answers.size();
    process(std::move(*part.request));
    // It came to nothing: what waits for it must not wait for ever.
    if (turn_.answers.size() == before) turn_.answers.push_back({.say = {}, .round = round_, .was_open = true});
    // Its round waits for one; of several, for the last.
    for (std::size_t i = before; i + 1 < turn_.answers.size(); ++i) turn_.answers[i].was_open = false;
  }
  deciding_again_ = false;
  round_ = nullptr;
  for (WaitingPoll& each : again.polls) wait_for_work(std::move(each.poll), each.until);
}

// ---- Workers

Engine::Worker* Engine::find_worker(const WorkerName& name) {
  if (name.empty()) return nullptr;
  auto found = std::find_if(workers_.begin(), workers_.end(), [&](const Worker& w) { return w.name == name; });
  return found == workers_.end() ? nullptr : &*found;
}

void Engine::add_worker(const WorkerName& worker, std::vector<ToolName> tools, LeaseSink& sink, bool shares_slots) {
  invariant(find_worker(worker) == nullptr, "a worker registered twice");
  workers_.push_back({worker, std::move(tools), &sink, shares_slots, 0, {}, {}});
}

void Engine::Worker::take_slot(TenantId tenant) {
  --slots;
  if (shares_slots) ++held[tenant];
}

void Engine::Worker::give_back(TenantId tenant, int count) {
  slots += count;
  auto found = held.find(tenant);
  if (found != held.end() && (found->second -= count) <= 0) held.erase(found);
}

void Engine::remove_worker(const WorkerName& name) {
  std::erase_if(workers_, [&](const Worker& worker) { return worker.name == name; });
  Instant now = clock_.now();
  for (auto& [id, resident] : residents_) {
    bool held = false;
    for (Step& step : resident->run.steps) {
      if (step.status != StepStatus::running || step.lease_owner != name) continue;
      step.lease_expires_at = std::min(step.lease_expires_at, now);
      held = true;
    }
    // At once: by the next advance() a new worker may bear the name, and would be taken for this one.
    if (held) pass_time(*resident);
  }
}

void Engine::offer(const SlotOffer& offer) {
  Worker* worker = find_worker(offer.worker);
  if (worker && offer.held_by)
    worker->give_back(*offer.held_by, offer.slots);
  else if (worker)
    worker->slots += offer.slots;
}

namespace {

RunCommand command_for(const StepReport& report, Completed& completed) {
  return CompleteStep{report.step, report.proof, std::move(completed.output), completed.cost};
}
RunCommand command_for(const StepReport& report, Failed& failed) {
  return FailStep{
      report.step,        report.proof, std::move(failed.error_code), std::move(failed.message), failed.retryable,
      failed.retry_after, failed.cost};
}
RunCommand command_for(const StepReport& report, Released&) { return ReleaseStep{report.step, report.proof}; }
RunCommand command_for(const StepReport& report, Asked& asked) {
  return AskQuestion{report.step, report.proof, std::move(asked.question)};
}

}  // namespace

Engine::Outcome<RunAnswer> Engine::handle(ReportStep& request) {
  StepReport& report = request.report;
  Resident* resident = find_leased(report.tenant, report.run);
  if (!resident) return {lease_over()};
  std::optional<Refusal> refusal;
  if (report.effect) refusal = decide_and_apply(*resident, outcome_command(report.step, report.proof, *report.effect));
  const auto* completed = std::get_if<Completed>(&report.outcome);
  const Money cost = completed ? completed->cost : Money{};
  RunCommand command = std::visit([&](auto& outcome) { return command_for(report, outcome); }, report.outcome);
  if (!refusal) refusal = decide_and_apply(*resident, command);
  // An agent was allowed an effect and has left without a word about it.
  if (refusal && refusal->code == RefusalCode::outcome_missing && report.is_last)
    refusal = decide_and_apply(
        *resident, FailStep{report.step, report.proof, "EFFECT_UNKNOWN", std::move(refusal->message), {}, {}, cost});
  return outcome_of(std::move(refusal), *resident);
}

// A run with a live lease is always in memory, so what is not cannot be about a live lease; with several servers the
// lease may come from another one.
Engine::Resident* Engine::find_leased(TenantId tenant, RunId run) {
  if (shared_) return find(tenant, run);
  auto found = residents_.find(run);
  return found != residents_.end() && found->second->run.tenant == tenant ? found->second.get() : nullptr;
}

std::optional<Instant> Engine::extend_lease(Resident& resident, const StepId& step, const LeaseProof& proof) {
  Run& run = resident.run;
  if (tenants_.at(run.tenant).tenant.suspended) return std::nullopt;
  auto index = run.find_step(step);
  const bool is_holders = !proof.is_program();
  if (!index || *index >= run.steps.size() || !is_holders || !is_held_by(run.steps[*index], proof)) return std::nullopt;
  // A lease that ran out is offered to others and no longer counted against caps, at once or at the next sweep: it
  // cannot be extended, though its report is still good until another worker takes it.
  Instant now = clock_.now();
  Instant& expires_at = run.steps[*index].lease_expires_at;
  bool ran_out = resident.lease_marks[*index] == LeaseMark::reclaim_queued || expires_at <= now;
  if (ran_out) return std::nullopt;
  expires_at = std::max(expires_at, now + run.definition(*index).lease);
  rewrite(resident);
  return expires_at;
}

// An extension that loses against another server's write of the run is decided again like everything else: otherwise
// the lease could be taken back before the time that its holder was told.
Engine::Outcome<Instant> Engine::handle(Heartbeat& request) {
  Resident* resident = find_leased(request.tenant, request.run);
  auto until = resident ? extend_lease(*resident, request.step, request.proof) : std::nullopt;
  // A refusal is checked by no commit: it must be true of the run as it is now.
  if (!until && resident && verify(*resident)) until = extend_lease(*resident, request.step, request.proof);
  if (!until) return {lease_over(), resident ? basis_of(*resident) : no_basis};
  return {*until, basis_of(*resident)};
}

}  // namespace pawl
