#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "core/invariant.h"
#include "core/task_command.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

// The words are the seed's own: a session is resumed with them.
constexpr std::string_view after_time_out = "Your previous execution timed out. Please continue where you left off.";

// A decision in the making: the state as the events drafted so far leave it.
class TaskDraft {
 public:
  TaskDraft(const Run& run, Instant now) : run_(run), task_(*run.task), now_(now), state_(task_.state) {}

  const Run& run() const { return run_; }
  const Task& task() const { return task_; }
  TaskState state() const { return state_; }
  Instant now() const { return now_; }

  void emit(RunPayload payload) { events_.push_back({now_, std::move(payload)}); }
  void move(TaskMoved moved) {
    auto to = next(task_table, state_, moved.trigger);
    invariant(to.has_value(), "decide drafted an illegal task transition");
    state_ = *to;
    emit(std::move(moved));
  }
  void move(TaskTrigger trigger, Actor by = {}, std::string message = {}) {
    move(TaskMoved{.trigger = trigger, .by = std::move(by), .message = std::move(message)});
  }

  Decision done() && { return {std::move(events_), std::nullopt}; }

 private:
  const Run& run_;
  const Task& task_;
  Instant now_;
  TaskState state_;
  std::vector<RunEvent> events_;
};

std::string join(const std::vector<std::string_view>& words) {
  std::string out;
  for (std::string_view word : words) out += (out.empty() ? "" : ", ") + std::string(word);
  return out;
}

Decision refuse_task_request(const Run& run, Instant now, std::string_view requested, RefusalCode code, const Actor& by,
                             std::string message, std::string field = {}) {
  std::string state(to_string(run.task->state));
  return {{{now, TransitionRefused{std::string(requested), state, std::string(to_string(code)), by, true}}},
          Refusal{code, std::move(message), std::move(field)}};
}

// Says what would be possible instead.
Decision refuse_move(const Run& run, Instant now, std::string_view requested, const Actor& by) {
  TaskState state = run.task->state;
  auto possible = possible_requests(state);
  if (run.task->question.empty()) std::erase(possible, "answer");
  std::string message = "the task is " + std::string(to_string(state)) + ": it cannot " + std::string(requested) +
                        (possible.empty() ? ". Nothing is allowed now." : ". Allowed: " + join(possible) + ".");
  return refuse_task_request(run, now, requested, RefusalCode::task_transition, by, std::move(message));
}

// An execution of its own, in a new session.
TaskMoved beginning(TaskTrigger trigger, const Actor& by, const TaskDraws& draws) {
  return {.trigger = trigger, .by = by, .message = {}, .run = draws.run, .session = draws.session};
}

// One that goes on with the session of the latest.
TaskMoved going_on(const Task& task, TaskTrigger trigger, const Actor& by, JsonText message, RunId run) {
  return {.trigger = trigger,
          .by = by,
          .message = std::move(message),
          .run = run,
          .session = task.latest()->session,
          .resumes = true};
}

// A budget is the task's, however often it is tried.
std::optional<Decision> refuse_spent(const Run& run, Instant now, std::string_view requested, const Actor& by,
                                     const std::optional<Money>& left) {
  if (!left || left->micros > 0) return std::nullopt;
  return refuse_task_request(run, now, requested, RefusalCode::task_limit, by,
                             "the task has used up its budget of " + print_money(*run.task->spec.max_budget) +
                                 " USD, its subtasks included; create a new task");
}

// Whoever has a task run is one of its requesters from then on.
std::optional<Decision> refuse_requester(const Run& run, Instant now, std::string_view requested, const Actor& by) {
  if (is_requester(run, by) || run.other_requesters.size() + 1 < requesters_max) return std::nullopt;
  return refuse_task_request(run, now, requested, RefusalCode::task_limit, by,
                             std::to_string(requesters_max) +
                                 " people and keys have asked for runs of this task, which is the most there may be; "
                                 "create a new task");
}

