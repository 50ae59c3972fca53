// Engine, the part that counts, for monitoring.
#include <algorithm>

#include "engine/engine.h"
#include "engine/resident.h"

namespace pawl {

void Engine::count_outcome(const Resident& resident, const RunEvent& event, std::optional<StepIndex> step) {
  const Run& run = resident.run;
  auto of_tool = [&]() -> ToolOutcomes& { return outcomes_.of_tool(run.definition(*step).tool); };
  if (std::holds_alternative<StepCompleted>(event.payload) || std::holds_alternative<StepArrived>(event.payload)) {
    ++stats_.steps_succeeded;
    ++of_tool().succeeded;
  }
  if (const auto* failed = std::get_if<StepFailed>(&event.payload)) {
    const bool is_retried = failed->trigger == StepTrigger::fail_retryable;
    ++(is_retried ? stats_.steps_failed_retryable : stats_.steps_failed_terminal);
    ++(is_retried ? of_tool().failed_retryable : of_tool().failed_terminal);
  }
  if (std::holds_alternative<StepReleased>(event.payload)) {
    ++stats_.steps_released;
    ++of_tool().released;
  }
  if (std::holds_alternative<RunMoved>(event.payload) && is_terminal(run.status)) {
    ++stats_.runs_finished;
    ++outcomes_.of_workflow(resident.workflow_number).by_status[static_cast<std::size_t>(run.status)];
  }
}

void Engine::add_to_queue(const ReadyStep& step) {
  constexpr std::size_t dropped_at_once_min = 1000;
  scheduler_.add(step);
  queued_since_.push_back({clock_.now(), step.run, step.step});
  while (!queued_since_.empty() && !is_queued(queued_since_.front())) queued_since_.pop_front();
  // One that waits long keeps those behind it here.
  if (queued_since_.size() > 2 * scheduler_.size() + dropped_at_once_min)
    std::erase_if(queued_since_, [&](const QueuedSince& queued) { return !is_queued(queued); });
}

bool Engine::is_queued(const QueuedSince& queued) const {
  auto found = residents_.find(queued.run);
  if (found == residents_.end()) return false;
  const Resident& resident = *found->second;
  const Step& step = resident.run.steps[queued.step];
  const bool waits = step.status == StepStatus::ready || resident.lease_marks[queued.step] == LeaseMark::reclaim_queued;
  return waits && step.started_at <= queued.since && !is_terminal(resident.run.status);
}

Instant Engine::oldest_queued() const {
  auto found = std::ranges::find_if(queued_since_, [&](const QueuedSince& queued) { return is_queued(queued); });
  return found == queued_since_.end() ? end_of_time : found->since;
}

EngineStats Engine::stats() const {
  EngineStats out = stats_;
  out.runs_resident = residents_.size();
  out.working_set_bytes = working_set_bytes_;
  out.steps_queued = scheduler_.size();
  out.polls_waiting = polls_.size();
  out.held_back = scheduler_.held_back();
  out.oldest_queued = oldest_queued();
  for (const auto& [id, resident] : residents_)
    for (const Step& step : resident->run.steps) {
      if (step.status != StepStatus::running) continue;
      ++out.leases_open;
      out.oldest_lease = std::min(out.oldest_lease, step.started_at);
    }
  const auto& workflows = outcomes_.workflows();
  for (std::size_t number = 0; number < workflows.size(); ++number) {
    auto [tenant, workflow] = scheduler_.workflow_of(static_cast<Scheduler::WorkflowNumber>(number));
    out.by_workflow.push_back({tenant, std::move(workflow), workflows[number]});
  }
  out.by_workflow.push_back({{}, {}, outcomes_.other_workflows()});
  for (const auto& [tool, outcomes] : outcomes_.tools()) out.by_tool.emplace_back(ToolName{tool}, outcomes);
  std::ranges::sort(out.by_tool, {}, &std::pair<ToolName, ToolOutcomes>::first);
  out.by_tool.emplace_back(ToolName{}, outcomes_.other_tools());
  return out;
}

}  // namespace pawl
