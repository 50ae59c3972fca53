#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "core/invariant.h"
#include "core/planted.h"
#include "core/snapshot.h"
#include "crypto/sha256.h"
#include "engine/resident.h"

namespace pawl {

void Turn::release() {
  for (auto& answer : answers) answer();
  for (auto& revoke : revokes) revoke.sink->revoke(revoke.run, revoke.step, revoke.token);
  for (auto& [sink, leases] : grants) sink->grant(std::move(leases));
}

Engine::Engine(Store& store, const ToolCatalog& tools, const Clock& clock, Random& random, EngineLimits limits)
    : store_(store), tools_(tools), clock_(clock), random_(random), ids_(random), limits_(limits) {}

Engine::~Engine() = default;

// ---- Residents

Engine::Resident& Engine::adopt(Run run, const Hash& head) {
  RunId id = run.id;
  auto resident = std::make_unique<Resident>(std::move(run), head);
  Resident& out = *resident;
  residents_[id] = std::move(resident);
  return out;
}

Engine::Resident* Engine::find(TenantId tenant, RunId run) {
  auto found = residents_.find(run);
  if (found == residents_.end()) return load(tenant, run);
  if (planted(Bug::forget_tenant_check)) return found->second.get();
  return found->second->run.tenant == tenant ? found->second.get() : nullptr;
}

Engine::Resident* Engine::load(TenantId tenant, RunId id) {
  auto row = store_.load(tenant, id);
  if (!row) return nullptr;
  const Workflow* workflow = workflows_.find(tenant, row->workflow, row->version);
  invariant(workflow != nullptr, "a run names a workflow version that is not there");
  auto run = read_snapshot(row->snapshot, *workflow);
  if (!run) run = fold_lines(tenant, id, *workflow, store_.history(StreamKey::of(tenant, id)).lines);
  ++stats_.runs_loaded;
  Resident& resident = adopt(std::move(*run), row->head);
  resident.in_rows = true;
  resident.has_ready_rows = true;  // unknown: replacing nothing is harmless
  resident.updated_at = row->updated_at;
  if (row->due_at <= horizon_) resident.load_timer_at = row->due_at;
  folded_.push_back({position_, id});  // when it was loaded for nothing, it leaves again
  return &resident;
}

bool Engine::may_leave(const Resident& resident, Position durable) const {
  if (resident.dirty || resident.in_turn() || resident.changed_at > durable || resident.holds_leases()) return false;
  bool parked = is_terminal(resident.run.status) || resident.run.status == RunStatus::waiting;
  return parked || residents_.size() > limits_.runs_resident_max;
}

void Engine::durable(Position position) {
  while (!folded_.empty() && folded_.front().first <= position) {
    RunId id = folded_.front().second;
    folded_.pop_front();
    auto found = residents_.find(id);
    if (found == residents_.end() || !may_leave(*found->second, position)) continue;
    const Run& run = found->second->run;
    Instant due = next_due(run, clock_.now());
    if (due <= horizon_ && due != found->second->load_timer_at && !planted(Bug::lose_timer_of_evicted_run))
      timers_.push({due, run.tenant, id, true});
    residents_.erase(found);
  }
}

// ---- Deciding

RunAnswer Engine::answer_of(const Resident& resident) const {
  return {resident.run.id, resident.run.status, resident.run.seq};
}

template <class T>
void Engine::answer_with(Reply<T>& reply, std::expected<T, Refusal> answer) {
  if (!reply) return;
  if (planted(Bug::answer_before_commit)) return reply(std::move(answer));
  turn_.answers.push_back([reply = std::move(reply), answer = std::move(answer)]() mutable { reply(std::move(answer)); });
}

// Who held the step's lease before an event moved it.
struct Engine::LeaseBefore {
  bool leased = false;
  std::uint64_t token = 0;
  WorkerName worker;
};

void Engine::apply(Resident& resident, const std::vector<RunEvent>& events, const StepReport* own) {
  if (events.empty()) return;
  if (!resident.in_turn()) {
    resident.begin_turn();
    touched_.push_back(&resident);
  }
  for (const RunEvent& event : events) {
    auto step = step_of(resident.run, event.payload);
    LeaseBefore before;
    if (step && resident.run.steps[*step].status == StepStatus::running) {
      const Step& state = resident.run.steps[*step];
      bool reported = own && own->step == resident.run.definition(*step).id && own->token == state.lease_token;
      before = {true, state.lease_token, reported ? WorkerName{} : state.lease_owner};
    }
    evolve(resident.run, event);
    if (planted(Bug::skip_event_in_frame) && std::holds_alternative<TransitionRefused>(event.payload)) continue;
    resident.append(event);
    ++stats_.events;
    react(resident, event, step, before);
  }
  register_timer(resident);
}

void Engine::react(Resident& resident, const RunEvent& event, std::optional<StepIndex> step, const LeaseBefore& before) {
  Run& run = resident.run;
  if (step && before.leased) {
    bool same_lease = run.steps[*step].status == StepStatus::running && run.steps[*step].lease_token == before.token;
    if (!same_lease) {
      end_lease(resident, *step);
      // A claim that ends in a failure at once was never granted, so there is nothing to take back.
      bool stillborn = resident.claiming == *step && !std::holds_alternative<StepClaimed>(event.payload);
      Worker* worker = stillborn ? nullptr : find_worker(before.worker);
      if (worker) revoke(*worker, run, *step, before.token);
    }
  }
  if (step && run.steps[*step].status == StepStatus::ready) queue_step(resident, *step);
  if (concerns_approval(event.payload)) resident.approvals_changed = true;
  if (const auto* moved = std::get_if<RunMoved>(&event.payload)) {
    if (is_terminal(run.status)) ++stats_.runs_finished;
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
    if (planted(Bug::grant_after_revoke)) return false;
    return lease.run == run.id && lease.step == run.definition(step).id && lease.token == token;
  });
  if (unheard > 0)
    worker.slots += static_cast<int>(unheard);
  else
    turn_.revokes.push_back({worker.sink, run.id, run.definition(step).id, token});
}

