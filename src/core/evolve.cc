#include <algorithm>

#include "core/decide.h"
#include "core/evolve_task.h"
#include "core/invariant.h"

namespace pawl {
namespace {

using Checked = std::expected<void, std::string>;

// Finds what an event names and moves it by its table; everything that can be wrong with an event is said here.
class RunFold {
 public:
  RunFold(Run& run, Instant at) : run_(run), at_(at) {}

  Checked operator()(const RunCreated& event) {
    if (run_.seq != 0) return invalid_event("a run is created once, first");
    if (auto checked = check_requesters(event); !checked) return checked;
    run_.workspace = event.workspace;
    run_.provider = event.provider;
    run_.input = event.input;
    run_.created_by = event.by;
    run_.other_requesters = event.other_requesters;
    run_.trigger_type = event.trigger_type;
    run_.trigger_ref = event.trigger_ref;
    run_.idempotency = event.idempotency;
    run_.retry_of = event.retry_of;
    run_.budget = event.budget;
    run_.timeout = event.timeout;
    run_.created_at = at_;
    if (run_.workflow->name.text == task_workflow_name) return begin_task(run_, at_);
    if (is_foreign(event.provider)) run_.foreign = std::make_shared<const Foreign>();
    if (event.provider == Provider::native) run_.steps.resize(run_.defined_steps());
    return {};
  }

  Checked operator()(const RunMoved& event) {
    auto to = next(run_table, run_.status, event.trigger);
    if (!to)
      return invalid_event("a run that is " + std::string(to_string(run_.status)) + " cannot " +
                           std::string(to_string(event.trigger)));
    if (ended_badly(*to) && !event.diagnostic)
      return invalid_event("a run became " + std::string(to_string(*to)) + " without a diagnostic");
    run_.status = *to;
    if (event.trigger == RunTrigger::start) run_.started_at = at_;
    if (is_terminal(*to)) run_.finished_at = at_;
    run_.diagnostic = event.diagnostic;
    return {};
  }

  Checked operator()(const StepMoved& event) {
    switch (event.trigger) {
      case StepTrigger::unblock:
      case StepTrigger::open_gate:
      case StepTrigger::gate:
      case StepTrigger::due:
      case StepTrigger::approve_action:
      case StepTrigger::approve_gate:
      case StepTrigger::cancel:
        break;
      case StepTrigger::open_wait:
      case StepTrigger::arrive:
      case StepTrigger::claim:
      case StepTrigger::reclaim:
      case StepTrigger::release:
      case StepTrigger::complete:
      case StepTrigger::ask:
      case StepTrigger::fail_retryable:
      case StepTrigger::fail_terminal:
      case StepTrigger::refuse:
      case StepTrigger::answer:
        return invalid_event("this step event lacks what it must carry");
    }
    return move(event.step, event.trigger, [&](Step& step, const StepDefinition&) -> Checked {
      if (event.trigger == StepTrigger::due) {
        if (step.next_eligible_at > at_) return invalid_event("a retry before its time");
        step.next_eligible_at = {};
      }
      if (event.trigger == StepTrigger::gate) suspend(step);
      if (event.trigger == StepTrigger::cancel) step.due_at = {};
      // A gate has no worker and hence no output of its own.
      if (event.trigger == StepTrigger::approve_gate) step.output = "null";
      return {};
    });
  }

  Checked operator()(const StepWaitOpened& event) {
    return move(event.step, StepTrigger::open_wait, [&](Step& step, const StepDefinition&) -> Checked {
      if (event.due_at.ms == 0) return invalid_event("a timer without a time");
      step.due_at = event.due_at;
      step.started_at = at_;
      return {};
    });
  }

  Checked operator()(const StepArrived& event) {
    return move(event.step, StepTrigger::arrive, [&](Step& step, const StepDefinition&) -> Checked {
      if (step.due_at > at_) return invalid_event("a timer fired before its time");
      step.due_at = {};
      step.output = event.output;
      return {};
    });
  }

  Checked operator()(const StepReleased& event) {
    return move(event.step, StepTrigger::release, [&](Step& step, const StepDefinition&) {
      suspend(step);
      if (event.cause == ReleaseCause::server_lost) step.server_losses += 1;
      return Checked{};
    });
  }