bool can_run_again(TaskState state) { return state == TaskState::failed || state == TaskState::timed_out; }

Decision decide_task(const Run& run, const RunTask& command, Instant now, const TaskDraws& draws) {
  TaskDraft draft(run, now);
  if (draft.state() != TaskState::pending && !can_run_again(draft.state()))
    return refuse_move(run, now, "run", command.by);
  if (auto refused = refuse_spent(run, now, "run", command.by, command.left)) return std::move(*refused);
  if (auto refused = refuse_requester(run, now, "run", command.by)) return std::move(*refused);
  auto trigger = draft.state() == TaskState::pending  ? TaskTrigger::queue
                 : draft.state() == TaskState::failed ? TaskTrigger::retry
                                                      : TaskTrigger::resume;
  draft.move(beginning(trigger, command.by, draws));
  return std::move(draft).done();
}

Decision decide_task(const Run& run, const CancelTask& command, Instant now, const TaskDraws&) {
  TaskDraft draft(run, now);
  if (draft.state() == TaskState::blocked) draft.move(TaskTrigger::answer, command.by);
  if (!next(task_table, draft.state(), TaskTrigger::cancel)) return refuse_move(run, now, "cancel", command.by);
  // Whoever executes it may be done at this very moment. What becomes of the run is what becomes of the task.
  if (draft.state() != TaskState::running) draft.move(TaskTrigger::cancel, command.by, command.reason);
  return std::move(draft).done();
}

Decision decide_task(const Run& run, const AcceptTask& command, Instant now, const TaskDraws&) {
  TaskDraft draft(run, now);
  if (draft.state() != TaskState::ready) return refuse_move(run, now, "accept", command.by);
  draft.move(TaskTrigger::accept, command.by);
  return std::move(draft).done();
}

Decision decide_task(const Run& run, const RejectTask& command, Instant now, const TaskDraws&) {
  TaskDraft draft(run, now);
  if (draft.state() != TaskState::ready) return refuse_move(run, now, "reject", command.by);
  draft.move(TaskTrigger::reject, command.by, command.comment);
  return std::move(draft).done();
}

Decision decide_task(const Run& run, const ResumeTask& command, Instant now, const TaskDraws& draws) {
  TaskDraft draft(run, now);
  if (draft.state() != TaskState::timed_out) return refuse_move(run, now, "resume", command.by);
  if (auto refused = refuse_spent(run, now, "resume", command.by, command.left)) return std::move(*refused);
  if (auto refused = refuse_requester(run, now, "resume", command.by)) return std::move(*refused);
  draft.move(going_on(*run.task, TaskTrigger::resume, command.by, canonical(Json(after_time_out)), draws.run));
  return std::move(draft).done();
}

// The answer to what pawl asks when a subtask has failed: retry, drop or cancel.
Decision decide_subtask(const Run& run, const AnswerTask& command, Instant now) {
  const Task& task = *run.task;
  TaskDraft draft(run, now);
  TaskId subtask = *task.asked_about;
  TaskAsked closed{{}, subtask, command.by, command.answer};
  if (command.answer == "\"retry\"") {
    if (!command.subtask || !can_run_again(*command.subtask))
      return refuse_task_request(run, now, "answer", RefusalCode::invalid, command.by,
                                 "the subtask cannot be tried again; answer drop or cancel", "/answer");
    draft.emit(std::move(closed));
  } else if (command.answer == "\"drop\"") {
    draft.emit(TaskSubtask{subtask, true, command.by});
    draft.emit(std::move(closed));
  } else if (command.answer == "\"cancel\"") {
    draft.move(TaskTrigger::answer, command.by, command.answer);
    draft.move(TaskTrigger::cancel, command.by);
  } else {
    return refuse_task_request(run, now, "answer", RefusalCode::invalid, command.by,
                               "this question is answered with retry, drop or cancel", "/answer");
  }
  return std::move(draft).done();
}

