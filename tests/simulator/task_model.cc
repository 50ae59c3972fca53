#include "simulator/task_model.h"

#include <algorithm>

#include "core/invariants.h"
#include "crypto/sha256.h"
#include "simulator/failure.h"

namespace pawl::simulator {
namespace {

bool begins_execution(TaskTrigger trigger) {
  return trigger == TaskTrigger::queue || trigger == TaskTrigger::retry || trigger == TaskTrigger::resume ||
         trigger == TaskTrigger::answer;
}

bool never_began(const std::string& error_code) {
  return error_code == "DEPENDENCY_FAILED" || error_code == "TASK_NOT_STARTED";
}

}  // namespace

struct TaskModel::Rules {
  TaskModel& task;

  void check(bool holds, const char* rule, std::string_view seen) const {
    demand(holds, rule,
           [&] { return task.id.str() + " event " + std::to_string(task.seq + 1) + ": " + std::string(seen); });
  }

  void operator()(const RunCreated& event) const {
    check(task.seq == 0, "a stream begins with its creation, once", "created again");
    auto spec = parse_task_spec(event.input);
    check(spec.has_value(), "events can be read", "what the task is");
    task.spec = std::move(*spec);
    task.requesters.push_back(event.by);
  }

  void operator()(const TaskMoved& event) const {
    auto to = next(task_table, task.state, event.trigger);
    check(to.has_value(), "only tabled transitions",
          std::string(to_string(task.state)) + " cannot " + std::string(to_string(event.trigger)));
    check(!task.deleted, "nothing happens to a task that is gone", to_string(event.trigger));
    auto run = task.executions.empty() ? std::nullopt : std::optional(task.executions.back().run);
    task.moved_in_frame.push_back(
        {event.trigger, task.state, run, event.diagnostic ? event.diagnostic->error_code : ""});
    bool was_active = is_active(task.state);
    task.state = *to;
    bool is_executing = !task.executions.empty() && !task.executions.back().ended;
    if (was_active && !is_active(*to)) {
      // Somebody who was asked what shall become of it may have it end without another execution.
      check(is_executing || event.trigger == TaskTrigger::cancel, "an execution ends once", "another end");
      if (is_executing) {
        task.executions.back().ended = true;
        task.executions.back().cost = event.cost;
      }
    }
    if (begins_execution(event.trigger) && event.run) {
      if (event.trigger != TaskTrigger::answer) task.requesters.push_back(event.by);
      check(!is_executing, "a task has one execution at a time", "another");
      bool goes_on = run == event.run;
      check(!goes_on || event.trigger == TaskTrigger::answer, "only an answer goes on with the same run",
            to_string(event.trigger));
      task.executions.push_back({*event.run, false, {}});
    }
    if (task.state != TaskState::blocked) {
      task.has_question = false;
      task.asked_about.reset();
    }
    task.was_completed = task.was_completed || task.state == TaskState::completed;
    task.was_failed = task.was_failed || has_failed(task.state);
    if (event.trigger == TaskTrigger::complete)
      check(task.spec.parent.has_value(), "what nobody accepts is a subtask", "completed by itself");
    check(task.state != TaskState::ready || !task.spec.parent, "only a task without a parent is ready", "a subtask");
  }
  void operator()(const TaskAsked& event) const {
    check(task.state == TaskState::blocked, "who asks is blocked", to_string(task.state));
    task.has_question = !event.question.empty();
    task.asked_about = task.has_question ? event.about : std::nullopt;
  }
  void operator()(const TaskSubtask& event) const {
    if (!event.dropped) task.subtasks.push_back(event.subtask);
  }
  void operator()(const TaskChanged& event) const {
    check(!is_active(task.state) && !is_terminal(task.state), "a task changes while nobody works on it",
          to_string(task.state));
    auto changed = changed_spec(task.spec, event.changes);
    check(changed.has_value(), "what a task becomes can be read", event.changes);
    if (changed) task.spec = *changed;
  }
  void operator()(const TaskDeleted&) const {
    check(!is_active(task.state), "a task that is queued or running is not deleted", to_string(task.state));
    task.deleted = true;
  }
  void operator()(const TransitionRefused&) const {}
  template <class Other>
  void operator()(const Other&) const {
    check(false, "a task's stream has its own events", "one of a run");
  }
};

void TaskModel::apply(std::string_view line) {
  auto event = parse_run_event(line);
  demand(event.has_value(), "events can be read", [&] { return event.error(); });
  std::visit(Rules{*this}, event->payload);
  ++seq;
  head = sha256(head.view(), line);
  lines += line;
  lines += '\n';
  state_after.push_back(state);
}

void TaskModel::check_whole(const Runs& runs, const Tasks& tasks) const {
  demand(!spec.parent || tasks.contains(*spec.parent), "every parent is there", [&] { return id.str(); });
  Money given;
  for (TaskId each : subtasks) {
    // With several servers its own stream may be lost to a race, and be written by a later commit under the same id.
    auto found = tasks.find(each);
    if (found == tasks.end()) continue;
    const TaskModel& subtask = found->second;
    if (!spec.max_budget || subtask.deleted || is_terminal(subtask.state)) continue;
    demand(subtask.spec.max_budget.has_value(), "a subtask of a task with a budget has one", each.str());
    given = given + *subtask.spec.max_budget;
  }
  demand(!spec.max_budget || given <= *spec.max_budget, "subtasks together get no more than their parent has",
         [&] { return id.str(); });
  for (std::size_t i = 0; i < moved_in_frame.size(); ++i) {
    const Moved& moved = moved_in_frame[i];
    auto check = [&](bool holds, const char* rule) {
      demand(holds, rule, [&] { return id.str() + " " + std::string(to_string(moved.trigger)); });
    };
    auto found = moved.run ? runs.find(*moved.run) : runs.end();
    const RunModel* run = found == runs.end() ? nullptr : &found->second;
    bool is_stillborn = never_began(moved.error_code) ||
                        (i + 1 < moved_in_frame.size() && never_began(moved_in_frame[i + 1].error_code));
    if (is_stillborn) {
      check(!run, "a task that could not begin has no run");
      if (moved.error_code == "DEPENDENCY_FAILED")
        check(std::ranges::any_of(spec.depends_on,
                                  [&](TaskId each) { return tasks.at(each).was_failed || tasks.at(each).deleted; }),
              "a task fails with what it depends on");
      continue;
    }
    auto has_been = [&](RunStatus status) { return run && std::ranges::count(run->status_after, status) > 0; };
    bool follows_end = true;
    switch (moved.trigger) {
      case TaskTrigger::finish:
      case TaskTrigger::await_subtasks:
      case TaskTrigger::complete:
        check(has_been(RunStatus::success), "a task comes to what its run came to");
        break;
      case TaskTrigger::fail:
        check(has_been(RunStatus::failed) || has_been(RunStatus::denied), "a task comes to what its run came to");
        break;
      case TaskTrigger::time_out:
        check(has_been(RunStatus::timeout) || has_been(RunStatus::failed), "a task comes to what its run came to");
        break;
      case TaskTrigger::exceed_budget:
        check(has_been(RunStatus::failed), "a task comes to what its run came to");
        break;
      case TaskTrigger::cancel:
        follows_end = moved.from == TaskState::running;
        check(!follows_end || has_been(RunStatus::canceled), "a task comes to what its run came to");
        break;
      case TaskTrigger::block:
        check(has_been(RunStatus::waiting), "a task is blocked while its run waits");
        follows_end = false;
        break;
      case TaskTrigger::start:
        check(run && (run->started || run->ended()), "a task runs when its run does");
        follows_end = false;
        break;
      case TaskTrigger::accept:
      case TaskTrigger::reject:
      case TaskTrigger::queue:
      case TaskTrigger::retry:
      case TaskTrigger::resume:
      case TaskTrigger::answer:
      case TaskTrigger::unblock:
        follows_end = false;
        break;
    }
    if (!follows_end) continue;
    Money told;
    for (const ExecutionModel& each : executions)
      if (each.run == *moved.run) told = told + each.cost;
    check(told == run->cost, "a task costs what its runs cost");
  }
}

void TaskModel::check_carrier(const RunModel& run, const Tasks& tasks) const {
  auto check = [&](bool holds, const char* rule) { demand(holds, rule, [&] { return run.id.str(); }); };
  check(run.tenant == tenant, "no tenant sees another's");
  check(std::ranges::any_of(executions, [&](const ExecutionModel& each) { return each.run == run.id; }),
        "a run that carries a task is one that the task wants");
  for (TaskId each : spec.depends_on) check(tasks.at(each).was_completed, "a task begins after all it depends on");
}

bool TaskModel::is_at_rest() const { return deleted || state == TaskState::completed || has_failed(state); }

void TaskModel::compare(const Run& run, const char* where) const {
  auto same = [&](bool equal, std::string_view what) {
    demand(equal, "tables and memory equal the fold of the journal",
           [&] { return id.str() + " " + where + ": another " + std::string(what); });
  };
  for (const std::string& sentence : check_run(run))
    throw Broken("the invariants that pawl verify checks", id.str() + " " + where + ": " + sentence);
  same(run.id == stream_of(id) && run.tenant == tenant && run.task, "id");
  same(run.seq == seq, "seq");
  same(run.task->state == state && run.task->deleted == deleted, "state");
  same(run.task->question.empty() != has_question, "question");
  same(run.task->subtasks == subtasks, "list of subtasks");
  same(run.task->executions.size() == executions.size(), "number of executions");
  for (std::size_t i = 0; i < executions.size(); ++i)
    same(run.task->executions[i].run == executions[i].run && run.task->executions[i].cost == executions[i].cost,
         "execution");
}

}  // namespace pawl::simulator