  Checked operator()(const StepClaimed& event) {
    if (event.trigger != StepTrigger::claim && event.trigger != StepTrigger::reclaim)
      return invalid_event("a claim cannot " + std::string(to_string(event.trigger)));
    return move(event.step, event.trigger, [&](Step& step, const StepDefinition& definition) -> Checked {
      if (definition.is_gate()) return invalid_event("a worker claimed an approval");
      if (definition.tool == wait_tool && definition.is_wait()) return invalid_event("a worker claimed a timer");
      if (event.token <= step.lease_token) return invalid_event("a lease token did not grow");
      if (step.attempts >= definition.retry.max_attempts) return invalid_event("more attempts than allowed");
      for (StepIndex need : definition.needs)
        if (run_.steps[need].status != StepStatus::succeeded) return invalid_event("a step ran before what it needs");
      step.lease_token = event.token;
      step.lease_holder = event.holder;
      step.attempts += 1;
      step.lease_owner = event.worker;
      step.lease_expires_at = event.lease_expires_at;
      step.started_at = at_;
      if (event.writes && !step.wrote) {
        auto index = static_cast<StepIndex>(&step - run_.steps.data());
        int before = writes_of(run_, index);
        step.wrote = true;
        run_.writes += writes_of(run_, index) - before;
      }
      return {};
    });
  }

  Checked operator()(const StepCompleted& event) {
    return move(event.step, StepTrigger::complete, [&](Step& step, const StepDefinition&) {
      step.output = event.output;
      charge(step, event.cost);
      return Checked{};
    });
  }

  Checked operator()(const StepFailed& event) {
    if (!event.diagnostic) return invalid_event("a step failed without a diagnostic");
    if (event.trigger != StepTrigger::fail_retryable && event.trigger != StepTrigger::fail_terminal &&
        event.trigger != StepTrigger::refuse)
      return invalid_event("a failure cannot " + std::string(to_string(event.trigger)));
    return move(event.step, event.trigger, [&](Step& step, const StepDefinition&) {
      step.last_error = event.diagnostic;
      step.next_eligible_at = event.next_eligible_at;
      charge(step, event.cost);
      return Checked{};
    });
  }

  Checked operator()(const StepAsked& event) {
    if (event.doubt && !find_receipt(run_, *event.doubt)) return invalid_event("a question about no receipt");
    return move(event.step, StepTrigger::ask, [&](Step& step, const StepDefinition&) {
      suspend(step);
      step.doubt = event.doubt;
      step.question = event.question;
      step.answer.clear();
      return Checked{};
    });
  }

  Checked operator()(const StepCharged& event) {
    Step* step = step_of(event.step);
    if (!step) return invalid_event("no step " + event.step.text);
    if (step->status != StepStatus::running) return invalid_event("a step was charged that is not running");
    charge(*step, event.cost);
    return {};
  }

  Checked operator()(const StepAnswered& event) {
    if (event.early) {
      Step* found = step_of(event.step);
      if (!found) return invalid_event("no step " + event.step.text);
      Step& step = *found;
      // With a question open it would be the answer, not an early one.
      if (step.status == StepStatus::waiting_input || is_terminal(step.status))
        return invalid_event("step " + event.step.text + " is " + std::string(to_string(step.status)) +
                             " and takes no early answer");
      step.answer = event.answer;
      step.question.clear();
      return {};
    }
    return move(event.step, StepTrigger::answer, [&](Step& step, const StepDefinition&) -> Checked {
      if (step.doubt && find_receipt(run_, *step.doubt)->status == ReceiptStatus::in_doubt)
        return invalid_event("a doubt was answered and the receipt is still in doubt");
      step.doubt.reset();
      step.answer = event.answer;
      return {};
    });
  }

  Checked operator()(const ApprovalRequested& event) {
    auto index = run_.find_step(event.step);
    if (!index || (!run_.foreign && *index >= run_.steps.size())) return invalid_event("no step " + event.step.text);
    if (event.callback.has_value() != (run_.foreign != nullptr))
      return invalid_event(
          "somebody waits for an approval in an engine that does not carry the run, or nobody where one does");
    if (event.callback)
      change_foreign([&](Foreign& foreign) { foreign.bound.push_back({event.approval, *event.callback, false, {}}); });
    run_.approvals.push_back({.id = event.approval,
                              .step = *index,
                              .status = ApprovalStatus::requested,
                              .terms = event.terms,
                              .proposal = event.proposal,
                              .policy_reason = event.policy_reason,
                              .requested_at = at_,
                              .expires_at = event.expires_at,
                              .resolved_at = {},
                              .votes = {},
                              .resolved_by = {},
                              .reason = {}});
    return {};
  }