Decision decide_task(const Run& run, const AnswerTask& command, Instant now, const TaskDraws& draws) {
  const Task& task = *run.task;
  if (task.state != TaskState::blocked) return refuse_move(run, now, "answer", command.by);
  if (task.question.empty())
    return refuse_task_request(run, now, "answer", RefusalCode::nothing_waiting, command.by,
                               "the task waits for its subtasks and has no question");
  if (task.asked_about) return decide_subtask(run, command, now);
  TaskDraft draft(run, now);
  RunId goes_on = command.run_waits ? task.latest()->run : draws.run;
  draft.move(going_on(task, TaskTrigger::answer, command.by, command.answer, goes_on));
  return std::move(draft).done();
}

Decision decide_task(const Run& run, const DeleteTask& command, Instant now, const TaskDraws&) {
  TaskDraft draft(run, now);
  if (is_active(draft.state()))
    return refuse_task_request(run, now, "delete", RefusalCode::task_active, command.by,
                               "the task is " + std::string(to_string(draft.state())) + "; cancel it first");
  if (command.active_subtask)
    return refuse_task_request(run, now, "delete", RefusalCode::task_active, command.by,
                               "the subtask " + command.active_subtask->str() +
                                   " is QUEUED or RUNNING; cancel it first, or the task with all its subtasks");
  draft.emit(TaskDeleted{command.by});
  return std::move(draft).done();
}

// Why the budget cannot become this: what its subtasks were given they keep.
std::optional<std::string> lower_budget_problem(const Task& task, const Money& wanted, const ChangeTask& command) {
  const bool is_lower = !task.spec.max_budget || wanted < *task.spec.max_budget;
  if (!is_lower || task.subtasks.empty()) return std::nullopt;
  if (command.unlimited_subtask)
    return "its subtask " + command.unlimited_subtask->str() + " has no budget; give it a max_budget_usd first";
  if (wanted >= command.committed) return std::nullopt;
  return "it and its subtasks have cost or may still cost " + print_money(command.committed) +
         " USD, so its max_budget_usd must be at least that; lower those of its subtasks first";
}

Decision decide_task(const Run& run, const ChangeTask& command, Instant now, const TaskDraws&) {
  TaskDraft draft(run, now);
  const TaskSpec& spec = run.task->spec;
  if (is_active(draft.state()) || is_terminal(draft.state())) return refuse_move(run, now, "change", command.by);
  auto changed = changed_spec(spec, command.changes);
  if (!changed)
    return refuse_task_request(run, now, "change", RefusalCode::invalid, command.by, std::move(changed.error()));
  const bool changes_budget = changed->max_budget != spec.max_budget;
  if (changes_budget && command.budget_max && (!changed->max_budget || *changed->max_budget > *command.budget_max))
    return refuse_task_request(run, now, "change", RefusalCode::task_limit, command.by,
                               "its parent has a budget: a max_budget_usd of at most " +
                                   print_money({std::max<std::int64_t>(0, command.budget_max->micros)}) + " is left",
                               "/max_budget_usd");
  if (changes_budget && changed->max_budget)
    if (auto problem = lower_budget_problem(*run.task, *changed->max_budget, command))
      return refuse_task_request(run, now, "change", RefusalCode::task_limit, command.by, std::move(*problem),
                                 "/max_budget_usd");
  if (*changed != spec) draft.emit(TaskChanged{canonical(value_of(command.changes)), command.by});
  return std::move(draft).done();
}

Decision decide_task(const Run& run, const AddSubtask& command, Instant now, const TaskDraws&) {
  TaskDraft draft(run, now);
  if (std::ranges::find(run.task->subtasks, command.subtask) == run.task->subtasks.end())
    draft.emit(TaskSubtask{command.subtask, false});
  return std::move(draft).done();
}

// ---- Following

bool has_cause(const Diagnostic* diagnostic, std::string_view code) {
  for (; diagnostic; diagnostic = diagnostic->cause.get())
    if (diagnostic->error_code == code) return true;
  return false;
}

