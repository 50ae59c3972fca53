// What an author is told, and what a condition cannot do.
#include "core/characters.h"
#include "govern/builders.h"

namespace pawl {
namespace {

std::string errors_of(std::string_view text) {
  auto policy = Policy::compile(text, "p");
  return policy ? "" : policy.error();
}

TEST(PolicyErrors, have_a_place_and_say_what_to_write) {
  struct Row {
    std::string text;
    std::string errors;
  };
  const Row rows[] = {
      {"", "p:1:1: the document is empty"},
      {"[]", "p:1:1: `policy` must be a map that begins with `policy: <name>`, not a list"},
      {"rules: [{id: a, effect: deny}]", "p:1:1: this document has no `policy`; add one, such as `policy: production`"},
      {"policy: p", "p:1:1: this policy has no `rules`; add one, such as `rules: [{id: all, effect: deny}]`"},
      {"policy: p\nrules: []",
       "p:2:8: `rules` is empty, which denies everything; to do that write {id: all, effect: deny}"},
      {"policy: p\nrules: {}", "p:2:8: `rules` must be a list, not a map"},
      {"policy: p\nrules: [x]", "p:2:9: `rules` must be a list of maps, not `x`"},
      {"policy: p\nrulez: []\nrules: [{id: a, effect: deny}]", "p:2:1: unknown key `rulez`; did you mean `rules`?"},
      {"policy: p\nrules:\n- {effect: deny}", "p:3:3: this rule has no `id`; add one, such as `id: no-deletes`"},
      {"policy: p\nrules:\n- {id: a}", "p:3:3: this rule has no `effect`; add one, such as `effect: needs_approval`"},
      {"policy: p\nrules:\n- {id: a, effect: permit}",
       "p:3:19: `effect` must be deny, allow or needs_approval, not `permit`"},
      {"policy: p\nrules:\n- {id: a, effect: deny, wen: x}", "p:3:25: unknown key `wen`; did you mean `when`?"},
      {"policy: p\nrules:\n- {id: a, risk: huge}", "p:3:17: `risk` must be low, med or high, not `huge`"},
      {"policy: p\nrules:\n- {id: a, risk: high, tier: low}",
       "p:3:23: `tier` belongs to a rule with `effect: needs_approval`; remove it"},
      {"policy: p\nrules:\n- {id: a, effect: deny, tier: low}",
       "p:3:25: `tier` belongs to a rule with `effect: needs_approval`; remove it"},
      {"policy: p\nrules:\n- {id: a, effect: needs_approval, two_person: true, quorum: 3}",
       "p:3:61: `two_person` means a quorum of 2; remove `quorum`, or set it to 2"},
      {"policy: p\nrules:\n- {id: a, effect: deny}\n- {id: a, effect: deny}",
       "p:4:8: rule `a` is already defined in line 3; choose another id"},
      {"policy: p\nrules:\n- {id: a, effect: deny, when: ' '}",
       "p:3:31: `when` is empty; remove it for a rule that always speaks"},
      {"policy: p\nrules:\n- {id: a, effect: deny, when: [x]}", "p:3:31: `when` must be text, not a list"},
      {"policy: p\nrules:\n- id: a\n  effect: deny\n  when: conector = 'x'",
       "p:5:9: the condition of rule `a`: no such column: conector; did you mean `connector`?"},
      {"policy: p\nrules:\n- id: a\n  effect: deny\n  when: risk = 'x' AND colour = 1",
       "p:5:24: the condition of rule `a`: no such column: colour; there are connector, operation, target, risk, "
       "tenant, "
       "workspace, workflow, fields and risk_level"},
      {"policy: p\nrules:\n- id: a\n  effect: deny\n  when: \"risk = ANDD 'x'\"",
       "p:5:22: the condition of rule `a`: near \"'x'\": syntax error"},
      {"policy: p\nrules:\n- id: a\n  effect: deny\n  when: risk = \"low\"",
       "p:5:16: the condition of rule `a`: no such column: low; there are connector, operation, target, risk, tenant, "
       "workspace, workflow, fields and risk_level"},
  };
  for (const Row& row : rows) EXPECT_EQ(errors_of(row.text), row.errors) << row.text;
}

TEST(PolicyErrors, are_told_all_at_once) {
  EXPECT_EQ(
      errors_of("policy: p\nrules:\n- {id: a, effect: deny, when: x = 1}\n- {id: b, effect: maybe}\n"
                "- {id: c, effect: deny, when: (1}\n"),
      "p:3:31: the condition of rule `a`: no such column: x; there are connector, operation, target, risk, tenant, "
      "workspace, workflow, fields and risk_level\n"
      "p:4:19: `effect` must be deny, allow or needs_approval, not `maybe`\n"
      "p:5:31: the condition of rule `c`: this `(` is not closed");
}

TEST(PolicyErrors, limits) {
  std::string rules;
  for (std::size_t i = 0; i <= policy_rules_max; ++i) rules += always("r" + std::to_string(i), "deny");
  EXPECT_EQ(errors_of("policy: p\nrules:\n" + rules), "p:503:3: a policy has at most 500 rules; this one has 501");
  EXPECT_EQ(errors_of_condition("'" + std::string(condition_bytes_max, 'x') + "' = target"),
            "p:3:42: a condition has at most 4000 bytes; this one has 4011");
  std::string calls = "0";
  for (std::size_t i = 0; i <= condition_functions_max; ++i) calls += " OR abs(1)";
  EXPECT_EQ(errors_of_condition(calls),
            "p:3:43: the condition of rule `r`: a condition calls at most 50 functions; this one calls 51");
  EXPECT_NE(errors_of("policy: p\ndescription: " + std::string(policy_bytes_max, 'x')), "");
  EXPECT_EQ(errors_of("policy: p\nrules: [{id: a, effect: deny, reason: " + std::string(501, 'x') + "}]"),
            "p:2:39: `reason` has at most 500 characters; this one has 501");
}

TEST(PolicyErrors, a_whole_policy_at_its_limits_is_read) {
  std::string rules;
  for (std::size_t i = 0; i < policy_rules_max; ++i) {
    std::string condition = "target IN ('t" + std::to_string(i) + "'";
    while (condition.size() < 400) condition += ",'x" + std::to_string(condition.size() * 1000 + i) + "'";
    rules += rule("r" + std::to_string(i), "deny", condition + ")");
  }
  Policy policy = policy_of(rules + "");
  Action action = some_action();
  action.target = "t499";
  EXPECT_EQ(policy.evaluate(action, somewhere).rule, "r499");
}

TEST(Conditions, deep_nesting_is_refused_without_harm) {
  for (const auto& [open, close] :
       std::vector<std::pair<std::string, std::string>>{{"(", ")"},
                                                        {"NOT ", ""},
                                                        {"~", ""},
                                                        {"-", ""},
                                                        {"abs(", ")"},
                                                        {"(SELECT ", ")"},
                                                        {"CASE WHEN 1 THEN ", " END"},
                                                        {"EXISTS (SELECT 1 FROM json_each(fields) WHERE ", ")"},
                                                        {"1 = (1 OR ", ")"}}) {
    std::string text;
    while (text.size() + 1 + open.size() + close.size() < condition_bytes_max / 2) text += open;
    const std::size_t depth = text.size() / open.size();
    text += "1";
    for (std::size_t i = 0; i < depth; ++i) text += close;
    EXPECT_NE(errors_of_condition(text.substr(0, condition_bytes_max)), "") << open;
  }
}

TEST(Conditions, reach_nothing_outside_the_action) {
  struct Row {
    const char* condition;
    const char* reason;  // part of it
  };
  for (const Row& row : {
           Row{"load_extension('x.so')", "the function `load_extension` is not one that a condition may call"},
           Row{"readfile('/etc/passwd') = 1", "no such function: readfile"},
           Row{"writefile('/tmp/x', 'y')", "no such function: writefile"},
           Row{"edit('x')", "no such function: edit"},
           Row{"randomblob(1000000000) = 1", "the function `randomblob` is not one"},
           Row{"zeroblob(1000000000) = 1", "the function `zeroblob` is not one"},
           Row{"random() > 0", "the function `random` is not one"},
           Row{"printf('%1000000000d', 1) = ''", "the function `printf` is not one"},
           Row{"format('%.*c', 100000000, 'x') = ''", "the function `format` is not one"},
           Row{"hex(target) = ''", "the function `hex` is not one"},
           Row{"replace(target, 'a', 'b') = ''", "the function `replace` is not one"},
           Row{"trim(target, 'a') = ''", "the function `trim` is not one"},
           Row{"char(1) = ''", "the function `char` is not one"},
           Row{"datetime('now') > '2020'", "the function `datetime` is not one"},
           Row{"CURRENT_TIMESTAMP > '2020'", "the function `current_timestamp` is not one"},
           Row{"sqlite_version() = ''", "the function `sqlite_version` is not one"},
           Row{"sqlite_compileoption_get(1) = ''", "the function `sqlite_compileoption_get` is not one"},
           Row{"last_insert_rowid() = 1", "the function `last_insert_rowid` is not one"},
           Row{"total_changes() = 1", "the function `total_changes` is not one"},
           Row{"fts3_tokenizer('a') = 1", "fts3_tokenizer"},
           Row{"group_concat(target) = ''", "group_concat"},
           Row{"json_group_array(target) = ''", "json_group_array"},
           Row{"json_object('a', 1) = ''", "the function `json_object` is not one"},
           Row{"target REGEXP 'a'", "no such function: REGEXP"},
           Row{"target MATCH 'a'", "the function `match` is not one"},
           Row{"pawl_pause()", "the function `pawl_pause` is not one"},
           Row{"EXISTS (SELECT 1 FROM sqlite_master)", "the table `sqlite_master` cannot be read"},
           Row{"EXISTS (SELECT * FROM sqlite_schema)", "the table `sqlite_master` cannot be read"},
           Row{"(SELECT name FROM temp.sqlite_master) = ''", "cannot be read"},
           Row{"EXISTS (SELECT 1 FROM pragma_database_list)", "a condition can only look at the action"},
           Row{"(SELECT count(*) FROM pragma_function_list) > 0", "a condition can only look at the action"},
           Row{"EXISTS (SELECT 1 FROM dbstat)", "a condition can only look at the action"},
           Row{"EXISTS (SELECT 1 FROM fsdir('/'))", "no such table: fsdir"},
           Row{"EXISTS (SELECT 1 FROM other)", "no such table: other"},
           Row{"EXISTS (WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c)",
               "a condition cannot be recursive"},
           Row{"EXISTS (SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4 UNION SELECT 5)",
               "too many terms in compound SELECT"},
           Row{"(ATTACH '/tmp/x' AS y)", "syntax error"},
           Row{"(PRAGMA database_list)", "syntax error"},
           Row{"(INSERT INTO x VALUES (1))", "syntax error"},
           Row{"(DELETE FROM sqlite_master RETURNING 1)", "syntax error"},
           Row{"1; ATTACH '/tmp/x' AS y", "`;` has no meaning here"},
           Row{"1) UNION SELECT (1", "this `)` closes nothing"},
           Row{"1) OR (1", "this `)` closes nothing"},
           Row{"1 THEN 0 WHEN 1", "syntax error"},
           Row{"1 /*", "this comment is not closed"},
           Row{"'abc", "this `'` is not closed"},
           Row{"\"abc", "this `\"` is not closed"},
           Row{"[abc", "this `[` is not closed"},
           Row{"?1 = 'x'", "`?` has no meaning here"},
           Row{":target = 'x'", "`:` has no meaning here"},
           Row{"@a = $b", "`@` has no meaning here"},
           Row{"count(*) > 0", "misuse of aggregate"},
           Row{"max(target) > 'a'", "misuse of aggregate"},
           Row{"count(*) OVER () > 0", "misuse of"},
           Row{"1, 2", "row value misused"},
           Row{"*", "syntax error"},
           Row{"target COLLATE other = 'x'", "no such collation sequence: other"},
           Row{"max(1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21) > 0", "too many arguments on function max"},
           Row{"RAISE(ABORT, 'x')", "RAISE() may only be used within a trigger-program"},
           Row{"1 -- \n; 2", "`;` has no meaning here"},
           Row{"a\x01 = 1", "a control character has no meaning in a condition"},
       }) {
    const std::string errors = errors_of_condition(row.condition);
    EXPECT_NE(errors.find(row.reason), errors.npos) << row.condition << "\n  is told: " << errors;
    EXPECT_FALSE(find_invalid_utf8(errors)) << row.condition;
    EXPECT_EQ(errors.find('\n'), errors.npos) << row.condition;
  }
}

}  // namespace
}  // namespace pawl
