#include "core/reference.h"

#include "core/decide.h"
#include "core/diagnostic.h"
#include "core/vocabulary.h"

namespace pawl::tests {
namespace {

// What the one who is on call does first. The table in diagnostic.h says what is wrong; this says what to touch.
struct Advice {
  std::string_view code;
  std::string_view what_to_do;
};

constexpr std::array advice{
    Advice{"TOOL_NOT_IMPLEMENTED",
           "Compare the step's `tool` with what your workers offer, publish a corrected version of the workflow, and "
           "start a new run; or start a worker that knows the tool, and retry this one."},
    Advice{"TOOL_DENIED",
           "Do not retry unchanged: the tool will refuse again. Decide whether the step asks for too much or the tool "
           "is allowed too little, and change that one."},
    Advice{"TOOL_INVALID_ARGUMENTS",
           "Read which key the message names, correct it in the workflow or in the run's input, and start a new run."},
    Advice{"TOOL_TIMEOUT",
           "Nothing while attempts remain. If it keeps coming back, measure how long the call takes and set the step's "
           "`timeout` above that."},
    Advice{"TOOL_DEPENDENCY_DOWN",
           "Nothing while attempts remain. Once the dependency is back, retry the runs that have failed meanwhile."},
    Advice{"TOOL_RATE_LIMITED",
           "Nothing while attempts remain; a Retry-After is obeyed. If it keeps coming back, lower `max_concurrency`."},
    Advice{"TOOL_FAILED", "Read the message: it holds what the tool said last. Retry the run once the cause is gone."},
    Advice{"TOOL_INTERNAL_ERROR",
           "Keep the run as it is, export its events and report them to the tool's owner; a retry would most likely "
           "end the same way."},
    Advice{"TOOL_OUTPUT_TOO_LARGE",
           "Have the step store the result elsewhere and return where it lies, or select what later steps need with "
           "`transform`."},
    Advice{"AGENT_FAILED",
           "Nothing while attempts remain: the next one resumes the session. Then read what the agent said last, with "
           "`pawl logs RUN`."},
    Advice{"AGENT_BUDGET_EXCEEDED",
           "Look in the logs what the money went into before raising `max_budget_usd`. The session is kept: a new run "
           "with "
           "its `session_id` and `resume: true` goes on where it stopped."},
    Advice{"SANDBOX_UNAVAILABLE",
           "The message says what is missing. Install the package bubblewrap, see that user namespaces are allowed and "
           "that "
           "control groups can be made (docs/agents.md), then start a new run."},
    Advice{
        "PROGRAMS_NOT_ALLOWED",
        "Nothing was run. Tools that run programs are off for tenants other than `default` until the server's "
        "settings list the tenant (docs/agents.md). Then start a new run; or have a worker of your own do the work."},
    Advice{"EXPRESSION_FAILED",
           "The message names the expression. Check that the step it reads from produces that field, also when its "
           "answer is empty."},
    Advice{"SECRET_UNAVAILABLE",
           "The message names the tenant, the secret and each source that was tried, and no value. Give the secret to "
           "one of "
           "them (docs/secrets.md), then retry the run."},
    Advice{"SECRET_NOT_ALLOWED",
           "Nothing was sent. The message says which secret, and what keeps the step from using it (docs/secrets.md). "
           "Publish a version of the workflow that names another secret."},
    Advice{"LEASE_EXPIRED",
           "Look for the worker that the message names: did it crash, hang, or lose the network? Workers that are "
           "healthy but slow need a longer `lease` or more frequent heartbeats."},
    Advice{"SERVER_LOST",
           "The death of the server itself costs a step no attempt, but after ten of them the step is taken for the "
           "cause. Read the system's log of those moments (out of memory, a full disk, a crash), then retry the run; a "
           "step that needs much memory belongs in a remote worker."},
    Advice{"RUN_TIMEOUT",
           "Look at the diagnostic's cause, if it has one: a step that kept failing explains most of these. Otherwise "
           "start a new run with a longer `timeout`; a retry keeps the old one."},
    Advice{"BUDGET_EXCEEDED",
           "Compare the cost of each step with what you expected before raising `budget_usd`. A retry starts "
           "from nought again, under the same budget."},
    Advice{"WRITE_CAP_EXCEEDED",
           "Check whether the run should write that often at all: the cap exists to stop a loop. If it should, raise "
           "`max_writes_per_run` for this workflow and start a new run."},
    Advice{
        "POLICY_DENIED",
        "`pawl show RUN` names the policy's version and the rule that spoke. Try a changed policy on what was recorded "
        "before you publish it: `pawl policy test FILE`."},
    Advice{"EFFECTS_FROZEN",
           "The message says who froze effects, since when and why; `pawl freeze --list` shows all that is frozen. The "
           "run has ended and nothing happened: what was about to be done is not done later by itself. Once the freeze "
           "is lifted, retry the runs that are still wanted."},
    Advice{"ACTION_CHANGED",
           "Treat it as an incident: compare the action in `approval.requested` with the one in `action.denied` in the "
           "run's events. Nothing was done."},
    Advice{"EFFECT_IN_PROGRESS",
           "Nothing while attempts remain. If it keeps coming back, look at the receipt that the message names: one in "
           "doubt waits for a person."},
    Advice{"EFFECT_ABSENT", "Nothing: the step is free to try it again."},
    Advice{
        "EFFECT_UNKNOWN",
        "Look at the receipt. An idempotent connector calls again by itself; otherwise the run asks a person whether "
        "it happened, and `pawl inbox` or `pawl show RUN` shows the question."},
    Advice{"IDEMPOTENCY_KEY_REUSED",
           "Give the step an `idempotency_key` that says what makes its effect one of its kind, and start a new run."},
    Advice{"UNDO_CONFLICT",
           "Compare the target's present values with those in the receipt, and undo by hand what should be undone."},
    Advice{"APPROVAL_REJECTED", "Talk to the person whose name and reason stand in the message. A retry asks again."},
    Advice{"APPROVAL_EXPIRED", "Make sure that the approvers are told, then retry the run: it asks again."},
    Advice{"DEPENDENCY_FAILED",
           "The message names the task it depends on. Run, resume or replace that one; then run this one again."},
    Advice{"TASK_NOT_STARTED",
           "The message says why no run could be made: most often the workflow was never published. Publish it, then "
           "run the "
           "task again."},
    Advice{
        "PROVIDER_REFUSED",
        "The message is the other engine's own. Compare the workflow's `target` with what is deployed there, publish a "
        "corrected version, and start a new run."},
    Advice{"PROVIDER_RUN_FAILED",
           "The message is the failure as the other engine has it; `foreign.id` of the run finds it there. Nothing is "
           "tried again by itself: that engine's own retries are used up."},
    Advice{"PROVIDER_RUN_LOST",
           "Look in the other engine whether somebody purged it, or whether its data was lost or too old to be kept. "
           "Find out what it has done before you start it anew."},
    Advice{"INVALID_STATE_TRANSITION",
           "Find in the run's events which move was reported and in which state the run was, and correct whoever "
           "reported it; then retry as a new run."},
};

constexpr bool every_code_has_advice() {
  if (advice.size() != error_codes.size()) return false;
  for (std::size_t i = 0; i < advice.size(); ++i)
    if (advice[i].code != error_codes[i].code) return false;
  return true;
}
static_assert(every_code_has_advice(), "a new error code needs its line of advice, in the same order");

struct RefusalAdvice {
  RefusalCode code;
  std::string_view meaning;
  std::string_view what_to_do;
};

constexpr std::array refusal_advice{
    RefusalAdvice{RefusalCode::lease_lost,
                  "The worker's lease is over: it expired, the step was given to another, or the run has ended.",
                  "Stop working on this step and report nothing more under this token. A worker that hears this often "
                  "needs more frequent heartbeats, or the step a longer `lease`."},
    RefusalAdvice{
        RefusalCode::not_claimable,
        "The step is not there to be taken: it is not ready, it is an approval, or someone else's lease on it "
        "is live.",
        "Take another step; this one is offered again when it can run."},
    RefusalAdvice{RefusalCode::nothing_waiting, "The run has no open approval, or the step no open question.",
                  "Look at the run as it is now: it may have gone on, or not have come so far."},
    RefusalAdvice{
        RefusalCode::already_resolved,
        "That approval was decided otherwise before, has expired, or was canceled with its run. A decision is "
        "final.",
        "Read in the run's events who decided and why. To have it decided again, start a new run."},
    RefusalAdvice{RefusalCode::ambiguous_approval,
                  "Several approvals of this run are open, and the request names none.",
                  "Name one: `--approval ID` on the command line. The message lists the first of them, `pawl show RUN` "
                  "all."},
    RefusalAdvice{RefusalCode::unknown_approval, "This run has no approval of that id.",
                  "Compare the id with those in `pawl show RUN`; it may belong to another run."},
    RefusalAdvice{
        RefusalCode::self_approval,
        "The approval wants two people (`two_person`), neither of them a requester of the run: who started it, "
        "or asked for a run that it retries or undoes.",
        "Ask somebody else to decide; `requesters` of the run names those who cannot."},
    RefusalAdvice{
        RefusalCode::run_ended, "The run has ended, and what has ended never changes.",
        "Nothing, when that is the end you wanted. Otherwise retry a run that went badly, or start a new one."},
    RefusalAdvice{RefusalCode::run_not_ended, "Only a run that has ended can be retried, and this one goes on.",
                  "Wait for its end, or cancel it first."},
    RefusalAdvice{
        RefusalCode::invalid_transition,
        "An implementation reported a move that contract v1 does not have, or a bad end without its "
        "diagnostic. The run was failed for it.",
        "Correct whoever reported it: the run's events name the move and the state the run was in. Then retry "
        "as a new run."},
    RefusalAdvice{
        RefusalCode::not_external,
        "Someone reported the status of a run that pawl carries out or looks at itself, or asked for an approval in "
        "one that no other engine carries.",
        "Report only on runs whose provider is `external`; to end any other one, cancel it. Approvals of a native "
        "run are steps of its workflow."},
    RefusalAdvice{
        RefusalCode::provider_unset, "The workflow names a provider that this server was not told how to reach.",
        "Start the server with the settings of that provider (`--restate`, `--stepfunctions`; docs/providers.md), "
        "and ask again. `pawl run` without a server carries native workflows only."},
    RefusalAdvice{RefusalCode::not_found,
                  "There is no such run, workflow or tenant here. Those of other tenants look the same as none.",
                  "Check the id, and whether you ask as the right tenant and in the right data folder."},
    RefusalAdvice{RefusalCode::idempotency_conflict,
                  "A request came with an `Idempotency-Key` that an earlier one with another content had used; or an "
                  "action was proposed under the idempotency key of another action, or of a receipt that a step of "
                  "another tool, a remote worker or an agent made and that cannot answer for this step.",
                  "Send the same content again to be given the same answer, or choose a new key for what is new."},
    RefusalAdvice{RefusalCode::not_a_person,
                  "The approval wants two people (`two_person`), and the key that decided is nobody's.",
                  "Have an admin say whose it is: `pawl people set NAME --key KEY`. Then decide again."},
    RefusalAdvice{
        RefusalCode::not_an_approver,
        "The approval names the people and groups who may decide it, and the one who decided is not among "
        "them, or the key is nobody's.",
        "Ask one of those whom the message names. An admin says who is who, and in which groups: `pawl people "
        "set NAME --key KEY --group GROUP`."},
    RefusalAdvice{RefusalCode::unknown_receipt, "This step, or this run, has no receipt of that id.",
                  "Compare the id with those in `pawl show RUN`."},
    RefusalAdvice{
        RefusalCode::outcome_missing,
        "The worker was allowed an effect and wants to complete the step without saying what became of it.",
        "Record the outcome first: `POST /leases/{id}/actions/{receipt}/outcome`. After a repeat of a call in "
        "doubt only a success resolves it: report that, or fail the attempt."},
    RefusalAdvice{
        RefusalCode::effect_in_progress,
        "The same effect, under the same idempotency key, is under way or in doubt elsewhere: in another run, or in "
        "another step of this one.",
        "Fail the step as retryable, or propose again later. When the other one has succeeded, its receipt "
        "answers for this one too."},
    RefusalAdvice{
        RefusalCode::effect_in_doubt,
        "An earlier attempt began this effect and was lost before it could say what became of it. It cannot be "
        "repeated safely, so a person is asked; the lease is over.",
        "Stop working on this step. It is offered again once the person has answered."},
    RefusalAdvice{RefusalCode::policy_changed,
                  "The policy was replaced between the evaluation of an action and its turn.",
                  "Nothing: it is evaluated again. Seen only when policies change all the time."},
    RefusalAdvice{RefusalCode::not_reversible,
                  "Nothing of what was to be undone can be: it did not happen, is undone already, is in doubt, or its "
                  "connector knows no way back.",
                  "Read the receipt: `pawl receipts ID`. Resolve a receipt that is in doubt first; what has no undo "
                  "must be set right by hand."},
    RefusalAdvice{
        RefusalCode::task_transition, "The task is in a state that this request does not lead out of.",
        "The message says what is possible instead. `pawl task show ID` shows the task as it is now: somebody else "
        "may have been faster."},
    RefusalAdvice{RefusalCode::task_active, "A task that is queued or running cannot be deleted.",
                  "Cancel it, and delete it once it is CANCELLED."},
    RefusalAdvice{
        RefusalCode::task_cycle,
        "The task would wait, over other tasks or over its parent, for itself, and nothing of it would ever run.",
        "Leave out one of its `depends_on`, or its `parent_task_id`."},
    RefusalAdvice{RefusalCode::effects_frozen,
                  "Effects were frozen after this one was allowed: if it has not begun, it must not begin any more.",
                  "If the call was not made, record its outcome as failed. If it was made, record what became of it."},
    RefusalAdvice{RefusalCode::above_ceiling,
                  "The installation allows the tenant less: a tenant can lower its limits, and not raise them above "
                  "its ceiling.",
                  "Set a lower value, or ask an admin of the tenant `default` for a higher ceiling: `pawl tenants NAME "
                  "--max-concurrency N`."},
    RefusalAdvice{RefusalCode::storage_full,
                  "The tenant's journal has reached `max_stored_bytes`. Nothing new begins; what has begun goes on and "
                  "ends.",
                  "Ask an admin of the tenant `default` to raise the limit."},
    RefusalAdvice{RefusalCode::task_limit,
                  "The tree of tasks would be too deep or too large, its parent has less budget left than the subtask "
                  "asks for, or the task itself has used its budget up.",
                  "The message says which limit it is (docs/tasks.md). Ask for less, or create a new task without a "
                  "parent."},
    RefusalAdvice{RefusalCode::unknown_workflow,
                  "The request names a workflow, or a version of one, that is not published.",
                  "Publish it first: `PUT /workflows/{name}`."},
    RefusalAdvice{RefusalCode::unknown_task,
                  "The task names another one, as its parent or in `depends_on`, that does not exist.",
                  "Create that task first; the message names it."},
    RefusalAdvice{RefusalCode::invalid, "The request itself is wrong, whatever the state of things.",
                  "The message says where; correct it and ask again. Unchanged, it will always be refused."},
};

constexpr bool every_refusal_has_advice() {
  if (refusal_advice.size() != enum_count<RefusalCode>) return false;
  for (std::size_t i = 0; i < refusal_advice.size(); ++i)
    if (refusal_advice[i].code != static_cast<RefusalCode>(i)) return false;
  return true;
}
static_assert(every_refusal_has_advice(), "a new refusal needs its lines here, in the same order");

constexpr std::string_view yes_no(bool value) { return value ? "yes" : "no"; }

// The tables hold phrases; the page holds sentences.
std::string sentence(std::string_view phrase) {
  std::string out(phrase);
  if (!out.empty() && out.front() >= 'a' && out.front() <= 'z')
    out.front() = static_cast<char>(out.front() - 'a' + 'A');
  return out + ".";
}

std::string code_text(std::string_view word) { return word.empty() ? "null" : "`" + std::string(word) + "`"; }

std::string row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const auto& cell : cells) out += " " + cell + " |";
  return out + "\n";
}

