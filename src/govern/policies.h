// The policies of tenants, as they are asked: the one that is the tenant's now, compiled when it is first needed.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/tenant.h"
#include "govern/policy.h"

namespace pawl {

// The text of a policy that compiled: only such a one can be published. Compiling may take a tenth of a second, so it
// is done where nobody waits.
class PolicySource {
 public:
  // The error is that of Policy::compile.
  static std::expected<PolicySource, std::string> read(std::string text, std::string_view file) {
    if (auto policy = Policy::compile(text, file); !policy) return std::unexpected(std::move(policy.error()));
    return PolicySource(std::move(text));
  }
  const std::string& text() const { return text_; }

 private:
  explicit PolicySource(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// Belongs to one thread, like the policies in it.
class Policies {
 public:
  // Compiled ones that are kept; those asked for longest ago are dropped.
  explicit Policies(std::size_t kept_max = 256) : kept_max_(kept_max) {}

  // By the tenant's latest version. One that cannot be read any more denies everything.
  Verdict judge(const Tenant& tenant, const Action& action, const WorkspaceName& workspace,
                const WorkflowName& workflow);

 private:
  struct Kept {
    int version = 0;
    std::expected<Policy, std::string> policy;
    std::uint64_t used = 0;
  };
  std::expected<Policy, std::string>& policy_of(const Tenant& tenant);

  std::size_t kept_max_;
  std::uint64_t uses_ = 0;
  std::map<TenantId, Kept> kept_;
  std::optional<std::expected<Policy, std::string>> default_;
};

}  // namespace pawl