std::optional<Refusal> Engine::decide_and_apply(Resident& resident, const RunCommand& command, const StepReport* own) {
  Decision decision = decide(resident.run, command, clock_.now(), {random_.signed_unit()});
  bool sealed = is_terminal(resident.run.status);
  apply(resident, decision.events, own);
  if (decision.refusal && sealed) audit_on_sealed(resident, command, *decision.refusal);
  return decision.refusal;
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
  } else {
    return;  // a worker's late report: refused by its token, and that is all
  }
  Actor by = audit.by;
  append_tenant_event(tenants_.at(resident.run.tenant), RequestRefused{resident.run.id, std::move(audit)}, by);
}

void Engine::append_tenant_event(TenantEntry& entry, TenantPayload payload, const Actor& by) {
  TenantEvent event{clock_.now(), by, std::move(payload)};
  evolve(entry.tenant, event);
  History history{.key = StreamKey::of(entry.tenant.id),
                  .first_seq = entry.tenant.seq,
                  .lines = {},
                  .last_seq = entry.tenant.seq,
                  .head = {}};
  append_event(history.lines, event);
  entry.head = chain_next(sha256, entry.head, history.lines);
  history.lines += '\n';
  history.head = entry.head;
  append_part(turn_.frame.parts, {history.key, history.first_seq, history.lines});
  turn_.frame.tenants.push_back({entry.tenant, std::move(history)});
  ++stats_.events;
}

// ---- Tenants

std::optional<TenantId> Engine::find_tenant(std::string_view name) const {
  for (const auto& [id, entry] : tenants_)
    if (entry.tenant.name == name) return id;
  return std::nullopt;
}

