#include "core/display_name.h"
#include "core/draft.h"

namespace pawl {
namespace {

// The approval a request means, or why there is none to decide.
std::expected<const Approval*, Refusal> meant_approval(const Run& run, const ResolveApproval& command) {
  const Approval* only = nullptr;
  const Approval* latest = nullptr;
  for (const auto& approval : run.approvals) {
    latest = &approval;
    if (command.approval ? approval.id != *command.approval : approval.status != ApprovalStatus::requested) continue;
    if (only)
      return std::unexpected(
          Refusal{RefusalCode::ambiguous_approval,
                  "several approvals are open: name one (" + only->id.str() + ", " + approval.id.str() + ", ...)"});
    only = &approval;
  }
  if (only) return only;
  if (command.approval) return std::unexpected(Refusal{RefusalCode::unknown_approval, "this run has no such approval"});
  if (latest) return latest;  // repeats are recognised by the caller
  return std::unexpected(Refusal{RefusalCode::nothing_waiting, "nothing waits for an approval in this run"});
}

}  // namespace

void deny_approval(Draft& draft, const Approval& approval, ApprovalTrigger trigger, const Actor& by,
                   const std::string& reason, const Actor& via, std::string as) {
  draft.resolve(approval.id, trigger, by, reason, via, std::move(as));
  // Elsewhere it is up to the workflow what a refusal means.
  if (draft.run().foreign) return settle_foreign(draft, draft.run().foreign->sub_state);
  bool expired = trigger == ApprovalTrigger::expire;
  std::string message = expired ? "nobody decided before " + print_time(approval.expires_at)
                                : "rejected by " + display_name(by) + (reason.empty() ? "" : ": " + reason);
  auto diagnostic =
      diagnostic_of_step(draft, approval.step,
                         diagnose(expired ? "APPROVAL_EXPIRED" : "APPROVAL_REJECTED", std::move(message), draft.now()));
  draft.move_step(approval.step, StepTrigger::refuse,
                  StepFailed{draft.run().definition(approval.step).id, StepTrigger::refuse, diagnostic, {}, {}});
  fail_run_for(draft, approval.step, diagnostic);
}

namespace {

void approve(Draft& draft, const Approval& approval, const ResolveApproval& command, const std::string& as) {
  if (static_cast<int>(approval.votes.size()) + 1 < approval.terms.quorum) {
    draft.emit(ApprovalVoted{approval.id, command.by, command.via, as});
    return;
  }
  draft.resolve(approval.id, ApprovalTrigger::approve, command.by, command.reason, command.via, as);
  if (draft.run().foreign) return settle_foreign(draft, draft.run().foreign->sub_state);
  draft.move_step(approval.step, approval.proposal ? StepTrigger::approve_action : StepTrigger::approve_gate);
  settle(draft);
}

// Two people, neither a requester; and a key is not a person.
std::optional<Refusal> two_person_problem(const Run& run, const ResolveApproval& command) {
  bool has_asked = command.has_asked || is_requester(run, command.by);
  if (has_asked)
    return Refusal{RefusalCode::self_approval,
                   "two people other than those who asked for the run, or for a run that it retries or undoes, must "
                   "decide this; ask somebody else"};
  if (!command.is_person)
    return Refusal{RefusalCode::not_a_person, display_name(command.by) +
                                                  " is not a person of this tenant, and two people must decide this; "
                                                  "an admin can say whose key it is: pawl people set NAME --key KEY"};
  return std::nullopt;
}

std::string not_an_approver(const Approval& approval, const Actor& by) {
  std::string names;
  for (const std::string& name : approvers_now(approval)) (names += names.empty() ? "" : ", ") += name;
  return display_name(by) + " may not decide this; it is for " + names;
}

void remind(Draft& draft, const Approval& approval, bool escalates) {
  draft.emit(
      ApprovalReminded{approval.id, escalates, escalates ? approval.terms.escalate_to : approvers_now(approval)});
}

}  // namespace

void remind_of_approval(Draft& draft, const Approval& approval) {
  const ApprovalTerms& terms = approval.terms;
  if (terms.escalate && !approval.escalated && approval.requested_at + *terms.escalate <= draft.now())
    remind(draft, approval, true);
  if (terms.remind && !approval.reminded && approval.requested_at + *terms.remind <= draft.now())
    remind(draft, approval, false);
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
  if (approval.expires_at <= now) {
    draft.emit(refused_transition(run, requested, RefusalCode::already_resolved, command.by));
    deny_approval(draft, approval, ApprovalTrigger::expire, {}, {});
    return std::move(draft).refused(RefusalCode::already_resolved, "the approval has expired");
  }
  if (approval.terms.two_person)
    if (auto problem = two_person_problem(run, command)) return refusal(problem->code, problem->message);
  const auto as = entitlement(approval, command.by, command.groups);
  if (!as) return refusal(RefusalCode::not_an_approver, not_an_approver(approval, command.by));
  if (!command.approve) {
    deny_approval(draft, approval, ApprovalTrigger::reject, command.by, command.reason, command.via, *as);
    return std::move(draft).done();
  }
  bool voted = std::any_of(approval.votes.begin(), approval.votes.end(),
                           [&](const Vote& vote) { return vote.by == command.by; });
  if (!voted) approve(draft, approval, command, *as);
  return std::move(draft).done();
}

}  // namespace pawl
