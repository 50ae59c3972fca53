// What a policy says to an action.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "govern/builders.h"
#include "govern/condition_functions.h"

namespace pawl {
namespace {

Verdict verdict_of(const std::string& rules, const Action& action = some_action()) {
  return policy_of(rules).evaluate(action, somewhere);
}

Effect effect_of(const std::string& condition, const Action& action = some_action()) {
  return verdict_of(rule("r", "allow", condition), action).effect;
}

TEST(Policy, the_first_rule_that_is_met_speaks) {
  auto rules = rule("a", "deny", "connector = 'slack'") + rule("b", "allow", "operation = 'incident.update'") +
               always("c", "needs_approval");
  EXPECT_EQ(verdict_of(rules).rule, "b");
  EXPECT_EQ(verdict_of(rules).effect, Effect::allow);
  EXPECT_EQ(verdict_of(always("z", "deny") + rules).rule, "z");
  Action other = some_action();
  other.operation = "incident.delete";
  EXPECT_EQ(verdict_of(rules, other).rule, "c");
  other.connector = "slack";
  EXPECT_EQ(verdict_of(rules, other).effect, Effect::deny);
}

// ---- Risk

std::string raises(const std::string& id, const std::string& risk, const std::string& when) {
  return "- {id: " + id + ", risk: " + risk + ", when: \"" + when + "\"}\n";
}

TEST(PolicyRisk, is_raised_and_never_lowered) {
  const std::string order[] = {"low", "med", "high"};
  for (int stated = 0; stated < 3; ++stated)
    for (int raised = 0; raised < 3; ++raised) {
      const Action action = some_action("{}", static_cast<Tier>(stated));
      const auto wanted = static_cast<Tier>(std::max(stated, raised));
      const std::string of_rule = ", risk: " + order[raised] + "}\n";
      for (const std::string& rules :
           {"- {id: a, effect: allow" + of_rule, "- {id: a, effect: needs_approval" + of_rule,
            "- {id: a" + of_rule + always("b", "allow")})
        EXPECT_EQ(verdict_of(rules, action).risk, wanted) << rules;
    }
}

TEST(PolicyRisk, is_seen_by_the_rules_that_follow_and_not_by_those_before) {
  const std::string two = "- {id: two, effect: needs_approval, two_person: true, when: risk = 'high'}\n";
  const std::string raise = raises("raise", "high", "connector = 'servicenow'");
  const auto verdict = verdict_of(raise + two + always("rest", "allow"));
  EXPECT_EQ(verdict.rule, "two");
  EXPECT_EQ(verdict.terms.tier, Tier::high);
  EXPECT_EQ(verdict.risk, Tier::high);
  EXPECT_EQ(verdict_of(two + raise + always("rest", "allow")).rule, "rest");
  EXPECT_EQ(verdict_of(two + raise + always("rest", "allow")).risk, Tier::high);
  EXPECT_EQ(verdict_of(raises("no", "high", "connector = 'slack'") + two + always("rest", "allow")).rule, "rest");
  // One after the other, each on what the ones before it made of the risk.
  const std::string chain = raises("first", "med", "risk_level = 0") + raises("second", "high", "risk_level = 1");
  EXPECT_EQ(verdict_of(chain + always("rest", "allow")).risk, Tier::high);
}

TEST(PolicyRisk, is_raised_by_what_is_unknown_and_fails_closed) {
  const std::string unknown = "fields ->> 'missing' = 1";
  EXPECT_EQ(verdict_of(raises("r", "high", unknown) + always("rest", "allow")).risk, Tier::high);
  EXPECT_EQ(verdict_of("- {id: r, effect: allow, risk: high, when: \"" + unknown + "\"}\n").effect, Effect::deny)
      << "an allow that is unknown does not allow, whatever else it says";
  EXPECT_EQ(verdict_of(raises("r", "high", "true")).effect, Effect::deny) << "raising is no allow";
  const auto broken = verdict_of(raises("r", "high", "fields ->> 'x' IS NULL") +
                                 raises("s", "high", "abs(-9223372036854775807 - 1) > 0") + always("rest", "allow"));
  EXPECT_EQ(broken.effect, Effect::deny);
  EXPECT_EQ(broken.rule, "s") << "the rule that failed, and not one before it";
}

TEST(PolicyRisk, can_be_raised_by_many_rules) {
  std::string rules;
  for (int i = 0; i < 100; ++i) rules += raises("r" + std::to_string(i), "high", "fields ->> 'n' = 'x' OR 1");
  const auto verdict = verdict_of(rules + always("rest", "allow"));
  EXPECT_EQ(verdict.effect, Effect::allow) << verdict.reason;
  EXPECT_EQ(verdict.risk, Tier::high);
}

TEST(Policy, conditions_see_every_column) {
  Action action = some_action(R"({"amount":150,"labels":["prod","eu"],"note":"it's","urgent":true})", Tier::high);
  for (const char* condition : {"connector = 'servicenow'",
                                "operation LIKE 'incident.%'",
                                "target GLOB 'acme/*/42'",
                                "risk = 'high'",
                                "risk_level >= 2",
                                "tenant = 'acme'",
                                "workspace = 'ops'",
                                "workflow = 'triage'",
                                "fields ->> 'amount' > 100",
                                "fields ->> '$.labels[1]' = 'eu'",
                                "json_array_length(fields, '$.labels') = 2",
                                "fields ->> 'urgent'",
                                "fields ->> 'note' = 'it''s'",
                                "fields ->> 'missing' IS NULL",
                                "json_type(fields, '$.amount') = 'integer'",
                                "EXISTS (SELECT 1 FROM json_each(fields, '$.labels') WHERE value = 'prod')",
                                "'prod' IN (SELECT value FROM json_each(fields -> 'labels'))",
                                "(SELECT count(*) FROM json_tree(fields)) > 4",
                                "instr(target, 'incident') = 6",
                                "lower(upper(connector)) = 'servicenow'",
                                "action.target = 'acme/incident/42'",
                                "target LIKE '%50!%%' ESCAPE '!' OR 1 -- a comment",
                                "/* one */ true",
                                "risk IN ('med', 'high')",
                                "CASE risk WHEN 'high' THEN 1 ELSE 0 END",
                                "risk_level BETWEEN 1 AND 2",
                                "1.0"})
    EXPECT_EQ(effect_of(condition, action), Effect::allow) << condition;
  for (const char* condition : {"connector = 'slack'", "fields ->> 'amount' > 200", "0", "false", "0.0",
                                "fields ->> 'missing' = 1", "target LIKE 'x%'"})
    EXPECT_EQ(verdict_of(rule("r", "allow", condition), action).reason, "no rule speaks about it") << condition;
}

TEST(Policy, like_glob_and_instr_answer_as_those_of_sqlite) {
  struct Row {
    const char* condition;
    bool holds;
  };
  for (const Row& row :
       {Row{"'ABC' LIKE 'a_c'", true}, Row{"'abc' LIKE 'a'", false}, Row{"'a%c' LIKE 'a\\%c' ESCAPE '\\'", true},
        Row{"'abc' LIKE 'a\\%c' ESCAPE '\\'", false}, Row{"'ABC' GLOB 'a*'", false}, Row{"'abc' GLOB 'a[b-d]c'", true},
        Row{"instr('äöü', 'ü') = 3", true}, Row{"instr('abc', 'x') = 0", true}, Row{"instr('abc', '') = 1", true},
        Row{"(NULL LIKE 'a') IS NULL", true}, Row{"('a' GLOB NULL) IS NULL", true},
        Row{"instr(NULL, 'a') IS NULL", true}, Row{"12 LIKE '1%'", true}, Row{"'ab' NOT LIKE 'a%'", false}})
    EXPECT_EQ(effect_of(row.condition) == Effect::allow, row.holds) << row.condition;
}

TEST(Policy, number_takes_what_is_spelled_like_one_and_nothing_else) {
  const auto rules = rule("large", "deny", "number(fields -> 'amount') > 1000") + always("rest", "allow");
  for (const char* amount : {"5", "\"5\"", "1000", "-3", "\"999.99\"", "1e2"})
    EXPECT_EQ(verdict_of(rules, some_action(std::string(R"({"amount":)") + amount + "}")).effect, Effect::allow)
        << amount;
  for (const char* amount :
       {"5000",    "1000.01", "\"5000\"", "1e9",       "\"5,000\"",    "[5000]",    R"({"v":5000})", "true",
        "null",    "\"\"",    "\" 5\"",   "\"5 000\"", "\"+5\"",       "\"0x1\"",   "\"05\"",        "\"５\"",
        "\"1_0\"", "\"5.\"",  "\".5\"",   "\"NaN\"",   "\"Infinity\"", "\"1e999\"", "\"\\\"5\\\"\""})
    EXPECT_EQ(verdict_of(rules, some_action(std::string(R"({"amount":)") + amount + "}")).effect, Effect::deny)
        << amount;
  EXPECT_EQ(verdict_of(rules, some_action("{}")).effect, Effect::deny);
  for (const char* condition : {"number(7) = 7", "number(1.5) = 1.5", "number('12') = 12", "number(NULL) IS NULL",
                                "number('12x') IS NULL", "number('9223372036854775807') = 9223372036854775807"})
    EXPECT_EQ(effect_of(condition), Effect::allow) << condition;
}

TEST(Policy, approval_takes_the_risk_of_the_action_for_its_tier) {
  auto verdict = verdict_of(always("a", "needs_approval"), some_action("{}", Tier::high));
  EXPECT_EQ(verdict.effect, Effect::needs_approval);
  EXPECT_EQ(verdict.terms, (ApprovalTerms{.tier = Tier::high, .prompt = ""}));
  EXPECT_EQ(verdict.reason, "rule `a` asks for approval");
}

TEST(Policy, approval_terms_are_those_of_the_rule) {
  auto verdict =
      verdict_of("- {id: a, effect: needs_approval, tier: med, two_person: true, expires: 2h, reason: ask twice}\n",
                 some_action("{}", Tier::high));
  EXPECT_EQ(verdict.terms, (ApprovalTerms{.tier = Tier::med,
                                          .two_person = true,
                                          .quorum = 2,
                                          .expires = std::chrono::hours(2),
                                          .prompt = "ask twice"}));
  EXPECT_EQ(verdict.reason, "ask twice");
  EXPECT_EQ(verdict_of("- {id: a, effect: needs_approval, quorum: 3}\n").terms.quorum, 3);
}

TEST(Policy, a_verdict_names_the_version_it_was_compiled_as) {
  auto policy = Policy::compile("policy: p\nrules: [{id: a, effect: allow, when: risk = 'low'}]", "p", 7);
  EXPECT_EQ(policy->evaluate(some_action(), somewhere).policy_version, 7);
  EXPECT_EQ(policy->evaluate(some_action("{}", Tier::high), somewhere).policy_version, 7);
}

TEST(Policy, the_one_that_comes_along_allows_low_risk_only) {
  Policy policy = default_policy();
  EXPECT_EQ(policy.evaluate(some_action("{}", Tier::low), somewhere).effect, Effect::allow);
  auto med = policy.evaluate(some_action("{}", Tier::med), somewhere);
  EXPECT_EQ(med.effect, Effect::needs_approval);
  EXPECT_EQ(med.terms.tier, Tier::med);
  EXPECT_FALSE(med.terms.two_person);
  auto high = policy.evaluate(some_action("{}", Tier::high), somewhere);
  EXPECT_EQ(high.effect, Effect::needs_approval);
  EXPECT_EQ(high.terms.tier, Tier::high);
  EXPECT_TRUE(high.terms.two_person);
  EXPECT_EQ(high.terms.quorum, 2);
  EXPECT_EQ(high.policy_version, 0);
}

TEST(Policy, each_thread_with_its_own_decides_alike) {
  std::vector<std::thread> threads;
  std::atomic<int> allowed = 0;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      Policy policy = policy_of(rule("a", "allow", "fields ->> 'n' % 2 = 0"));
      for (int n = 0; n < 500; ++n)
        allowed += policy.evaluate(some_action("{\"n\":" + std::to_string(n) + "}"), somewhere).effect == Effect::allow;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(allowed, 1000);
}

std::string policy_page() {
  std::ostringstream text;
  text << std::ifstream(std::filesystem::path(PAWL_SOURCE_DIR) / "docs/policy.md").rdbuf();
  return text.str();
}

TEST(Policy, the_page_names_every_column_and_every_function) {
  const std::string page = policy_page();
  for (std::string_view name : condition_functions) EXPECT_TRUE(page.contains("`" + std::string(name) + "`")) << name;
  for (std::string_view column :
       {"connector", "operation", "target", "fields", "risk", "risk_level", "tenant", "workspace", "workflow"}) {
    EXPECT_EQ(errors_of_condition(std::string(column) + " IS NOT NULL"), "") << column;
    EXPECT_TRUE(page.contains("`" + std::string(column) + "`")) << column;
  }
}

TEST(Policy, the_page_names_every_key_of_a_rule) {
  const auto policy = Policy::compile(R"(
policy: all
rules:
- {id: r, effect: needs_approval, when: "risk = 'low'", risk: low, reason: why, tier: low, two_person: true, quorum: 2,
   expires: 4h, approvers: ["group:finance"], remind: 1h, escalate: {after: 2h, to: ["group:heads"]}}
)",
                                      "all");
  ASSERT_TRUE(policy.has_value()) << policy.error();
  const std::string page = policy_page();
  for (std::string_view key : {"id", "effect", "when", "risk", "reason", "tier", "two_person", "quorum", "expires",
                               "approvers", "remind", "escalate"})
    EXPECT_TRUE(page.contains("| `" + std::string(key) + "` | ")) << key;
}

TEST(Policy, the_policies_of_the_page_can_be_read_and_one_is_the_default) {
  const std::string page = policy_page();
  constexpr std::string_view begin = "```yaml\n", end = "```\n";
  int read = 0;
  for (auto at = page.find(begin); at != page.npos; at = page.find(begin, at + 1)) {
    const auto text = page.substr(at + begin.size(), page.find(end, at + begin.size()) - at - begin.size());
    auto policy = Policy::compile(text, "docs/policy.md");
    EXPECT_TRUE(policy.has_value()) << policy.error();
    ++read;
  }
  EXPECT_GE(read, 2);
  EXPECT_TRUE(page.contains(default_policy_source));
}

// The expressions that the page shows in its table, on an action that has what they look at.
TEST(Policy, the_expressions_of_the_page_look_into_fields) {
  const Action action = some_action(
      R"({"amount":"12.50","customer":{"tier":"gold"},"items":[{"price":2,"sku":"a"},{"price":3,"sku":"b"}],"labels":["x"]})");
  for (std::string_view condition :
       {"fields ->> 'amount' = '12.50'", "fields -> 'customer' ->> 'tier' = 'gold'",
        "json_extract(fields, '$.items[0].sku') = 'a'", "json_type(fields, '$.amount') = 'text'",
        "json_array_length(fields, '$.items') = 2",
        "EXISTS (SELECT 1 FROM json_each(fields, '$.labels') WHERE value = 'x')",
        "(SELECT sum(value ->> 'price') FROM json_each(fields, '$.items')) = 5",
        "EXISTS (SELECT 1 FROM json_tree(fields) WHERE key = 'sku')"})
    EXPECT_EQ(effect_of(std::string(condition), action), Effect::allow) << condition;
}

TEST(Policy, examples_are_policies) {
  namespace fs = std::filesystem;
  int read = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(PAWL_SOURCE_DIR) / "examples/policies")) {
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    auto policy = Policy::compile(text.str(), entry.path().filename().string());
    EXPECT_TRUE(policy.has_value()) << policy.error();
    ++read;
  }
  EXPECT_GE(read, 2);
}

}  // namespace
}  // namespace pawl