// What the run has cost since the execution before this one, when both are parts of it.
Money cost_of(const Task& task, const Run& run) {
  Money before;
  for (const TaskExecution& each : task.executions)
    if (each.run == run.id) before = before + each.cost;
  return {std::max<std::int64_t>(0, run.cost.micros - before.micros)};
}

bool continues_run(const Task& task) {
  std::size_t size = task.executions.size();
  return size > 1 && task.executions[size - 1].run == task.executions[size - 2].run;
}

const Step* asking_step(const Task& task, const Run& run) {
  auto index = run.find_step(task.asked_by);
  return index && *index < run.steps.size() ? &run.steps[*index] : nullptr;
}

bool asks_still(const Task& task, const Run& run) {
  const Step* step = asking_step(task, run);
  return step && step->status == StepStatus::waiting_input && step->lease_token == task.asked_under;
}

bool was_taken_up(const Task& task, const Run& run) {
  const Step* step = asking_step(task, run);
  return step && step->lease_token > task.asked_under;
}

bool has_begun(const Task& task, const Run& run) {
  if (is_terminal(run.status)) return true;
  return continues_run(task) ? was_taken_up(task, run) : run.status != RunStatus::created;
}

TaskTrigger outcome_trigger(const Run& run) {
  const Diagnostic* why = run.diagnostic.get();
  if (run.status == RunStatus::canceled) return TaskTrigger::cancel;
  if (run.status == RunStatus::timeout) return TaskTrigger::time_out;
  if (has_cause(why, "AGENT_BUDGET_EXCEEDED") || has_cause(why, "BUDGET_EXCEEDED")) return TaskTrigger::exceed_budget;
  if (run.status == RunStatus::failed && has_cause(why, "TOOL_TIMEOUT")) return TaskTrigger::time_out;
  return TaskTrigger::fail;
}

bool is_settled(const Task& task, const Relative& subtask) {
  return !subtask.state || *subtask.state == TaskState::completed || !task.waits_for(subtask.id);
}

JsonText question_about(const Relative& subtask) {
  array choices;
  if (can_run_again(*subtask.state)) choices.emplace_back("retry");
  choices.emplace_back("drop");
  choices.emplace_back("cancel");
  std::string state(to_string(*subtask.state));
  return canonical(
      object{{"question", "The subtask \"" + subtask.title + "\" is " + state + ". What shall become of it?"},
             {"subtask", subtask.id.str()},
             {"state", state},
             {"choices", std::move(choices)}});
}

void follow_subtasks(TaskDraft& draft, const FollowTask& around) {
  const Task& task = draft.task();
  auto of = [&](TaskId id) { return std::ranges::find(around.subtasks, id, &Relative::id); };
  bool asks = task.asked_about && draft.state() == task.state;
  if (asks) {
    auto subtask = of(*task.asked_about);
    bool stands = subtask != around.subtasks.end() && !is_settled(task, *subtask) && has_failed(*subtask->state);
    if (stands) return;
    draft.emit(TaskAsked{{}, task.asked_about});
  }
  auto failed = std::ranges::find_if(
      around.subtasks, [&](const Relative& each) { return !is_settled(task, each) && has_failed(*each.state); });
  if (failed != around.subtasks.end())
    draft.emit(TaskAsked{question_about(*failed), failed->id});
  else if (std::ranges::all_of(around.subtasks, [&](const Relative& each) { return is_settled(task, each); }))
    draft.move(TaskTrigger::unblock);
}

void follow_end(TaskDraft& draft, const FollowTask& around) {
  const Task& task = draft.task();
  const Run& run = *around.run;
  TaskMoved moved{.trigger = TaskTrigger::finish, .by = {}, .message = {}, .cost = cost_of(task, run)};
  if (run.status != RunStatus::success) {
    moved.trigger = outcome_trigger(run);
    if (moved.trigger != TaskTrigger::cancel) moved.diagnostic = run.diagnostic;
    return draft.move(std::move(moved));
  }
  if (task.is_subtask())
    moved.trigger = TaskTrigger::complete;
  else if (!task.subtasks.empty())
    moved.trigger = TaskTrigger::await_subtasks;
  moved.result = task_result_of(run);
  draft.move(std::move(moved));
  if (draft.state() == TaskState::blocked) follow_subtasks(draft, around);
}

