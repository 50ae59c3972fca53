// What the installation lets its tenants use. Only the person who runs the server sets it (docs/configuration.md); it
// is checked when a workflow is published, and again when a step is executed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tenant.h"
#include "core/tool_spec.h"

namespace pawl {

// Programs of a tenant that is listed with this always run in a sandbox, which shows them the tenant's own workspaces
// and these folders.
struct ProgramAccess {
  std::vector<std::string> folders;
  std::vector<std::string> env;  // names of the server's variables that steps may pass on
  bool network = false;          // everything that the server can reach
};

// Where a secret may be used. An empty list means anywhere.
struct SecretLimit {
  std::vector<std::string> tenants;
  std::vector<std::string> workflows;
  std::vector<std::string> tools;
};

struct InstallationRules {
  std::map<std::string, ProgramAccess, std::less<>> programs;  // by the tenant's name
  std::map<std::string, SecretLimit, std::less<>> secrets;     // by the secret's name

  // Tenants other than `default` have to be listed.
  bool may_run_programs(std::string_view tenant) const;
  // Why it may not, and what to do.
  static std::string programs_problem(std::string_view tool, std::string_view tenant);
};

// The same for one tenant, as it is now. Both must outlive this.
class TenantRules {
 public:
  TenantRules(const InstallationRules& rules, const Tenant& tenant) : rules_(rules), tenant_(tenant) {}

  // Why the tenant's workflows cannot use the tool; nothing when they can.
  std::optional<std::string> tool_problem(const ToolSpec& tool) const;

  struct SecretReference {
    std::string_view secret;
    std::string_view workflow;
    std::string_view tool;
  };
  // Why a step cannot be given the secret; nothing when it can.
  std::optional<std::string> secret_problem(const SecretReference& reference) const;

 private:
  const InstallationRules& rules_;
  const Tenant& tenant_;
};

}  // namespace pawl
