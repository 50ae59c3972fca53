#include "core/decide.h"

#include <algorithm>

#include "core/invariant.h"
#include "core/planted.h"

namespace pawl {
namespace {

// The run as the events drafted so far leave it. Only statuses are kept: that is all that rules look at, and it
// makes a decision cost a few bytes a step instead of a copy of the run.
class Draft {
 public:
  Draft(const Run& run, Instant now) : run_(run), now_(now), status_(run.status) {
    steps_.reserve(run.steps.size());
    events_.reserve(4);
    for (const auto& step : run.steps) steps_.push_back(step.status);
    for (const auto& approval : run.approvals)
      if (approval.status == ApprovalStatus::requested) open_.push_back(approval.id);
  }

  const Run& run() const { return run_; }
  Instant now() const { return now_; }
  RunStatus status() const { return status_; }
  StepStatus step(StepIndex index) const { return steps_[index]; }
  StepIndex size() const { return static_cast<StepIndex>(steps_.size()); }

  void emit(RunPayload payload) { events_.push_back({now_, std::move(payload)}); }

  void move_run(RunMoved moved) {
    auto to = next(run_table, status_, moved.trigger);
    invariant(to.has_value(), "decide drafted an illegal run transition");
    status_ = *to;
    emit(std::move(moved));
  }
  void move_run(RunTrigger trigger) { move_run(RunMoved{.trigger = trigger, .by = {}, .reason = {}, .diagnostic = {}}); }

  // Every step event passes here, so the overlay cannot drift from the table.
  void move_step(StepIndex index, StepTrigger trigger, RunPayload payload) {
    auto to = next(step_table, steps_[index], trigger);
    invariant(to.has_value(), "decide drafted an illegal step transition");
    steps_[index] = *to;
    emit(std::move(payload));
  }
  void move_step(StepIndex index, StepTrigger trigger) {
    move_step(index, trigger, StepMoved{run_.definition(index).id, trigger});
  }

  void request_approval(const StepDefinition& step) {
    ApprovalId id{derive_id(run_.id.bits, run_.seq + events_.size())};
    open_.push_back(id);
    emit(ApprovalRequested{id, step.id, step.approval, now_ + step.approval.expires});
  }
  void resolve(ApprovalId approval, ApprovalTrigger trigger, Actor by = {}, std::string reason = {}) {
    invariant(is_open(approval), "decide resolved an approval twice");
    std::erase(open_, approval);
    emit(ApprovalMoved{approval, trigger, std::move(by), std::move(reason)});
  }
  bool is_open(ApprovalId approval) const { return std::find(open_.begin(), open_.end(), approval) != open_.end(); }
  // Those that this very decision asked for are among them.
  std::vector<ApprovalId> open_approvals() const { return open_; }

  Decision done() && { return {std::move(events_), std::nullopt}; }
  Decision refused(RefusalCode code, std::string message) && {
    return {std::move(events_), Refusal{code, std::move(message)}};
  }

