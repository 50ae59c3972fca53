// What someone or something wants of a task. decide() turns each into events or a refusal.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/decide.h"
#include "core/run.h"

namespace pawl {

struct RunTask {
  Actor by;
  std::optional<Money> left = {};  // of its budget, when it has one
};

struct CancelTask {
  Actor by;
  std::string reason;
  bool subtasks = false;  // and all beneath it
};

struct AcceptTask {
  Actor by;
};

struct RejectTask {
  Actor by;
  std::string comment;
};

struct ResumeTask {
  Actor by;
  std::optional<Money> left = {};
};

struct AnswerTask {
  Actor by;
  JsonText answer;
  bool run_waits = false;  // the run that asked still does; otherwise a new one goes on with its session
  // Of the subtask that pawl asks about, as it is now; nothing when it is gone.
  std::optional<TaskState> subtask = {};
};

struct DeleteTask {
  Actor by;
  bool subtasks = false;                      // and all beneath it
  std::optional<TaskId> active_subtask = {};  // of these, one that is queued or running: then nothing is deleted
};

struct ChangeTask {
  Actor by;
  JsonText changes;  // see changed_spec()
  // What the nearest of its ancestors that has a budget could give it at most; nothing when none has.
  std::optional<Money> budget_max = {};
  // What it has cost, and what its subtasks have cost or may still cost: it keeps at least that.
  Money committed = {};
  // One of its subtasks that has no budget and may still cost something.
  std::optional<TaskId> unlimited_subtask = {};
};

// The engine's: a task was made that names this one as its parent.
struct AddSubtask {
  TaskId subtask;
};

// Another task, as this one sees it.
struct Relative {
  TaskId id;
  std::optional<TaskState> state;  // nothing: it is gone
  std::string title;
};

// The engine's: this is how the world around the task is now. What it has not followed yet, it follows.
struct FollowTask {
  const Run* run = nullptr;  // of its latest execution; null while there is none
  std::vector<Relative> dependencies;
  std::vector<Relative> subtasks;
  std::string obstacle = {};  // why its run cannot be made
};

using TaskCommand = std::variant<RunTask, CancelTask, AcceptTask, RejectTask, ResumeTask, AnswerTask, ChangeTask,
                                 DeleteTask, AddSubtask, FollowTask>;

// Names for what an execution needs, drawn by the engine beforehand.
struct TaskDraws {
  RunId run;
  std::string session;
};

// `run` has a task. Nothing happens to one that is running when it is to be cancelled: its run is, and it follows.
Decision decide(const Run& run, const TaskCommand& command, Instant now, const TaskDraws& draws);

// What the engine has to do for a task as it is, given the world around it.
enum class NextTaskAction { none, make_run, deliver_answer, cancel_run };
NextTaskAction next_action_of(const Run& run, const FollowTask& around);

// Whether the very question that blocks the task is still open in its run.
bool still_asks(const Task& task, const Run& run);

// The input of the run that carries the latest execution out. `left`: of the task's budget, when it has one.
JsonText carrying_input(const Run& run, const std::optional<Money>& left);

// What a task's own executions have cost; `run` is that of its latest, when it is known.
Money own_cost(const Task& task, const Run* run);

// A subtask that somebody wants to make, and the tree around it as it is.
struct SubtaskRequest {
  std::optional<Money> budget;  // that it asks for
  // What is left to the nearest of its ancestors that has a budget; nothing when none has.
  std::optional<Money> left;
  std::size_t siblings = 0;
  std::size_t depth = 1;  // of its parent
  std::size_t tree = 1;   // tasks in the whole tree
};
std::optional<Refusal> subtask_problem(const SubtaskRequest& request);

}  // namespace pawl
