#include "govern/policies.h"

#include <algorithm>

namespace pawl {

std::expected<Policy, std::string>& Policies::policy_of(const Tenant& tenant) {
  if (tenant.policy.version == 0) {
    if (!default_) default_ = default_policy();
    return *default_;
  }
  auto found = kept_.find(tenant.id);
  if (found == kept_.end() || found->second.version != tenant.policy.version) {
    if (found != kept_.end())
      kept_.erase(found);
    else if (kept_.size() >= kept_max_)
      kept_.erase(std::ranges::min_element(kept_, {}, [](const auto& entry) { return entry.second.used; }));
    const int version = tenant.policy.version;
    const std::string file = "policy v" + std::to_string(version);
    found = kept_.try_emplace(tenant.id, version, Policy::compile(tenant.policy.source, file, version)).first;
  }
  found->second.used = ++uses_;
  return found->second.policy;
}

Verdict Policies::judge(const Tenant& tenant, const Action& action, const WorkspaceName& workspace,
                        const WorkflowName& workflow) {
  auto& policy = policy_of(tenant);
  if (!policy)
    return {.policy_version = tenant.policy.version,
            .rule = {},
            .reason = "the policy cannot be read by this pawl: " + policy.error(),
            .terms = {}};
  return policy->evaluate(action, {.tenant = tenant.name, .workspace = workspace.text, .workflow = workflow.text});
}

}  // namespace pawl
