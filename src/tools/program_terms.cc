#include "tools/program_terms.h"

#include <fmt/format.h>

#include <algorithm>

#include "process/private_folder.h"
#include "tools/outcome.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

}  // namespace

std::optional<std::string> ProgramTerms::variable_problem(std::string_view name) const {
  for (const std::string& prefix : own_variables)
    if (name.starts_with(prefix))
      return fmt::format("cannot pass {} on: the server's variables that begin with {} are pawl's own", name, prefix);
  if (is_confined && std::ranges::find(access.env, name) == access.env.end())
    return fmt::format("cannot pass {} on: the installation does not let tenant {} have it", name, tenant);
  return std::nullopt;
}

fs::path ProgramTerms::make_workspace() const {
  std::error_code ignored;
  // A run that began there goes on there.
  if (!is_confined && fs::is_directory(earlier_workspace(), ignored)) return earlier_workspace();
  const auto folder = workspaces / run.str();
  make_private_folders(folder, ignored);
  return folder;
}

std::expected<ProgramTerms, Failed> program_terms(const AgentContext* context, const Lease& lease) {
  ProgramTerms terms;
  if (!context) return terms;
  terms.tenant = context->tenant_name(lease.tenant);
  if (!context->rules.may_run_programs(terms.tenant)) {
    auto failed = failure("PROGRAMS_NOT_ALLOWED", InstallationRules::programs_problem(lease.tool.str(), terms.tenant));
    failed.is_harmless = true;
    return std::unexpected(std::move(failed));
  }
  terms.run = lease.run;
  terms.workspaces = context->data / "workspaces" / lease.tenant.str();
  terms.own_variables = context->own_variables;
  if (const auto listed = context->rules.programs.find(terms.tenant); listed != context->rules.programs.end()) {
    terms.is_confined = true;
    terms.access = listed->second;
  }
  return terms;
}

}  // namespace pawl
