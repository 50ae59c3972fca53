// Runs that another engine carries: what it says of them, and the approvals that are asked for there.
#include <algorithm>

#include "core/characters.h"
#include "core/display_name.h"
#include "core/draft.h"

namespace pawl {
namespace {

constexpr std::size_t failure_chars_max = 1000;

Refusal not_foreign(const Run& run) {
  return {RefusalCode::not_external,
          "this run is executed by " + std::string(to_string(run.provider)) + ", which pawl does not look at"};
}

// What is known after this look.
RunObserved merged(const Foreign& known, const ObserveRun& seen) {
  RunObserved out{.id = seen.id.empty() ? known.id : seen.id,
                  .state = seen.state.empty() ? known.state : seen.state,
                  .sub_state = seen.sub_state,
                  .retries = std::max(known.retries, seen.retries),
                  .next_retry_at = seen.next_retry_at,
                  .last_failure = std::string(first_characters(seen.last_failure, failure_chars_max)),
                  .output = seen.output.empty() ? known.output : seen.output};
  if (seen.is_partial) {
    out.sub_state = known.sub_state;
    out.next_retry_at = known.next_retry_at;
    out.last_failure = known.last_failure;
  }
  return out;
}

bool is_news(const Foreign& known, const RunObserved& seen) {
  return known.id != seen.id || known.state != seen.state || known.sub_state != seen.sub_state ||
         known.retries != seen.retries || known.next_retry_at != seen.next_retry_at ||
         known.last_failure != seen.last_failure || known.output != seen.output;
}

// A refusal of people here that the other engine ended by: the run was denied, it did not merely fail.
const Approval* find_refusal(const Run& run, const std::vector<ApprovalId>& failed_by) {
  for (const Approval& approval : run.approvals) {
    bool refused = approval.status == ApprovalStatus::rejected || approval.status == ApprovalStatus::expired;
    if (refused && std::ranges::find(failed_by, approval.id) != failed_by.end()) return &approval;
  }
  return nullptr;
}

RunMoved ending_of(const Run& run, const ObserveRun& seen, Instant now) {
  RunMoved out{.trigger = *seen.ends, .by = carrier_of(run), .reason = {}, .diagnostic = {}};
  if (*seen.ends == RunTrigger::cancel) out.reason = seen.reason;
  if (*seen.ends != RunTrigger::fail && *seen.ends != RunTrigger::time_out) return out;
  out.diagnostic = seen.diagnostic;
  const Approval* refusal = *seen.ends == RunTrigger::fail ? find_refusal(run, seen.failed_by) : nullptr;
  if (!refusal) return out;
  bool expired = refusal->status == ApprovalStatus::expired;
  Diagnostic denied = diagnose(expired ? "APPROVAL_EXPIRED" : "APPROVAL_REJECTED",
                               run.definition(refusal->step).id.text + ": " +
                                   (expired ? "nobody decided before " + print_time(refusal->expires_at)
                                            : "rejected by " + display_name(refusal->resolved_by) +
                                                  (refusal->reason.empty() ? "" : ": " + refusal->reason)),
                               now);
  denied.cause = seen.diagnostic;
  out.trigger = RunTrigger::deny;
  out.diagnostic = std::make_shared<const Diagnostic>(std::move(denied));
  return out;
}

}  // namespace

Actor carrier_of(const Run& run) { return Actor{"provider:" + std::string(to_string(run.provider))}; }

void settle_foreign(Draft& draft, SubState seen) {
  // Where it runs, one that asks for an approval is running until somebody notices that it does nothing.
  bool waits = seen == SubState::waiting || (seen == SubState::running && !draft.open_approvals().empty());
  if (waits && draft.status() == RunStatus::running) draft.move_run(RunTrigger::pause);
  if (!waits && draft.status() == RunStatus::waiting) draft.move_run(RunTrigger::resume);
}

Decision decide_command(const Run& run, const ObserveRun& seen, Instant now, Draws) {
  if (!run.foreign) return {{}, not_foreign(run)};
  // What has ended stays so, whatever is said of it afterwards.
  if (is_terminal(run.status)) return {};
  Draft draft(run, now);
  RunObserved observed = merged(*run.foreign, seen);
  if (is_news(*run.foreign, observed)) draft.emit(observed);
  if (!seen.ends) {
    settle_foreign(draft, observed.sub_state);
    return std::move(draft).done();
  }
  cancel_unfinished(draft);
  if (draft.status() == RunStatus::waiting) draft.move_run(RunTrigger::resume);
  draft.move_run(ending_of(run, seen, now));
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const RequestApproval& command, Instant now, Draws) {
  auto refusal = [&](RefusalCode code, std::string message) {
    return refuse_audited(run, now, "request approval", code, command.by, std::move(message));
  };
  if (!run.foreign) return {{}, not_foreign(run)};
  if (is_terminal(run.status))
    return refusal(RefusalCode::run_ended, "the run has ended: " + std::string(to_string(run.status)));
  if (provider_of(command.callback.kind) != run.provider)
    return refusal(RefusalCode::invalid, "a run that " + std::string(to_string(run.provider)) + " carries has no " +
                                             std::string(to_string(command.callback.kind)));
  auto gate = run.find_step(command.gate);
  if (!gate)
    return refusal(RefusalCode::invalid, "workflow " + run.workflow->name.text + " has no approval " +
                                             command.gate.text + "; list it under `approvals`, with who has to decide");
  // A repeat: whoever asked does not know that it was heard.
  for (const Foreign::Bound& bound : run.foreign->bound)
    if (bound.callback == command.callback) return {};
  Draft draft(run, now);
  draft.request_approval(run.definition(*gate), command.callback, command.by);
  settle_foreign(draft, run.foreign->sub_state);
  return std::move(draft).done();
}

Decision decide_command(const Run& run, const RecordTold& command, Instant now, Draws) {
  if (!run.foreign) return {{}, not_foreign(run)};
  if (is_terminal(run.status)) return {};
  auto bound = std::ranges::find(run.foreign->bound, command.approval, &Foreign::Bound::approval);
  if (bound == run.foreign->bound.end())
    return refuse(RefusalCode::unknown_approval, "nobody there waits for this approval");
  if (bound->told) return {};
  Draft draft(run, now);
  draft.emit(ApprovalTold{command.approval, std::string(first_characters(command.problem, failure_chars_max))});
  return std::move(draft).done();
}

}  // namespace pawl
