// The task: ten states, exactly eighteen transitions. Nothing else may change a task's state.
//
// A move that the table does not have is a path of its rows, appended in one commit (see decide_task.cc): a dependency
// that failed = start, fail; a run that was over before anybody saw it running = start and then what it came to;
// a task that is cancelled while it is blocked = answer, cancel. To start over after a time-out is the row of `resume`,
// in a new session.
#pragma once

#include "core/lifecycle.h"

namespace pawl {

enum class TaskState {
  pending,
  queued,
  running,
  ready,
  completed,
  failed,
  timed_out,
  cancelled,
  budget_exceeded,
  blocked
};
enum class TaskTrigger {
  queue,
  start,
  finish,
  await_subtasks,
  complete,
  fail,
  time_out,
  cancel,
  exceed_budget,
  block,
  accept,
  reject,
  retry,
  resume,
  answer,
  unblock
};

template <>
inline constexpr std::array enum_names<TaskState>{std::string_view("PENDING"),         std::string_view("QUEUED"),
                                                  std::string_view("RUNNING"),         std::string_view("READY"),
                                                  std::string_view("COMPLETED"),       std::string_view("FAILED"),
                                                  std::string_view("TIMED_OUT"),       std::string_view("CANCELLED"),
                                                  std::string_view("BUDGET_EXCEEDED"), std::string_view("BLOCKED")};

template <>
inline constexpr std::array enum_names<TaskTrigger>{
    std::string_view("queue"),          std::string_view("start"),    std::string_view("finish"),
    std::string_view("await_subtasks"), std::string_view("complete"), std::string_view("fail"),
    std::string_view("time_out"),       std::string_view("cancel"),   std::string_view("exceed_budget"),
    std::string_view("block"),          std::string_view("accept"),   std::string_view("reject"),
    std::string_view("retry"),          std::string_view("resume"),   std::string_view("answer"),
    std::string_view("unblock")};

inline constexpr auto task_table = [] {
  using enum TaskState;
  using enum TaskTrigger;
  using Row = Transition<TaskState, TaskTrigger>;
  return std::array{
      Row{pending, queue, queued},
      Row{pending, cancel, cancelled},
      Row{queued, start, running},
      Row{queued, cancel, cancelled},
      Row{running, finish, ready},
      Row{running, await_subtasks, blocked},
      Row{running, complete, completed},
      Row{running, fail, failed},
      Row{running, time_out, timed_out},
      Row{running, cancel, cancelled},
      Row{running, exceed_budget, budget_exceeded},
      Row{running, block, blocked},
      Row{ready, accept, completed},
      Row{ready, reject, pending},
      Row{failed, retry, queued},
      Row{timed_out, resume, queued},
      Row{blocked, answer, queued},
      Row{blocked, unblock, ready},
  };
}();

static_assert(proven(task_table, TaskState::pending));
static_assert(task_table.size() == 18);

constexpr bool is_terminal(TaskState state) { return is_terminal(task_table, state); }

// It did not come to what was asked for. Two of them can be tried again; whoever depends on it does not wait for that.
constexpr bool has_failed(TaskState state) {
  return state == TaskState::failed || state == TaskState::timed_out || state == TaskState::cancelled ||
         state == TaskState::budget_exceeded;
}

// In somebody's hands, or about to be: it cannot be deleted.
constexpr bool is_active(TaskState state) { return state == TaskState::queued || state == TaskState::running; }

}  // namespace pawl
