#include "core/installation_rules.h"

#include <gtest/gtest.h>

#include "core/own_secrets.h"
#include "core/workflow.h"
#include "yaml/yaml.h"

namespace pawl {
namespace {

Tenant tenant_called(const std::string& name) {
  Tenant tenant;
  tenant.name = name;
  return tenant;
}

Tenant with_slack_and_webhook() {
  Tenant tenant = tenant_called("acme");
  tenant.slack = SlackPlace{.token = "SLACK_TOKEN", .signing_secret = "SLACK_SIGNING"};
  tenant.webhooks["orders"].secret = "WEBHOOK_KEY";
  return tenant;
}

ToolCatalog tools() {
  ToolCatalog out;
  out.add({.name = {"post"}, .keys = {{.name = "token", .secrets = true}}});
  out.add({.name = {"program"}, .keys = {}, .runs_programs = true});
  return out;
}

// The first problem of a step of tenant `tenant`; "published" when there is none.
std::string publish(const std::string& step, const InstallationRules& rules, const Tenant& tenant) {
  const auto document = read_yaml("workflow: w\nsteps:\n- {id: a, " + step + "}\n");
  const ToolCatalog catalog = tools();
  const TenantRules of_tenant(rules, tenant);
  const auto workflow = read_workflow(document.value(), &catalog, &of_tenant);
  return workflow ? "published" : print_error("w", workflow.error().at(0));
}

std::string post_with(const std::string& secret, const InstallationRules& rules, const Tenant& tenant) {
  return publish("tool: post, with: {token: \"x ${{ secrets." + secret + " }}\"}", rules, tenant);
}

TEST(InstallationRules, let_only_tenant_default_run_programs_unless_they_list_another) {
  InstallationRules rules;
  EXPECT_EQ(publish("tool: program", rules, tenant_called("default")), "published");
  EXPECT_EQ(publish("tool: post", rules, tenant_called("acme")), "published");
  EXPECT_EQ(
      publish("tool: program", rules, tenant_called("acme")),
      "w:3:17: `program` runs programs on the server, which tenant acme may not do; the person who runs the server "
      "can allow it with `programs` in the server's settings");
  rules.programs["acme"] = {};
  EXPECT_EQ(publish("tool: program", rules, tenant_called("acme")), "published");
  EXPECT_NE(publish("tool: program", rules, tenant_called("acme-eu")), "published");
}

TEST(InstallationRules, keep_every_secret_that_pawl_itself_uses_from_workflows) {
  const Tenant tenant = with_slack_and_webhook();
  ASSERT_EQ(OwnSecret::all_of(tenant).size(), 3u);
  for (const OwnSecret& own : OwnSecret::all_of(tenant)) {
    EXPECT_EQ(post_with(own.name(), {}, tenant),
              "w:3:40: the secret " + own.name() + " is pawl's own, and no workflow can use it: " + own.description() +
                  "; use another secret");
    // Whoever has set nothing uses nothing.
    EXPECT_EQ(post_with(own.name(), {}, tenant_called("acme")), "published");
  }
  EXPECT_EQ(post_with("OTHER", {}, tenant), "published");
}

TEST(InstallationRules, keep_pawls_own_secrets_from_workflows_whatever_a_limit_says) {
  InstallationRules rules;
  rules.secrets["SLACK_SIGNING"].tenants = {"acme"};
  EXPECT_NE(post_with("SLACK_SIGNING", rules, with_slack_and_webhook()), "published");
}

TEST(InstallationRules, limit_a_secret_to_tenants_tools_and_workflows) {
  const Tenant tenant = tenant_called("acme");
  const std::vector<std::vector<std::string> SecretLimit::*> lists{&SecretLimit::tenants, &SecretLimit::tools,
                                                                   &SecretLimit::workflows};
  const std::vector<std::string> names{"acme", "post", "w"};
  for (std::size_t i = 0; i < lists.size(); ++i) {
    InstallationRules rules;
    rules.secrets["TOKEN"].*lists[i] = {"another", names[i]};
    EXPECT_EQ(post_with("TOKEN", rules, tenant), "published");
    rules.secrets["TOKEN"].*lists[i] = {"another"};
    const std::string said = post_with("TOKEN", rules, tenant);
    EXPECT_NE(said.find("the secret TOKEN cannot be used by"), said.npos) << said;
    EXPECT_NE(said.find(names[i] + ": the installation limits it"), said.npos) << said;
    EXPECT_EQ(post_with("FREE", rules, tenant), "published");
  }
}

TEST(InstallationRules, let_an_undo_use_what_its_step_used) {
  InstallationRules rules;
  rules.secrets["TOKEN"].workflows = {"refund"};
  const Tenant tenant = tenant_called("acme");
  const TenantRules of_tenant(rules, tenant);
  EXPECT_FALSE(of_tenant.secret_problem({"TOKEN", "pawl.undo.0123", "post"}));
  EXPECT_TRUE(of_tenant.secret_problem({"TOKEN", "undo", "post"}));
  rules.secrets["TOKEN"].tools = {"other"};
  EXPECT_TRUE(of_tenant.secret_problem({"TOKEN", "pawl.undo.0123", "post"}));
}

TEST(OwnSecret, is_found_by_its_use) {
  const Tenant tenant = with_slack_and_webhook();
  EXPECT_EQ(OwnSecret::find(tenant, OwnSecret::Use::slack_token)->name(), "SLACK_TOKEN");
  EXPECT_EQ(OwnSecret::find(tenant, OwnSecret::Use::slack_signing_secret)->name(), "SLACK_SIGNING");
  EXPECT_EQ(OwnSecret::find(tenant, OwnSecret::Use::webhook_secret, "orders")->name(), "WEBHOOK_KEY");
  EXPECT_FALSE(OwnSecret::find(tenant, OwnSecret::Use::webhook_secret, "none"));
  EXPECT_FALSE(OwnSecret::find(tenant_called("acme"), OwnSecret::Use::slack_token));
}

}  // namespace
}  // namespace pawl
