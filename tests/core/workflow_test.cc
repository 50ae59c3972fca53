#include "core/workflow.h"

#include <gtest/gtest.h>

#include "core/workflow_builder.h"

namespace pawl {
namespace {

using namespace std::chrono_literals;

Workflow valid(std::string_view text) {
  auto workflow = workflow_from(text);
  if (!workflow) {
    ADD_FAILURE() << errors_of(text);
    return {};
  }
  return std::move(*workflow);
}

Workflow with_steps(const std::string& steps) { return valid("workflow: w\nsteps:\n" + steps); }

std::vector<StepIndex> needs_of(const Workflow& workflow, std::string_view id) {
  return workflow[*workflow.find(StepId{std::string(id)})].needs;
}

TEST(Workflow, reads_timers) {
  const Workflow workflow = with_steps(R"(  - {id: a, tool: wait, for: 3d, description: Cool off}
  - {id: b, tool: wait, until: "2030-01-31T09:00:00Z"}
  - {id: c, tool: wait, for: "${{ input.pause }}", needs: []}
  - {id: d, tool: sleep, with: {duration: 90s}}
)");
  EXPECT_EQ(workflow[0].wait, (WaitTerms{WaitTerms::Kind::span, "3d"}));
  EXPECT_EQ(workflow[1].wait, (WaitTerms{WaitTerms::Kind::moment, "2030-01-31T09:00:00Z"}));
  EXPECT_EQ(workflow[2].wait, (WaitTerms{WaitTerms::Kind::span, "${{ input.pause }}"}));
  EXPECT_EQ(workflow[3].wait, (WaitTerms{WaitTerms::Kind::span, "90s"}));
}

TEST(Workflow, that_was_published_when_a_sleep_took_a_timeout_still_loads) {
  const std::string text = "workflow: w\nsteps: [{id: a, tool: sleep, with: {duration: 90s}, timeout: 5m}]\n";
  EXPECT_FALSE(workflow_from(text));
  const auto loaded = read_workflow(*read_yaml(text), nullptr);
  ASSERT_TRUE(loaded);
  EXPECT_EQ((*loaded)[0].wait, (WaitTerms{WaitTerms::Kind::span, "90s"}));
}

TEST(Workflow, reads_the_example_of_the_design) {
  const Workflow workflow = valid(R"(workflow: triage-incident
description: Look at an incident and hand it over
timeout: 15m
budget_usd: "2.50"
retry: {max_attempts: 4, base: 5s, max: 10m, jitter: 0.1}
caps: {max_concurrency: 3, max_runs_per_min: 60, max_writes_per_run: 0}
steps:
  - id: fetch
    tool: http.request
    with: {method: GET, url: "https://sn.example/api/incident/${{ input.sys_id }}"}
    timeout: 20s
    lease: 1m
    risk: med
    idempotency_key: fetch-${{ input.sys_id }}
  - id: summary
    tool: transform
    with: {jq: ".result.short_description", input: "${{ steps.fetch.output.body }}"}
  - id: sign-off
    tool: approval
    tier: high
    two_person: true
    expires: 4h
    prompt: Assign ${{ input.sys_id }}?
  - id: note
    tool: noop
    with: {note: done}
)");
  EXPECT_EQ(workflow.name.str(), "triage-incident");
  EXPECT_EQ(workflow.description, "Look at an incident and hand it over");
  EXPECT_EQ(workflow.version, 0);
  EXPECT_EQ(workflow.timeout, 15min);
  EXPECT_EQ(workflow.budget, (Money{2'500'000}));
  EXPECT_EQ(workflow.caps, (Caps{3, 60, 0}));
  ASSERT_EQ(workflow.steps.size(), 4u);

  const auto& fetch = workflow[0];
  EXPECT_EQ(fetch.id.str(), "fetch");
  EXPECT_EQ(fetch.tool.str(), "http.request");
  EXPECT_EQ(fetch.retry, (RetryPolicy{4, 5s, 10min, 0.1, {}}));
  EXPECT_EQ(fetch.timeout, 20s);
  EXPECT_EQ(fetch.lease, 1min);
  EXPECT_EQ(fetch.risk, Tier::med);
  EXPECT_EQ(fetch.idempotency_key, "fetch-${{ input.sys_id }}");
  EXPECT_FALSE(fetch.with_is_constant);

  const auto& gate = workflow[2];
  EXPECT_TRUE(gate.is_gate());
  EXPECT_EQ(gate.approval, (ApprovalTerms{Tier::high, true, 2, 4h, "Assign ${{ input.sys_id }}?"}));

  const auto& note = workflow[3];
  EXPECT_TRUE(note.with_is_constant);
  EXPECT_EQ(note.with_text, R"({"note":"done"})");
  EXPECT_EQ(note.timeout, default_step_timeout);
  EXPECT_EQ(note.lease, default_lease);
  EXPECT_EQ(note.risk, Tier::low);
}

TEST(Workflow, describes_itself_and_its_steps_in_plain_words) {
  std::string longest;
  for (std::size_t i = 0; i < description_chars_max; ++i) longest += "ä";
  const Workflow workflow = valid("workflow: w\ndescription: |\n  Two lines,\n  one with $${{ braces }}\nsteps:\n" +
                                  ("- {id: a, tool: noop, description: " + longest + "}\n") +
                                  "- {id: b, tool: approval, description: 'Yes: or no'}\n- {id: c, tool: noop}\n");
  EXPECT_EQ(workflow.description, "Two lines,\none with ${{ braces }}\n");
  EXPECT_EQ(workflow[0].description, longest);
  EXPECT_EQ(workflow[1].description, "Yes: or no");
  EXPECT_EQ(workflow[2].description, "");
}

TEST(Workflow, reads_json_as_well) {
  const Workflow workflow = valid(
      R"({"workflow": "w", "budget_usd": 3, "steps": [{"id": "a", "tool": "noop", "with": {"note": "\ud83d\ude00"}}]})");
  EXPECT_EQ(workflow.budget, (Money{3'000'000}));
  EXPECT_EQ(workflow[0].with_text, "{\"note\":\"\U0001F600\"}");
}

TEST(Workflow, knows_every_step_by_its_id) {
  const Workflow workflow = with_steps("- {id: a, tool: noop}\n- {id: b, tool: noop}\n");
  EXPECT_EQ(workflow.find(StepId{"b"}), StepIndex{1});
  EXPECT_EQ(workflow.find(StepId{"c"}), std::nullopt);
}

TEST(Needs, are_the_step_before_unless_written) {
  const Workflow workflow = with_steps(R"(
- {id: a, tool: noop}
- {id: b, tool: noop}
- {id: c, tool: noop, needs: []}
- {id: d, tool: noop, needs: [c, a]}
- {id: e, tool: approval}
)");
  EXPECT_EQ(needs_of(workflow, "a"), (std::vector<StepIndex>{}));
  EXPECT_EQ(needs_of(workflow, "b"), (std::vector<StepIndex>{0}));
  EXPECT_EQ(needs_of(workflow, "c"), (std::vector<StepIndex>{}));
  EXPECT_EQ(needs_of(workflow, "d"), (std::vector<StepIndex>{0, 2}));
  EXPECT_EQ(needs_of(workflow, "e"), (std::vector<StepIndex>{3}));
}

TEST(Needs, may_point_forward) {
  const Workflow workflow = with_steps("- {id: a, tool: noop, needs: [b]}\n- {id: b, tool: noop, needs: []}\n");
  EXPECT_EQ(needs_of(workflow, "a"), (std::vector<StepIndex>{1}));
}

TEST(Needs, let_a_step_read_whatever_lies_behind_them) {
  with_steps(R"(
- {id: a, tool: noop}
- {id: b, tool: noop}
- {id: c, tool: noop}
- {id: d, tool: transform, needs: [b], with: {jq: ., input: "${{ steps.a.output }}"}}
)");
}

struct RetryRow {
  std::string_view workflow;
  std::string_view step;
  RetryPolicy expected;
};

TEST(Retry, is_overridden_key_by_key) {
  const std::vector<Duration> schedule{5s, 30s};
  const RetryRow rows[] = {
      {"{}", "{}", RetryPolicy{}},
      {"{max_attempts: 7, jitter: 0}", "{base: 1s}", {7, 1s, 10min, 0, {}}},
      {"{base: 5s, max: 1m}", "{max: 2m}", {3, 5s, 2min, 0.2, {}}},
      {"{schedule: [5s, 30s]}", "{}", {3, 2s, 10min, 0.2, schedule}},
      {"{schedule: [5s, 30s]}", "{max_attempts: 9, jitter: 1}", {9, 2s, 10min, 1, schedule}},
      {"{schedule: [5s, 30s]}", "{base: 1s}", {3, 1s, 10min, 0.2, {}}},
      {"{base: 1s, max: 5s}", "{schedule: [5s, 30s]}", {3, 2s, 10min, 0.2, schedule}},
      {"{max_attempts: 2}", "{schedule: [5s, 30s]}", {2, 2s, 10min, 0.2, schedule}},
  };
  for (const auto& row : rows) {
    const std::string text = "workflow: w\nretry: " + std::string(row.workflow) +
                             "\nsteps:\n- {id: a, tool: noop, retry: " + std::string(row.step) + "}\n";
    EXPECT_EQ(valid(text)[0].retry, row.expected) << text;
  }
}

TEST(Approval, has_terms_by_default) {
  const Workflow workflow = with_steps("- {id: a, tool: approval}\n- {id: b, tool: approval, quorum: 3}\n");
  EXPECT_EQ(workflow[0].approval, ApprovalTerms{});
  EXPECT_EQ(workflow[1].approval.quorum, 3);
  EXPECT_FALSE(workflow[1].approval.two_person);
}

TEST(Approval, by_two_people_is_a_quorum_of_two) {
  const Workflow workflow = with_steps("- {id: a, tool: approval, two_person: true, quorum: 2}\n");
  EXPECT_TRUE(workflow[0].approval.two_person);
  EXPECT_EQ(workflow[0].approval.quorum, 2);
}

TEST(Approval, names_who_may_decide_when_to_remind_and_to_whom_to_escalate) {
  const Workflow workflow = with_steps(
      "- {id: a, tool: approval, quorum: 2, approvers: [ada, group:finance], remind: 1h, escalate: {after: 4h, to: "
      "[group:heads]}}\n");
  const ApprovalTerms& terms = workflow[0].approval;
  EXPECT_EQ(terms.approvers, (Approvers{"ada", "group:finance"}));
  EXPECT_EQ(terms.remind, 1h);
  EXPECT_EQ(terms.escalate, 4h);
  EXPECT_EQ(terms.escalate_to, Approvers{"group:heads"});
}

struct Scalar {
  std::string_view yaml;
  std::string_view json;
};

TEST(With, reads_plain_scalars_by_the_core_schema) {
  const Scalar rows[] = {
      {"~", "null"},
      {"null", "null"},
      {"", "null"},
      {"true", "true"},
      {"False", "false"},
      {"yes", "\"yes\""},
      {"off", "\"off\""},
      {"5", "5"},
      {"-5", "-5"},
      {"+5", "5"},
      {"007", "7"},
      {"0o17", "15"},
      {"0xFf", "255"},
      {"1.50", "1.5"},
      {".5", "0.5"},
      {"+.5", "0.5"},
      {"5.", "5"},
      {"-1e3", "-1000"},
      {"1e-7", "1e-7"},
      {"1_000", "\"1_000\""},
      {"1.2.3", "\"1.2.3\""},
      {"0o9", "\"0o9\""},
      {"e5", "\"e5\""},
      {".", "\".\""},
      {"-", "[null]"},
      {"\"5\"", "\"5\""},
      {"'true'", "\"true\""},
      {"\"\"", "\"\""},
      {"12:30", "\"12:30\""},
      {"2026-11-16", "\"2026-11-16\""},
      {"18446744073709551615", "18446744073709551615"},
      {"[1, a, {b: ~}]", "[1,\"a\",{\"b\":null}]"},
      {"|\n          x\n", "\"x\\n\""},
  };
  for (const auto& row : rows) {
    const Workflow workflow = with_steps("  - id: a\n    tool: http.request\n    with:\n      url: u\n      body: " +
                                         std::string(row.yaml == "-" ? "\n        -" : row.yaml) + "\n");
    ASSERT_EQ(workflow.steps.size(), 1u) << row.yaml;
    EXPECT_EQ(workflow[0].with_text, "{\"body\":" + std::string(row.json) + ",\"url\":\"u\"}") << row.yaml;
  }
}

TEST(With, lets_an_expression_stand_for_any_kind) {
  with_steps(R"(
- id: a
  tool: http.request
  with:
    url: ${{ input.url }}
    headers: ${{ input.headers }}
    redirects: ${{ input.redirects }}
    insecure: ${{ input.insecure }}
    wait: ${{ input.wait }}
- id: b
  tool: shell
  with: {args: ["${{ input.a }}", "x ${{ input.b }}"], env: "${{ input.env }}", files: "${{ input.files }}"}
- id: c
  tool: http.request
  with: {url: u, headers: {A: "${{ input.a }}"}, wait: "${{ input.seconds }}s"}
)");
}

TEST(With, is_taken_as_it_is_when_the_tools_are_not_known) {
  const auto document = read_yaml("workflow: w\nsteps: [{id: a, tool: gone, with: {whatever: 1}}]");
  EXPECT_TRUE(read_workflow(*document, nullptr));
}

TEST(Tool, may_write_unless_it_is_known_to_read) {
  const ToolCatalog tools = test_tools();
  const ToolSpec& http = *tools.find(ToolName{"http.request"});
  EXPECT_FALSE(may_write(*tools.find(ToolName{"noop"}), "{}"));
  EXPECT_TRUE(may_write(*tools.find(ToolName{"shell"}), "{}"));
  for (const auto* input : {R"({"method":"GET"})", R"({"method":"HEAD"})", R"({"method":"OPTIONS","x":1})",
                            R"({"method":"get"})", "{}", R"({"method":null})"})
    EXPECT_FALSE(may_write(http, input)) << input;
  for (const auto* input : {R"({"method":"POST"})", R"({"method":"post"})", R"({"method":1})", R"({"method":""})",
                            R"({"writes":true})", "[]", "", "nonsense", R"({"method":"GET","method":"POST"})"})
    EXPECT_TRUE(may_write(http, input)) << input;
}

TEST(Tool, may_write_when_a_read_carries_something_or_names_another_method) {
  const ToolCatalog tools = test_tools();
  const ToolSpec& http = *tools.find(ToolName{"http.request"});
  for (const auto* input : {R"({"body":null})", R"({"headers":{"Accept":"text/html"}})", R"({"headers":null})",
                            R"({"headers":{"Access-Control-Request-Method":"PUT"},"method":"OPTIONS"})"})
    EXPECT_FALSE(may_write(http, input)) << input;
  for (const auto* input :
       {R"({"body":{"a":1}})", R"({"body":""})", R"({"body":0})", R"({"method":"HEAD","body":"x"})",
        R"({"headers":{"X-HTTP-Method-Override":"DELETE"}})", R"({"headers":{"x-http-method":"DELETE"}})",
        R"({"headers":{"X-METHOD-OVERRIDE":"DELETE"}})", R"({"headers":{"X_HTTP_Method_Override":"DELETE"}})",
        R"({"headers":{"X-Original-Method":"PUT"}})", R"({"headers":["X-HTTP-Method: PUT"]})", R"({"headers":"x"})"})
    EXPECT_TRUE(may_write(http, input)) << input;
}

TEST(Tool, that_asks_a_model_may_write_unless_it_only_asks_its_provider) {
  const ToolSpec chat{.name = {"model.chat"}, .keys = {{.name = "base_url"}}, .writes = ToolSpec::Writes::by_method};
  for (const auto* input :
       {"{}", R"({"base_url":null,"options":null,"tools":[]})", R"({"base_url":"https://api.anthropic.com"})",
        R"({"base_url":"https://api.openai.com/v1"})",
        R"({"tools":[{"name":"f"},{"type":"function","function":{}},{"type":"custom"}]})"})
    EXPECT_FALSE(may_write(chat, input)) << input;
  for (const auto* input :
       {R"({"base_url":"https://api.anthropic.com.evil.example"})", R"({"base_url":"https://api.anthropic.com/x"})",
        R"({"base_url":"http://api.openai.com"})", R"({"base_url":["https://api.openai.com"]})",
        R"({"options":{"mcp_servers":[]}})", R"({"options":{}})", R"({"tools":[{"type":"web_search_20250305"}]})",
        R"({"tools":[{"name":"f"},{"type":"mcp"}]})", R"({"tools":{"type":"mcp"}})", R"({"tools":["f"]})", "[]", ""})
    EXPECT_TRUE(may_write(chat, input)) << input;
}

TEST(Tool, that_is_pawls_own_is_not_suggested) {
  ToolCatalog tools = test_tools();
  tools.add({.name = {"pawl.webhook"}, .writes = ToolSpec::Writes::never});
  for (const auto* name : {"pawl.webhok", "webhook", "zzzzzzzzzzzzzzzz"}) {
    const auto document = read_yaml(std::string("workflow: w\nsteps: [{id: a, tool: ") + name + "}]");
    const auto read = read_workflow(*document, &tools);
    ASSERT_FALSE(read.has_value());
    EXPECT_FALSE(read.error().front().reason.contains("pawl.webhook")) << read.error().front().reason;
  }
}

TEST(Tool, is_judged_with_the_fallbacks_of_its_keys) {
  const ToolCatalog tools = test_tools();
  const ToolSpec& http = *tools.find(ToolName{"http.request"});
  EXPECT_EQ(with_fallbacks(http, R"({"url":"u"})"), R"({"method":"GET","url":"u"})");
  EXPECT_EQ(with_fallbacks(http, R"({"method":null})"), R"({"method":"GET"})");
  for (const auto* input : {R"({"method": "PUT"})", "[]", "", "nonsense"})
    EXPECT_EQ(with_fallbacks(http, input), input);
  EXPECT_EQ(with_fallbacks(*tools.find(ToolName{"shell"}), "{}"), "{}");
}

TEST(Response, can_be_named_in_an_undo_only) {
  constexpr auto text = R"(workflow: w
steps:
- id: a
  tool: http.request
  with: {url: u, undo: {url: "u/${{ response.body.id }}"}}
)";
  EXPECT_EQ(errors_of(text), "no error");
  const auto workflow = workflow_from(text);
  EXPECT_TRUE(workflow->steps[0].keeps_expressions);
  const std::string elsewhere = errors_of(R"(workflow: w
steps:
- id: a
  tool: http.request
  idempotency_key: ${{ response.body.id }}
  with: {url: "${{ response.body.url }}"}
- id: b
  tool: noop
  with: {note: "${{ response.status }}"}
)");
  for (const auto* place : {"5:20: `response`", "6:16: `response`", "9:17: `response`"})
    EXPECT_TRUE(elsewhere.contains(place)) << elsewhere;
}

}  // namespace
}  // namespace pawl