std::string header(const std::vector<std::string>& names) {
  std::string out = row(names) + "|";
  for (std::size_t i = 0; i < names.size(); ++i) out += "---|";
  return out + "\n";
}

std::vector<std::string> vocabulary_names() {
  std::vector<std::string> out;
  for (auto name : enum_names<Vocabulary>) out.push_back(code_text(name));
  return out;
}

}  // namespace

std::string run_projection_reference() {
  auto names = vocabulary_names();
  names.insert(names.begin(), "while");
  names.push_back("sub_state");
  std::string out = header(names);
  for (const auto& projection : run_projections) {
    std::vector<std::string> cells{projection.phase == RunPhase::plain ? "" : std::string(to_string(projection.phase))};
    for (auto word : projection.words) cells.push_back(code_text(word));
    cells.push_back(code_text(projection.sub_state));
    out += row(cells);
  }
  return out;
}

std::string step_projection_reference() {
  std::string out = header(vocabulary_names());
  for (const auto& projection : step_projections) {
    std::vector<std::string> cells;
    for (auto word : projection.words) cells.push_back(code_text(word));
    out += row(cells);
  }
  return out;
}

std::string provider_reference(Provider provider) {
  auto ends = [](std::optional<RunTrigger> trigger) {
    return trigger ? "`" + std::string(to_string(*next(run_table, RunStatus::running, *trigger))) + "`" : std::string();
  };
  std::string out = header({"state", "and", "sub_state", "ends the run as", ""});
  for (const ProviderState& state : provider_states)
    if (state.provider == provider)
      out += row({code_text(state.word), std::string(to_string(state.sign)), code_text(to_string(state.sub_state)),
                  ends(state.ends), std::string(state.note)});
  if (is_foreign(provider))
    return out + row({"any other", "", code_text(to_string(SubState::running)), "", "with a warning"});
  out = header({"state", "and", "sub_state"});
  for (const RunProjection& projection : run_projections)
    out += row({code_text(to_string(projection.stored)),
                projection.phase == RunPhase::plain ? "" : std::string(to_string(projection.phase)),
                code_text(projection.sub_state)});
  return out;
}

std::string error_reference() {
  std::string out;
  for (std::size_t i = 0; i < error_codes.size(); ++i) {
    const ErrorCode& code = error_codes[i];
    if (i > 0) out += "\n";
    out += "## " + std::string(code.code) + "\n\n";
    out += header({"category", "retryable", "severity"});
    out += row({std::string(to_string(code.category)), std::string(yes_no(code.retryable)),
                std::string(to_string(code.severity))});
    out += "\n**Likely cause.** " + sentence(code.likely_cause) + "\n";
    out += "\n**Suggested fix.** " + sentence(code.suggested_fix) + "\n";
    out += "\n**What to do.** " + std::string(advice[i].what_to_do) + "\n";
  }
  return out;
}

std::string refusal_reference() {
  std::string out;
  for (const RefusalAdvice& refusal : refusal_advice) {
    if (!out.empty()) out += "\n";
    out += "### " + std::string(to_string(refusal.code)) + "\n";
    out += "\n**What it means.** " + std::string(refusal.meaning) + "\n";
    out += "\n**What to do.** " + std::string(refusal.what_to_do) + "\n";
  }
  return out;
}

}  // namespace pawl::tests