void Engine::create_tenant(std::string name, Actor by, Reply<TenantId> reply) {
  if (!is_valid_name(name))
    return answer_with(reply, std::expected<TenantId, Refusal>(std::unexpected(
                                  Refusal{RefusalCode::invalid, "a tenant's name is letters, digits, . _ and -"})));
  if (auto existing = find_tenant(name)) return answer_with<TenantId>(reply, *existing);
  auto id = ids_.make<TenantId>(clock_.now());
  TenantEntry& entry = tenants_[id];
  entry.tenant.id = id;
  entry.head = genesis(StreamKey::of(id));
  append_tenant_event(entry, TenantCreated{std::move(name)}, by);
  answer_with<TenantId>(reply, id);
}

namespace {

std::unexpected<Refusal> no_such(std::string_view what) {
  return std::unexpected(Refusal{RefusalCode::not_found, "there is no such " + std::string(what)});
}

bool is_valid_weight(int weight) { return weight >= 1 && weight <= weight_max; }

}  // namespace

void Engine::set_limits(TenantId tenant, LimitsSet limits, Actor by, Reply<TenantId> reply) {
  auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return answer_with<TenantId>(reply, no_such("tenant"));
  if (!is_valid_weight(limits.weight))
    return answer_with<TenantId>(
        reply, std::unexpected(Refusal{RefusalCode::invalid, "a weight lies between 1 and " + std::to_string(weight_max)}));
  scheduler_.set_limits(tenant, {limits.weight, limits.caps});
  append_tenant_event(found->second, limits, by);
  answer_with<TenantId>(reply, tenant);
}

void Engine::set_workspace(TenantId tenant, WorkspaceSet workspace, Actor by, Reply<TenantId> reply) {
  auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return answer_with<TenantId>(reply, no_such("tenant"));
  if (!is_valid_weight(workspace.weight) || !is_valid_name(workspace.workspace.text))
    return answer_with<TenantId>(
        reply, std::unexpected(Refusal{RefusalCode::invalid, "a workspace has a name and a weight between 1 and " +
                                                                 std::to_string(weight_max)}));
  scheduler_.set_workspace_weight(tenant, workspace.workspace, workspace.weight);
  append_tenant_event(found->second, workspace, by);
  answer_with<TenantId>(reply, tenant);
}

void Engine::publish(TenantId tenant, std::string source, std::string file, Actor by, Reply<WorkflowRef> reply) {
  auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return answer_with<WorkflowRef>(reply, no_such("tenant"));
  auto workflow = compile_workflow(source, file, &tools_);
  if (!workflow)
    return answer_with<WorkflowRef>(reply, std::unexpected(Refusal{RefusalCode::invalid, workflow.error()}));
  if (const Workflow* latest = workflows_.latest(tenant, workflow->name)) {
    if (latest->digest == workflow->digest)
      return answer_with<WorkflowRef>(reply, WorkflowRef{latest->name, latest->version, false});
    workflow->version = latest->version;
  }
  workflow->version += 1;
  const Workflow& published = workflows_.add(tenant, std::move(*workflow));
  scheduler_.set_workflow_caps(tenant, published.name, published.caps);
  append_tenant_event(found->second,
                      WorkflowPublished{published.name, published.version, published.digest, published.source}, by);
  turn_.frame.workflows.push_back(
      {tenant, published.name, published.version, published.digest, published.source});
  answer_with<WorkflowRef>(reply, WorkflowRef{published.name, published.version, true});
}

// ---- Runs