  Checked operator()(const ApprovalVoted& event) {
    Approval* approval = find(event.approval);
    if (!approval || approval->status != ApprovalStatus::requested)
      return invalid_event("a vote on an approval that is not open");
    return vote(*approval, event.by, event.via, event.as);
  }

  Checked operator()(const ApprovalReminded& event) {
    Approval* approval = find(event.approval);
    if (!approval || approval->status != ApprovalStatus::requested)
      return invalid_event("a reminder of an approval that is not open");
    bool& told = event.escalates ? approval->escalated : approval->reminded;
    if (std::exchange(told, true)) return invalid_event("a second reminder of one approval");
    return {};
  }

  Checked operator()(const ApprovalMoved& event) {
    Approval* approval = find(event.approval);
    if (!approval) return invalid_event("no such approval");
    auto to = next(approval_table, approval->status, event.trigger);
    if (!to)
      return invalid_event("an approval that is " + std::string(to_string(approval->status)) + " cannot " +
                           std::string(to_string(event.trigger)));
    if (*to == ApprovalStatus::approved) {
      if (approval->expires_at <= at_) return invalid_event("an expired approval was approved");
      if (static_cast<int>(approval->votes.size()) + 1 < approval->terms.quorum)
        return invalid_event("approved without its quorum");
      if (auto voted = vote(*approval, event.by, event.via, event.as); !voted) return voted;
    }
    approval->status = *to;
    approval->resolved_at = at_;
    approval->resolved_by = event.by;
    approval->reason = event.reason;
    return {};
  }

  Checked operator()(const ReceiptIntended& event) {
    auto index = running_step(event.step);
    if (!index) return invalid_event(index.error());
    if (find_effect(run_, event.proposal->action.idempotency_key))
      return invalid_event("a second effect under one key");
    if (auto allowed = check_approval(event.approval, *index, *event.proposal, event.policy_reason); !allowed)
      return allowed;
    int before = writes_of(run_, *index);
    run_.receipts.push_back({.id = event.receipt,
                             .step = *index,
                             .proposal = event.proposal,
                             .policy_reason = event.policy_reason,
                             .approval = event.approval,
                             .proposed_by = event.by,
                             .by_program = event.by_program,
                             .token = run_.steps[*index].lease_token,
                             .intended_at = at_});
    run_.writes += writes_of(run_, *index) - before;
    return {};
  }

  Checked operator()(const ReceiptRepeated& event) {
    Receipt* receipt = receipt_of(event.receipt);
    if (!receipt || receipt->status != ReceiptStatus::in_doubt)
      return invalid_event("a call was repeated that is not in doubt");
    if (!receipt->proposal->idempotent) return invalid_event("a call in doubt was repeated that is not idempotent");
    const Step& step = run_.steps[receipt->step];
    if (step.status != StepStatus::running) return invalid_event("a call was repeated for a step that is not running");
    const Proposal& proposal = event.proposal ? *event.proposal : *receipt->proposal;
    if (!is_same_effect(proposal.action, receipt->proposal->action) || !proposal.idempotent)
      return invalid_event("a call was repeated as another one");
    if (auto allowed = check_approval(event.approval, receipt->step, proposal, event.policy_reason); !allowed)
      return allowed;
    if (event.proposal) receipt->proposal = event.proposal;
    receipt->proposed_by = event.by;
    receipt->policy_reason = event.policy_reason;
    receipt->approval = event.approval;
    receipt->token = step.lease_token;
    receipt->calls += 1;
    return {};
  }

