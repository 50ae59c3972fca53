#include "core/installation_rules.h"

#include <algorithm>

#include "core/own_secrets.h"
#include "core/source_reader.h"

namespace pawl {
namespace {

bool is_limited_to_others(const std::vector<std::string>& allowed, std::string_view name) {
  return !allowed.empty() && std::ranges::find(allowed, name) == allowed.end();
}

}  // namespace

bool InstallationRules::may_run_programs(std::string_view tenant) const {
  return tenant == installation_tenant || programs.contains(tenant);
}

std::string InstallationRules::programs_problem(std::string_view tool, std::string_view tenant) {
  return quote(tool) + " runs programs on the server, which tenant " + std::string(tenant) +
         " may not do; the person who runs the server can allow it with `programs` in the server's settings";
}

std::optional<std::string> TenantRules::tool_problem(const ToolSpec& tool) const {
  if (!tool.runs_programs || rules_.may_run_programs(tenant_.name)) return std::nullopt;
  return InstallationRules::programs_problem(tool.name.str(), tenant_.name);
}

std::optional<std::string> TenantRules::secret_problem(const SecretReference& reference) const {
  const std::string secret(reference.secret);
  for (const OwnSecret& own : OwnSecret::all_of(tenant_))
    if (own.name() == secret)
      return "the secret " + secret + " is pawl's own, and no workflow can use it: " + own.description() +
             "; use another secret";
  const auto found = rules_.secrets.find(secret);
  if (found == rules_.secrets.end()) return std::nullopt;
  const SecretLimit& limit = found->second;
  const auto refused = [&](std::string_view kind, std::string_view name) {
    return "the secret " + secret + " cannot be used by " + std::string(kind) + " " + std::string(name) +
           ": the installation limits it to others, with `secrets` in the server's settings";
  };
  if (is_limited_to_others(limit.tenants, tenant_.name)) return refused("tenant", tenant_.name);
  if (is_limited_to_others(limit.tools, reference.tool)) return refused("the tool", reference.tool);
  // pawl's own workflows undo what a step did, with the secrets that this step was given.
  if (!is_reserved_name(reference.workflow) && is_limited_to_others(limit.workflows, reference.workflow))
    return refused("the workflow", reference.workflow);
  return std::nullopt;
}

}  // namespace pawl
