// Whatever keeps a policy from deciding is a deny, and the reason says what it was. Every policy here would allow.
#include "govern/builders.h"

namespace pawl {
namespace {

Verdict verdict_on(const std::string& condition, const Action& action, const ActionContext& context = somewhere) {
  return policy_of(rule("r", "allow", condition) + always("rest", "allow")).evaluate(action, context);
}

void expect_denied(const Verdict& verdict, std::string_view rule, std::string_view reason) {
  EXPECT_EQ(verdict.effect, Effect::deny);
  EXPECT_EQ(verdict.rule, rule);
  EXPECT_EQ(verdict.reason, reason);
  EXPECT_EQ(verdict.terms, ApprovalTerms{});
}

TEST(FailClosed, no_rule) {
  expect_denied(policy_of(rule("r", "allow", "0")).evaluate(some_action(), somewhere), "", "no rule speaks about it");
}

TEST(FailClosed, null_speaks_for_a_deny_and_for_an_approval_and_not_for_an_allow) {
  const char* unknown = "fields ->> 'amount' > 100";
  auto rest = always("rest", "allow");
  expect_denied(policy_of(rule("r", "deny", unknown) + rest).evaluate(some_action(), somewhere), "r",
                "rule `r` denies it (its condition is unknown: something that it looks at is missing)");
  auto asked = policy_of(rule("r", "needs_approval", unknown) + rest).evaluate(some_action(), somewhere);
  EXPECT_EQ(asked.effect, Effect::needs_approval);
  EXPECT_EQ(asked.rule, "r");
  expect_denied(policy_of(rule("r", "allow", unknown)).evaluate(some_action(), somewhere), "",
                "no rule speaks about it");
}

TEST(FailClosed, an_error_denies_and_names_its_rule) {
  for (const auto& [condition, reason] : std::vector<std::pair<const char*, const char*>>{
           {"abs(-9223372036854775807 - 1) > 0", "integer overflow"},
           {"json_extract(target, '$.a') = 1", "malformed JSON"},
           {"json_extract(fields, 'a') = 1", "JSON path error near 'a'"},
           {"(SELECT sum(value) FROM json_each('[9223372036854775807,1]')) > 0", "integer overflow"},
           {"target LIKE 'a' ESCAPE 'xy'", "ESCAPE expression must be a single character"}})
    expect_denied(verdict_on(condition, some_action()), "r", std::string("rule `r` could not be decided: ") + reason);
}

TEST(FailClosed, a_rule_that_failed_after_others_is_the_one_that_is_named) {
  auto policy = policy_of(rule("a", "allow", "0") + rule("b", "deny", "risk = 'high'") +
                          rule("c", "allow", "json_extract(target, '$') = 1") + always("d", "allow"));
  EXPECT_EQ(policy.evaluate(some_action(), somewhere).rule, "c");
  // One that was met before is not kept from speaking.
  EXPECT_EQ(policy.evaluate(some_action("{}", Tier::high), somewhere).rule, "b");
}

TEST(FailClosed, what_is_neither_true_nor_false) {
  const std::string reason =
      "rule `r` could not be decided: its condition gives something that is neither true nor false; compare it with "
      "what it should be";
  for (const char* condition : {"target", "fields ->> 'flag'", "5", "-1", "0.5", "'1'", "''", "x'01'"})
    expect_denied(verdict_on(condition, some_action(R"({"flag":"true"})")), "r", reason);
  expect_denied(policy_of(rule("r", "deny", "fields ->> 'flag'") + always("rest", "allow"))
                    .evaluate(some_action(R"({"flag":"no"})"), somewhere),
                "r", reason);
}

// A size at which a condition no longer sees the fields would turn a deny into an allow.
TEST(FailClosed, no_size_of_an_action_hides_its_fields) {
  for (const char* condition :
       {"fields ->> 'amount' > 1000", "coalesce(fields ->> 'amount', 0) > 1000",
        "json_extract(fields, '$.amount') >= 5000", "fields ->> 'amount' IN (5000, 6000)",
        "fields ->> 'payee' LIKE 'mall%'", "fields ->> 'payee' = 'mallory'", "instr(fields ->> 'payee', 'ory') > 0",
        "EXISTS (SELECT 1 FROM json_each(fields) WHERE key = 'amount' AND value > 1000)",
        "EXISTS (SELECT 1 FROM json_each(fields, '$.lines') WHERE value ->> 'sku' = 'x')", "length(fields) > 0",
        "json_type(fields, '$.amount') = 'integer'"}) {
    auto policy = policy_of(rule("limit", "deny", condition) + always("rest", "allow"));
    for (const std::size_t size : {std::size_t{0}, std::size_t{1} << 16, (std::size_t{1} << 18) - 80,
                                   std::size_t{1} << 18, std::size_t{300} << 10, action_fields_bytes_max - 100}) {
      Action action = some_action(R"({"amount":5000,"lines":[{"sku":"x"}],"note":")" + std::string(size, 'n') +
                                  R"(","payee":"mallory"})");
      ASSERT_LE(action.fields.size(), action_fields_bytes_max);
      EXPECT_EQ(policy.evaluate(action, somewhere).effect, Effect::deny) << condition << " with " << size;
      EXPECT_EQ(policy.evaluate(action, somewhere).rule, "limit") << condition << " with " << size;
    }
  }
}