  Checked operator()(const ReceiptMoved& event) {
    Receipt* receipt = receipt_of(event.receipt);
    if (!receipt) return invalid_event("no such receipt");
    auto to = next(receipt_table, receipt->status, event.trigger);
    if (!to)
      return invalid_event("a receipt that is " + std::string(to_string(receipt->status)) + " cannot " +
                           std::string(to_string(event.trigger)));
    if (event.trigger == ReceiptTrigger::reverse && !event.reversed_by) return invalid_event("undone by nothing");
    receipt->status = *to;
    receipt->resolved_at = at_;
    receipt->resolved_by = event.by;
    if (event.trigger == ReceiptTrigger::reverse) {
      receipt->reversed_by = event.reversed_by;
      return {};
    }
    receipt->error_code = event.error_code;
    receipt->message = event.message;
    receipt->is_reported = event.is_reported;
    receipt->response = event.response;
    receipt->undo = event.undo;
    return {};
  }

  Checked operator()(const ActionDenied& event) { return checked(running_step(event.step)); }
  Checked operator()(const ActionFound& event) { return checked(running_step(event.step)); }
  Checked operator()(const TaskMoved& event) { return evolve_task(run_, event, at_); }
  Checked operator()(const TaskAsked& event) { return evolve_task(run_, event, at_); }
  Checked operator()(const TaskSubtask& event) { return evolve_task(run_, event, at_); }
  Checked operator()(const TaskChanged& event) { return evolve_task(run_, event, at_); }
  Checked operator()(const TaskDeleted& event) { return evolve_task(run_, event, at_); }
  Checked operator()(const TransitionRefused&) { return {}; }

  Checked operator()(const RunObserved& event) {
    if (!run_.foreign) return invalid_event("a run was seen elsewhere that nobody carries there");
    if (is_terminal(run_.status)) return invalid_event("a run that has ended was seen again");
    if (event.retries < run_.foreign->retries) return invalid_event("retries were forgotten");
    change_foreign([&](Foreign& foreign) {
      foreign.id = event.id;
      foreign.state = event.state;
      foreign.sub_state = event.sub_state;
      foreign.retries = event.retries;
      foreign.next_retry_at = event.next_retry_at;
      foreign.last_failure = event.last_failure;
      foreign.output = event.output;
    });
    return {};
  }

  Checked operator()(const ApprovalTold& event) {
    if (!run_.foreign) return invalid_event("somebody was told of an approval who does not carry the run");
    const Approval* approval = find(event.approval);
    if (!approval || !is_terminal(approval->status))
      return invalid_event("somebody was told of an approval that is not decided");
    bool found = false;
    change_foreign([&](Foreign& foreign) {
      for (Foreign::Bound& each : foreign.bound) {
        if (each.approval != event.approval || each.told) continue;
        each.told = found = true;
        each.problem = event.problem;
      }
    });
    return found ? Checked{} : invalid_event("nobody there waits for this approval");
  }

 private:
  // `change` sees the step as it was and touches nothing before it is content: a refused event leaves no trace.
  template <class Change>
  Checked move(const StepId& id, StepTrigger trigger, Change change) {
    auto index = run_.find_step(id);
    if (!index || *index >= run_.steps.size()) return invalid_event("no step " + id.text);
    Step& step = run_.steps[*index];
    auto to = next(step_table, step.status, trigger);
    if (!to)
      return invalid_event("step " + id.text + " is " + std::string(to_string(step.status)) + " and cannot " +
                           std::string(to_string(trigger)));
    if (auto changed = change(step, run_.definition(*index)); !changed) return changed;
    step.status = *to;
    if (is_terminal(*to)) step.finished_at = at_;
    return {};
  }

  std::expected<StepIndex, std::string> running_step(const StepId& id) const {
    auto index = run_.find_step(id);
    if (!index || *index >= run_.steps.size()) return invalid_event("no step " + id.text);
    if (run_.steps[*index].status != StepStatus::running)
      return invalid_event("step " + id.text + " acts and is not running");
    return *index;
  }
  static Checked checked(const std::expected<StepIndex, std::string>& index) {
    return index ? Checked{} : invalid_event(index.error());
  }

  // No effect without an approval of exactly this action, under exactly this policy, where one is claimed.
  Checked check_approval(std::optional<ApprovalId> id, StepIndex step, const Proposal& proposal,
                         const PolicyReason& policy_reason) {
    if (!id) return {};
    const Approval* approval = find(*id);
    if (!approval || approval->step != step || approval->status != ApprovalStatus::approved || !approval->proposal)
      return invalid_event("an effect without the approval that it names");
    if (approval->proposal->digest != proposal.digest)
      return invalid_event("an effect that is not the one that was approved");
    if (approval->policy_reason.policy_version != policy_reason.policy_version)
      return invalid_event("an effect under another policy than it was approved under");
    return {};
  }

