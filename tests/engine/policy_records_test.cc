// Policies and actions, as they are found again in the journal.
#include "engine/policy_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/array.hpp>

#include "engine/test_server.h"

namespace pawl::tests {
namespace {

Action some_action(const std::string& target) {
  return {.connector = "crm", .operation = "note", .target = target, .risk = Tier::med, .idempotency_key = target};
}

std::string line(const std::string& type, const Action& action, int version = 1, const std::string& rule = "r") {
  return R"({"action":)" + print_action(action) + R"(,"at":1,"policy_version":)" + std::to_string(version) +
         R"(,"rule":")" + rule + R"(","type":")" + type + R"(","v":1})" + "\n";
}

TEST(PolicyRecords, an_event_tells_what_was_said_to_its_action) {
  auto denied = find_action(line("action.denied", some_action("a"), 3, "no"));
  ASSERT_TRUE(denied);
  EXPECT_EQ(denied->action, some_action("a"));
  EXPECT_EQ(denied->effect, Effect::deny);
  EXPECT_EQ(denied->policy_version, 3);
  EXPECT_EQ(denied->rule, "no");
  EXPECT_EQ(find_action(line("approval.requested", some_action("a")))->effect, Effect::needs_approval);
  EXPECT_EQ(find_action(line("receipt.intended", some_action("a")))->effect, Effect::allow);
}

TEST(PolicyRecords, other_events_tell_nothing) {
  for (const std::string& text :
       {line("run.created", some_action("a")), std::string("{}"), std::string("no JSON, \"action\":{"),
        std::string(R"({"action":{"connector":"x"},"type":"action.denied"})"), std::string(R"([{"action":{}}])"),
        std::string(R"({"action":"x","type":"action.denied"})"), std::string(R"({"action":{},"type":7})")})
    EXPECT_FALSE(find_action(text)) << text;
}

// Runs whose streams hold these lines, whoever would have written them.
struct Journal {
  TestServer server;
  TenantId tenant = server.tenant;
  Store& store = server.store();

  RunId run(std::uint64_t number, std::string lines) {
    RunId id{{number, 0}};
    const auto seq = static_cast<std::uint64_t>(std::ranges::count(lines, '\n'));
    RunFold fold;
    fold.row = {.tenant = tenant, .id = id, .workflow = {"w"}, .version = 1, .workspace = {"ops"}, .seq = seq};
    fold.history = {.key = StreamKey::of(tenant, id), .first_seq = 1, .lines = std::move(lines), .last_seq = seq};
    fold.is_new = true;
    Frame frame;
    frame.position = store.last_position() + 1;
    frame.runs.push_back(std::move(fold));
    store.commit(std::span(&frame, 1));
    return id;
  }
};

TEST(PolicyRecords, actions_of_the_newest_runs_come_first_each_once_a_run) {
  Journal journal;
  RunId older = journal.run(1, line("action.denied", some_action("a")) + "{}\n");
  RunId newer =
      journal.run(2, "{}\n" + line("approval.requested", some_action("b")) +
                         line("receipt.intended", some_action("b")) + line("receipt.intended", some_action("c")));
  auto found = recorded_actions(journal.store, journal.tenant, 10);
  EXPECT_TRUE(found.is_all);
  ASSERT_EQ(found.actions.size(), 3u);
  EXPECT_EQ(found.actions[0].action.target, "b");
  EXPECT_EQ(found.actions[0].record->effect, Effect::needs_approval);
  EXPECT_EQ(found.actions[0].record->run, newer);
  EXPECT_EQ(found.actions[0].record->seq, 2u);
  EXPECT_EQ(found.actions[0].workflow.text, "w");
  EXPECT_EQ(found.actions[0].workspace.text, "ops");
  EXPECT_EQ(found.actions[1].action.target, "c");
  EXPECT_EQ(found.actions[1].record->effect, Effect::allow);
  EXPECT_EQ(found.actions[2].record->run, older);
  auto fewer = recorded_actions(journal.store, journal.tenant, 2);
  EXPECT_FALSE(fewer.is_all);
  EXPECT_EQ(fewer.actions.size(), 2u);
}

TEST(PolicyRecords, a_draft_is_tried_on_them) {
  Journal journal;
  journal.run(1, line("approval.requested", some_action("a")) + line("action.denied", some_action("b")));
  Tenant tenant;
  tenant.id = journal.tenant;
  tenant.name = "acme";
  tenant.policy = {4, "digest", deny_all};
  auto draft =
      Policy::compile("policy: p\nrules: [{id: r, effect: allow, when: target = 'b' AND workflow = 'w'}]", "p");
  auto result = try_policy(*draft, tenant, recorded_actions(journal.store, journal.tenant, 10));
  EXPECT_EQ(canonical(result.at("summary")),
            R"({"actions":2,"changed":1,"changes":[{"actions":1,"from":"deny","to":"allow"}],"policy_version":4})");
  EXPECT_EQ(canonical(result.at("items").at(1).at("draft")),
            R"({"effect":"allow","reason":"rule `r` allows it","rule":"r"})");
  EXPECT_EQ(canonical(result.at("items").at(0).at("record").at("effect")), R"("needs_approval")");
}

TEST(PolicyRecords, every_version_is_kept) {
  TestServer server;
  server.publish_policy(allow_all);
  server.publish_policy(deny_all);
  auto versions = policy_versions(server.store(), server.tenant);
  ASSERT_EQ(versions.size(), 2u);
  EXPECT_EQ(versions[1].source, allow_all);
  EXPECT_EQ(versions[0].version, 2);
  EXPECT_EQ(versions[0].published_by.text, "admin");
  EXPECT_EQ(find_policy_version(server.store(), server.tenant, 1)->source, allow_all);
  EXPECT_EQ(find_policy_version(server.store(), server.tenant, 0)->source, default_policy_source);
  EXPECT_FALSE(find_policy_version(server.store(), server.tenant, 3));
}

TEST(PolicyRecords, versions_come_in_pages_newest_first) {
  TestServer server;
  for (int i = 0; i < 7; ++i) {
    server.publish_policy(i % 2 == 0 ? allow_all : deny_all);
    server.limit({.max_concurrency = i + 1});  // other events lie between them
  }
  std::vector<int> seen;
  for (PolicyPage page{.limit = 3};;) {
    auto versions = policy_versions(server.store(), server.tenant, page);
    for (const PolicyVersion& version : versions) seen.push_back(version.version);
    if (versions.size() < page.limit) break;
    page.before = versions.back().version;
  }
  EXPECT_EQ(seen, (std::vector{7, 6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(policy_versions(server.store(), server.tenant, {.limit = 1}).front().version, 7);
}

}  // namespace
}  // namespace pawl::tests
