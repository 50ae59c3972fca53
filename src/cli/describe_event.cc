#include <fmt/format.h>

#include <algorithm>

#include "cli/describe.h"

namespace pawl {
namespace {

Ink ink_of(StepStatus status) {
  switch (status) {
    case StepStatus::succeeded:
      return Ink::green;
    case StepStatus::failed_terminal:
      return Ink::red;
    case StepStatus::failed_retryable:
    case StepStatus::waiting_approval:
    case StepStatus::waiting_input:
      return Ink::yellow;
    case StepStatus::running:
    case StepStatus::waiting_event:
      return Ink::blue;
    case StepStatus::pending:
    case StepStatus::ready:
    case StepStatus::canceled:
      return Ink::dim;
  }
  return Ink::plain;
}

std::string by(const Actor& actor) { return actor.empty() ? "" : "by " + person_name(actor); }

std::string joined(std::string a, const std::string& b) {
  if (!a.empty() && !b.empty()) a += ", ";
  return a + b;
}

std::string cost_words(Money cost) { return cost.micros > 0 ? print_usd(cost) : ""; }

class EventReader {
 public:
  EventReader(const Run& run, Instant at, Vocabulary vocabulary) : run_(run), at_(at), vocabulary_(vocabulary) {}

  EventWords operator()(const RunCreated& event) const {
    return {"run", std::string(run_word(vocabulary_, run_)),
            joined(fmt::format("{} v{}", event.workflow.text, event.version), by(event.by)), Ink::dim};
  }
  EventWords operator()(const RunMoved& event) const {
    std::string more = event.diagnostic
                           ? fmt::format("{}: {}", event.diagnostic->error_code, printable(event.diagnostic->message))
                           : joined(by(event.by), printable(event.reason));
    return {"run", std::string(run_word(vocabulary_, run_)), std::move(more), pawl::ink_of(run_.status)};
  }
  EventWords operator()(const StepMoved& event) const { return step(event.step, ""); }
  EventWords operator()(const StepWaitOpened& event) const {
    return step(event.step, "until " + print_time(event.due_at));
  }
  EventWords operator()(const StepArrived& event) const {
    auto index = run_.find_step(event.step);
    return step(event.step, print_elapsed(at_ - run_.steps[*index].started_at));
  }
  EventWords operator()(const StepReleased& event) const {
    switch (event.cause) {
      case ReleaseCause::worker:
        return step(event.step, by(event.by));
      case ReleaseCause::server_lost:
        return step(event.step, "the server that ran it died; no attempt is counted");
      case ReleaseCause::suspended:
        return step(event.step, "the tenant is suspended; no attempt is counted");
    }
    return step(event.step, "");
  }
  EventWords operator()(const StepClaimed& event) const {
    auto index = run_.find_step(event.step);
    const StepDefinition& definition = run_.definition(*index);
    return step(event.step,
                fmt::format("{}, attempt {}/{}{}", definition.tool.text, run_.steps[*index].attempts,
                            definition.retry.max_attempts,
                            event.trigger == StepTrigger::reclaim ? ", taken over from a lost worker" : ""));
  }
  EventWords operator()(const StepCompleted& event) const {
    auto index = run_.find_step(event.step);
    return step(event.step, joined(print_elapsed(at_ - run_.steps[*index].started_at), cost_words(event.cost)));
  }
  EventWords operator()(const StepFailed& event) const {
    std::string more = fmt::format("{}: {}", event.diagnostic->error_code, printable(event.diagnostic->message));
    if (event.trigger == StepTrigger::fail_retryable)
      more = fmt::format("retry in {}, {}", print_elapsed(event.next_eligible_at - at_), more);
    return step(event.step, joined(std::move(more), cost_words(event.cost)));
  }
  EventWords operator()(const StepCharged& event) const { return step(event.step, cost_words(event.cost)); }
  EventWords operator()(const StepAsked& event) const { return step(event.step, printable(event.question)); }
  EventWords operator()(const StepAnswered& event) const {
    return step(event.step, joined(by(event.by), printable(event.answer)));
  }
  EventWords operator()(const ApprovalRequested& event) const {
    return approval(event.approval, "requested", "", Ink::yellow);
  }
  EventWords operator()(const ApprovalTold& event) const {
    bool arrived = event.problem.empty();
    return approval(event.approval, arrived ? "told" : "not told", printable(event.problem),
                    arrived ? Ink::green : Ink::red);
  }
  EventWords operator()(const ApprovalReminded& event) const {
    std::string to;
    for (const std::string& name : event.to) (to += to.empty() ? "to " : ", ") += printable(name);
    return approval(event.approval, event.escalates ? "escalated" : "reminded", std::move(to), Ink::yellow);
  }
  EventWords operator()(const RunObserved& event) const {
    std::string more = fmt::format("{} at {}", event.state.empty() ? "not seen yet" : printable(event.state),
                                   to_string(run_.provider));
    if (event.retries > 0) more = joined(std::move(more), fmt::format("retry {}", event.retries));
    return {"run", std::string(to_string(event.sub_state)), joined(std::move(more), printable(event.last_failure)),
            pawl::ink_of(run_.status)};
  }
  EventWords operator()(const ApprovalVoted& event) const {
    return approval(event.approval, "vote", by(event.by), Ink::yellow);
  }
  EventWords operator()(const ApprovalMoved& event) const {
    Ink ink = event.trigger == ApprovalTrigger::approve  ? Ink::green
              : event.trigger == ApprovalTrigger::cancel ? Ink::dim
                                                         : Ink::red;
    auto found = std::ranges::find(run_.approvals, event.approval, &Approval::id);
    std::string word(found == run_.approvals.end() ? "" : to_string(found->status));
    return approval(event.approval, std::move(word), joined(by(event.by), printable(event.reason)), ink);
  }
  EventWords operator()(const ReceiptIntended& event) const {
    std::string more = action_words(event.proposal->action);
    if (!event.policy_reason.rule.empty())
      more = joined(std::move(more), "rule " + printable(event.policy_reason.rule));
    return receipt(event.receipt, "effect intended", std::move(more), Ink::blue);
  }
  EventWords operator()(const ReceiptRepeated& event) const {
    return receipt(event.receipt, "effect repeated", "it was in doubt", Ink::yellow);
  }
  EventWords operator()(const ReceiptMoved& event) const {
    Ink ink = event.trigger == ReceiptTrigger::succeed ? Ink::green
              : event.trigger == ReceiptTrigger::fail  ? Ink::red
                                                       : Ink::yellow;
    const Receipt* found = find_receipt(run_, event.receipt);
    std::string word = "effect ";
    word += found ? to_string(found->status) : "";
    return receipt(event.receipt, std::move(word), joined(printable(event.message), by(event.by)), ink);
  }
  EventWords operator()(const ActionDenied& event) const {
    return {event.step.text, "action denied",
            joined(action_words(event.proposal->action), printable(event.policy_reason.reason)), Ink::red};
  }
  EventWords operator()(const ActionFound& event) const {
    return {event.step.text, "effect found",
            fmt::format("it has happened already: {} of {}", event.receipt.str(), event.run.str()), Ink::green};
  }
  EventWords operator()(const TaskMoved& event) const {
    std::string more = event.diagnostic
                           ? fmt::format("{}: {}", event.diagnostic->error_code, printable(event.diagnostic->message))
                           : joined(by(event.by), printable(event.message));
    if (event.run) more = joined(std::move(more), event.run->str());
    return task(std::string(to_string(run_.task->state)), joined(std::move(more), cost_words(event.cost)));
  }
  EventWords operator()(const TaskAsked& event) const {
    if (event.question.empty()) return task("question closed", joined(by(event.by), printable(event.answer)));
    return task("question", printable(event.question));
  }
  EventWords operator()(const TaskSubtask& event) const {
    return task(event.dropped ? "subtask dropped" : "subtask added", joined(event.subtask.str(), by(event.by)));
  }
  EventWords operator()(const TaskChanged& event) const {
    return task("changed", joined(by(event.by), printable(event.changes)));
  }
  EventWords operator()(const TaskDeleted& event) const { return task("deleted", by(event.by)); }
  EventWords operator()(const TransitionRefused& event) const {
    return {"run", "refused",
            joined(fmt::format("{} while {}: {}", event.requested, event.state, event.code), by(event.by)),
            Ink::yellow};
  }

