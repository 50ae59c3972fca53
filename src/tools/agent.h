// Agents: programs that work on their own for minutes or hours, cost money, ask people, and can be resumed where they
// stopped. agent.claude runs the Claude Code CLI, agent.command any program that speaks the protocol in docs/agents.md.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/installation_rules.h"
#include "core/names.h"
#include "core/time.h"
#include "engine/lease.h"
#include "process/ledger.h"
#include "process/sandbox.h"
#include "tools/agent_resumption.h"
#include "tools/cost_meter.h"
#include "tools/run_logs.h"

namespace pawl {

// off: none unless a step demands one. auto: agents have one where it can be had. required: agents and shell steps have
// one, or do not run.
enum class SandboxUse { off, auto_, required };
template <>
inline constexpr std::array enum_names<SandboxUse>{std::string_view("off"), std::string_view("auto"),
                                                   std::string_view("required")};

// How an agent reaches this server's gate, for as long as its lease is good.
struct AgentAccess {
  std::string url;  // of the MCP endpoint
  std::string key;
  std::filesystem::path socket = {};  // the same without a network (agent_door.h); empty: there is none
};

// What agents and sandboxes need of the server. Shared by all tools of a toolbox, and outlives them.
struct AgentContext {
  explicit AgentContext(std::filesystem::path data_folder, LogLimits log_limits = {})
      : data(std::move(data_folder)), logs(data, log_limits), ledger(data / "processes") {}

  std::filesystem::path data;  // no sandbox shows it
  RunLogs logs;
  ProcessLedger ledger;
  std::string claude = "claude";
  // Null, or gives nothing: there is no server to ask.
  std::function<std::optional<AgentAccess>(const Lease& lease, const std::string& task)> access;
  // What the MCP endpoint says to a message that is sent with this key; empty: nothing. Null: there is no server.
  std::function<std::string(const std::string& key, const std::string& line)> mcp;
  std::string program;  // ours: an agent runs it to speak to the socket
  // Null: no run goes on with what another one began.
  std::function<std::optional<AgentResumption>(const Lease& lease)> resumption;
  // Null: what an agent costs is told when it ends.
  Charge charge;
  std::unique_ptr<Sandbox> sandbox = std::make_unique<Sandbox>();
  SandboxUse sandbox_use = SandboxUse::auto_;
  SandboxLimits sandbox_limits = {};
  std::vector<std::string> sandbox_readable = {};
  std::vector<std::string> sandbox_writable = {};
  // What the installation lets tenants' programs do, and how a tenant is called; an unknown one has no name, and may do
  // nothing.
  InstallationRules rules = {};
  std::function<std::string(TenantId)> tenant_name = [](TenantId) { return std::string(installation_tenant); };
  // Files and folders of the server beside its data folder that no sandbox shows.
  std::vector<std::string> own_paths = {};
  // The server's variables with these prefixes are never passed on: they may hold what only pawl is to know.
  std::vector<std::string> own_variables = {"PAWL_"};
  // Between SIGTERM and SIGKILL; less than the worker pool's stop_grace.
  Duration kill_grace = std::chrono::seconds(3);
  // For a program to end after it has said its result.
  Duration linger_max = std::chrono::seconds(10);
};

}  // namespace pawl
