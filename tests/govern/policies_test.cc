// Whose policy holds.
#include "govern/policies.h"

#include "govern/builders.h"

namespace pawl {
namespace {

Tenant tenant_with(std::uint64_t number, int version, std::string source) {
  Tenant tenant;
  tenant.id = TenantId{{number, 0}};
  tenant.name = "acme";
  tenant.policy = {version, "digest", std::move(source)};
  return tenant;
}

Verdict judge(Policies& policies, const Tenant& tenant) {
  return policies.judge(tenant, some_action(), WorkspaceName{"ops"}, WorkflowName{"triage"});
}

std::string only(const std::string& condition) { return "policy: p\nrules:\n" + rule("r", "allow", condition); }

TEST(Policies, a_tenant_without_one_has_the_default) {
  Policies policies;
  EXPECT_EQ(judge(policies, tenant_with(1, 0, "")).rule, "low-risk");
}

TEST(Policies, each_tenant_has_its_own_and_always_the_latest) {
  Policies policies(2);
  for (int round = 1; round <= 3; ++round)
    for (std::uint64_t number = 1; number <= 4; ++number) {
      auto tenant = tenant_with(number, round, only(number % 2 == 0 ? "workflow = 'triage'" : "workflow = 'other'"));
      auto verdict = judge(policies, tenant);
      EXPECT_EQ(verdict.effect, number % 2 == 0 ? Effect::allow : Effect::deny);
      EXPECT_EQ(verdict.policy_version, round);
    }
}

TEST(Policies, conditions_see_where_the_action_comes_from) {
  Policies policies;
  EXPECT_EQ(
      judge(policies, tenant_with(1, 1, only("tenant = 'acme' AND workspace = 'ops' AND workflow = 'triage'"))).effect,
      Effect::allow);
}

TEST(Policies, one_that_cannot_be_read_denies) {
  Policies policies;
  auto verdict = judge(policies, tenant_with(1, 4, "policy: p\nrules: [{id: a, effect: allow, when: gone()}]"));
  EXPECT_EQ(verdict.effect, Effect::deny);
  EXPECT_EQ(verdict.policy_version, 4);
  EXPECT_EQ(
      verdict.reason,
      "the policy cannot be read by this pawl: policy v4:2:38: the condition of rule `a`: no such function: gone");
}

TEST(Policies, only_what_compiles_can_be_published) {
  EXPECT_FALSE(PolicySource::read("policy: p", "p.yaml").has_value());
  EXPECT_EQ(PolicySource::read(only("1"), "p.yaml")->text(), only("1"));
}

}  // namespace
}  // namespace pawl