  template <class Change>
  void change_foreign(Change change) {
    Foreign changed = *run_.foreign;
    change(changed);
    run_.foreign = std::make_shared<const Foreign>(std::move(changed));
  }

  static Checked check_requesters(const RunCreated& event) {
    const std::vector<Actor>& others = event.other_requesters;
    if (others.size() >= requesters_max) return invalid_event("a run has too many requesters");
    for (auto each = others.begin(); each != others.end(); ++each)
      if (each->empty() || *each == event.by || std::find(others.begin(), each, *each) != each)
        return invalid_event("a requester of a run is named twice, or has no name");
    return {};
  }

  Receipt* receipt_of(ReceiptId id) { return const_cast<Receipt*>(find_receipt(run_, id)); }

  // Waiting for a person is no failure, nor is a worker or a server that stops: the attempt goes on, under a new lease,
  // and that claim counts it again. Otherwise a question in the last attempt could never be answered.
  static void suspend(Step& step) { step.attempts -= 1; }

  void charge(Step& step, Money cost) {
    step.cost = step.cost + cost;
    run_.cost = run_.cost + cost;
  }

  Step* step_of(const StepId& id) {
    auto index = run_.find_step(id);
    return index && *index < run_.steps.size() ? &run_.steps[*index] : nullptr;
  }

  Approval* find(ApprovalId id) {
    auto it = std::find_if(run_.approvals.begin(), run_.approvals.end(), [&](const Approval& a) { return a.id == id; });
    return it == run_.approvals.end() ? nullptr : &*it;
  }

  Checked vote(Approval& approval, const Actor& by, const Actor& via, const std::string& as) {
    for (const Vote& earlier : approval.votes)
      if (earlier.by == by) return invalid_event("one person voted twice");
    if (approval.terms.two_person && is_requester(run_, by))
      return invalid_event("one who asked for the run approved it");
    if (!is_entitled(approval, by, as)) return invalid_event("somebody approved whom the approval does not name");
    approval.votes.push_back({by, via, at_, as});
    return {};
  }

  Run& run_;
  Instant at_;
};

}  // namespace

Checked evolve_checked(Run& run, const RunEvent& event) {
  if (run.seq == 0 && !std::holds_alternative<RunCreated>(event.payload))
    return invalid_event("the first event must create the run");
  if (run.task && !concerns_task(event.payload)) return invalid_event("an event of a run in the stream of a task");
  // What an effect came to may turn out, or be undone, after the run that had it is over. Nothing else may follow.
  if (!run.task && is_terminal(run.status) && !std::holds_alternative<ReceiptMoved>(event.payload))
    return invalid_event("an event after the run ended");
  auto folded = std::visit(RunFold(run, event.at), event.payload);
  if (folded) run.seq += 1;
  return folded;
}

void evolve(Run& run, const RunEvent& event) {
  auto folded = evolve_checked(run, event);
  if (!folded) [[unlikely]]
    invariant(false, folded.error());
}

std::expected<RunEvent, std::string> fold_line(Run& run, std::string_view line) {
  auto event = parse_run_event(line);
  auto folded = event ? evolve_checked(run, *event) : std::unexpected(event.error());
  if (!folded)
    return invalid_event("the journal of " + run.id.str() + " is damaged at event " + std::to_string(run.seq + 1) +
                         ": " + folded.error());
  return event;
}

std::expected<Run, std::string> fold_lines(TenantId tenant, RunId id, const Workflow& workflow,
                                           std::string_view lines) {
  Run run;
  run.workflow = &workflow;
  run.tenant = tenant;
  run.id = id;
  while (!lines.empty()) {
    std::size_t end = lines.find('\n');
    if (end == lines.npos) return invalid_event("the journal of " + id.str() + " ends in mid-line");
    if (auto folded = fold_line(run, lines.substr(0, end)); !folded) return invalid_event(folded.error());
    lines.remove_prefix(end + 1);
  }
  return run;
}

}  // namespace pawl
