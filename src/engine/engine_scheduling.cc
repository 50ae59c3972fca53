// Engine, the part that hands out work and watches the time.
#include <algorithm>
#include <utility>

#include "core/invariant.h"
#include "crypto/sha256.h"
#include "engine/engine.h"
#include "engine/resident.h"

namespace pawl {
namespace {

// How soon a poll is dropped whose client is gone.
constexpr Duration poll_check_interval = std::chrono::seconds(1);

}  // namespace

// ---- Scheduling

void Engine::queue_step(Resident& resident, StepIndex step) {
  const Run& run = resident.run;
  queue(resident, {run.tenant, run.workspace, run.workflow->name, run.definition(step).tool, run.id, step,
                   run.status == RunStatus::created});
}

void Engine::queue_gate_start(Resident& resident) {
  const Run& run = resident.run;
  queue(resident, {run.tenant, run.workspace, run.workflow->name, ToolName{}, run.id, 0, true});
}

void Engine::queue(Resident& resident, const ReadyStep& step) {
  if (shared_) {
    std::erase(resident.left, step.step);
    if (!keeps(step.tenant, step.tool)) {
      has_left_for_room_ |= scheduler_.size() > 0;
      return resident.left.push_back(step.step);
    }
  }
  add_to_queue(step);
}

void Engine::start_gates() {
  static const std::vector<ToolName> no_worker_needed{ToolName{}};
  while (auto ticket = scheduler_.take(no_worker_needed, clock_.now())) {
    Resident* resident = find_queued(ticket->tenant, ticket->run);
    if (!resident || resident->run.status != RunStatus::created || is_capped(*ticket)) {
      scheduler_.put_back(*ticket);
      continue;
    }
    decide_and_apply(*resident, StartRun{});
    remember_start(*resident);
  }
}

void Engine::remember_start(const Resident& resident) {
  const Run& run = resident.run;
  if (shared_ ? is_paced_by_store(run) : scheduler_.is_paced(resident.workflow_number))
    turn_.frame.starts.push_back({run.tenant, run.workflow->name, run.started_at, run.id});
}

// A tenant may hold so many slots for each that stays free, by its weight. One alone gets 7 of 8, two 7 of 15 each; and
// whoever comes next finds a free one.
bool Engine::may_hold_another(const Worker& worker, TenantId tenant) const {
  constexpr std::int64_t held_per_free_slot = 7;
  if (!worker.shares_slots || tenants_.size() < 2) return true;
  auto held = worker.held.find(tenant);
  if (held == worker.held.end()) return true;
  auto entry = tenants_.find(tenant);
  const std::int64_t weight = entry == tenants_.end() ? 1 : entry->second.tenant.weight;
  return held->second < held_per_free_slot * weight * (worker.slots - 1);
}

void Engine::serve_workers() {
  for (bool any = true; any && scheduler_.size() > 0;) {
    any = false;
    for (Worker& worker : workers_) {
      if (worker.slots == 0) continue;
      auto ticket = scheduler_.take(worker.tools, clock_.now(),
                                    [&](TenantId tenant) { return may_hold_another(worker, tenant); });
      if (!ticket) continue;
      any = true;
      auto lease = claim(worker.name, std::nullopt, *ticket);
      if (!lease) continue;
      worker.granted.push_back(std::move(*lease));
      worker.take_slot(ticket->tenant);
    }
  }
}

void Engine::poll(Poll poll) {
  std::erase_if(returning_, [&](const ReturningPoll& returning) {
    return returning.worker == poll.worker && returning.tenant == poll.tenant;
  });
  Instant until = clock_.now() + poll.wait;
  wait_for_work(std::move(poll), until);
}

void Engine::wait_for_work(Poll poll, Instant until) {
  polls_.push_back({std::move(poll), until, {}});
  check_in_time(polls_.back());
  may_be_ready_for_polls_ = true;
  if (winding_down_) end_polls();
}

void Engine::end_polls(Instant until) {
  drop_unwanted_polls();
  next_poll_check_ = end_of_time;
  std::erase_if(polls_, [&](WaitingPoll& waiting) {
    if (waiting.until > until) {
      check_in_time(waiting);
      return false;
    }
    turn_.answers.push_back({.say = [reply = std::move(waiting.poll.reply)]() mutable { reply({}); }});
    return true;
  });
}

void Engine::check_in_time(const WaitingPoll& waiting) {
  Instant check = waiting.poll.is_wanted ? clock_.now() + poll_check_interval : end_of_time;
  next_poll_check_ = std::min({next_poll_check_, waiting.until, check});
}

void Engine::drop_unwanted_polls() {
  std::erase_if(polls_, [](const WaitingPoll& waiting) { return waiting.poll.is_wanted && !waiting.poll.is_wanted(); });
}

void Engine::wind_down() {
  winding_down_ = true;
  end_polls();
}

// Each in turn is given all it asks for: a batch is one answer, and its worker will ask again.
bool Engine::serve_polls() {
  if (polls_.empty() || scheduler_.size() == 0) return false;
  drop_unwanted_polls();
  bool any = false;
  for (WaitingPoll& waiting : polls_) {
    while (static_cast<int>(waiting.granted.size()) < waiting.poll.max) {
      auto ticket = scheduler_.take(waiting.poll.tools, clock_.now(), waiting.poll.tenant);
      if (!ticket) break;
      any = true;
      if (auto lease = claim(waiting.poll.worker, waiting.poll.key, *ticket))
        waiting.granted.push_back(std::move(*lease));
    }
  }
  std::erase_if(polls_, [&](WaitingPoll& waiting) {
    if (waiting.granted.empty()) return false;
    if (shared_) expect_back(waiting.poll);
    std::vector<Lease> leases = std::exchange(waiting.granted, {});
    turn_.grants.push_back({waiting.poll.worker, nullptr, std::move(waiting), std::move(leases)});
    return true;
  });
  return any;
}

// A claim may start a run, and so make steps ready for others; or end one, with what was just taken of it.
void Engine::serve() {
  const auto ended_before = leases_ended_;
  do serve_workers();
  while (serve_polls());
  if (leases_ended_ != ended_before) drop_ended_grants();
}

// Those of polls: a worker of this process is told, or never hears of it (revoke).
void Engine::drop_ended_grants() {
  for (Turn::Grant& grant : turn_.grants)
    std::erase_if(grant.leases, [&](const Lease& lease) {
      auto found = residents_.find(lease.run);
      if (found == residents_.end()) return true;
      const Run& run = found->second->run;
      return !is_held_by(run.steps[*run.find_step(lease.step)], lease.proof());
    });
}

// Takes the step for the worker; nothing when it is no longer there to be taken, or its attempt ended as it began.
std::optional<Lease> Engine::claim(const WorkerName& worker, std::optional<KeyId> key,
                                   const Scheduler::Ticket& ticket) {
  Resident* resident = find_queued(ticket.tenant, ticket.run);
  Instant now = clock_.now();
  if (!resident || !is_claimable(resident->run, ticket.step, now) || is_capped(ticket) || claims_enough(*resident)) {
    scheduler_.put_back(ticket);
    return std::nullopt;
  }
  resident->claimed_at = position_ + 1;
  const Run& run = resident->run;
  bool starts = run.status == RunStatus::created;
  if (ticket.fresh && !starts) scheduler_.not_a_start(ticket);
  const StepDefinition& definition = run.definition(ticket.step);
  auto input = render_input(run, ticket.step);
  auto effect_key = render_idempotency_key(run, ticket.step);
  std::string token;
  std::optional<RemoteHolder> holder;
  if (key) {
    token = tokens_.make();
    holder = RemoteHolder{*key, sha256(token)};
  }
  ClaimStep command{
      .step = definition.id, .worker = worker, .writes = false, .writes_max = {}, .input_error = {}, .holder = holder};
  if (!input) command.input_error = input.error();
  if (!effect_key) command.input_error = effect_key.error();
  const ToolSpec* spec = tools_.find(definition.tool);
  command.writes = input && (!spec || may_write(*spec, *input));
  command.writes_max = writes_max_of(run);
  const bool was_ready = run.steps[ticket.step].status == StepStatus::ready;
  resident->claiming = ticket.step;
  decide_and_apply(*resident, command);
  resident->claiming = no_step;
  if (starts) remember_start(*resident);
  const Step& step = run.steps[ticket.step];
  if (step.status != StepStatus::running) {  // stillborn: the claim ended in a failure
    scheduler_.lease_ended(ticket.workflow);
    return std::nullopt;
  }
  if (was_ready) ++resident->claims;
  resident->lease_marks[ticket.step] = LeaseMark::counted;
  ++stats_.leases_granted;
  ++outcomes_.of_tool(definition.tool).attempts;
  return Lease{.tenant = run.tenant,
               .run = run.id,
               .step = definition.id,
               .workspace = run.workspace,
               .workflow = run.workflow->name,
               .tool = definition.tool,
               .risk = definition.risk,
               .input = std::move(*input),
               .keeps_expressions = definition.keeps_expressions,
               .key_is_declared = !definition.idempotency_key.empty(),
               .question = step.question,
               .answer = step.question.empty() ? JsonText() : step.answer,
               .token = step.lease_token,
               .remote_token = std::move(token),
               .holder = holder,
               .attempt = step.attempts,
               .idempotency_key = std::move(*effect_key),
               .expires_at = step.lease_expires_at,
               .term = definition.lease,
               .timeout = definition.timeout,
               .basis = shared_ ? resident->incarnation : 0};
}

void Engine::end_lease(Resident& resident, StepIndex step) {
  ++leases_ended_;
  LeaseMark& mark = resident.lease_marks[step];
  if (mark == LeaseMark::counted) scheduler_.lease_ended(resident.workflow_number);
  mark = LeaseMark::none;
}

// ---- Time

// A lease that ran out waits for a worker only once its step is queued again; until then it waits for pass_time().
Instant Engine::due_of(const Resident& resident) const {
  Instant now = clock_.now();
  Instant due = next_due(resident.run, now);
  for (StepIndex i = 0; i < resident.run.steps.size(); ++i)
    if (is_unnoticed(resident, i, now)) return now;
  return due;
}

// With several servers a lease that was granted elsewhere is not counted here, and runs out all the same.
bool Engine::is_unnoticed(const Resident& resident, StepIndex step, Instant now) const {
  LeaseMark mark = resident.lease_marks[step];
  return (mark == LeaseMark::counted || (shared_ && mark == LeaseMark::none)) &&
         is_reclaimable(resident.run, step, now);
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
  for (auto& [id, resident] : residents_) register_timer(*resident);
  if (shared_) return;  // look_around() finds what falls due elsewhere
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
    Resident* resident = found != residents_.end() ? found->second.get()
                         : timer.load              ? load(timer.tenant, timer.run)
                                                   : nullptr;
    if (!resident) continue;
    resident->timer_at = end_of_time;
    if (timer.load) resident->load_timer_at = end_of_time;
    pass_time(*resident);
    register_timer(*resident);
  }
}

