// A task: what a person asks for. Runs carry it out; people answer its questions and review the result.
//
// A task has a stream of its own. To the store, and in the engine's memory, that stream is one of a run of the workflow
// pawl.task that has no steps: it begins with the same event, whose input is what was asked for, and is folded,
// committed, checked for conflicts, shown in the feed and verified like any other. What is different about it is in
// Run::task.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/id.h"
#include "core/json.h"
#include "core/money.h"
#include "core/run_lifecycle.h"
#include "core/task_lifecycle.h"
#include "core/time.h"

namespace pawl {

inline constexpr std::string_view task_workflow_name = "pawl.task";
// Of the runs that carry tasks; the trigger's reference is the task and the number of the execution.
inline constexpr std::string_view task_trigger = "task";

inline constexpr std::size_t task_title_chars_max = 200;
inline constexpr std::size_t task_prompt_bytes_max = 256 << 10;
inline constexpr std::size_t task_text_bytes_max = 64 << 10;  // a comment, an answer
inline constexpr std::size_t task_dependencies_max = 1000;
inline constexpr std::size_t subtasks_max = 1000;  // of one task
inline constexpr std::size_t task_depth_max = 5;   // levels of a tree of tasks; one without a parent is the first
inline constexpr std::size_t task_tree_tasks_max = 10'000;  // of a whole tree
inline constexpr std::size_t task_tags_max = 50;
inline constexpr std::size_t task_tag_chars_max = 64;

enum class TaskPriority { low, normal, high };
template <>
inline constexpr std::array enum_names<TaskPriority>{std::string_view("low"), std::string_view("normal"),
                                                     std::string_view("high")};

// What carries it out, when it is not a workflow.
enum class TaskAgent { none, claude, command };
template <>
inline constexpr std::array enum_names<TaskAgent>{std::string_view("none"), std::string_view("claude"),
                                                  std::string_view("command")};

// What was asked for.
struct TaskSpec {
  std::string title;
  TaskAgent agent = TaskAgent::none;
  std::string prompt;     // an agent's
  JsonText settings;      // an agent's: an object with model, command, folder, mcp, sandbox, what it may do
  WorkflowName workflow;  // otherwise
  JsonText input = "{}";
  std::optional<TaskId> parent;
  std::vector<TaskId> depends_on;
  std::optional<Money> max_budget;
  std::optional<Duration> timeout;
  TaskPriority priority = TaskPriority::normal;
  std::vector<std::string> tags;

  friend bool operator==(const TaskSpec&, const TaskSpec&) = default;
};

// Canonical JSON, and back.
JsonText print_task_spec(const TaskSpec& spec);
std::expected<TaskSpec, std::string> parse_task_spec(std::string_view text);

// With the new values of some keys, null for one that is gone: prompt, timeout, max_budget_usd, tags, priority. Why
// not, when a key cannot be changed or a value does not fit.
std::expected<TaskSpec, std::string> changed_spec(const TaskSpec& spec, std::string_view changes);

// The workflow whose run carries it out.
WorkflowName carrying_workflow(const TaskSpec& spec);

// One try, or one part of a try: an answer goes on with the run that asked, as a new execution.
struct TaskExecution {
  int number = 1;
  RunId run;
  std::string session;   // chosen before it begins, so that what was begun can be found again
  bool resumes = false;  // goes on with the session of an earlier one
  JsonText message;      // what the agent is told beside its prompt: an answer, or that it ran out of time
  Instant queued_at;
  Instant started_at;
  Instant ended_at;
  std::optional<TaskState> outcome;
  Money cost;
  JsonText result;  // of one that was done: see task_result_of(); empty otherwise

  friend bool operator==(const TaskExecution&, const TaskExecution&) = default;
};

struct Task {
  TaskSpec spec;
  TaskState state = TaskState::pending;
  std::vector<TaskExecution> executions;  // oldest first
  JsonText question;                      // open; empty when none is
  StepId asked_by;  // the step of the run that asked, and the lease it asked under: which question
  std::uint64_t asked_under = 0;
  std::optional<TaskId> asked_about;  // a subtask that failed: pawl itself asks
  JsonText answer;                    // the latest
  std::string rejection_comment;
  std::vector<TaskId> subtasks;  // oldest first
  std::vector<TaskId> dropped;   // of these, the ones it does not wait for any more
  Instant updated_at;
  bool deleted = false;

  const TaskExecution* latest() const { return executions.empty() ? nullptr : &executions.back(); }
  bool is_subtask() const { return spec.parent.has_value(); }
  bool waits_for(TaskId subtask) const;
  friend bool operator==(const Task&, const Task&) = default;
};

// What a run came to, for who is to review it: an object with the `step` whose output it is; `text`, when an agent said
// what it did; `output` otherwise; the `permission_denials` of an agent; `is_cut` when something was too long. Empty
// when no step has said anything. The whole of it is the output of the run's step.
struct Run;
JsonText task_result_of(const Run& run);
inline constexpr std::size_t task_result_text_bytes_max = 16 << 10;
inline constexpr std::size_t task_result_output_bytes_max = 8 << 10;

// What a row of runs shows of it, and queries by status find it under.
RunStatus run_status_of(TaskState state);

// The stream that a task is.
inline RunId stream_of(TaskId task) { return {task.bits}; }
inline TaskId task_of_stream(RunId run) { return {run.bits}; }

// The requests that move it from here: "run", "cancel", ...
std::vector<std::string_view> possible_requests(TaskState state);

}  // namespace pawl