 private:
  EventWords step(const StepId& id, std::string more) const {
    StepStatus status = run_.steps[*run_.find_step(id)].status;
    return {id.text, std::string(step_word(vocabulary_, status)), std::move(more), ink_of(status)};
  }
  EventWords task(std::string what, std::string more) const {
    return {"task", std::move(what), std::move(more), pawl::ink_of(run_.status)};
  }
  static std::string action_words(const Action& action) {
    return printable(fmt::format("{} {} on {}", action.connector, action.operation, action.target));
  }
  EventWords receipt(ReceiptId id, std::string what, std::string more, Ink ink) const {
    const Receipt* found = find_receipt(run_, id);
    return {found ? run_.definition(found->step).id.text : "receipt", std::move(what), std::move(more), ink};
  }
  EventWords approval(ApprovalId id, std::string what, std::string more, Ink ink) const {
    auto found = std::ranges::find(run_.approvals, id, &Approval::id);
    std::string subject = "approval";
    if (found != run_.approvals.end()) {
      subject = run_.definition(found->step).id.text;
      if (what == "requested") more = joined(describe_terms(*found, at_), prompt_of(run_, *found));
    }
    return {std::move(subject), "approval " + what, std::move(more), ink};
  }

  const Run& run_;
  Instant at_;
  Vocabulary vocabulary_;
};

}  // namespace

EventWords describe_event(const Run& after, const RunEvent& event, Vocabulary vocabulary) {
  return std::visit(EventReader(after, event.at, vocabulary), event.payload);
}

}  // namespace pawl