void Engine::create_run(NewRun request, Reply<RunAnswer> reply) {
  const Workflow* workflow = request.version ? workflows_.find(request.tenant, request.workflow, *request.version)
                                             : workflows_.latest(request.tenant, request.workflow);
  if (!workflow) return answer_with<RunAnswer>(reply, no_such("workflow"));
  CreateRun command{.tenant = request.tenant,
                    .id = ids_.make<RunId>(clock_.now()),
                    .workflow = workflow,
                    .workspace = std::move(request.workspace),
                    .provider = request.provider,
                    .input = std::move(request.input),
                    .by = std::move(request.by),
                    .trigger_type = std::move(request.trigger_type),
                    .trigger_ref = std::move(request.trigger_ref),
                    .retry_of = {},
                    .budget = request.budget,
                    .timeout = request.timeout};
  create(command, reply);
}

void Engine::create(const CreateRun& command, Reply<RunAnswer>& reply) {
  Run run;
  run.workflow = command.workflow;
  run.tenant = command.tenant;
  run.id = command.id;
  Resident& resident = adopt(std::move(run), genesis(StreamKey::of(command.tenant, command.id)));
  Decision decision = decide(command, clock_.now());
  apply(resident, decision.events, nullptr);
  if (starts_at_gate(resident.run)) queue_gate_start(resident);
  ++stats_.runs_created;
  answer_with<RunAnswer>(reply, answer_of(resident));
}

void Engine::command(TenantId tenant, RunId run, const RunCommand& command, Reply<RunAnswer> reply) {
  Resident* resident = find(tenant, run);
  if (!resident) return answer_with<RunAnswer>(reply, no_such("run"));
  if (auto refusal = decide_and_apply(*resident, command, nullptr))
    return answer_with<RunAnswer>(reply, std::unexpected(std::move(*refusal)));
  answer_with<RunAnswer>(reply, answer_of(*resident));
}

void Engine::answer(TenantId tenant, RunId run, const StepId& step, JsonText text, Actor by, Reply<RunAnswer> reply) {
  Resident* resident = find(tenant, run);
  auto index = resident ? resident->run.workflow->find(step) : std::nullopt;
  if (!index) return answer_with<RunAnswer>(reply, no_such("step"));
  command(tenant, run, AnswerQuestion{*index, std::move(text), std::move(by)}, std::move(reply));
}

void Engine::retry(TenantId tenant, RunId run, Actor by, Reply<RunAnswer> reply) {
  Resident* resident = find(tenant, run);
  if (!resident) return answer_with<RunAnswer>(reply, no_such("run"));
  auto again = retry_of(resident->run, ids_.make<RunId>(clock_.now()), std::move(by));
  if (!again) return answer_with<RunAnswer>(reply, std::unexpected(again.error()));
  create(*again, reply);
}

void Engine::inspect(TenantId tenant, RunId run, Reply<std::shared_ptr<const Run>> reply) {
  Resident* resident = find(tenant, run);
  if (!resident) return answer_with<std::shared_ptr<const Run>>(reply, no_such("run"));
  answer_with<std::shared_ptr<const Run>>(reply, std::make_shared<const Run>(resident->run));
}

// ---- Workers

Engine::Worker* Engine::find_worker(const WorkerName& name) {
  if (name.empty()) return nullptr;
  auto found = std::find_if(workers_.begin(), workers_.end(), [&](const Worker& w) { return w.name == name; });
  return found == workers_.end() ? nullptr : &*found;
}

