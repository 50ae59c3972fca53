#include "core/evolve_task.h"

#include <algorithm>

namespace pawl {
namespace {

using Checked = std::expected<void, std::string>;

// Copies of a run share its task, so each change makes a new one.
std::expected<Task, std::string> changing(const Run& run, Instant at) {
  if (!run.task) return invalid_event("an event of a task in the stream of a run");
  if (run.task->deleted) return invalid_event("an event after the task was deleted");
  Task task = *run.task;
  task.updated_at = at;
  return task;
}

Checked put(Run& run, Task task) {
  run.status = run_status_of(task.state);
  run.task = std::make_shared<const Task>(std::move(task));
  return {};
}

bool begins_execution(TaskTrigger trigger) {
  return trigger == TaskTrigger::queue || trigger == TaskTrigger::retry || trigger == TaskTrigger::resume ||
         trigger == TaskTrigger::answer;
}

// Not by an answer: what is asked during a run may be answered by those who decide on what it does.
bool asks_for_run(const TaskMoved& event) {
  return begins_execution(event.trigger) && event.trigger != TaskTrigger::answer && !event.by.empty();
}

bool needs_diagnostic(TaskState to) {
  return to == TaskState::failed || to == TaskState::timed_out || to == TaskState::budget_exceeded;
}

void close_question(Task& task) {
  task.question.clear();
  task.asked_about.reset();
}

void begin_execution(Task& task, const TaskMoved& event, Instant at) {
  TaskExecution execution;
  execution.number = static_cast<int>(task.executions.size()) + 1;
  execution.run = *event.run;
  execution.session = event.session;
  execution.resumes = event.resumes;
  if (event.trigger == TaskTrigger::resume || event.trigger == TaskTrigger::answer) execution.message = event.message;
  execution.queued_at = at;
  task.executions.push_back(std::move(execution));
}

void end_execution(Run& run, Task& task, const TaskMoved& event, TaskState outcome, Instant at) {
  if (task.executions.empty() || task.executions.back().outcome) return;
  TaskExecution& execution = task.executions.back();
  execution.ended_at = at;
  execution.outcome = outcome;
  execution.cost = event.cost;
  execution.result = event.result;
  run.cost = run.cost + event.cost;
}

// What must hold of a move beyond the table.
Checked check_move(const Task& task, const TaskMoved& event, TaskState to) {
  if (needs_diagnostic(to) && !event.diagnostic)
    return invalid_event("a task became " + std::string(to_string(to)) + " without a diagnostic");
  if (to == TaskState::ready && task.is_subtask()) return invalid_event("a subtask has no review");
  if (event.trigger == TaskTrigger::complete && !task.is_subtask())
    return invalid_event("a task that is no subtask was completed without a review");
  if (event.trigger == TaskTrigger::await_subtasks && task.subtasks.empty())
    return invalid_event("a task without subtasks awaits some");
  if (event.trigger == TaskTrigger::block && (task.executions.empty() || task.executions.back().session.empty()))
    return invalid_event("a task was blocked without a session");
  bool executes = begins_execution(event.trigger) && event.trigger != TaskTrigger::answer;
  if (executes && (!event.run || event.session.empty()))
    return invalid_event("a task was queued without a run and a session");
  // Without a run it is the beginning of a cancel, which needs no question.
  if (event.trigger == TaskTrigger::answer && event.run && task.question.empty())
    return invalid_event("an answer to no question");
  return {};
}

}  // namespace

bool concerns_task(const RunPayload& payload) {
  return std::holds_alternative<TaskMoved>(payload) || std::holds_alternative<TaskAsked>(payload) ||
         std::holds_alternative<TaskSubtask>(payload) || std::holds_alternative<TaskChanged>(payload) ||
         std::holds_alternative<TaskDeleted>(payload) || std::holds_alternative<TransitionRefused>(payload);
}

Checked begin_task(Run& run, Instant at) {
  auto spec = parse_task_spec(run.input);
  if (!spec) return invalid_event("a task cannot be read: " + spec.error());
  Task task;
  task.spec = std::move(*spec);
  task.updated_at = at;
  run.task = std::make_shared<const Task>(std::move(task));
  return {};
}

Checked evolve_task(Run& run, const TaskMoved& event, Instant at) {
  auto task = changing(run, at);
  if (!task) return invalid_event(task.error());
  auto to = next(task_table, task->state, event.trigger);
  if (!to)
    return invalid_event("a task that is " + std::string(to_string(task->state)) + " cannot " +
                         std::string(to_string(event.trigger)));
  if (auto checked = check_move(*task, event, *to); !checked) return checked;
  bool was_active = is_active(task->state);
  task->state = *to;
  if (event.trigger == TaskTrigger::start && !task->executions.empty()) task->executions.back().started_at = at;
  if (was_active && !is_active(*to)) end_execution(run, *task, event, *to, at);
  if (event.trigger == TaskTrigger::block) {
    task->asked_by = event.step;
    task->asked_under = event.token;
  }
  if (event.trigger == TaskTrigger::answer && !event.message.empty()) task->answer = event.message;
  if (event.trigger == TaskTrigger::reject) task->rejection_comment = event.message;
  if (begins_execution(event.trigger)) close_question(*task);
  if (begins_execution(event.trigger) && event.run) begin_execution(*task, event, at);
  if (asks_for_run(event) && !is_requester(run, event.by)) run.other_requesters.push_back(event.by);
  run.diagnostic = event.diagnostic;
  return put(run, std::move(*task));
}

Checked evolve_task(Run& run, const TaskAsked& event, Instant at) {
  auto task = changing(run, at);
  if (!task) return invalid_event(task.error());
  if (task->state != TaskState::blocked) return invalid_event("a task that is not blocked has a question");
  if (event.question.empty()) {
    if (task->question.empty()) return invalid_event("a question was closed that nobody asked");
    close_question(*task);
    if (!event.answer.empty()) task->answer = event.answer;
  } else {
    task->question = event.question;
    task->asked_about = event.about;
  }
  return put(run, std::move(*task));
}

Checked evolve_task(Run& run, const TaskSubtask& event, Instant at) {
  auto task = changing(run, at);
  if (!task) return invalid_event(task.error());
  bool is_known = std::ranges::find(task->subtasks, event.subtask) != task->subtasks.end();
  if (event.dropped != is_known)
    return invalid_event(is_known ? "a subtask was added twice" : "no such subtask to drop");
  (event.dropped ? task->dropped : task->subtasks).push_back(event.subtask);
  return put(run, std::move(*task));
}

Checked evolve_task(Run& run, const TaskChanged& event, Instant at) {
  auto task = changing(run, at);
  if (!task) return invalid_event(task.error());
  if (is_active(task->state) || is_terminal(task->state))
    return invalid_event("a task was changed that is " + std::string(to_string(task->state)));
  auto spec = changed_spec(task->spec, event.changes);
  if (!spec) return invalid_event("a task was changed to what cannot be read: " + spec.error());
  task->spec = std::move(*spec);
  return put(run, std::move(*task));
}

Checked evolve_task(Run& run, const TaskDeleted&, Instant at) {
  auto task = changing(run, at);
  if (!task) return invalid_event(task.error());
  if (is_active(task->state)) return invalid_event("a task was deleted that is queued or running");
  task->deleted = true;
  return put(run, std::move(*task));
}

}  // namespace pawl
