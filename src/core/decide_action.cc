// The gate, as far as it is a decision: what becomes of an action that a worker proposes, and of its receipt.
//
//   look-up by key -> cap -> policy -> approval -> durable intent -> (the worker executes) -> durable outcome
#include <boost/json/object.hpp>

#include "core/draft.h"
#include "core/tenant.h"

namespace pawl {
namespace {

// A proposal, and where its step is among those of the run.
struct PlacedProposal {
  const ProposeAction& proposed;
  StepIndex step;

  const ProposeAction* operator->() const { return &proposed; }
};

// The worker of the present attempt was allowed to call, and has not reported the outcome.
bool has_open_call(const Run& run, const Receipt& receipt) {
  const Step& step = run.steps[receipt.step];
  bool unsettled = receipt.status == ReceiptStatus::intended || receipt.status == ReceiptStatus::in_doubt;
  return unsettled && step.status == StepStatus::running && receipt.token == step.lease_token;
}

// A receipt is its proposer's: that of the step's tool or worker, or that of a program which it runs.
bool is_proposers(const Receipt& receipt, const LeaseProof& proof) { return receipt.by_program == proof.is_program(); }

// Who says what became of an effect. A tool of this server is trusted with the effects of its steps, a worker with what
// it executes itself, an agent with nothing that others rely on.
bool is_reported_by_worker(const Receipt& receipt) {
  return key_of(receipt.proposed_by) || (receipt.is_reported && key_of(receipt.resolved_by));
}

// Whether a receipt that a step of `tool` made can answer for the action: anybody may name the connector, the fields
// and the key of another tool's effect, and say that it happened. An older receipt that does not say who reported it
// is still that of its step's tool.
bool may_answer(const ToolName& tool, const Receipt& receipt, bool is_same_step, const Run& run,
                const PlacedProposal& command) {
  if (tool != run.definition(command.step).tool) return false;
  if (receipt.by_program != command->proof.is_program()) return false;
  const bool is_in_process = command->proof.bearer() == LeaseProof::Bearer::local;
  return is_same_step || !is_in_process || !is_reported_by_worker(receipt);
}

// Whose word it is follows from who reports, and cannot be claimed.
std::shared_ptr<const Undo> undo_of(const RecordOutcome& command) {
  if (!command.undo) return nullptr;
  auto source = UndoSource::tool;
  if (command.proof.bearer() == LeaseProof::Bearer::remote) source = UndoSource::worker;
  if (command.proof.bearer() == LeaseProof::Bearer::program) source = UndoSource::agent;
  return std::make_shared<const Undo>(*command.undo, source);
}

// Under one policy an action has one digest. Another policy may give the same effect another risk, and that makes no
// other action of it.
bool is_another(const Proposal& earlier, const PolicyReason& judged, const PlacedProposal& command) {
  if (judged.policy_version == command->verdict.policy_version) return earlier.digest != command->proposal->digest;
  return !is_same_effect(earlier.action, command->proposal->action);
}

// What a call in doubt is repeated as, when another policy gives it another risk than the first time.
std::shared_ptr<const Proposal> repeated_as(const Receipt& doubted, const Proposal& proposal) {
  if (doubted.proposal->digest == proposal.digest) return nullptr;
  Proposal out = *doubted.proposal;  // with what stood there before the first call
  out.action.risk = proposal.action.risk;
  out.digest = proposal.digest;
  out.sandboxed = proposal.sandboxed;
  return std::make_shared<const Proposal>(std::move(out));
}

void deny(Draft& draft, const PlacedProposal& command, std::string_view code, PolicyReason policy_reason) {
  std::string message = command->proposal->action.connector + " " + command->proposal->action.operation + " on " +
                        command->proposal->action.target + ": " + policy_reason.reason;
  draft.emit(ActionDenied{command->step, command->proposal, std::move(policy_reason), draft.by()});
  Diagnostic diagnostic = diagnose(code, std::move(message), draft.now());
  diagnostic.retryable = false;
  if (command->proof.is_program())
    draft.end_tool_call(command.step, code, "it was ended because its action was denied");
  fail_for_good(draft, command.step, std::move(diagnostic), {});
}

void intend(Draft& draft, const PlacedProposal& command, std::optional<ApprovalId> approval) {
  draft.emit(ReceiptIntended{ReceiptId{draft.next_id()}, command->step, command->proposal,
                             policy_reason_of(command->verdict), approval, draft.by(), command->proof.is_program()});
}

// The failure of an attempt brings the doubt about its calls in the same commit.
std::string doubt_reason(const Run& run, const Receipt& receipt) {
  const auto& failure = run.steps[receipt.step].last_error;
  const bool is_of_it = failure && failure->occurred_at == receipt.resolved_at;
  return is_of_it ? failure->message : "its worker was lost before it could say";
}

// A person is asked whether an effect happened that nobody can repeat safely.
void ask_about(Draft& draft, StepIndex step, const Receipt& receipt) {
  const Action& action = receipt.proposal->action;
  boost::json::object question{
      {"kind", "effect_in_doubt"},
      {"receipt", receipt.id.str()},
      {"text", "Did this happen? " + action.connector + " " + action.operation + " on " + action.target +
                   " was begun, and its outcome is not known: " + doubt_reason(draft.run(), receipt) +
                   ". Look there, then say whether it happened."}};
  draft.move_step(step, StepTrigger::ask,
                  StepAsked{draft.run().definition(step).id, canonical(question), receipt.id, draft.by()});
  settle(draft);
}

// An approval of exactly this action under exactly this policy.
const Approval* approval_of(const Run& run, const PlacedProposal& command) {
  for (const Approval& approval : run.approvals) {
    bool same_step = approval.step == command.step;
    if (!approval.proposal || !same_step || approval.status != ApprovalStatus::approved) continue;
    bool same_digest = approval.proposal->digest == command->proposal->digest;
    bool same_policy = approval.policy_reason.policy_version == command->verdict.policy_version;
    if (same_digest && same_policy) return &approval;
  }
  return nullptr;
}

// People said yes to an action under this key, and this is another one.
bool is_changed(const Run& run, const PlacedProposal& command) {
  return std::ranges::any_of(run.approvals, [&](const Approval& approval) {
    return approval.proposal && approval.step == command.step && approval.status == ApprovalStatus::approved &&
           approval.proposal->action.idempotency_key == command->proposal->action.idempotency_key &&
           is_another(*approval.proposal, approval.policy_reason, command);
  });
}

bool is_over_cap(const Run& run, const PlacedProposal& command) {
  if (!command->writes_max) return false;
  int effects = 1;  // this one, and the step's others
  for (const std::string_view key : effect_keys(run, command.step))
    if (key != command->proposal->action.idempotency_key) ++effects;
  return run.writes - writes_of(run, command.step) + std::max(effects, writes_of(run, command.step)) >
         *command->writes_max;
}

// What the policy says, once nothing that happened before answers for the action. `doubted` is to be called again.
Decision judge(Draft draft, const PlacedProposal& command, const Receipt* doubted) {
  const Run& run = draft.run();
  auto allow = [&](std::optional<ApprovalId> approval) {
    if (doubted)
      draft.emit(ReceiptRepeated{doubted->id, policy_reason_of(command->verdict), approval, draft.by(),
                                 repeated_as(*doubted, *command->proposal)});
    else
      intend(draft, command, approval);
  };
  if (command->frozen) {
    deny(draft, command, "EFFECTS_FROZEN", {command->verdict.policy_version, "freeze", *command->frozen});
    return std::move(draft).done();
  }
  if (is_over_cap(run, command)) {
    deny(draft, command, "WRITE_CAP_EXCEEDED",
         {command->verdict.policy_version, "max_writes_per_run",
          "the run may write " + std::to_string(*command->writes_max) + " times and already has"});
    return std::move(draft).done();
  }
  if (is_changed(run, command)) {
    deny(draft, command, "ACTION_CHANGED",
         {command->verdict.policy_version, "approved_digest", "this is not the action that was approved"});
    return std::move(draft).done();
  }
  switch (command->verdict.effect) {
    case Effect::deny:
      deny(draft, command, "POLICY_DENIED", policy_reason_of(command->verdict));
      break;
    case Effect::allow:
      allow({});
      break;
    case Effect::needs_approval:
      if (const Approval* approval = approval_of(run, command)) {
        allow(approval->id);
        break;
      }
      if (command->proof.is_program())
        draft.end_tool_call(command.step, "AGENT_INTERRUPTED", "its action waits for an approval");
      draft.move_step(command.step, StepTrigger::gate, draft.by());
      draft.request_approval(run.definition(command.step), command->verdict.terms, command->proposal,
                             policy_reason_of(command->verdict));
      settle(draft);
      break;
  }
  return std::move(draft).done();
}

Refusal key_reused(const Proposal& proposal, const std::string& where) {
  return {RefusalCode::idempotency_conflict,
          "the idempotency key \"" + proposal.action.idempotency_key + "\" was used for another action, " + where};
}

Refusal key_of_others(const Run& run, const PlacedProposal& command, const Receipt& receipt, const ToolName& tool,
                      const std::string& where) {
  const std::string_view reporter = receipt.by_program               ? "an agent of a step of "
                                    : is_reported_by_worker(receipt) ? "a remote worker's step of "
                                                                     : "a step of ";
  return {RefusalCode::idempotency_conflict, "the idempotency key \"" + command->proposal->action.idempotency_key +
                                                 "\" belongs to " + where + ", which " + std::string(reporter) +
                                                 tool.text + " made; that does not answer for this step of " +
                                                 run.definition(command.step).tool.text + ". Use another key."};
}

// The key begins with another run's id. Nobody looks for such a one in other runs, so it must not be used there.
bool is_anothers_key(const Run& run, const std::string& key) {
  auto owner = owner_of_key(key);
  return owner && *owner != run.id;
}

// Another run holds the key.
Decision meet_holder(Draft draft, const PlacedProposal& command) {
  const auto& [run, receipt, tool] = *command->holder;
  std::string where = receipt.id.str() + " of " + run.str();
  if (is_another(*receipt.proposal, receipt.policy_reason, command))
    return std::move(draft).refused(RefusalCode::idempotency_conflict, key_reused(*command->proposal, where).message);
  if (!may_answer(tool, receipt, false, draft.run(), command))
    return {{}, key_of_others(draft.run(), command, receipt, tool, where)};
  if (receipt.status != ReceiptStatus::succeeded)
    return std::move(draft).refused(
        RefusalCode::effect_in_progress,
        "the same action is " + std::string(to_string(receipt.status)) + " in " + where + "; propose it again later");
  draft.emit(ActionFound{command->step, command->proposal, receipt.id, run, draft.by()});
  return std::move(draft).done();
}

}  // namespace

Decision decide_command(const Run& run, const ProposeAction& proposed, Instant now, Draws) {
  const auto step = leased_step(run, proposed.step, proposed.proof, ReportOf::program_too);
  if (!step) return {{}, step.error()};
  const PlacedProposal command{proposed, *step};
  // A report is good until another worker takes the step. An effect is not: that worker may be about to have it too.
  if (run.steps[command.step].lease_expires_at <= now)
    return refuse(RefusalCode::lease_lost, "Lease expired; stop working on this step.");
  if (auto fits = check_action(command->proposal->action); !fits)
    return refuse(RefusalCode::invalid, "the action cannot be proposed: " + fits.error());
  // What is judged, digested and shown has at least the risk that the workflow and the policy give it.
  if (command->proposal->action.risk < std::max(run.definition(command.step).risk, command->verdict.risk))
    return refuse(RefusalCode::invalid,
                  "the action is proposed with less risk than the workflow or the policy gives it");
  Draft draft(run, now, reporter_of(run, command.step, command->proof));
  const std::string& key = command->proposal->action.idempotency_key;
  const Receipt* earlier = find_effect(run, key);
  if (!earlier && is_anothers_key(run, key))
    return refuse(RefusalCode::idempotency_conflict,
                  "an idempotency key that begins with a run's id is that run's own; this is another run");
  if (!earlier)
    return command->holder ? meet_holder(std::move(draft), command) : judge(std::move(draft), command, nullptr);
  if (is_another(*earlier->proposal, earlier->policy_reason, command))
    return {{}, key_reused(*command->proposal, earlier->id.str() + " of this run")};
  // While the step itself has not settled it, that is what stands in the way.
  const bool is_same_step = earlier->step == command.step;
  const ToolName& tool = run.definition(earlier->step).tool;
  if ((!is_same_step || earlier->status == ReceiptStatus::succeeded) &&
      !may_answer(tool, *earlier, is_same_step, run, command))
    return {{}, key_of_others(run, command, *earlier, tool, earlier->id.str() + " of this run")};
  if (earlier->status == ReceiptStatus::succeeded) {
    if (!is_same_step) draft.emit(ActionFound{command->step, command->proposal, earlier->id, run.id, draft.by()});
    return std::move(draft).done();
  }
  // What the step's tool has begun is not for a program that it runs to answer for, nor the other way round.
  bool is_own = is_same_step && is_proposers(*earlier, command->proof);
  if (is_own && has_open_call(run, *earlier)) {
    // It may not have begun yet, and must not any more. If it has, its outcome can still be recorded.
    if (command->frozen) return refuse(RefusalCode::effects_frozen, *command->frozen);
    // The same worker asks again: the same answer, to exactly what was allowed.
    if (earlier->proposal->digest == command->proposal->digest) return std::move(draft).done();
    return refuse(RefusalCode::idempotency_conflict,
                  "this was allowed with another risk, as " + earlier->id.str() + "; record its outcome first");
  }
  // Two steps may share a key. Whoever began has it to end, or to settle, for as long as it can.
  if (earlier->status == ReceiptStatus::intended || (!is_own && !is_terminal(run.steps[earlier->step].status)))
    return {{},
            Refusal{RefusalCode::effect_in_progress,
                    "step " + run.definition(earlier->step).id.text + " of this run is at it; propose it again later"}};
  if (command->happened) {
    draft.emit(ReceiptMoved{.receipt = earlier->id,
                            .trigger = *command->happened ? ReceiptTrigger::succeed : ReceiptTrigger::fail,
                            .by = draft.by(),
                            .message = "its connector looked",
                            .response = *command->happened ? "null" : "",
                            .is_reported = true});
    return *command->happened ? std::move(draft).done() : judge(std::move(draft), command, nullptr);
  }
  if (is_own && earlier->proposal->idempotent) return judge(std::move(draft), command, earlier);
  if (command->can_look && !command->happened)
    return std::move(draft).refused(RefusalCode::effect_in_doubt, "look whether it happened, and propose again");
  ask_about(draft, command.step, *earlier);
  return std::move(draft).refused(
      RefusalCode::effect_in_doubt,
      "nobody knows whether this happened, and it cannot be repeated safely: a person is asked");
}

Decision decide_command(const Run& run, const RecordOutcome& command, Instant now, Draws) {
  const auto step = leased_step(run, command.step, command.proof, ReportOf::program_too);
  if (!step) return {{}, step.error()};
  const Receipt* receipt = find_receipt(run, command.receipt);
  if (!receipt || receipt->step != *step || !is_proposers(*receipt, command.proof))
    return refuse(RefusalCode::unknown_receipt, "this step has no such receipt");
  auto wanted = command.succeeded ? ReceiptStatus::succeeded : ReceiptStatus::failed;
  // A repeat, also when what succeeded has been undone since.
  if (receipt->status == wanted || (command.succeeded && receipt->status == ReceiptStatus::reversed)) return {};
  if (!has_open_call(run, *receipt))
    return refuse(RefusalCode::already_resolved, "the receipt is " + std::string(to_string(receipt->status)));
  // That a repeat had no effect says nothing of the call before it: the doubt stays until a repeat succeeds, or
  // somebody looks.
  bool is_repeat = receipt->status == ReceiptStatus::in_doubt;
  if (!command.succeeded && is_repeat) return {};
  Draft draft(run, now, reporter_of(run, *step, command.proof));
  draft.emit(ReceiptMoved{.receipt = receipt->id,
                          .trigger = command.succeeded ? ReceiptTrigger::succeed : ReceiptTrigger::fail,
                          .by = draft.by(),
                          .error_code = command.error_code,
                          .message = diagnostic_message(command.message),
                          .response = command.response,
                          .undo = undo_of(command),
                          .is_reported = true});
  return std::move(draft).done();
}

std::optional<Refusal> outcome_problem(const Run& run, StepIndex step) {
  for (const Receipt& receipt : run.receipts)
    if (receipt.step == step && has_open_call(run, receipt))
      return Refusal{
          RefusalCode::outcome_missing,
          receipt.status == ReceiptStatus::intended
              ? "record what became of " + receipt.id.str() + " first"
              : receipt.id.str() + " is in doubt until its repeat succeeds: report that, or fail the attempt"};
  return std::nullopt;
}

void settle_doubt(Draft& draft, const Receipt& receipt, bool happened, const Actor& by) {
  draft.emit(ReceiptMoved{.receipt = receipt.id,
                          .trigger = happened ? ReceiptTrigger::succeed : ReceiptTrigger::fail,
                          .by = by,
                          .error_code = happened ? "" : "EFFECT_ABSENT",
                          .message = happened ? "" : "it did not happen",
                          .response = happened ? "null" : ""});
}

Decision decide_command(const Run& run, const SettleReceipt& command, Instant now, Draws) {
  const Receipt* receipt = find_receipt(run, command.receipt);
  auto refusal = [&](RefusalCode code, std::string message) {
    return refuse_audited(run, now, "resolve " + command.receipt.str(), code, command.by, std::move(message));
  };
  if (!receipt) return refusal(RefusalCode::unknown_receipt, "this run has no such receipt");
  auto wanted = command.happened ? ReceiptStatus::succeeded : ReceiptStatus::failed;
  if (receipt->status == wanted && receipt->resolved_by == command.by && !receipt->is_reported) return {};  // a repeat
  if (receipt->status != ReceiptStatus::in_doubt)
    return refusal(RefusalCode::already_resolved,
                   "the receipt is " + std::string(to_string(receipt->status)) + "; only one in doubt can be resolved");
  if (has_open_call(run, *receipt))
    return refusal(RefusalCode::effect_in_progress, "it is being called again at this moment");
  Draft draft(run, now);
  settle_doubt(draft, *receipt, command.happened, command.by);
  bool answered = false;
  for (StepIndex i = 0; i < draft.size(); ++i) {
    if (draft.step(i) != StepStatus::waiting_input || run.steps[i].doubt != receipt->id) continue;
    draft.move_step(
        i, StepTrigger::answer,
        StepAnswered{run.definition(i).id, command.happened ? R"({"happened":true})" : R"({"happened":false})",
                     command.by, false});
    answered = true;
  }
  if (answered) settle(draft);
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const ReverseReceipt& command, Instant now, Draws) {
  const Receipt* receipt = find_receipt(run, command.receipt);
  if (!receipt) return refuse(RefusalCode::unknown_receipt, "this run has no such receipt");
  if (receipt->status == ReceiptStatus::reversed && receipt->reversed_by == command.by) return {};  // a repeat
  if (receipt->status != ReceiptStatus::succeeded)
    return refuse(RefusalCode::already_resolved,
                  "the receipt is " + std::string(to_string(receipt->status)) + "; only what succeeded can be undone");
  Draft draft(run, now);
  draft.emit(ReceiptMoved{.receipt = receipt->id, .trigger = ReceiptTrigger::reverse, .reversed_by = command.by});
  return std::move(draft).done();
}

}  // namespace pawl
