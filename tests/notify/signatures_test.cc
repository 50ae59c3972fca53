// Signatures, against vectors that the libraries of others computed.
#include "notify/signatures.h"

#include <gtest/gtest.h>

namespace pawl::notify {
namespace {

constexpr std::string_view secret = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

TEST(WebhookSignature, is_what_standard_webhooks_says) {
  auto keys = webhook_keys(secret);
  ASSERT_TRUE(keys);
  EXPECT_EQ((*keys)[0], "0123456789abcdef0123456789abcdef");
  WebhookMessage message{
      .id = "msg_run_01",
      .timestamp = "1794787200",
      .body = R"({"type":"run.succeeded","timestamp":"2026-11-16T00:00:00Z","data":{"run_id":"run_01"}})"};
  EXPECT_EQ(webhook_signature(*keys, message), "v1,on32l3fY2TOEY9gg/b3spONKXpEzG/WmSMqthxlpKLw=");
}

TEST(WebhookSignature, has_one_part_for_each_key) {
  std::string twice(secret);
  twice.append(" \n").append(secret).append("\n");
  auto keys = webhook_keys(twice);
  auto single = webhook_keys(secret);
  ASSERT_TRUE(keys && single);
  ASSERT_EQ(keys->size(), 2u);
  std::string one = webhook_signature(*single, {"a", "1", "{}"});
  EXPECT_EQ(webhook_signature(*keys, {"a", "1", "{}"}), one + " " + one);
}

TEST(WebhookSignature, needs_a_key_of_the_right_form) {
  for (std::string_view bad :
       {"", "  ", "secret", "whsec_", "whsec_c2hvcnQ=", "whsec_%%%%", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="})
    EXPECT_FALSE(webhook_keys(bad)) << bad;
}

struct Vector {
  std::string_view secret, timestamp, body, signature;
};
constexpr Vector vectors[] = {
    {"8f742231b10e8888abcd99yyyzzz85a5", "1531420618",
     "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name="
     "foobar&"
     "user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack."
     "com%"
     "2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121."
     "803a0bc887a14d10d2c447fce8b6703c",
     "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"},
    {"test-secret", "1700000000", "payload=%7B%22type%22%3A%22block_actions%22%7D",
     "v0=98fc666792b53d71acd495582349fb4120943d709d6463eca07f743d2ddc726a"}};

TEST(SlackSignature, is_that_of_the_raw_body_and_the_time) {
  for (const Vector& v : vectors) {
    SlackRequest request{v.timestamp, v.signature, v.body};
    EXPECT_TRUE(is_signed_with(request, v.secret));
    EXPECT_FALSE(is_signed_with(request, "another"));
    EXPECT_FALSE(is_signed_with(request, ""));
    std::string body(v.body), signature(v.signature);
    body.back() = body.back() == 'x' ? 'y' : 'x';
    EXPECT_FALSE(is_signed_with({v.timestamp, v.signature, body}, v.secret));
    EXPECT_FALSE(is_signed_with({"1", v.signature, v.body}, v.secret));
    signature.back() = signature.back() == '0' ? '1' : '0';
    EXPECT_FALSE(is_signed_with({v.timestamp, signature, v.body}, v.secret));
    EXPECT_FALSE(is_signed_with({v.timestamp, "", v.body}, v.secret));
  }
}

TEST(SlackSignature, is_good_for_five_minutes_on_both_sides) {
  Instant now{1'700'000'000'000};
  auto timely = [&](std::int64_t seconds) {
    const std::string text = std::to_string(1'700'000'000 + seconds);
    return is_timely({text, "", ""}, now);
  };
  for (std::int64_t seconds : {0, 300, -300}) EXPECT_TRUE(timely(seconds)) << seconds;
  for (std::int64_t seconds : {301, -301, 100'000}) EXPECT_FALSE(timely(seconds)) << seconds;
  for (std::string_view bad : {"", "now", "1700000000x", " 1700000000", "99999999999999999999", "-9223372036854775808"})
    EXPECT_FALSE(is_timely({bad, "", ""}, now)) << bad;
}

}  // namespace
}  // namespace pawl::notify