void Engine::add_worker(const WorkerName& worker, std::vector<ToolName> tools, LeaseSink& sink) {
  invariant(find_worker(worker) == nullptr, "a worker registered twice");
  workers_.push_back({worker, std::move(tools), &sink, 0, {}});
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

void Engine::offer(const WorkerName& name, int slots) {
  if (Worker* worker = find_worker(name)) worker->slots += slots;
}

void Engine::report(StepReport& report, Reply<RunAnswer> reply) {
  // A run with a live lease is always in memory; a report about one that is not cannot be about a live lease.
  auto found = residents_.find(report.run);
  Resident* resident = found == residents_.end() ? nullptr : found->second.get();
  auto index = resident && resident->run.tenant == report.tenant ? resident->run.workflow->find(report.step) : std::nullopt;
  if (!index)
    return answer_with<RunAnswer>(
        reply, std::unexpected(Refusal{RefusalCode::lease_lost, "this lease is over; drop the work"}));
  RunCommand command;
  if (auto* completed = std::get_if<Completed>(&report.outcome)) {
    command = CompleteStep{*index, report.token, std::move(completed->output), completed->cost};
  } else {
    auto& failed = std::get<Failed>(report.outcome);
    command = FailStep{*index,           report.token,       std::move(failed.error_code), std::move(failed.message),
                       failed.retryable, failed.retry_after, failed.cost};
  }
  if (auto refusal = decide_and_apply(*resident, command, &report))
    return answer_with<RunAnswer>(reply, std::unexpected(std::move(*refusal)));
  answer_with<RunAnswer>(reply, answer_of(*resident));
}

bool Engine::heartbeat(TenantId tenant, RunId run, const StepId& step, std::uint64_t token) {
  auto found = residents_.find(run);
  if (found == residents_.end() || found->second->run.tenant != tenant) return false;
  Run& state = found->second->run;
  auto index = state.workflow->find(step);
  if (!index || *index >= state.steps.size() || state.steps[*index].status != StepStatus::running ||
      state.steps[*index].lease_token != token)
    return false;
  // Once it ran out the lease is offered to others and no longer counted against caps: it cannot be extended, though
  // its report is still good until another worker takes it.
  if (found->second->lease_marks[*index] == LeaseMark::reclaim_queued) return planted(Bug::revive_lost_lease);
  Instant until = clock_.now() + state.definition(*index).lease;
  state.steps[*index].lease_expires_at = std::max(state.steps[*index].lease_expires_at, until);
  return true;
}

// ---- Scheduling

void Engine::queue_step(const Resident& resident, StepIndex step) {
  const Run& run = resident.run;
  scheduler_.add({run.tenant, run.workspace, run.workflow->name, run.definition(step).tool, run.id, step,
                  run.status == RunStatus::created});
}

void Engine::queue_gate_start(const Resident& resident) {
  const Run& run = resident.run;
  scheduler_.add({run.tenant, run.workspace, run.workflow->name, ToolName{}, run.id, 0, true});
}

void Engine::start_gates() {
  static const std::vector<ToolName> no_worker_needed{ToolName{}};
  while (auto ticket = scheduler_.take(no_worker_needed, clock_.now())) {
    Resident* resident = find(ticket->tenant, ticket->run);
    if (!resident || resident->run.status != RunStatus::created) {
      scheduler_.put_back(*ticket);
      continue;
    }
    decide_and_apply(*resident, StartRun{}, nullptr);
    remember_start(resident->run);
  }
}

void Engine::remember_start(const Run& run) {
  if (scheduler_.is_paced(run.tenant, run.workflow->name))
    turn_.frame.starts.push_back({run.tenant, run.workflow->name, run.started_at});
}

void Engine::serve_workers() {
  for (bool any = true; any;) {
    any = false;
    for (Worker& worker : workers_) {
      if (worker.slots == 0) continue;
      auto ticket = scheduler_.take(worker.tools, clock_.now());
      if (!ticket) continue;
      any = true;
      if (grant(worker, *ticket)) --worker.slots;
    }
  }
}

bool Engine::grant(Worker& worker, const Scheduler::Ticket& ticket) {
  Resident* resident = find(ticket.tenant, ticket.run);
  Instant now = clock_.now();
  if (!resident || !is_claimable(resident->run, ticket.step, now)) {
    scheduler_.put_back(ticket);
    return false;
  }
  const Run& run = resident->run;
  bool starts = run.status == RunStatus::created;
  if (ticket.fresh && !starts) scheduler_.not_a_start(ticket);
  const StepDefinition& definition = run.definition(ticket.step);
  auto input = render_input(run, ticket.step);
  auto key = render_idempotency_key(run, ticket.step);
  ClaimStep claim{.step = ticket.step, .worker = worker.name, .writes = false, .writes_max = {}, .input_error = {}};
  if (!input) claim.input_error = input.error();
  if (!key) claim.input_error = key.error();
  const ToolSpec* spec = tools_.find(definition.tool);
  claim.writes = input && (!spec || may_write(*spec, *input));
  const Caps& own = run.workflow->caps;
  claim.writes_max = own.max_writes_per_run ? own.max_writes_per_run
                                            : tenants_.at(run.tenant).tenant.caps.max_writes_per_run;
  resident->claiming = ticket.step;
  decide_and_apply(*resident, claim, nullptr);
  resident->claiming = no_step;
  if (starts) remember_start(run);
  const Step& step = run.steps[ticket.step];
  if (step.status != StepStatus::running) {  // stillborn: the claim ended in a failure
    scheduler_.lease_ended(ticket.tenant, run.workflow->name);
    return false;
  }
  resident->lease_marks[ticket.step] = LeaseMark::counted;
  ++stats_.leases_granted;
  worker.granted.push_back({.tenant = run.tenant,
                            .run = run.id,
                            .step = definition.id,
                            .tool = definition.tool,
                            .input = std::move(*input),
                            .token = step.lease_token,
                            .attempt = step.attempts,
                            .idempotency_key = std::move(*key),
                            .expires_at = step.lease_expires_at,
                            .timeout = definition.timeout});
  return true;
}

void Engine::end_lease(Resident& resident, StepIndex step) {
  LeaseMark& mark = resident.lease_marks[step];
  if (mark == LeaseMark::counted) scheduler_.lease_ended(resident.run.tenant, resident.run.workflow->name);
  mark = LeaseMark::none;
}

// ---- Time

// A lease that ran out waits for a worker only once its step is queued again; until then it waits for pass_time().
Instant Engine::due_of(const Resident& resident) const {
  Instant now = clock_.now();
  Instant due = next_due(resident.run, now);
  for (StepIndex i = 0; i < resident.run.steps.size(); ++i)
    if (resident.lease_marks[i] == LeaseMark::counted && is_reclaimable(resident.run, i, now)) return now;
  return due;
}

void Engine::register_timer(Resident& resident) {
  Instant due = due_of(resident);
  if (due > horizon_ || due >= resident.timer_at) return;
  resident.timer_at = due;
  timers_.push({due, resident.run.tenant, resident.run.id, false});
}

// Brings what falls due within the next horizon into memory: the timers of runs in the tables that are not resident,
// and those of residents that were further off before.
void Engine::sweep_timers() {
  constexpr std::size_t page = 10'000;
  Instant before = horizon_;
  horizon_ = clock_.now() + limits_.timer_horizon;
  if (planted(Bug::no_timer_after_restart) && before.ms == 0) return;
  for (auto& [id, resident] : residents_) register_timer(*resident);
  std::optional<DueRun> last;
  if (before.ms != 0) last = DueRun{{}, {{UINT64_MAX, UINT64_MAX}}, before};
  for (;;) {
    auto rows = store_.due_runs(horizon_, page, last);
    for (const DueRun& row : rows)
      if (!residents_.contains(row.run)) timers_.push({row.due_at, row.tenant, row.run, true});
    if (rows.size() < page) break;
    last = rows.back();
  }
}

void Engine::fire_timers() {
  Instant now = clock_.now();
  while (!timers_.empty() && timers_.top().at <= now) {
    Timer timer = timers_.top();
    timers_.pop();
    auto found = residents_.find(timer.run);
    Resident* resident = found != residents_.end() ? found->second.get() : timer.load ? load(timer.tenant, timer.run) : nullptr;
    if (!resident) continue;
    resident->timer_at = end_of_time;
    if (timer.load) resident->load_timer_at = end_of_time;
    pass_time(*resident);
    register_timer(*resident);
  }
}

void Engine::pass_time(Resident& resident) {
  Run& run = resident.run;
  Instant now = clock_.now();
  for (StepIndex i = 0; i < run.steps.size(); ++i) {
    Step& step = run.steps[i];
    // An in-process worker that is registered is alive by definition: it lives and dies with this process. What is
    // queued for reclaim already was lost by one that bore the name before.
    if (resident.lease_marks[i] == LeaseMark::counted && step.lease_expires_at <= now &&
        step.lease_owner.text.starts_with(local_worker_prefix) && find_worker(step.lease_owner))
      step.lease_expires_at = now + run.definition(i).lease;
  }
  decide_and_apply(resident, TimePasses{}, nullptr);
  for (StepIndex i = 0; i < run.steps.size(); ++i) {
    if (resident.lease_marks[i] == LeaseMark::reclaim_queued || !is_reclaimable(run, i, now)) continue;
    end_lease(resident, i);
    resident.lease_marks[i] = LeaseMark::reclaim_queued;
    queue_step(resident, i);
  }
}

void Engine::advance() {
  if (clock_.now() + limits_.timer_horizon / 2 >= horizon_) sweep_timers();
  fire_timers();
  start_gates();
  serve_workers();
}

Instant Engine::next_wakeup() const {
  Instant at = horizon_ - limits_.timer_horizon / 2;
  if (!timers_.empty()) at = std::min(at, timers_.top().at);
  return std::min(at, scheduler_.next_start_at());
}

// ---- Turns

Turn Engine::take_turn() {
  Position next = position_ + 1;
  Frame& frame = turn_.frame;
  for (Resident* resident : touched_) {
    append_part(frame.parts, resident->end_turn());
    resident->changed_at = next;
    if (!resident->dirty) {
      resident->dirty = true;
      resident->first_unfolded = next;
      unfolded_.push_back({next, journal_bytes_, resident->run.id});
    }
    RunStatus status = resident->run.status;
    if (is_terminal(status) || status == RunStatus::waiting || std::exchange(resident->fold_wanted, false) ||
        (status == RunStatus::created && residents_.size() > limits_.runs_resident_max))
      fold(*resident);
  }
  touched_.clear();
  fold_oldest();
  for (Worker& worker : workers_)
    if (!worker.granted.empty()) turn_.grants.emplace_back(worker.sink, std::exchange(worker.granted, {}));
  turn_.needs_commit = !frame.parts.empty() || !frame.runs.empty();
  if (turn_.needs_commit) {
    position_ = next;
    frame.position = next;
    frame.folded_before = unfolded_.empty() ? next : unfolded_.front().first;
    journal_bytes_ += frame.parts.size();
  }
  return std::exchange(turn_, {});
}

void Engine::fold(Resident& resident) {
  Run& run = resident.run;
  RunFold out;
  out.row = {.tenant = run.tenant,
             .id = run.id,
             .workflow = run.workflow->name,
             .version = run.workflow->version,
             .workspace = run.workspace,
             .status = run.status,
             .error_code = run.diagnostic ? run.diagnostic->error_code : std::string(),
             .created_at = run.created_at,
             .updated_at = resident.updated_at,
             .due_at = next_due(run, clock_.now()),
             .leased = resident.has_running_step(),
             .seq = run.seq,
             .head = resident.head,
             .snapshot = write_snapshot(run)};
  out.history = resident.take_history();
  if (planted(Bug::fold_without_history) && resident.in_rows) out.history.lines.clear();
  out.is_new = !resident.in_rows;
  out.had_ready = resident.has_ready_rows;
  for (StepIndex i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].status == StepStatus::ready)
      out.ready.push_back({run.tenant, run.workspace, run.workflow->name, run.definition(i).tool, run.id, i,
                           run.status == RunStatus::created});
  if (starts_at_gate(run)) 
    out.ready.push_back({run.tenant, run.workspace, run.workflow->name, ToolName{}, run.id, 0, true});
  if (resident.approvals_changed)
    for (const Approval& approval : run.approvals)
      out.approvals.push_back({run.tenant, approval.id, run.id, run.definition(approval.step).id, approval.status,
                               approval.terms.tier, approval.requested_at, approval.expires_at});
  resident.approvals_changed = false;
  resident.in_rows = true;
  resident.has_ready_rows = !out.ready.empty();
  resident.dirty = false;
  resident.changed_at = position_ + 1;
  folded_.push_back({position_ + 1, run.id});
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
  for (Tenant& tenant : store_.tenants()) {
    scheduler_.set_limits(tenant.id, {tenant.weight, tenant.caps});
    for (const auto& [workspace, weight] : tenant.workspaces)
      scheduler_.set_workspace_weight(tenant.id, workspace, weight);
    Hash head = store_.history(StreamKey::of(tenant.id)).head;
    TenantId id = tenant.id;
    tenants_[id] = {std::move(tenant), head};
  }
  store_.for_each_workflow([&](const WorkflowRow& row) {
    auto workflow = compile_workflow(row.source, row.name.text, nullptr);
    invariant(workflow.has_value(), "a published workflow cannot be read any more");
    workflow->version = row.version;
    const Workflow& added = workflows_.add(row.tenant, std::move(*workflow));
    if (workflows_.latest(row.tenant, row.name) == &added)
      scheduler_.set_workflow_caps(row.tenant, row.name, added.caps);
  });
  position_ = store_.last_position();
  recover_frames();
  auto bereft = recover_leases();
  recover_queues();
  // Before any worker registers: one with a dead one's name would be taken for it.
  for (Resident* resident : bereft) pass_time(*resident);
  fold_all();
  sweep_timers();
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
      if (resident->replay(part) && !resident->dirty) {
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
  std::vector<Resident*> bereft;
  for (auto& [id, resident] : residents_) {
    Run& run = resident->run;
    bool any_dead = false;
    for (StepIndex i = 0; i < run.steps.size(); ++i) {
      Step& step = run.steps[i];
      if (step.status != StepStatus::running || planted(Bug::forget_lease_at_restart)) continue;
      scheduler_.lease_restored(run.tenant, run.workflow->name);
      resident->lease_marks[i] = LeaseMark::counted;
      // In-process workers died with the last process. Others may well be alive, and their heartbeats were not
      // journaled: they get a whole lease to make themselves heard.
      bool dead = step.lease_owner.text.starts_with(local_worker_prefix);
      step.lease_expires_at = dead ? std::min(step.lease_expires_at, now)
                                   : std::max(step.lease_expires_at, now + run.definition(i).lease);
      any_dead = any_dead || dead;
    }
    if (any_dead) bereft.push_back(resident.get());
  }
  return bereft;
}

void Engine::recover_queues() {
  store_.for_each_start(clock_.now() - std::chrono::seconds(60), [&](const StartRow& start) {
    if (planted(Bug::forget_starts_at_restart)) return;
    scheduler_.start_restored(start.tenant, start.workflow, start.at);
  });
  // Rows of runs that are in memory may be behind; memory speaks for those.
  store_.for_each_ready([&](const ReadyStep& ready) {
    if (residents_.contains(ready.run) || planted(Bug::lose_ready_step_at_restart)) return;
    scheduler_.add(ready);
  });
  for (const Resident* resident : residents_by_age()) {
    for (StepIndex i = 0; i < resident->run.steps.size(); ++i)
      if (resident->run.steps[i].status == StepStatus::ready) queue_step(*resident, i);
    if (starts_at_gate(resident->run)) queue_gate_start(*resident);
  }
}

EngineStats Engine::stats() const {
  EngineStats out = stats_;
  out.runs_resident = residents_.size();
  out.steps_queued = scheduler_.size();
  return out;
}

}  // namespace pawl
