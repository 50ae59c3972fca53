// A task as its stream says, by the simulator's own rules: how it goes with the runs that carry it out, with those it
// depends on, and with its subtasks.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/event.h"
#include "core/task.h"
#include "simulator/run_model.h"

namespace pawl::simulator {

struct ExecutionModel {
  RunId run;
  bool ended = false;
  Money cost;
};

class TaskModel {
 public:
  TaskModel(TenantId owner, TaskId task, const Hash& genesis) : tenant(owner), id(task), head(genesis) {}

  // One event, checked. Throws Broken.
  void apply(std::string_view line);
  // With everything else as it is after the same commit.
  using Tasks = std::map<TaskId, TaskModel>;
  using Runs = std::map<RunId, RunModel>;
  void check_whole(const Runs& runs, const Tasks& tasks) const;
  // A run was made that says it carries this task out.
  void check_carrier(const RunModel& run, const Tasks& tasks) const;
  void begin_frame() { moved_in_frame.clear(); }

  // Nothing more happens to it by itself, nor does it wait for anybody.
  bool is_at_rest() const;
  // The task that the engine holds, or that a row's snapshot gives, says the same.
  void compare(const Run& run, const char* where) const;

  TenantId tenant;
  TaskId id;
  TaskSpec spec;
  std::vector<Actor> requesters;  // its creator first, then who had it run
  TaskState state = TaskState::pending;
  bool deleted = false;
  bool has_question = false;
  std::optional<TaskId> asked_about;
  std::vector<ExecutionModel> executions;
  std::vector<TaskId> subtasks;
  bool was_completed = false;
  bool was_failed = false;
  std::uint64_t seq = 0;
  Hash head;
  std::string lines;
  std::vector<TaskState> state_after;  // [seq - 1]

  struct Moved {
    TaskTrigger trigger;
    TaskState from;
    std::optional<RunId> run;  // of the execution that it was
    std::string error_code;
  };
  std::vector<Moved> moved_in_frame;

 private:
  struct Rules;
};

}  // namespace pawl::simulator
