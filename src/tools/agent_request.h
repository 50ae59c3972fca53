// What an agent's step asks for, and how its program is told: the command line of the Claude Code CLI, and what stands
// on stdin.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/money.h"
#include "tools/agent.h"
#include "tools/agent_session.h"
#include "tools/agent_stream.h"
#include "tools/arguments.h"
#include "tools/confine.h"
#include "tools/environment.h"

namespace pawl {

struct AgentRequest {
  std::string prompt;
  std::string session;
  bool resume = false;
  std::optional<std::string> answer;
  std::optional<Money> budget;
  std::string task;
  std::string folder;
  std::string model;
  std::optional<bool> mcp;
  SandboxRequest sandbox;
  Environment environment;
  LogSecrets secrets;
  // agent.command
  std::vector<std::string> command;
  // agent.claude
  std::vector<std::string> allowed_tools;
  std::vector<std::string> disallowed_tools;
  std::optional<std::string> permission_mode;
  // Whether settings that lie in the folder count: they can run commands, and say where the key of the model goes.
  bool project_settings = false;
  std::string system_prompt;
  std::optional<int> turns_max;
};

// Of the Claude Code CLI.
bool is_permission_mode(std::string_view text);

// What does not fit is the refusal of the arguments.
AgentRequest read_agent_request(Arguments& with, const Lease& lease, const AgentContext& context,
                                const ProgramTerms& terms, AgentDialect dialect);

// Of one process.
struct AgentStart {
  const AgentSession& session;
  bool resumes = false;
  bool sandboxed = false;
  std::optional<Money> budget_left;
  const std::optional<AgentAccess>& access;
};
std::vector<std::string> claude_command(const AgentContext& context, const AgentRequest& wanted,
                                        const AgentStart& start);

// Text as it is, anything else as JSON.
std::string as_text(const JsonText& json);

// `is_first`: nothing was told to this session yet by this step.
std::string message_for(const AgentRequest& wanted, const Lease& lease, bool resumes, bool is_first);

}  // namespace pawl