void Engine::pass_time(Resident& resident) {
  verify(resident);
  Run& run = resident.run;
  Instant now = clock_.now();
  for (StepIndex i = 0; i < run.steps.size(); ++i) {
    Step& step = run.steps[i];
    // An in-process worker that is registered is alive by definition: it lives and dies with this process. What is
    // queued for reclaim already was lost by one that bore the name before.
    if (resident.lease_marks[i] == LeaseMark::counted && step.lease_expires_at <= now && is_in_process(step) &&
        find_worker(step.lease_owner)) {
      step.lease_expires_at = now + lease_term(run.definition(i), step.lease_owner, false);
      rewrite(resident);
    }
  }
  // A worker of a suspended tenant could not make itself heard: that its lease ended is not its fault.
  if (tenants_.at(run.tenant).tenant.suspended)
    for (StepIndex i = 0; i < run.steps.size(); ++i)
      if (run.steps[i].status == StepStatus::running && run.steps[i].lease_expires_at <= now &&
          resident.lease_marks[i] != LeaseMark::reclaim_queued)
        decide_and_apply(resident, WithdrawLease{run.definition(i).id, ReleaseCause::suspended});
  if (lease_lost_)
    for (StepIndex i = 0; i < run.steps.size(); ++i)
      if (const Step& step = run.steps[i];
          step.status == StepStatus::running && is_in_process(step) && step.lease_expires_at <= now)
        lease_lost_(run, i);
  decide_and_apply(resident, TimePasses{});
  for (StepIndex i = 0; i < run.steps.size(); ++i) {
    if (resident.lease_marks[i] == LeaseMark::reclaim_queued || !is_reclaimable(run, i, now)) continue;
    if (lease_lost_) lease_lost_(run, i);
    end_lease(resident, i);
    resident.lease_marks[i] = LeaseMark::reclaim_queued;
    queue_step(resident, i);
    rewrite(resident);  // other servers may have a worker for it
  }
}

void Engine::advance() {
  if (clock_.now() + limits_.timer_horizon / 2 >= horizon_) sweep_timers();
  if (shared_ && clock_.now() >= next_look_) look_around();
  fire_timers();
  start_gates();
  if (winding_down_) return;
  serve();
  if (shared_ && refill()) {
    start_gates();
    serve();
  }
  if (next_poll_check_ <= clock_.now()) end_polls(clock_.now());
}

Instant Engine::next_wakeup() const {
  Instant at = horizon_ - limits_.timer_horizon / 2;
  if (!timers_.empty()) at = std::min(at, timers_.top().at);
  if (shared_) at = std::min(at, winding_down_ ? next_look_ : std::min(next_look_, next_refill_));
  return std::min({at, scheduler_.next_start_at(), next_poll_check_});
}

}  // namespace pawl
