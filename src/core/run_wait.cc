#include "core/run_wait.h"

namespace pawl {
namespace {

bool has(const Run& run, StepStatus status) {
  for (const Step& step : run.steps)
    if (step.status == status) return true;
  return false;
}

std::optional<RunWait> worker_wait(const Run& run) {
  for (StepIndex i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].status == StepStatus::ready) {
      const StepDefinition& step = run.definition(i);
      return RunWait{.kind = WaitKind::worker, .step = step.id, .tool = step.tool};
    }
  return std::nullopt;
}

std::optional<RunWait> retry_wait(const Run& run) {
  std::optional<RunWait> out;
  for (StepIndex i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].status == StepStatus::failed_retryable && (!out || run.steps[i].next_eligible_at < out->until))
      out = RunWait{
          .kind = WaitKind::retry, .step = run.definition(i).id, .tool = {}, .until = run.steps[i].next_eligible_at};
  return out;
}

std::optional<RunWait> timer_wait(const Run& run) {
  std::optional<RunWait> out;
  for (StepIndex i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].status == StepStatus::waiting_event && (!out || run.steps[i].due_at < out->until))
      out = RunWait{.kind = WaitKind::timer, .step = run.definition(i).id, .tool = {}, .until = run.steps[i].due_at};
  return out;
}

std::optional<RunWait> people_wait(const Run& run) {
  for (const Approval& approval : run.approvals)
    if (approval.status == ApprovalStatus::requested)
      return RunWait{.kind = WaitKind::approval,
                     .step = run.definition(approval.step).id,
                     .tool = {},
                     .until = approval.expires_at,
                     .approval = approval.id};
  for (StepIndex i = 0; i < run.steps.size(); ++i)
    if (run.steps[i].status == StepStatus::waiting_input)
      return RunWait{.kind = WaitKind::question, .step = run.definition(i).id, .tool = {}, .until = {}};
  return std::nullopt;
}

// "max_runs_per_min (1) of the workflow; the next run can start at 2026-11-18T20:00:00.000Z"
std::string words_of(const RunWait& wait) {
  const ReachedCap& cap = *wait.cap;
  std::string out =
      cap.name + " (" + std::to_string(cap.value) + ") of the " + (cap.is_workflows ? "workflow" : "tenant");
  if (wait.until == end_of_time) return out + "; nothing runs until the cap is raised";
  return wait.until.ms == 0 ? out : out + "; the next run can start at " + print_time(wait.until);
}

}  // namespace

std::optional<RunWait> wait_of(const Run& run) {
  if (run.task || is_terminal(run.status) || has(run, StepStatus::running)) return std::nullopt;
  if (auto wait = worker_wait(run)) return wait;
  if (run.provider == Provider::native && run.status == RunStatus::created)
    return RunWait{.kind = WaitKind::start, .step = {}, .tool = {}, .until = {}};
  if (auto wait = retry_wait(run)) return wait;
  if (auto wait = people_wait(run)) return wait;
  if (auto wait = timer_wait(run)) return wait;
  if (!run.foreign) return std::nullopt;
  return RunWait{.kind = WaitKind::provider, .step = {}, .tool = {}, .until = run.foreign->next_retry_at};
}

std::string describe(const RunWait& wait) {
  switch (wait.kind) {
    case WaitKind::worker:
      if (wait.cap) return "step " + wait.step.text + " is held back by the cap " + words_of(wait);
      return "step " + wait.step.text + " waits for a worker with the tool " + wait.tool.text +
             (wait.is_unserved ? "; none is connected" : "");
    case WaitKind::start:
      return wait.cap ? "the run is held back by the cap " + words_of(wait) : "the engine has not started it yet";
    case WaitKind::retry:
      return "step " + wait.step.text + " is tried again at " + print_time(wait.until);
    case WaitKind::approval:
      return "step " + wait.step.text + " waits for approval until " + print_time(wait.until);
    case WaitKind::question:
      return "step " + wait.step.text + " waits for an answer";
    case WaitKind::timer:
      return "step " + wait.step.text + " waits until " + print_time(wait.until);
    case WaitKind::provider:
      return wait.until.ms == 0 ? "executed by another engine" : "tried again there at " + print_time(wait.until);
  }
  return "";
}

}  // namespace pawl
