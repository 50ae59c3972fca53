// What became of an agent, decided by what it said last, before how it exited.
#pragma once

#include <filesystem>
#include <string>

#include "tools/agent_request.h"
#include "tools/agent_run.h"
#include "tools/agent_session.h"
#include "tools/tool.h"

namespace pawl {

inline constexpr std::string_view question_file = "question.json";

struct AgentOutcome {
  const AgentRequest& wanted;
  const AgentSession& session;
  const AgentEnd& end;
  const std::filesystem::path& logs;
  std::string log_name;  // below the data folder
  std::string program;
  std::string own_program;  // ours, which it runs to speak to pawl's tools

  // In this order: what we did to it, what it said, how it went. Not for one that was stopped: nobody listens.
  ToolResult decide() const;

 private:
  ToolResult completed(const AgentStory::Result& result) const;
  ToolResult said_error(const AgentStory::Result& result) const;
  ToolResult no_result() const;
  // A call that somebody must allow before the session goes on.
  ToolResult deferred(const AgentStory::Result& result) const;
  std::string with_stderr(std::string message) const;
};

Failed without_tools(const std::string& program, const std::string& server);
Failed over_budget(const Money& spent, const std::optional<Money>& budget);
Failed could_not_start(const SpawnError& error, const std::string& program);

}  // namespace pawl
