#include "core/draft.h"

#include "core/expression.h"

namespace pawl {

Refusal lease_lost_refusal() {
  return {RefusalCode::lease_lost, "Lease expired or was reassigned; stop working on this step."};
}

Decision refuse(RefusalCode code, std::string message, std::string field) {
  return {{}, Refusal{code, std::move(message), std::move(field)}};
}

Decision refuse_audited(const Run& run, Instant now, std::string_view requested, RefusalCode code, const Actor& by,
                        std::string message, std::string field) {
  Decision out = refuse(code, std::move(message), std::move(field));
  if (!is_terminal(run.status)) out.events.push_back({now, refused_transition(run, requested, code, by)});
  return out;
}

TransitionRefused refused_transition(const Run& run, std::string_view requested, RefusalCode code, const Actor& by) {
  return {std::string(requested), std::string(to_string(run.status)), std::string(to_string(code)), by};
}

void Draft::doubt_calls(StepIndex index) {
  for (const Receipt& receipt : run_.receipts) {
    if (receipt.status != ReceiptStatus::intended || receipt.step != index) continue;
    if (std::find(doubted_.begin(), doubted_.end(), receipt.id) != doubted_.end()) continue;
    doubted_.push_back(receipt.id);
    emit(ReceiptMoved{.receipt = receipt.id, .trigger = ReceiptTrigger::doubt});
  }
}

namespace {

bool needs_met(const Draft& draft, StepIndex index) {
  const auto& needs = draft.run().definition(index).needs;
  return std::all_of(needs.begin(), needs.end(),
                     [&](StepIndex need) { return draft.step(need) == StepStatus::succeeded; });
}

void open_gate(Draft& draft, StepIndex index) {
  draft.move_step(index, StepTrigger::open_gate);
  const StepDefinition& definition = draft.run().definition(index);
  draft.request_approval(definition, definition.approval);
}

void open_wait(Draft& draft, StepIndex index) {
  const StepDefinition& definition = draft.run().definition(index);
  // The time may be an expression over what this very decision completes.
  auto due = is_template(definition.wait->text) ? render_due(draft.outcome(), index, draft.now())
                                                : render_due(draft.run(), index, draft.now());
  if (due) return draft.move_step(index, StepTrigger::open_wait, StepWaitOpened{definition.id, *due});
  Diagnostic problem = diagnose("EXPRESSION_FAILED", due.error(), draft.now());
  problem.retryable = false;
  fail_for_good(draft, index, std::move(problem), {});
}

// What can go on once everything that it needs is done. Gates and timers begin with the run, not before it.
void unblock(Draft& draft, StepIndex index) {
  const StepDefinition& definition = draft.run().definition(index);
  const bool is_gate = definition.is_gate();
  if (!is_gate && !definition.is_wait()) return draft.move_step(index, StepTrigger::unblock);
  if (draft.status() == RunStatus::created) return;
  is_gate ? open_gate(draft, index) : open_wait(draft, index);
}

}  // namespace

void settle(Draft& draft) {
  bool all_succeeded = true;
  bool any_active = false;
  for (StepIndex i = 0; i < draft.size(); ++i) {
    if (draft.step(i) == StepStatus::pending && needs_met(draft, i)) unblock(draft, i);
    if (is_terminal(draft.status())) return;
    StepStatus status = draft.step(i);
    all_succeeded = all_succeeded && status == StepStatus::succeeded;
    any_active = any_active || is_active(status);
  }
  if (draft.status() == RunStatus::created) return;
  if ((all_succeeded || any_active) && draft.status() == RunStatus::waiting) draft.move_run(RunTrigger::resume);
  if (all_succeeded)
    draft.move_run(RunTrigger::succeed);
  else if (!any_active && draft.status() == RunStatus::running)
    draft.move_run(RunTrigger::pause);
}

void start(Draft& draft) { draft.move_run(RunTrigger::start); }

void cancel_unfinished(Draft& draft) {
  for (ApprovalId approval : draft.open_approvals()) draft.resolve(approval, ApprovalTrigger::cancel);
  for (StepIndex i = 0; i < draft.size(); ++i)
    if (!is_terminal(draft.step(i))) draft.move_step(i, StepTrigger::cancel);
}

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

void fail_run_for(Draft& draft, StepIndex index, const std::shared_ptr<const Diagnostic>& why) {
  Diagnostic diagnostic = *why;
  // The step's name makes a message that just fitted too long; its end is still there to read, in the cause.
  diagnostic.message = diagnostic_message("step " + draft.run().definition(index).id.text + ": " + why->message);
  diagnostic.cause = why;
  bool denied = why->category == Category::policy || why->category == Category::approval;
  end_badly(draft, denied ? RunTrigger::deny : RunTrigger::fail,
            std::make_shared<const Diagnostic>(std::move(diagnostic)));
}

void fail_for_good(Draft& draft, StepIndex index, Diagnostic diagnostic, Money cost) {
  auto why = diagnostic_of_step(draft, index, std::move(diagnostic));
  draft.move_step(index, StepTrigger::fail_terminal,
                  StepFailed{draft.run().definition(index).id, StepTrigger::fail_terminal, why, {}, cost, draft.by()});
  fail_run_for(draft, index, why);
}

std::optional<StepIndex> find_own_step(const Run& run, const StepId& step) {
  const auto index = run.find_step(step);
  return index && *index < run.steps.size() ? index : std::nullopt;
}

std::expected<StepIndex, Refusal> leased_step(const Run& run, const StepId& step, const LeaseProof& proof,
                                              ReportOf of) {
  if (proof.is_program() && of == ReportOf::holder) return std::unexpected(lease_lost_refusal());
  const auto index = find_own_step(run, step);
  if (!index || !is_held_by(run.steps[*index], proof)) return std::unexpected(lease_lost_refusal());
  return *index;
}

}  // namespace pawl
