// One life of an agent's process: started, listened to, kept within its budget, ended with all that it has forked.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "process/process.h"
#include "tools/agent.h"
#include "tools/agent_stream.h"

namespace pawl {

struct AgentOrder {
  AgentDialect dialect = AgentDialect::claude;
  ProcessPlan plan;                  // without its descriptors
  std::string input;                 // on stdin
  Money spent_before;                // of what the stream reports as its total
  std::optional<Money> budget_left;  // absent: as much as it likes
  bool needs_tools = false;          // it was given pawl's tools, and must not work without them
  std::filesystem::path log_folder;
  CostMeter* meter = nullptr;
  // Told once, when it has said which session it is: from then on it can be resumed, whatever becomes of us.
  std::function<void(const std::string& session)> on_session = {};
};

struct AgentEnd {
  // over_budget, without_tools: ended by us. lingered: it had said its result, and was ended by us because it would not
  // go.
  enum class How { by_itself, stopped, over_budget, without_tools, lingered } how = How::by_itself;
  std::optional<int> status;  // as waitpid gives it
  std::optional<SpawnError> not_started;
  AgentStory story;
  Money cost;               // of this life
  std::string stderr_tail;  // UTF-8
};

// Blocks. The ledger's entry is made by the caller, whose plan bears its mark.
AgentEnd live(const AgentOrder& order, const AgentContext& context, const LogSecrets& secrets,
              ProcessLedger::Entry& entry, const std::stop_token& stop);

}  // namespace pawl