void follow_run(TaskDraft& draft, const FollowTask& around) {
  const Run& run = *around.run;
  if (is_terminal(run.status)) return follow_end(draft, around);
  if (run.status != RunStatus::waiting) return;
  for (StepIndex i = 0; i < run.steps.size(); ++i) {
    const Step& step = run.steps[i];
    if (step.status != StepStatus::waiting_input) continue;
    draft.move(TaskMoved{.trigger = TaskTrigger::block,
                         .by = {},
                         .message = {},
                         .step = run.definition(i).id,
                         .token = step.lease_token,
                         .cost = cost_of(draft.task(), run)});
    return draft.emit(TaskAsked{step.question, {}});
  }
}

void fail_unstarted(TaskDraft& draft, std::string_view code, std::string message) {
  draft.move(TaskTrigger::start);
  auto why = std::make_shared<const Diagnostic>(diagnose(code, std::move(message), draft.now()));
  draft.move(TaskMoved{.trigger = TaskTrigger::fail, .by = {}, .message = {}, .diagnostic = std::move(why)});
}

void follow_queued(TaskDraft& draft, const FollowTask& around) {
  const Task& task = draft.task();
  if (around.run) {
    if (around.run->status == RunStatus::canceled) return follow_end(draft, around);
    if (!has_begun(task, *around.run)) return;
    draft.move(TaskTrigger::start);
    return follow_run(draft, around);
  }
  for (const Relative& each : around.dependencies) {
    if (each.state && !has_failed(*each.state)) continue;
    std::string state = each.state ? "is " + std::string(to_string(*each.state)) : std::string("is gone");
    return fail_unstarted(
        draft, "DEPENDENCY_FAILED",
        "it depends on " + each.id.str() + (each.title.empty() ? "" : " (" + each.title + ")") + ", which " + state);
  }
  if (!around.obstacle.empty()) fail_unstarted(draft, "TASK_NOT_STARTED", around.obstacle);
}

void follow_blocked(TaskDraft& draft, const FollowTask& around) {
  const Task& task = draft.task();
  bool run_asked = !task.question.empty() && !task.asked_about;
  if (!run_asked) return follow_subtasks(draft, around);
  // Somebody answered the run itself: the task goes on with it.
  if (!around.run || asks_still(task, *around.run)) return;
  const Step* step = asking_step(task, *around.run);
  bool was_answered = was_taken_up(task, *around.run) || (step && step->status == StepStatus::ready);
  // Otherwise its run is over, and whoever answers begins a new one.
  if (!was_answered) return;
  JsonText answer = step->answer.empty() ? JsonText("null") : step->answer;
  draft.move(going_on(task, TaskTrigger::answer, {}, std::move(answer), around.run->id));
  if (!was_taken_up(task, *around.run)) return;
  draft.move(TaskTrigger::start);
  follow_run(draft, around);
}

Decision decide_task(const Run& run, const FollowTask& around, Instant now, const TaskDraws&) {
  TaskDraft draft(run, now);
  const TaskExecution* latest = run.task->latest();
  if (around.run && (!latest || latest->run != around.run->id))
    return std::move(draft).done();  // it is of an earlier one
  switch (draft.state()) {
    case TaskState::queued:
      follow_queued(draft, around);
      break;
    case TaskState::running:
      if (around.run) follow_run(draft, around);
      break;
    case TaskState::blocked:
      follow_blocked(draft, around);
      break;
    case TaskState::pending:
    case TaskState::ready:
    case TaskState::completed:
    case TaskState::failed:
    case TaskState::timed_out:
    case TaskState::cancelled:
    case TaskState::budget_exceeded:
      break;
  }
  return std::move(draft).done();
}

}  // namespace

