#include "tools/agent_resumption.h"

#include <algorithm>
#include <vector>

#include "core/run.h"
#include "core/task.h"

namespace pawl {
namespace {

using RunPointer = std::shared_ptr<const Run>;

RunPointer inspect(Runtime& runtime, TenantId tenant, RunId id) {
  auto run = runtime.ask(InspectRun{tenant, id});
  return run ? *run : nullptr;
}

RunPointer inspect_task(Runtime& runtime, TenantId tenant, TaskId id) {
  auto task = runtime.ask(InspectTask{tenant, id});
  return task ? *task : nullptr;
}

// Those whose sessions the run goes on with, newest first.
std::vector<RunId> earlier_runs(const Task& task, std::size_t execution) {
  std::vector<RunId> out;
  for (std::size_t i = execution; i > 0 && task.executions[i].resumes; --i)
    if (const RunId run = task.executions[i - 1].run; out.empty() || out.back() != run) out.push_back(run);
  return out;
}

bool asks(const Step& step) { return !step.question.empty() && step.answer.empty(); }

}  // namespace

std::optional<AgentResumption> find_resumption(Runtime& runtime, const Lease& lease) {
  const RunPointer run = inspect(runtime, lease.tenant, lease.run);
  if (!run || run->trigger_type != task_trigger) return std::nullopt;
  const auto id = TaskId::parse(run->trigger_ref.substr(0, run->trigger_ref.find('/')));
  const RunPointer stream = id ? inspect_task(runtime, lease.tenant, *id) : nullptr;
  if (!stream || !stream->task) return std::nullopt;
  const Task& task = *stream->task;
  // The one that made this run: later ones may be parts of it.
  const auto execution = std::ranges::find(task.executions, lease.run, &TaskExecution::run);
  if (execution == task.executions.end()) return std::nullopt;
  const auto index = static_cast<std::size_t>(execution - task.executions.begin());
  for (const RunId id_before : earlier_runs(task, index)) {
    const RunPointer before = inspect(runtime, lease.tenant, id_before);
    const auto place = before && before->workflow ? before->find_step(lease.step) : std::nullopt;
    if (!place || *place >= before->steps.size()) continue;
    const Step& step = before->steps[*place];
    if (step.status == StepStatus::succeeded) return std::nullopt;
    // Never claimed. Attempts say nothing of that: one that waits for an answer or an approval is given back.
    if (step.lease_token == 0) continue;
    const bool is_for_it = asks(step) || std::ranges::none_of(before->steps, asks);
    return AgentResumption{id_before, is_for_it ? execution->message : JsonText()};
  }
  return std::nullopt;
}

}  // namespace pawl
