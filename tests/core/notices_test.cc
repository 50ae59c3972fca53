// Who outside is told: patterns of events, and the tenant's events that say so.
#include "core/notices.h"

#include <gtest/gtest.h>

#include "core/tenant.h"

namespace pawl {
namespace {

TEST(EventPattern, matches_itself_its_family_or_everything) {
  EXPECT_TRUE(matches_event("run.succeeded", "run.succeeded"));
  EXPECT_TRUE(matches_event("run.*", "run.succeeded"));
  EXPECT_TRUE(matches_event("*", "approval.requested"));
  EXPECT_FALSE(matches_event("run.*", "runs.succeeded"));
  EXPECT_FALSE(matches_event("run.succeeded", "run.succeeded.twice"));
  EXPECT_FALSE(matches_event("approval.*", "run.created"));
}

TEST(EventPattern, must_match_something_that_happens) {
  for (std::string_view good : {"*", "run.*", "step.*", "run.created", "run.timed_out", "approval.voted",
                                "receipt.intended", "receipt.reversed", "action.denied", "transition.refused"})
    EXPECT_TRUE(is_event_pattern(good)) << good;
  for (std::string_view bad : {"", "run", "run.", "run.done", "runs.*", "**", "r*", "*.created"})
    EXPECT_FALSE(is_event_pattern(bad)) << bad;
}

const WebhookSet good{"orders", "https://example.com/in", {"run.*"}, "KEY"};

TEST(Webhook, that_cannot_be_says_why) {
  EXPECT_FALSE(webhook_problem(good));
  auto with = [](auto change) {
    WebhookSet out = good;
    change(out);
    return webhook_problem(out).has_value();
  };
  EXPECT_TRUE(with([](WebhookSet& w) { w.name = "no name"; }));
  EXPECT_TRUE(with([](WebhookSet& w) { w.name = std::string(41, 'n'); }));
  for (const char* url : {"", "example.com", "ftp://example.com", "https://", "https://a b", "https://u:p@example.com",
                          "https://example.com/#x", "https://example.com/\n"})
    EXPECT_TRUE(with([&](WebhookSet& w) { w.url = url; })) << url;
  EXPECT_TRUE(with([](WebhookSet& w) { w.events.clear(); }));
  EXPECT_TRUE(with([](WebhookSet& w) { w.events = {"run.done"}; }));
  EXPECT_TRUE(with([](WebhookSet& w) { w.secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="; }))
      << "a secret itself is not taken for the name of one";
}

class NoticesOfTenant : public testing::Test {
 protected:
  NoticesOfTenant() { append(1, TenantCreated{"acme"}); }

  // As it comes out of the journal.
  bool append(std::int64_t at, TenantPayload payload) {
    std::string line;
    append_event(line, TenantEvent{{at}, Actor{"key:1"}, std::move(payload)});
    auto read = parse_tenant_event(line);
    EXPECT_TRUE(read) << read.error();
    std::string again;
    append_event(again, *read);
    EXPECT_EQ(line, again);
    return evolve_checked(tenant_, *read).has_value();
  }

  Tenant tenant_;
};

TEST_F(NoticesOfTenant, a_webhook_is_set_moved_disabled_and_removed) {
  EXPECT_FALSE(append(5, WebhookRemoved{"orders"}));
  EXPECT_TRUE(append(10, good));
  WebhookSet moved = good;
  moved.url = "https://example.com/other";
  EXPECT_TRUE(append(20, moved));
  EXPECT_EQ(tenant_.webhooks.at("orders"), (Webhook{moved.url, {"run.*"}, "KEY", {10}, ""})) << "nothing is left out";
  EXPECT_TRUE(append(30, WebhookDisabled{"orders", "it answered 410 Gone"}));
  EXPECT_FALSE(tenant_.webhooks.at("orders").is_enabled());
  EXPECT_TRUE(append(40, moved));
  EXPECT_EQ(tenant_.webhooks.at("orders").since, Instant{40});
  EXPECT_TRUE(tenant_.webhooks.at("orders").is_enabled());
  EXPECT_TRUE(append(50, WebhookRemoved{"orders"}));
  EXPECT_FALSE(append(60, WebhookDisabled{"orders", "gone"}));
}

TEST_F(NoticesOfTenant, are_no_more_than_so_many) {
  WebhookSet webhook = good;
  for (std::size_t i = 0; i < webhooks_max; ++i) {
    webhook.name = "w" + std::to_string(i);
    EXPECT_TRUE(append(10, webhook));
  }
  EXPECT_FALSE(append(11, good));
  EXPECT_TRUE(append(12, webhook));
}

TEST_F(NoticesOfTenant, slack_is_set_and_removed) {
  SlackSet slack{"T1", "C1", "BOT", "SIGNING", "https://slack.com/api"};
  EXPECT_FALSE(append(5, SlackRemoved{}));
  EXPECT_TRUE(append(10, slack));
  slack.channel = "C2";
  EXPECT_TRUE(append(20, slack));
  EXPECT_EQ(*tenant_.slack, (SlackPlace{"T1", "C2", "BOT", "SIGNING", "https://slack.com/api", {10}}));
  slack.team = "acme";
  EXPECT_TRUE(slack_problem(slack));
  EXPECT_FALSE(append(30, slack));
  EXPECT_TRUE(append(40, SlackRemoved{}));
  EXPECT_FALSE(tenant_.slack);
}

}  // namespace
}  // namespace pawl