 private:
  const Run& run_;
  Instant now_;
  RunStatus status_;
  std::vector<StepStatus> steps_;
  std::vector<RunEvent> events_;
  std::vector<ApprovalId> open_;
};

Decision refuse(RefusalCode code, std::string message) { return {{}, Refusal{code, std::move(message)}}; }

// A caller's request that does not fit is audited in the run's own stream while that is open. A finished stream is
// sealed: the engine puts the audit of such a request into the tenant's stream.
Decision refuse_audited(const Run& run, Instant now, std::string_view requested, RefusalCode code, const Actor& by,
                        std::string message) {
  Decision out = refuse(code, std::move(message));
  if (!is_terminal(run.status))
    out.events.push_back({now, TransitionRefused{std::string(requested), std::string(to_string(run.status)),
                                                 std::string(to_string(code)), by}});
  return out;
}

bool needs_met(const Draft& draft, StepIndex index) {
  const auto& needs = draft.run().definition(index).needs;
  if (planted(Bug::unblock_before_needs) && needs.size() > 1) return draft.step(needs[0]) == StepStatus::succeeded;
  return std::all_of(needs.begin(), needs.end(),
                     [&](StepIndex need) { return draft.step(need) == StepStatus::succeeded; });
}

void open_gate(Draft& draft, StepIndex index) {
  draft.move_step(index, StepTrigger::open_gate);
  draft.request_approval(draft.run().definition(index));
}

// Unblocks what can go on, and ends, pauses or resumes the run accordingly. Called after every step's progress.
void settle(Draft& draft) {
  bool all_succeeded = true;
  bool any_active = false;
  for (StepIndex i = 0; i < draft.size(); ++i) {
    if (draft.step(i) == StepStatus::pending && needs_met(draft, i)) {
      // A gate waits for the run's start: what has not begun cannot be waiting for a person.
      if (!draft.run().definition(i).is_gate() || planted(Bug::gate_as_work))
        draft.move_step(i, StepTrigger::unblock);
      else if (draft.status() != RunStatus::created)
        open_gate(draft, i);
    }
    StepStatus status = draft.step(i);
    all_succeeded = all_succeeded && status == StepStatus::succeeded;
    any_active = any_active || status == StepStatus::ready || status == StepStatus::running ||
                 status == StepStatus::failed_retryable;
  }
  if (draft.status() == RunStatus::created) return;
  if ((all_succeeded || any_active) && draft.status() == RunStatus::waiting) draft.move_run(RunTrigger::resume);
  if (all_succeeded)
    draft.move_run(RunTrigger::succeed);
  else if (!any_active && draft.status() == RunStatus::running)
    draft.move_run(RunTrigger::pause);
}

void start(Draft& draft) { draft.move_run(RunTrigger::start); }

// What is unfinished ends with the run, in the same commit.
void cancel_unfinished(Draft& draft) {
  if (planted(Bug::forget_siblings)) return;
  for (ApprovalId approval : draft.open_approvals()) draft.resolve(approval, ApprovalTrigger::cancel);
  for (StepIndex i = 0; i < draft.size(); ++i)
    if (!is_terminal(draft.step(i))) draft.move_step(i, StepTrigger::cancel);
}

// Ends the run badly from wherever it is, by a path of legal transitions.
void end_badly(Draft& draft, RunTrigger trigger, std::shared_ptr<const Diagnostic> diagnostic) {
  cancel_unfinished(draft);
  if (draft.status() == RunStatus::created) start(draft);
  if (draft.status() == RunStatus::waiting) draft.move_run(RunTrigger::resume);
  draft.move_run(RunMoved{.trigger = trigger, .by = {}, .reason = {}, .diagnostic = std::move(diagnostic)});
}

std::shared_ptr<const Diagnostic> diagnostic_of_step(const Draft& draft, StepIndex index, Diagnostic diagnostic) {
  diagnostic.step = draft.run().definition(index).id;
  diagnostic.attempt = draft.run().steps[index].attempts;
  return std::make_shared<const Diagnostic>(std::move(diagnostic));
}

// A step failed for good: the run follows. Policy and people deny; everything else fails.
void fail_run_for(Draft& draft, StepIndex index, const std::shared_ptr<const Diagnostic>& why) {
  Diagnostic diagnostic = *why;
  // The step's name makes a message that just fitted too long; its end is still there to read, in the cause.
  diagnostic.message = diagnostic_message("step " + draft.run().definition(index).id.text + ": " + why->message);
  diagnostic.cause = why;
  bool denied = why->category == Category::policy || why->category == Category::approval;
  end_badly(draft, denied ? RunTrigger::deny : RunTrigger::fail,
            std::make_shared<const Diagnostic>(std::move(diagnostic)));
}

bool over_budget(const Run& run, Money added) {
  return run.budget && run.cost + added > *run.budget && !planted(Bug::ignore_budget);
}

Diagnostic budget_diagnostic(const Run& run, Money added, Instant now) {
  return diagnose("BUDGET_EXCEEDED",
                  "recorded cost " + print_money(run.cost + added) + " USD passes the budget of " +
                      print_money(*run.budget) + " USD",
                  now);
}

struct AttemptFailure {
  Diagnostic diagnostic;
  std::optional<Duration> retry_after;
  Money cost;
};

// The step failed for good, and the run with it.
void fail_for_good(Draft& draft, StepIndex index, Diagnostic diagnostic, Money cost) {
  auto why = diagnostic_of_step(draft, index, std::move(diagnostic));
  draft.move_step(index, StepTrigger::fail_terminal,
                  StepFailed{draft.run().definition(index).id, StepTrigger::fail_terminal, why, {}, cost});
  fail_run_for(draft, index, why);
}

// One attempt failed: again later if it may, otherwise for good.
void fail_attempt(Draft& draft, StepIndex index, AttemptFailure failure, Draws draws) {
  const Run& run = draft.run();
  const Step& step = run.steps[index];
  const StepDefinition& definition = run.definition(index);
  if (over_budget(run, failure.cost)) {
    auto cause = diagnostic_of_step(draft, index, std::move(failure.diagnostic));
    failure.diagnostic = budget_diagnostic(run, failure.cost, draft.now());
    failure.diagnostic.cause = cause;
  }
  bool was_last = step.attempts >= definition.retry.max_attempts && !planted(Bug::skip_retry_limit);
  if (!failure.diagnostic.retryable || was_last)
    return fail_for_good(draft, index, std::move(failure.diagnostic), failure.cost);
  auto diagnostic = diagnostic_of_step(draft, index, std::move(failure.diagnostic));
  Duration wait = retry_delay(definition.retry, step.attempts, draws.jitter);
  if (failure.retry_after) wait = std::max(wait, *failure.retry_after);
  if (planted(Bug::retry_at_once)) wait = {};
  // Never past the deadline: there the run ends as `timeout`, with this failure as its cause.
  Instant at = std::min(draft.now() + wait, run.deadline());
  draft.move_step(index, StepTrigger::fail_retryable,
                  StepFailed{definition.id, StepTrigger::fail_retryable, diagnostic, at, failure.cost});
  settle(draft);
}

// Nothing for a worker to complain about when its token is the live one.
std::optional<Refusal> lease_problem(const Run& run, StepIndex index, std::uint64_t token) {
  if (index < run.steps.size() && run.steps[index].status == StepStatus::running &&
      (run.steps[index].lease_token == token || planted(Bug::drop_token_check)))
    return std::nullopt;
  return Refusal{RefusalCode::lease_lost, "this lease is over; drop the work"};
}

Decision decide_command(const Run& run, const StartRun&, Instant now, Draws) {
  if (run.status != RunStatus::created || run.provider != Provider::native) return {};
  Draft draft(run, now);
  start(draft);
  settle(draft);
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const ClaimStep& command, Instant now, Draws) {
  Draft draft(run, now);
  StepIndex index = command.step;
  if (index >= run.steps.size()) return refuse(RefusalCode::not_claimable, "there is no such step");
  const Step& step = run.steps[index];
  const StepDefinition& definition = run.definition(index);
  bool again = is_reclaimable(run, index, now);
  if (!again && step.status != StepStatus::ready)
    return refuse(RefusalCode::not_claimable, "the step is " + std::string(to_string(step.status)));
  if (draft.status() == RunStatus::created) {
    start(draft);
    settle(draft);
  }
  auto trigger = again ? StepTrigger::reclaim : StepTrigger::claim;
  bool over_cap = command.writes && !step.wrote && command.writes_max && run.writes >= *command.writes_max;
  draft.move_step(index, trigger,
                  StepClaimed{definition.id, trigger, command.worker, step.lease_token + 1, now + definition.lease,
                              command.writes && !over_cap});
  // What cannot even begin ends here; the claim stands in the journal, so the attempt is accounted for.
  std::optional<Diagnostic> stillborn;
  if (command.input_error)
    stillborn = diagnose("EXPRESSION_FAILED", *command.input_error, now);
  else if (over_cap)
    stillborn = diagnose("WRITE_CAP_EXCEEDED",
                         "the run may write " + std::to_string(*command.writes_max) + " times and already has", now);
  if (stillborn) {
    stillborn->retryable = false;
    stillborn->attempt = step.attempts + 1;
    stillborn->step = definition.id;
    auto diagnostic = std::make_shared<const Diagnostic>(std::move(*stillborn));
    draft.move_step(index, StepTrigger::fail_terminal,
                    StepFailed{definition.id, StepTrigger::fail_terminal, diagnostic, {}, {}});
    fail_run_for(draft, index, diagnostic);
  }
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const CompleteStep& command, Instant now, Draws) {
  if (auto problem = lease_problem(run, command.step, command.token)) return {{}, problem};
  Draft draft(run, now);
  const StepDefinition& definition = run.definition(command.step);
  if (over_budget(run, command.cost)) {
    fail_for_good(draft, command.step, budget_diagnostic(run, command.cost, now), command.cost);
    return std::move(draft).done();
  }
  draft.move_step(command.step, StepTrigger::complete, StepCompleted{definition.id, command.output, command.cost});
  settle(draft);
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const FailStep& command, Instant now, Draws draws) {
  if (auto problem = lease_problem(run, command.step, command.token)) return {{}, problem};
  Draft draft(run, now);
  Diagnostic diagnostic = diagnose(command.error_code, command.message, now);
  if (command.retryable) diagnostic.retryable = *command.retryable;
  fail_attempt(draft, command.step, {std::move(diagnostic), command.retry_after, command.cost}, draws);
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const ReleaseStep& command, Instant now, Draws) {
  bool running = command.step < run.steps.size() && run.steps[command.step].status == StepStatus::running;
  if (auto problem = lease_problem(run, command.step, command.token))
    if (!running || !planted(Bug::release_by_stale_token)) return {{}, problem};
  Draft draft(run, now);
  draft.move_step(command.step, StepTrigger::release);
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const AskQuestion& command, Instant now, Draws) {
  if (auto problem = lease_problem(run, command.step, command.token)) return {{}, problem};
  Draft draft(run, now);
  const StepId& id = run.definition(command.step).id;
  draft.move_step(command.step, StepTrigger::ask, StepAsked{id, command.question});
  // An answer that came before the question is not lost: it answers now. One that answered an earlier question of
  // this step stands beside that question, and must not answer this one too.
  const Step& step = run.steps[command.step];
  if (step.question.empty() && !step.answer.empty())
    draft.move_step(command.step, StepTrigger::answer, StepAnswered{id, step.answer, {}, false});
  settle(draft);
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const AnswerQuestion& command, Instant now, Draws) {
  // A gate asks nothing: whoever "answers" it means to approve, and must not be told that this worked.
  if (is_terminal(run.status) || command.step >= run.steps.size() || is_terminal(run.steps[command.step].status) ||
      run.definition(command.step).is_gate())
    return refuse_audited(run, now, "answer", RefusalCode::nothing_waiting, command.by, "no question is open there");
  Draft draft(run, now);
  const StepId& id = run.definition(command.step).id;
  if (draft.step(command.step) != StepStatus::waiting_input) {
    draft.emit(StepAnswered{id, command.answer, command.by, true});
    return std::move(draft).done();
  }
  draft.move_step(command.step, StepTrigger::answer, StepAnswered{id, command.answer, command.by, false});
  settle(draft);
  return std::move(draft).done();
}

// The approval a request means, or why there is none to decide.
std::expected<const Approval*, Refusal> meant_approval(const Run& run, const ResolveApproval& command) {
  const Approval* only = nullptr;
  const Approval* latest = nullptr;
  for (const auto& approval : run.approvals) {
    latest = &approval;
    if (command.approval ? approval.id != *command.approval : approval.status != ApprovalStatus::requested) continue;
    if (only)
      return std::unexpected(Refusal{RefusalCode::ambiguous_approval,
                                     "several approvals are open: name one (" + only->id.str() + ", " +
                                         approval.id.str() + ", ...)"});
    only = &approval;
  }
  if (only) return only;
  if (command.approval)
    return std::unexpected(Refusal{RefusalCode::unknown_approval, "this run has no such approval"});
  if (latest) return latest;  // repeats are recognised by the caller
  return std::unexpected(Refusal{RefusalCode::nothing_waiting, "nothing waits for an approval in this run"});
}

void deny_approval(Draft& draft, const Approval& approval, ApprovalTrigger trigger, const Actor& by,
                   const std::string& reason) {
  draft.resolve(approval.id, trigger, by, reason);
  bool expired = trigger == ApprovalTrigger::expire;
  std::string message = expired ? "nobody decided before " + print_time(approval.expires_at)
                                : "rejected by " + by.text + (reason.empty() ? "" : ": " + reason);
  auto diagnostic = diagnostic_of_step(
      draft, approval.step,
      diagnose(expired ? "APPROVAL_EXPIRED" : "APPROVAL_REJECTED", std::move(message), draft.now()));
  draft.move_step(approval.step, StepTrigger::refuse,
                  StepFailed{draft.run().definition(approval.step).id, StepTrigger::refuse, diagnostic, {}, {}});
  fail_run_for(draft, approval.step, diagnostic);
}

void approve(Draft& draft, const Approval& approval, const Actor& by, const std::string& reason) {
  if (static_cast<int>(approval.votes.size()) + 1 < approval.terms.quorum) {
    draft.emit(ApprovalVoted{approval.id, by});
    return;
  }
  draft.resolve(approval.id, ApprovalTrigger::approve, by, reason);
  bool gate = draft.run().definition(approval.step).is_gate();
  draft.move_step(approval.step, gate ? StepTrigger::approve_gate : StepTrigger::approve_action);
  settle(draft);
}

Decision decide_command(const Run& run, const ResolveApproval& command, Instant now, Draws) {
  std::string_view requested = command.approve ? "approve" : "reject";
  auto refusal = [&](RefusalCode code, std::string message) {
    return refuse_audited(run, now, requested, code, command.by, std::move(message));
  };
  auto meant = meant_approval(run, command);
  if (!meant) return refusal(meant.error().code, meant.error().message);
  const Approval& approval = **meant;
  auto wanted = command.approve ? ApprovalStatus::approved : ApprovalStatus::rejected;
  if (approval.status == wanted) return {};  // a repeat: the same answer, nothing appended
  if (approval.status != ApprovalStatus::requested)
    return refusal(RefusalCode::already_resolved, "the approval is already " + std::string(to_string(approval.status)));
  // An expired one never executes, even when its timer has not fired yet.
  Draft draft(run, now);
  if (approval.expires_at <= now && !planted(Bug::approve_after_expiry)) {
    deny_approval(draft, approval, ApprovalTrigger::expire, {}, {});
    return std::move(draft).refused(RefusalCode::already_resolved, "the approval has expired");
  }
  if (approval.terms.two_person && command.by == run.created_by && !planted(Bug::approve_own_request))
    return refusal(RefusalCode::self_approval, "two people other than the one who asked must decide this");
  if (!command.approve) {
    deny_approval(draft, approval, ApprovalTrigger::reject, command.by, command.reason);
    return std::move(draft).done();
  }
  bool voted = std::any_of(approval.votes.begin(), approval.votes.end(),
                           [&](const Vote& vote) { return vote.by == command.by; });
  if (!voted || planted(Bug::count_one_person_twice)) approve(draft, approval, command.by, command.reason);
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const CancelRun& command, Instant now, Draws) {
  if (run.status == RunStatus::canceled) return {};  // a repeat
  if (is_terminal(run.status))
    return refuse(RefusalCode::run_ended, "the run has ended: " + std::string(to_string(run.status)));
  Draft draft(run, now);
  cancel_unfinished(draft);
  if (draft.status() == RunStatus::created) start(draft);
  draft.move_run(
      RunMoved{.trigger = RunTrigger::cancel, .by = command.by, .reason = command.reason, .diagnostic = {}});
  return std::move(draft).done();
}

void pass_deadline(Draft& draft) {
  const Run& run = draft.run();
  Diagnostic diagnostic =
      diagnose("RUN_TIMEOUT", "the run did not end within " + print_duration(*run.timeout), draft.now());
  for (const auto& step : run.steps)
    if (step.last_error && !is_terminal(step.status)) diagnostic.cause = step.last_error;
  end_badly(draft, RunTrigger::time_out, std::make_shared<const Diagnostic>(std::move(diagnostic)));
}

void pass_time_over_step(Draft& draft, StepIndex index, Draws draws) {
  const Step& step = draft.run().steps[index];
  const StepDefinition& definition = draft.run().definition(index);
  if (step.status == StepStatus::failed_retryable && step.next_eligible_at <= draft.now()) {
    draft.move_step(index, StepTrigger::due);
  } else if (step.status == StepStatus::running && step.started_at + definition.timeout <= draft.now()) {
    fail_attempt(draft, index,
                 {diagnose("TOOL_TIMEOUT", "no result within " + print_duration(definition.timeout), draft.now()), {}, {}},
                 draws);
  } else if (step.status == StepStatus::running && step.lease_expires_at <= draft.now() &&
             step.attempts >= definition.retry.max_attempts) {
    fail_attempt(draft, index,
                 {diagnose("LEASE_EXPIRED", "worker " + step.lease_owner.text + " was not heard of in time", draft.now()),
                  {}, {}},
                 draws);
  }
}

Decision decide_command(const Run& run, const TimePasses&, Instant now, Draws draws) {
  Draft draft(run, now);
  if (is_terminal(run.status)) return {};
  if (run.deadline() <= now) {
    pass_deadline(draft);
    return std::move(draft).done();
  }
  for (const auto& approval : run.approvals) {
    if (is_terminal(draft.status())) break;
    if (draft.is_open(approval.id) && approval.expires_at <= now)
      deny_approval(draft, approval, ApprovalTrigger::expire, {}, {});
  }
  for (StepIndex i = 0; i < draft.size() && !is_terminal(draft.status()); ++i) pass_time_over_step(draft, i, draws);
  return std::move(draft).done();
}

// Seed 002's rule for implementations: an undefined transition is rejected, audited, and fails the run.
Decision decide_command(const Run& run, const ReportRun& command, Instant now, Draws) {
  if (run.provider == Provider::native)
    return refuse(RefusalCode::not_external, "this run is carried by pawl itself; nobody else may report its status");
  Draft draft(run, now);
  bool needs_diagnostic = command.trigger == RunTrigger::fail || command.trigger == RunTrigger::deny ||
                          command.trigger == RunTrigger::time_out;
  if (next(run_table, run.status, command.trigger) && (!needs_diagnostic || command.diagnostic)) {
    bool ends_well = command.trigger == RunTrigger::succeed || command.trigger == RunTrigger::cancel;
    draft.move_run(RunMoved{command.trigger, command.by, command.reason, ends_well ? nullptr : command.diagnostic});
    return std::move(draft).done();
  }
  if (is_terminal(run.status))
    return refuse(RefusalCode::run_ended, "the run has ended: " + std::string(to_string(run.status)));
  std::string reported = std::string(to_string(command.trigger));
  std::string message = next(run_table, run.status, command.trigger)
                            ? "reported " + reported + " without a diagnostic"
                            : "reported " + reported + " while the run is " + std::string(to_string(run.status));
  draft.emit(TransitionRefused{reported, std::string(to_string(run.status)), "INVALID_STATE_TRANSITION", command.by});
  end_badly(draft, RunTrigger::fail,
            std::make_shared<const Diagnostic>(diagnose("INVALID_STATE_TRANSITION", message, now)));
  return std::move(draft).refused(RefusalCode::invalid_transition, std::move(message));
}

}  // namespace

Decision decide(const CreateRun& command, Instant now) {
  Run run;
  run.workflow = command.workflow;
  run.tenant = command.tenant;
  run.id = command.id;
  RunEvent created{now, RunCreated{.workflow = command.workflow->name,
                                   .version = command.workflow->version,
                                   .workflow_digest = command.workflow->digest,
                                   .workspace = command.workspace,
                                   .provider = command.provider,
                                   .input = command.input,
                                   .by = command.by,
                                   .trigger_type = command.trigger_type,
                                   .trigger_ref = command.trigger_ref,
                                   .idempotency = command.idempotency,
                                   .retry_of = command.retry_of,
                                   .budget = command.budget ? command.budget : command.workflow->budget,
                                   .timeout = command.timeout ? command.timeout : command.workflow->timeout}};
  evolve(run, created);
  Draft draft(run, now);
  settle(draft);
  Decision out = std::move(draft).done();
  out.events.insert(out.events.begin(), std::move(created));
  return out;
}

Decision decide(const Run& run, const RunCommand& command, Instant now, Draws draws) {
  return std::visit([&](const auto& concrete) { return decide_command(run, concrete, now, draws); }, command);
}

std::expected<CreateRun, Refusal> retry_of(const Run& run, RunId new_id, Actor by) {
  if (!is_terminal(run.status))
    return std::unexpected(Refusal{RefusalCode::run_not_ended, "the run is still " + std::string(to_string(run.status))});
  if (run.status == RunStatus::success)
    return std::unexpected(Refusal{RefusalCode::run_ended, "the run succeeded; start a new one instead of retrying"});
  return CreateRun{.tenant = run.tenant,
                   .id = new_id,
                   .workflow = run.workflow,
                   .workspace = run.workspace,
                   .provider = run.provider,
                   .input = run.input,
                   .by = std::move(by),
                   .trigger_type = "retry",
                   .trigger_ref = run.id.str(),
                   .idempotency = {},
                   .retry_of = run.id,
                   .budget = run.budget,
                   .timeout = run.timeout};
}

}  // namespace pawl
