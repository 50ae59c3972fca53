// What the OpenAPI document says of tasks.
#include "api/openapi_parts.h"

namespace pawl::api::openapi {
namespace {

using enum Method;

const Field task_id{"id", "TaskId", "The task's id."};

std::vector<Field> summary_fields() {
  return {{"id", "TaskId", ""},
          {"title", "text", ""},
          {"state", "TaskState", ""},
          {"agent", "text?", "What carries it out: `claude` or `command`; null when a workflow does."},
          {"workflow", "Name?", "Or this workflow."},
          {"workspace", "Name", ""},
          {"parent_task_id", "TaskId?", "Null unless it is a subtask."},
          {"depends_on", "[TaskId]", "It waits in QUEUED until all of them are COMPLETED."},
          {"subtasks", "[TaskId]", "Oldest first."},
          {"priority", "TaskPriority", "Of several that can begin at the same moment, which is first."},
          {"tags", "[text]", ""},
          {"question", "json", "What it asks while it is BLOCKED; null when it asks nothing."},
          {"result", "TaskResult?", "What its latest execution came to; in a list only the beginning of it."},
          {"run_id", "RunId?",
           "Of its latest execution: named when it is queued, made when all it depends on is COMPLETED."},
          {"error_code", "text?", "Of its diagnostic."},
          {"cost_usd", "Money", "Of all executions."},
          {"created_at", "Time", ""},
          {"updated_at", "Time", ""},
          {"possible", "[text]",
           "What can be asked of it now: run, cancel, accept, reject, resume, answer, change, delete."}};
}

std::vector<Field> task_fields() {
  std::vector<Field> out = summary_fields();
  std::vector<Field> more{
      {"prompt", "text?", "An agent's."},
      {"settings", "json",
       "An agent's: model, command, folder, mcp, sandbox, permission_mode, allowed_tools, disallowed_tools, "
       "project_settings; null when none is set."},
      {"input", "json", "A workflow's."},
      {"max_budget_usd", "Money?", ""},
      {"timeout", "Duration?", "Of each of its runs."},
      {"answer", "json", "The latest."},
      {"rejection_comment", "text?", "Of the latest rejection."},
      {"session_id", "text?",
       "Of its latest execution; a new one may resume it. Agents in a workflow have sessions of their own."},
      {"dropped", "[TaskId]", "Subtasks that it does not wait for any more."},
      {"executions", "[TaskExecution]", "Oldest first."},
      {"runs", "[RunId]", "Oldest first."},
      {"created_by", "Actor", ""},
      {"diagnostic", "Diagnostic?", "Why it failed, timed out or exceeded its budget."},
      {"seq", "1..", "Events in its stream."}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

RouteDoc request(std::string_view pattern, std::string_view operation, std::string_view says,
                 std::vector<Body> bodies = {}) {
  return {.method = post,
          .pattern = pattern,
          .operation_id = operation,
          .tag = "tasks",
          .says = says,
          .path = {task_id},
          .bodies = std::move(bodies),
          .body_required = false,
          .answers = {{200, "The task.", {{"Task"}}}},
          .problems = {"NOT_FOUND", "INVALID_TASK_TRANSITION", "TASK_LIMIT"}};
}

constexpr std::string_view task_example = R"({
  "id": "task_01m7hm5kk9e00a16va1g5nvbxh", "title": "Tidy the changelog", "state": "BLOCKED", "agent": "claude",
  "workflow": null, "workspace": "default", "parent_task_id": null, "depends_on": [], "subtasks": [],
  "priority": "normal", "tags": ["docs"], "question": {"question": "Which release?", "choices": ["1.4", "1.5"]},
  "result": null, "run_id": "run_01m7hm5kk9e00a16va1g5nvbxj", "error_code": null, "cost_usd": "0.12",
  "created_at": "2026-11-16T07:29:28.681Z", "updated_at": "2026-11-16T07:31:02.114Z", "possible": ["answer", "cancel", "change", "delete"],
  "prompt": "Tidy CHANGELOG.md.", "settings": {"folder": "/srv/site"}, "input": null, "max_budget_usd": "2.50",
  "timeout": "15m", "answer": null, "rejection_comment": null, "session_id": "5b6962dd-5f5c-4b8e-9c62-0a1f8f3b8a7e",
  "dropped": [],
  "executions": [
    {
      "number": 1, "run_id": "run_01m7hm5kk9e00a16va1g5nvbxj", "session_id": "5b6962dd-5f5c-4b8e-9c62-0a1f8f3b8a7e",
      "resumes": false, "message": null, "log_folder": "logs/run_01m7hm5kk9e00a16va1g5nvbxj",
      "queued_at": "2026-11-16T07:29:30.020Z", "started_at": "2026-11-16T07:29:30.051Z",
      "ended_at": "2026-11-16T07:31:02.114Z", "outcome": "BLOCKED", "cost_usd": "0.12", "result": null
    }
  ],
  "runs": ["run_01m7hm5kk9e00a16va1g5nvbxj"], "created_by": "key:key_01m7hm5hw5e0d8m8rzs2x9qyf1", "diagnostic": null,
  "seq": 6
})";

}  // namespace

std::vector<RouteDoc> task_route_docs() {
  RouteDoc answer =
      request("/tasks/{id}/answer", "answer_task",
              "The run that asked goes on with the answer, as a new execution in the same session; where it has "
              "ended meanwhile, a new run does. When pawl itself asks about a subtask that failed, the answer "
              "is `retry`, `drop` or `cancel`.",
              {{"TaskAnswer"}});
  answer.body_required = true;
  answer.problems = {"NOT_FOUND", "INVALID_TASK_TRANSITION", "NOTHING_WAITING", "INPUT_TOO_LARGE"};
  RouteDoc cancel =
      request("/tasks/{id}/cancel", "cancel_task",
              "From PENDING, QUEUED and BLOCKED at once. Of a task that is RUNNING the run is canceled, and the task "
              "follows; when it is done at that very moment, it stays done.",
              {{"Reason"}});
  cancel.query = {{"subtasks", "flag", "With all beneath it that is not over."}};
  return {
      {.method = post,
       .pattern = "/tasks",
       .operation_id = "create_task",
       .tag = "tasks",
       .says = "It is PENDING until it is run. An agent carries it out, or a workflow whose input is the task's.",
       .headers = {{"Idempotency-Key", "text/255", "Makes a repeat of this request safe."}},
       .bodies = {{"NewTask"}},
       .answers = {{201, "The new task.", {{"Task"}}, {"Location"}},
                   {200,
                    "The one that an earlier request with this key made.",
                    {{"Task"}},
                    {"Location", "Idempotency-Replayed"}}},
       .problems = {"STORAGE_FULL", "TASK_LIMIT", "UNKNOWN_WORKFLOW", "UNKNOWN_TASK", "TASK_CYCLE",
                    "INVALID_TASK_TRANSITION", "IDEMPOTENCY_KEY_REUSED", "INPUT_TOO_LARGE"}},
      {.method = get,
       .pattern = "/tasks",
       .operation_id = "list_tasks",
       .tag = "tasks",
       .says = "",
       .query = {{"state", "TaskState", "Only those."},
                 {"tag", "text", "Only those that have it."},
                 {"parent", "TaskId", "Only its subtasks."},
                 {"limit", "1..200", "How many at most; 50 unless told."},
                 {"cursor", "TaskId", "The next_cursor of the page before."}},
       .answers = {{200, "A page of tasks.", {{"TaskPage"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = get,
       .pattern = "/tasks/{id}",
       .operation_id = "get_task",
       .tag = "tasks",
       .says = "",
       .path = {task_id},
       .answers = {{200, "The task.", {{"Task"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = get,
       .pattern = "/tasks/{id}/events",
       .operation_id = "list_task_events",
       .tag = "tasks",
       .says = "Every transition, by whom, and every request that was refused.",
       .path = {task_id},
       .query = {{"after", "count", "Only events behind this one."},
                 {"cursor", "1..", "The next_cursor of the page before; instead of `after`."},
                 {"limit", "1..10000", "How many at most; 1000 unless told."},
                 {"at", "1..", "Only events up to this one."},
                 {"raw", "flag", "Events as they are stored and hashed, with JSON values as strings that hold JSON."},
                 {"vocabulary", "Vocabulary", "Taken, and of no consequence here."}},
       .answers = {{200, "A page of events.", {{"RunEventPage"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = patch,
       .pattern = "/tasks/{id}",
       .operation_id = "change_task",
       .tag = "tasks",
       .says = "While it is neither QUEUED nor RUNNING nor over. What is changed counts from its next run on.",
       .path = {task_id},
       .bodies = {{"TaskChange"}},
       .answers = {{200, "The task.", {{"Task"}}}},
       .problems = {"NOT_FOUND", "INVALID_TASK_TRANSITION", "TASK_LIMIT"}},
      {.method = delete_,
       .pattern = "/tasks/{id}",
       .operation_id = "delete_task",
       .tag = "tasks",
       .says = "Its stream stays in the journal; to everybody who asks it is gone.",
       .path = {task_id},
       .query = {{"subtasks", "flag", "With all beneath it, none of which may be QUEUED or RUNNING."}},
       .answers = {{200, "As it was.", {{"Task"}}}},
       .problems = {"NOT_FOUND", "TASK_ACTIVE"}},
      request("/tasks/{id}/run", "run_task",
              "From PENDING, from FAILED and from TIMED_OUT: as a new run, in a new session."),
      std::move(cancel),
      request("/tasks/{id}/accept", "accept_task", "From READY: it is COMPLETED."),
      request("/tasks/{id}/reject", "reject_task",
              "From READY: it is PENDING again, and an agent that is run again is told why.", {{"TaskRejection"}}),
      request("/tasks/{id}/resume", "resume_task", "From TIMED_OUT: as a new run that goes on with the session."),
      std::move(answer),
  };
}

std::vector<ObjectDoc> task_answers() {
  return {
      {"Task", "What somebody asked for, and what became of it.", task_fields()},
      {"TaskSummary", "A task in a list.", summary_fields()},
      {"TaskPage",
       "",
       {{"items", "[TaskSummary]", "Newest first."}, {"next_cursor", "TaskId?", "Null on the last page."}}},
      {"TaskExecution",
       "One try, or what followed an answer.",
       {{"number", "1..", ""},
        {"run_id", "RunId", "An answer goes on with the run before."},
        {"session_id", "text", "Of the agent; known before it begins."},
        {"resumes", "flag", "It goes on with the session of an earlier one."},
        {"message", "json", "What the agent is told beside its prompt: an answer, or that it timed out."},
        {"log_folder", "text", "Where its logs are, in the data folder of the server that ran it."},
        {"queued_at", "Time", ""},
        {"started_at", "Time?", ""},
        {"ended_at", "Time?", ""},
        {"outcome", "TaskState?", "The state that it ended in."},
        {"cost_usd", "Money", ""},
        {"result", "TaskResult?", "What it came to, of one that was done."}}},
      {"TaskResult",
       "What an execution came to, cut to what a person reads: the whole of it is the output of the run's step.",
       {{"step", "Name", "Whose output it is: the last step that gave one."},
        {"text", "text?", "What an agent said, with a note when it was not permitted something."},
        {"output", "json", "What another step gave, or an agent beside its text; null when it is long."},
        {"permission_denials", "[map]", "Calls that an agent was not permitted: tool and input."},
        {"is_cut", "flag", "Something is left out here."}}},
  };
}

std::vector<ObjectDoc> task_requests() {
  return {
      {"NewTask",
       "Either a workflow with its input, or what an agent is to do.",
       {{"title", "text/200", ""},
        {"prompt?", "text/262144", "What an agent is to do."},
        {"agent?", "NewTaskAgent", "`claude` unless told; a subtask's is its parent's, with all that is set for it."},
        {"model?", "text", "For the agent."},
        {"command?", "[text]", "The agent `command`: a program and its arguments."},
        {"folder?", "text", "Where the agent works."},
        {"mcp?", "flag", "Whether the agent is given pawl's tools."},
        {"sandbox?", "map", "What the agent may reach."},
        {"permission_mode?", "text", "The agent `claude`: a permission mode of the Claude Code CLI."},
        {"allowed_tools?", "[text]",
         "The agent `claude`: tools that it may use without being asked, such as `Bash(git *)`."},
        {"disallowed_tools?", "[text]", "The agent `claude`: tools that it may not use."},
        {"project_settings?", "flag",
         "The agent `claude`: whether the settings in its folder count, with the commands that they run."},
        {"workflow?", "Name", "A published one, instead of an agent."},
        {"input?", "map", "The workflow's."},
        {"parent_task_id?", "TaskId", "Makes it a subtask: its parent waits for it, and it needs no review."},
        {"depends_on?", "[TaskId]", "It begins when all of them are COMPLETED, and fails when one of them does."},
        {"max_budget_usd?", "Money", "What it may cost; past it, it is BUDGET_EXCEEDED."},
        {"timeout?", "Duration", "Of each of its runs; past it, it is TIMED_OUT."},
        {"priority?", "TaskPriority", "normal unless told."},
        {"tags?", "[text]", "50 at most."},
        {"workspace?", "Name", "default unless told."},
        {"run?", "flag", "Run it at once."}}},
      {"TaskChange",
       "What is not named stays as it is.",
       {{"prompt?", "text/262144", "An agent's."},
        {"timeout?", "Duration?", "Null for none."},
        {"max_budget_usd?", "Money?", "Null for none."},
        {"priority?", "TaskPriority", ""},
        {"tags?", "[text]", "All of them."}}},
      {"TaskRejection", "", {{"comment?", "text/65536", "What is wrong with it."}}},
      {"TaskAnswer", "", {{"answer", "json", "Text, or whatever the question wants."}}},
  };
}

std::vector<ExampleDoc> task_examples() {
  return {
      {"NewTask",
       R"({"title": "Tidy the changelog", "prompt": "Tidy CHANGELOG.md.", "folder": "/srv/site", "max_budget_usd": "2.50", "timeout": "15m", "tags": ["docs"]})"},
      {"Task", task_example},
      {"TaskPage", R"({"items": [], "next_cursor": null})"},
      {"TaskChange", R"({"timeout": "30m", "max_budget_usd": "5.00"})"},
      {"TaskRejection", R"({"comment": "The dates are missing."})"},
      {"TaskAnswer", R"({"answer": "1.5"})"},
  };
}

}  // namespace pawl::api::openapi
