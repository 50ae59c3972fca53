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
#include "tools/program_terms.h"

namespace pawl {

struct SandboxRequest {
  SandboxUse use = SandboxUse::off;
  bool network = false;
  SandboxLimits limits;  // at most the server's
};

// For a step that says nothing and a server that demands nothing.
struct UsualSandbox {
  SandboxUse use = SandboxUse::off;
  bool network = false;
};
// Reads `sandbox`; refuses what weakens what the server demands, or what the terms do not allow.
SandboxRequest read_sandbox(Arguments& with, const AgentContext& context, const ProgramTerms& terms,
                            const UsualSandbox& usual);

// Whether it is to be in one. Refused when one is demanded and cannot be had.
std::expected<bool, Failed> decide_sandbox(const SandboxRequest& request, const AgentContext& context);

struct SandboxPlace {
  const AgentContext& context;
  const ProgramTerms& terms;
  const ControlGroup& group;
  std::vector<std::string> writable = {};  // beside the workspace
  std::vector<std::string> readable = {};  // beside what the server shows every sandbox
  bool shows_program = false;              // the installation chose it
};
// A program in a sandbox, beginning in `plan.directory`. Refused when that would show it what no sandbox may.
std::expected<ProcessPlan, Failed> in_sandbox(ProcessPlan plan, const SandboxRequest& request, SandboxPlace place);

// Why a step cannot work in the folder, in a sandbox or without; nothing when it can. Says nothing of whether it is
// there.
std::optional<Failed> folder_problem(const std::string& folder, const ProgramTerms& terms);

}  // namespace pawl
