// Which sandbox a step's program runs in: what the step asks for, what the server demands, what can be had.
//
//   sandbox: required                      or off, or auto
//   sandbox: {mode: required, network: true, memory_mib: 512, processes: 64, files: 256}
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <vector>

#include "process/process.h"
#include "process/sandbox.h"
#include "tools/agent.h"
#include "tools/arguments.h"

namespace pawl {

struct SandboxRequest {
  SandboxUse use = SandboxUse::off;
  bool network = false;
  SandboxLimits limits;  // at most the server's
};

// Reads `sandbox`; refuses what weakens what the server demands. `usual` is for a step that says nothing and a server
// that demands nothing.
SandboxRequest read_sandbox(Arguments& with, const AgentContext& context, SandboxUse usual, bool usual_network);

// Whether it is to be in one. Refused when one is demanded and cannot be had.
std::expected<bool, Failed> decide_sandbox(const SandboxRequest& request, const AgentContext& context);

// A program in a sandbox: `plan.directory` is its workspace. Refused when that would show it what no sandbox may.
std::expected<ProcessPlan, Failed> in_sandbox(ProcessPlan plan, const SandboxRequest& request,
                                              const AgentContext& context, const ControlGroup& group,
                                              std::vector<std::string> writable);

}  // namespace pawl