TEST(FailClosed, too_many_steps) {
  std::string list = "[0";
  for (int i = 1; i < 300; ++i) list += ",0";
  Action action = some_action("{\"a\":" + list + "]}");
  const char* product =
      "(SELECT count(*) FROM json_each(fields, '$.a') x, json_each(fields, '$.a') y, json_each(fields, '$.a') z) > 0";
  auto verdict = verdict_on(product, action);
  EXPECT_EQ(verdict.effect, Effect::deny);
  EXPECT_EQ(verdict.rule, "r");
  EXPECT_TRUE(verdict.reason == "rule `r` could not be decided: its conditions take more than 500000 steps" ||
              verdict.reason == "rule `r` could not be decided: its conditions take longer than 50 ms")
      << verdict.reason;
}

TEST(FailClosed, comparing_too_much) {
  Action action = some_action("{\"a\":\"" + std::string(60'000, 'a') + "\"}");
  for (const char* condition : {"fields ->> 'a' LIKE fields ->> 'a'", "fields ->> 'a' GLOB '*' || (fields ->> 'a')",
                                "instr(fields ->> 'a', (fields ->> 'a') || 'b') > 0"})
    expect_denied(verdict_on(condition, action), "r",
                  "rule `r` could not be decided: LIKE, GLOB and instr() compare more than 16777216 characters");
}

// Two hundred rules, each with work for a tenth of the time that all have.
TEST(FailClosed, many_rules_that_each_take_long_are_stopped_together) {
  std::string list = "[0";
  while (list.size() < 60'000) list += ",1";
  Action action = some_action("{\"a\":" + list + "]}");
  std::string rules;
  std::string condition = "0";
  for (int i = 0; i < 40; ++i) condition += " OR (fields || '') ->> 'x' = 1";
  for (int i = 0; i < 200; ++i) rules += rule("r" + std::to_string(i), "allow", condition);
  Policy policy = policy_of(rules + always("rest", "allow"));
  auto verdict = policy.evaluate(action, somewhere);
  EXPECT_EQ(verdict.effect, Effect::deny);
  EXPECT_TRUE(verdict.reason.ends_with("take longer than 50 ms")) << verdict.reason;
}

TEST(FailClosed, a_value_that_grows_too_large) {
  Action action = some_action("{\"a\":\"" + std::string(1'000'000, 'a') + "\"}");
  expect_denied(verdict_on("length(fields || fields || fields || fields || fields) > 0", action), "r",
                "rule `r` could not be decided: it has or makes a value of more than 4194304 bytes");
}

TEST(FailClosed, actions_beyond_their_limits) {
  Action action = some_action();
  action.target = std::string(action_target_chars_max + 1, 'x');
  expect_denied(verdict_on("1", action), "", "the action cannot be judged: `target` is longer than 2048 bytes");
  action = some_action("{\"a\":\"" + std::string(action_fields_bytes_max, 'a') + "\"}");
  expect_denied(verdict_on("1", action), "", "the action cannot be judged: `fields` are larger than 1048576 bytes");
  action = some_action();
  action.connector.clear();
  expect_denied(verdict_on("1", action), "", "the action cannot be judged: `connector` must not be empty");
  std::string name(300, 'w');
  expect_denied(verdict_on("1", some_action(), {"t", "w", name}), "",
                "the action cannot be judged: it comes from a name that is too long");
}

// A text that seems to end before what a condition looks for.
TEST(FailClosed, characters_that_hide_what_follows) {
  const char* harmless = "target NOT LIKE '%prod%'";
  Action action = some_action();
  action.target = std::string("x\0prod", 6);
  expect_denied(verdict_on(harmless, action), "", "the action cannot be judged: it holds a NUL character");
  action.target = "x\xff";
  expect_denied(verdict_on(harmless, action), "", "the action cannot be judged: it holds bytes that are not UTF-8");
  expect_denied(verdict_on("fields ->> 'a' NOT LIKE '%prod%'", some_action(R"({"a":"x\u0000prod"})")), "",
                "the action cannot be judged: `fields` holds a NUL character");
  expect_denied(verdict_on("1", some_action(R"({"x\\\u0000":1})")), "",
                "the action cannot be judged: `fields` holds a NUL character");
  EXPECT_EQ(verdict_on("fields ->> 'a' = '\\u0000'", some_action(R"({"a":"\\u0000"})")).effect, Effect::allow);
  for (const char* fields : {"[]", "", "1", "null", "{"})
    expect_denied(verdict_on("1", some_action(fields)), "", "the action cannot be judged: `fields` is not an object");
}

TEST(FailClosed, data_is_never_part_of_the_statement) {
  for (const char* text : {"' OR 1=1 --", "'; ATTACH 'x' AS y; --", ") OR (1", "\" OR \"1\"=\"1", "?1", "/*"}) {
    Action action = some_action();
    action.target = text;
    auto policy = policy_of(rule("r", "allow", "target = 'safe'"));
    EXPECT_EQ(policy.evaluate(action, somewhere).effect, Effect::deny) << text;
    EXPECT_EQ(policy.evaluate(action, somewhere).reason, "no rule speaks about it") << text;
  }
}

TEST(FailClosed, it_decides_as_before_after_every_failure) {
  Policy policy =
      policy_of(rule("bad", "deny", "json_extract(target, '$.a') = 1") + rule("r", "allow", "risk = 'low'"));
  Action good = some_action();
  good.target = "{}";
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(policy.evaluate(some_action(), somewhere).rule, "bad");
    EXPECT_EQ(policy.evaluate(good, somewhere).effect, Effect::deny);  // null in a deny
    good.target = R"({"a":1})";
    EXPECT_EQ(policy.evaluate(good, somewhere).effect, Effect::deny);
    good.target = R"({"a":2})";
    EXPECT_EQ(policy.evaluate(good, somewhere).effect, Effect::allow);
    good.target = "{}";
  }
}

}  // namespace
}  // namespace pawl