bool still_asks(const Task& task, const Run& run) { return asks_still(task, run); }

Decision decide(const Run& run, const TaskCommand& command, Instant now, const TaskDraws& draws) {
  if (run.task->deleted) return {{}, Refusal{RefusalCode::not_found, "there is no such task"}};
  return std::visit([&](const auto& concrete) { return decide_task(run, concrete, now, draws); }, command);
}

NextTaskAction next_action_of(const Run& run, const FollowTask& around) {
  const Task& task = *run.task;
  bool run_lives = around.run && !is_terminal(around.run->status);
  if (task.deleted || has_failed(task.state)) return run_lives ? NextTaskAction::cancel_run : NextTaskAction::none;
  if (task.state != TaskState::queued) return NextTaskAction::none;
  if (around.run)
    return continues_run(task) && still_asks(task, *around.run) ? NextTaskAction::deliver_answer : NextTaskAction::none;
  auto is_done = [](const Relative& each) { return each.state == TaskState::completed; };
  bool may_begin = std::ranges::all_of(around.dependencies, is_done);
  return may_begin ? NextTaskAction::make_run : NextTaskAction::none;
}

Money own_cost(const Task& task, const Run* run) {
  Money out;
  for (const TaskExecution& each : task.executions) out = out + each.cost;
  return run ? out + cost_of(task, *run) : out;
}

std::optional<Refusal> subtask_problem(const SubtaskRequest& request) {
  auto refuse = [](std::string message, std::string field = "/parent_task_id") {
    return Refusal{RefusalCode::task_limit, std::move(message), std::move(field)};
  };
  auto at_most = [](std::size_t count) { return "at most " + std::to_string(count); };
  if (request.depth >= task_depth_max)
    return refuse("a tree of tasks has " + at_most(task_depth_max) + " levels; create a task without a parent");
  if (request.siblings >= subtasks_max)
    return refuse("a task has " + at_most(subtasks_max) + " subtasks; put some of them beneath another one");
  if (request.tree >= task_tree_tasks_max)
    return refuse("a tree of tasks has " + at_most(task_tree_tasks_max) + " tasks; create a task without a parent");
  if (!request.left) return std::nullopt;
  const std::string left = print_money({std::max<std::int64_t>(0, request.left->micros)}) + " USD left";
  if (!request.budget)
    return refuse("its parent has a budget, with " + left + ": give the subtask a max_budget_usd of at most that",
                  "/max_budget_usd");
  if (*request.budget > *request.left)
    return refuse("it asks for " + print_money(*request.budget) + " USD, and its parent has " + left,
                  "/max_budget_usd");
  return std::nullopt;
}

JsonText carrying_input(const Run& run, const std::optional<Money>& left) {
  const Task& task = *run.task;
  const TaskSpec& spec = task.spec;
  if (spec.agent == TaskAgent::none) return spec.input;
  const TaskExecution& execution = *task.latest();
  std::string prompt = spec.prompt;
  if (!task.rejection_comment.empty() && !execution.resumes)
    prompt += "\n\nAn earlier result was rejected: " + task.rejection_comment;
  Json settings = value_of(spec.settings);
  auto setting = [&](std::string_view key) -> Json {
    const Json* value = settings.is_object() ? settings.get_object().if_contains(key) : nullptr;
    return value ? *value : Json(nullptr);
  };
  object out{{"prompt", prompt},
             {"session_id", execution.session},
             {"resume", execution.resumes},
             {"answer", value_of(execution.message)},
             {"max_budget_usd", left ? Json(print_money(*left)) : Json(nullptr)},
             {"task_id", task_of_stream(run.id).str()}};
  for (std::string_view key : {"folder", "model", "command", "mcp", "sandbox", "permission_mode", "allowed_tools",
                               "disallowed_tools", "project_settings"})
    out[key] = setting(key);
  return canonical(out);
}

}  // namespace pawl
