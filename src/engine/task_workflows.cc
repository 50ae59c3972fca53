#include "engine/task_workflows.h"

namespace pawl {
namespace {

// A task's stream is one of a run of this workflow that others execute: its step is never anybody's.
constexpr std::string_view task_source =
    "workflow: pawl.task\n"
    "description: What somebody asked for, and what became of it\n"
    "steps:\n"
    "  - {id: review, tool: approval}\n";

std::string given(std::string_view key) {
  return "      " + std::string(key) + ": \"${{ input." + std::string(key) + " }}\"\n";
}

// One attempt: what an agent has begun is not begun again by itself. A person sees that it failed, and runs it again.
InternalWorkflow agent_workflow(TaskAgent agent) {
  std::string word(to_string(agent));
  std::string source = "workflow: pawl.agent." + word +
                       "\n"
                       "description: Has an agent carry a task out\n"
                       "steps:\n"
                       "  - id: " +
                       std::string(agent_step) +
                       "\n"
                       "    tool: agent." +
                       word +
                       "\n"
                       "    lease: 60s\n"
                       "    retry: {max_attempts: 1}\n"
                       "    with:\n";
  for (std::string_view key :
       {"prompt", "session_id", "resume", "answer", "max_budget_usd", "task_id", "folder", "model", "mcp", "sandbox"})
    source += given(key);
  if (agent == TaskAgent::command) source += given("command");
  if (agent == TaskAgent::claude)
    for (std::string_view key : {"permission_mode", "allowed_tools", "disallowed_tools", "project_settings"})
      source += given(key);
  return {{"pawl.agent." + word}, std::move(source)};
}

}  // namespace

std::vector<InternalWorkflow> task_workflows(TaskAgent agent) {
  std::vector<InternalWorkflow> out{{{std::string(task_workflow_name)}, std::string(task_source)}};
  if (agent != TaskAgent::none) out.push_back(agent_workflow(agent));
  return out;
}

}  // namespace pawl
