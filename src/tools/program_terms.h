// What the programs of a tenant's steps are held to: whether they may run at all, where, and with which variables.
// Neither a sandbox nor an environment can be made without these terms.
#pragma once

#include <expected>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/lease.h"
#include "tools/agent.h"

namespace pawl {

struct ProgramTerms {
  // Always in a sandbox that shows only the tenant's own folders. Otherwise (tenant `default`, unless the installation
  // lists it) a step can choose its folder, its variables and whether there is a sandbox.
  bool is_confined = false;
  std::string tenant;  // its name
  RunId run;
  std::filesystem::path workspaces;        // of the tenant's runs, no other's
  ProgramAccess access;                    // when confined
  std::vector<std::string> own_variables;  // of the server; prefixes

  // Why the program cannot be given the server's variable `name`; nothing when it can.
  std::optional<std::string> variable_problem(std::string_view name) const;
  // Where a step works that names no folder. Made when it is not there.
  std::filesystem::path make_workspace() const;
  // Where earlier versions had it.
  std::filesystem::path earlier_workspace() const { return workspaces.parent_path() / run.str(); }
};

// Refused when the tenant may not run programs. Without a context there is no data folder, and only one tenant.
std::expected<ProgramTerms, Failed> program_terms(const AgentContext* context, const Lease& lease);

}  // namespace pawl
