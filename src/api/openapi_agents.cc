// What the OpenAPI document says of agents: their logs, and the tools that they are given.
#include "api/openapi_parts.h"

namespace pawl::api::openapi {

std::vector<ObjectDoc> agent_objects() {
  return {
      {"LogPart",
       "A part of what a step's program has said, in one attempt, on one stream.",
       {{"run_id", "RunId", ""},
        {"step_id", "Name", ""},
        {"attempt", "count", "0 when there is no log yet."},
        {"stream", "text", "stdout or stderr."},
        {"from", "count", "Where the text begins, in bytes; more than was asked for when that is no longer kept."},
        {"next", "count", "What to ask for as `after` to go on."},
        {"ended", "flag", "Nothing comes after this."},
        {"text", "text", "Bytes that are no UTF-8 are replaced."}}},
      {"LoggedStep", "", {{"step_id", "Name", ""}, {"attempt", "1..", "The last one."}}},
      {"LoggedSteps", "", {{"items", "[LoggedStep]", "By their names."}, {"next_cursor", "text?", "Always null."}}},
      {"McpAnswer",
       "A JSON-RPC answer, with `result` or `error`.",
       {{"jsonrpc", "text", "2.0"}, {"id", "json", "As it came."}, {"result?", "map", ""}, {"error?", "map", ""}}},
  };
}

std::vector<ObjectDoc> agent_requests() {
  return {{"McpMessage",
           "A JSON-RPC message of the Model Context Protocol.",
           {{"jsonrpc", "text", "2.0"},
            {"id?", "json", "Absent: nothing is answered."},
            {"method", "text", ""},
            {"params?", "map", ""}}}};
}

std::vector<RouteDoc> agent_route_docs() {
  using enum Method;
  const Field run_id{"id", "RunId", "The run's id."};
  const std::vector<Field> part{{"stream", "text", "stdout unless told; or stderr."},
                                {"attempt", "1..", "The last one unless told."},
                                {"after", "count", "Where to begin, in bytes."},
                                {"tail", "count", "Instead of after: at most the last so many bytes."},
                                {"limit", "1..1048576", "At most so many bytes; 262144 unless told."},
                                {"follow", "flag", "Wait for something to say."}};
  std::vector<Field> part_of_task{{"execution", "1..", "The latest one unless told."},
                                  {"step", "Name", "Of a workflow's task, when several steps have logs."}};
  part_of_task.insert(part_of_task.end(), part.begin(), part.end());
  return {
      {.method = get,
       .pattern = "/runs/{id}/logs",
       .operation_id = "list_logs",
       .tag = "agents",
       .says = "Of the server that answers: each keeps the logs of what it has run itself.",
       .path = {run_id},
       .answers = {{200, "The steps.", {{"LoggedSteps"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = get,
       .pattern = "/runs/{id}/steps/{step}/logs",
       .operation_id = "get_log",
       .tag = "agents",
       .says =
           "Ask again with `after` set to `next` until `ended`. With `follow` the answer waits up to 20 seconds for "
           "something to say.",
       .path = {run_id, {"step", "Name", "The step's id."}},
       .query = part,
       .answers = {{200, "A part of it.", {{"LogPart"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = get,
       .pattern = "/tasks/{id}/logs",
       .operation_id = "get_task_log",
       .tag = "agents",
       .says =
           "As of a run's step. An agent's can be followed before it has begun; a task that was never run has none.",
       .path = {{"id", "TaskId", "The task's id."}},
       .query = part_of_task,
       .answers = {{200, "A part of it.", {{"LogPart"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = post,
       .pattern = "/mcp",
       .operation_id = "speak_mcp",
       .tag = "agents",
       .says = "Streamable HTTP of the Model Context Protocol, of the revisions 2025-11-25 and 2026-07-28; "
               "docs/agents.md has "
               "the tools.",
       .bodies = {{"McpMessage"}},
       .answers = {{200, "The answer.", {{"McpAnswer"}}}, {202, "Heard; there is nothing to say to it.", {}}}},
  };
}

std::vector<ExampleDoc> agent_examples() {
  return {
      {"LogPart",
       R"({
  "run_id": "run_01m7hm5kk9e00a16va1g5nvbxh", "step_id": "work", "attempt": 1, "stream": "stdout",
  "from": 0, "next": 31, "ended": false, "text": "{\"type\":\"system\",\"subtype\":\"init\"}\n"
})"},
      {"LoggedSteps", R"({"items": [{"step_id": "work", "attempt": 1}], "next_cursor": null})"},
      {"McpMessage", R"({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})"},
      {"McpAnswer", R"({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}})"},
  };
}

}  // namespace pawl::api::openapi
