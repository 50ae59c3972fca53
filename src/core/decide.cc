#include "core/decide.h"

#include <boost/json/object.hpp>

#include "core/draft.h"

namespace pawl {
namespace {

bool over_budget(const Run& run, Money added) { return run.budget && run.cost + added > *run.budget; }

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

// One attempt failed: again later if it may, otherwise for good.
void fail_attempt(Draft& draft, StepIndex index, AttemptFailure failure, Draws draws) {
  const Run& run = draft.run();
  const Step& step = run.steps[index];
  const StepDefinition& definition = run.definition(index);
  if (failure.diagnostic.error_code == "TOOL_TIMEOUT") draft.end_agent_session(index, "its step timed out");
  if (over_budget(run, failure.cost)) {
    auto cause = diagnostic_of_step(draft, index, std::move(failure.diagnostic));
    failure.diagnostic = budget_diagnostic(run, failure.cost, draft.now());
    failure.diagnostic.cause = cause;
  }
  bool was_last = step.attempts >= definition.retry.max_attempts;
  if (!failure.diagnostic.retryable || was_last)
    return fail_for_good(draft, index, std::move(failure.diagnostic), failure.cost);
  auto diagnostic = diagnostic_of_step(draft, index, std::move(failure.diagnostic));
  Duration wait = retry_delay(definition.retry, step.attempts, draws.jitter);
  if (failure.retry_after) wait = std::max(wait, *failure.retry_after);
  // Never past the deadline: there the run ends as `timeout`, with this failure as its cause.
  Instant at = std::min(draft.now() + wait, run.deadline());
  draft.move_step(index, StepTrigger::fail_retryable,
                  StepFailed{definition.id, StepTrigger::fail_retryable, diagnostic, at, failure.cost, draft.by()});
  settle(draft);
}

Decision decide_command(const Run& run, const StartRun&, Instant now, Draws) {
  if (run.status != RunStatus::created || run.provider != Provider::native) return {};
  Draft draft(run, now);
  start(draft);
  settle(draft);
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const ClaimStep& command, Instant now, Draws) {
  const auto place = find_own_step(run, command.step);
  if (!place) return refuse(RefusalCode::not_claimable, "there is no such step");
  Draft draft(run, now);
  const StepIndex index = *place;
  const Step& step = run.steps[index];
  const StepDefinition& definition = run.definition(index);
  bool again = is_reclaimable(run, index, now);
  if (!again && step.status != StepStatus::ready)
    return refuse(RefusalCode::not_claimable, "the step is " + std::string(to_string(step.status)));
  if (draft.status() == RunStatus::created) {
    start(draft);
    settle(draft);
    if (is_terminal(draft.status())) return std::move(draft).done();  // a timer's time cannot be evaluated
  }
  auto trigger = again ? StepTrigger::reclaim : StepTrigger::claim;
  bool over_cap =
      command.writes && writes_of(run, index) == 0 && command.writes_max && run.writes >= *command.writes_max;
  draft.move_step(index, trigger,
                  StepClaimed{definition.id, trigger, command.worker, step.lease_token + 1,
                              now + lease_term(definition, command.worker, command.holder.has_value()),
                              command.writes && !over_cap, command.holder});
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
  const auto index = leased_step(run, command.step, command.proof, ReportOf::holder);
  if (!index) return {{}, index.error()};
  if (auto problem = outcome_problem(run, *index)) return {{}, problem};
  Draft draft(run, now, reporter_of(run, *index, command.proof));
  const StepDefinition& definition = run.definition(*index);
  if (over_budget(run, command.cost)) {
    fail_for_good(draft, *index, budget_diagnostic(run, command.cost, now), command.cost);
    return std::move(draft).done();
  }
  draft.move_step(*index, StepTrigger::complete,
                  StepCompleted{definition.id, command.output, command.cost, draft.take_by()});
  settle(draft);
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const FailStep& command, Instant now, Draws draws) {
  const auto index = leased_step(run, command.step, command.proof, ReportOf::holder);
  if (!index) return {{}, index.error()};
  Draft draft(run, now, reporter_of(run, *index, command.proof));
  Diagnostic diagnostic = diagnose(command.error_code, command.message, now);
  if (command.retryable) diagnostic.retryable = *command.retryable;
  fail_attempt(draft, *index, {std::move(diagnostic), command.retry_after, command.cost}, draws);
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const ChargeStep& command, Instant now, Draws) {
  const auto index = leased_step(run, command.step, command.proof, ReportOf::holder);
  if (!index) return {{}, index.error()};
  if (command.cost.micros < 0) return refuse(RefusalCode::invalid, "a cost cannot be less than nothing");
  Draft draft(run, now, reporter_of(run, *index, command.proof));
  if (over_budget(run, command.cost)) {
    draft.end_tool_call(*index, "BUDGET_EXCEEDED", "it was ended because the run's budget is used up");
    fail_for_good(draft, *index, budget_diagnostic(run, command.cost, now), command.cost);
  } else if (command.cost.micros > 0)
    draft.emit(StepCharged{run.definition(*index).id, command.cost, draft.by()});
  return std::move(draft).done();
}

bool is_running(const Run& run, const StepId& step) {
  const auto index = find_own_step(run, step);
  return index && run.steps[*index].status == StepStatus::running;
}

Decision decide_command(const Run& run, const ReleaseStep& command, Instant now, Draws) {
  auto index = leased_step(run, command.step, command.proof, ReportOf::holder);
  if (!index) return {{}, index.error()};
  Draft draft(run, now, reporter_of(run, *index, command.proof));
  draft.move_step(*index, StepTrigger::release, StepReleased{command.step, ReleaseCause::worker, draft.by()});
  return std::move(draft).done();
}

void release(Draft& draft, StepIndex index, ReleaseCause cause) {
  draft.move_step(index, StepTrigger::release, StepReleased{draft.run().definition(index).id, cause});
}

Decision decide_command(const Run& run, const WithdrawLease& command, Instant now, Draws) {
  if (!is_running(run, command.step)) return {};
  Draft draft(run, now);
  release(draft, *run.find_step(command.step), command.cause);
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const AskQuestion& command, Instant now, Draws) {
  const auto index = leased_step(run, command.step, command.proof, ReportOf::program_too);
  if (!index) return {{}, index.error()};
  Draft draft(run, now, reporter_of(run, *index, command.proof));
  const StepId& id = run.definition(*index).id;
  if (command.proof.is_program()) draft.end_tool_call(*index, "AGENT_INTERRUPTED", "it waits for an answer");
  draft.move_step(*index, StepTrigger::ask, StepAsked{id, command.question, {}, draft.by()});
  // An answer that came before the question is not lost: it answers now. One that answered an earlier question of
  // this step stands beside that question, and must not answer this one too.
  const Step& step = run.steps[*index];
  if (step.question.empty() && !step.answer.empty())
    draft.move_step(*index, StepTrigger::answer, StepAnswered{id, step.answer, {}, false});
  settle(draft);
  return std::move(draft).done();
}

std::optional<bool> says_happened(const JsonText& answer) {
  auto value = parse_json(answer);
  const Json* said = value && value->is_object() ? value->get_object().if_contains("happened") : nullptr;
  return said && said->is_bool() ? std::optional(said->get_bool()) : std::nullopt;
}

Decision decide_command(const Run& run, const AnswerQuestion& command, Instant now, Draws) {
  // A gate asks nothing: whoever "answers" it means to approve, and must not be told that this worked. Nor does a
  // timer.
  const auto index = find_own_step(run, command.step);
  if (is_terminal(run.status) || !index || is_terminal(run.steps[*index].status) || run.definition(*index).is_gate() ||
      run.definition(*index).is_wait())
    return refuse_audited(run, now, "answer", RefusalCode::nothing_waiting, command.by, "no question is open there");
  Draft draft(run, now);
  const StepId& id = command.step;
  if (draft.step(*index) != StepStatus::waiting_input) {
    draft.emit(StepAnswered{id, command.answer, command.by, true});
    return std::move(draft).done();
  }
  if (auto doubt = run.steps[*index].doubt) {
    auto happened = says_happened(command.answer);
    if (!happened)
      return refuse(RefusalCode::invalid, R"(say whether it happened: {"happened": true} or {"happened": false})",
                    "/answer/happened");
    // Several steps may have asked about one effect: the first answer resolves it.
    const Receipt& receipt = *find_receipt(run, *doubt);
    if (receipt.status == ReceiptStatus::in_doubt) settle_doubt(draft, receipt, *happened, command.by);
  }
  draft.move_step(*index, StepTrigger::answer, StepAnswered{id, command.answer, command.by, false});
  settle(draft);
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const CancelRun& command, Instant now, Draws) {
  if (run.status == RunStatus::canceled) return {};  // a repeat
  if (is_terminal(run.status))
    return refuse(RefusalCode::run_ended, "the run has ended: " + std::string(to_string(run.status)));
  Draft draft(run, now);
  cancel_unfinished(draft);
  if (draft.status() == RunStatus::created) start(draft);
  draft.move_run(RunMoved{.trigger = RunTrigger::cancel, .by = command.by, .reason = command.reason, .diagnostic = {}});
  return std::move(draft).done();
}

void pass_deadline(Draft& draft) {
  const Run& run = draft.run();
  Diagnostic diagnostic =
      diagnose("RUN_TIMEOUT", "the run did not end within " + print_duration(*run.timeout), draft.now());
  for (const auto& step : run.steps)
    if (step.last_error && !is_terminal(step.status)) diagnostic.cause = step.last_error;
  if (run.foreign && !run.foreign->last_failure.empty())
    diagnostic.cause =
        std::make_shared<const Diagnostic>(diagnose("PROVIDER_RUN_FAILED", run.foreign->last_failure, draft.now()));
  end_badly(draft, RunTrigger::time_out, std::make_shared<const Diagnostic>(std::move(diagnostic)));
}

bool is_due(const Step& wait, Instant now) { return wait.due_at <= now; }

JsonText output_of_wait(const StepDefinition& definition, const Step& step) {
  if (definition.tool == sleep_tool)
    return R"({"slept_ms":)" + std::to_string((step.due_at - step.started_at).count()) + "}";
  return R"({"due_at":")" + print_time(step.due_at) + R"("})";
}

// The server that executed the step is gone. That is no failure of the step, unless it happens again and again.
void lose_server(Draft& draft, StepIndex index) {
  const int losses = draft.run().steps[index].server_losses + 1;
  if (losses < server_losses_max) return release(draft, index, ReleaseCause::server_lost);
  fail_for_good(draft, index,
                diagnose("SERVER_LOST", "the server died " + std::to_string(losses) + " times while it ran this step",
                         draft.now()),
                {});
}

void pass_time_over_step(Draft& draft, StepIndex index, Draws draws) {
  const Step& step = draft.run().steps[index];
  const StepDefinition& definition = draft.run().definition(index);
  if (step.status == StepStatus::failed_retryable && step.next_eligible_at <= draft.now()) {
    draft.move_step(index, StepTrigger::due);
  } else if (step.status == StepStatus::waiting_event && is_due(step, draft.now())) {
    draft.move_step(index, StepTrigger::arrive, StepArrived{definition.id, output_of_wait(definition, step)});
    settle(draft);
  } else if (step.status == StepStatus::running && step.lease_expires_at <= draft.now() && is_in_process(step)) {
    lose_server(draft, index);
  } else if (step.status == StepStatus::running && step.started_at + definition.timeout <= draft.now()) {
    fail_attempt(
        draft, index,
        {diagnose("TOOL_TIMEOUT", "no result within " + print_duration(definition.timeout), draft.now()), {}, {}},
        draws);
  } else if (step.status == StepStatus::running && step.lease_expires_at <= draft.now() &&
             step.attempts >= definition.retry.max_attempts) {
    fail_attempt(
        draft, index,
        {diagnose("LEASE_EXPIRED", "worker " + step.lease_owner.text + " was not heard of in time", draft.now()),
         {},
         {}},
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
    if (!draft.is_open(approval.id)) continue;
    if (approval.expires_at <= now)
      deny_approval(draft, approval, ApprovalTrigger::expire, {}, {});
    else
      remind_of_approval(draft, approval);
  }
  for (StepIndex i = 0; i < draft.size() && !is_terminal(draft.status()); ++i) pass_time_over_step(draft, i, draws);
  return std::move(draft).done();
}

// Contract v1's rule for implementations: an undefined transition is rejected, audited, and fails the run.
Decision decide_command(const Run& run, const ReportRun& command, Instant now, Draws) {
  auto not_external = [&](std::string message) {
    return refuse_audited(run, now, to_string(command.trigger), RefusalCode::not_external, command.by,
                          std::move(message));
  };
  if (run.provider == Provider::native)
    return not_external("this run is executed by pawl itself; nobody else may report its status");
  if (is_foreign(run.provider))
    return not_external("pawl looks at this run itself, at " + std::string(to_string(run.provider)) +
                        "; nobody else may report its status");
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
                                   .timeout = command.timeout ? command.timeout : command.workflow->timeout,
                                   .other_requesters = command.other_requesters}};
  evolve(run, created);
  Draft draft(run, now);
  // It is handed over from here on, so its time runs, whether or not anybody answers there.
  if (run.foreign)
    start(draft);
  else
    settle(draft);
  Decision out = std::move(draft).done();
  out.events.insert(out.events.begin(), std::move(created));
  return out;
}

Decision decide(const Run& run, const RunCommand& command, Instant now, Draws draws) {
  return std::visit([&](const auto& concrete) { return decide_command(run, concrete, now, draws); }, command);
}

std::expected<std::vector<Actor>, Refusal> other_requesters_of(const Actor& creator, const std::vector<Actor>& all) {
  std::vector<Actor> out;
  for (const Actor& each : all)
    if (!each.empty() && each != creator && std::ranges::find(out, each) == out.end()) out.push_back(each);
  if (out.size() >= requesters_max)
    return std::unexpected(Refusal{RefusalCode::invalid, "more than " + std::to_string(requesters_max) +
                                                             " people and keys have asked for this run, its retries "
                                                             "and tasks included; start a new run or task instead"});
  return out;
}

std::expected<CreateRun, Refusal> retry_of(const Run& run, RunId new_id, Actor by) {
  if (!is_terminal(run.status))
    return std::unexpected(
        Refusal{RefusalCode::run_not_ended, "the run is still " + std::string(to_string(run.status))});
  if (run.status == RunStatus::success)
    return std::unexpected(Refusal{RefusalCode::run_ended, "the run succeeded; start a new one instead of retrying"});
  auto others = other_requesters_of(by, requesters_of(run));
  if (!others) return std::unexpected(std::move(others.error()));
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
                   .timeout = run.timeout,
                   .other_requesters = std::move(*others)};
}

}  // namespace pawl
