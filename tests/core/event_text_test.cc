// Events that are not as pawl writes them: a damaged journal, or somebody's idea of one.
#include <gtest/gtest.h>

#include "core/event.h"
#include "core/event_object.h"
#include "core/tenant.h"

namespace pawl {
namespace {

std::string refusal(std::string_view fields) {
  auto event = parse_run_event("{\"at\":1800000000000,\"v\":1," + std::string(fields) + "}");
  return event ? "" : event.error();
}

TEST(EventText, a_failure_needs_a_diagnostic) {
  for (const char* type : {"step.failed_retryable", "step.failed_terminal", "step.refused"})
    EXPECT_EQ(refusal("\"step\":\"a\",\"type\":\"" + std::string(type) + "\""), "\"diagnostic\" is missing");
}

TEST(EventText, a_step_has_a_name) {
  EXPECT_EQ(refusal(R"("step":"a","type":"step.unblocked")"), "");
  EXPECT_EQ(refusal(R"("step":"a\"b","type":"step.unblocked")"), "\"step\" is not a step's name");
}

TEST(EventText, what_a_refused_request_met_may_be_any_text) {
  auto event =
      parse_run_event(R"({"at":1,"code":"\"","requested":"x","state":"\n","type":"transition.refused","v":1})");
  ASSERT_TRUE(event);
  std::string text;
  append_event(text, *event);
  EXPECT_EQ(text, R"({"at":1,"code":"\"","requested":"x","state":"\n","type":"transition.refused","v":1})");
}

TEST(EventText, numbers_have_a_range) {
  const auto request = [](const char* expires_at, const char* quorum) {
    std::string fields = R"("approval":"apr_01m7hnmvrge00bq4hjzs02wymy","step":"a","tier":"low","expires_at":)";
    fields += expires_at;
    fields += ",\"quorum\":";
    fields += quorum;
    return refusal(fields += ",\"type\":\"approval.requested\"");
  };
  EXPECT_EQ(request("1800000000001", "1"), "");
  EXPECT_EQ(request("1800000000001", "4294967297"), "\"quorum\" is out of range");
  EXPECT_EQ(request("-9223372036854775808", "1"), "\"expires_at\" is out of range");
}

TEST(EventText, a_receipt_says_whether_a_program_was_in_a_sandbox) {
  for (const std::optional<bool> sandboxed : {std::optional<bool>(), std::optional(true), std::optional(false)}) {
    const auto proposal = std::make_shared<const Proposal>(
        Proposal{.action = {.connector = "shell", .operation = "run", .target = "ls", .idempotency_key = "k"},
                 .sandboxed = sandboxed});
    std::string line;
    append_event(line, RunEvent{{1}, ReceiptIntended{.step = {"a"}, .proposal = proposal}});
    EXPECT_EQ(line, canonical(parse_json(line).value()));
    EXPECT_EQ(line.contains("sandboxed"), sandboxed.has_value()) << line;
    const auto read = parse_run_event(line);
    ASSERT_TRUE(read) << read.error();
    EXPECT_EQ(std::get<ReceiptIntended>(read->payload).proposal->sandboxed, sandboxed);
    line.clear();
    append_event(line, RunEvent{{1}, ApprovalRequested{.step = {"a"}, .proposal = proposal}});
    EXPECT_EQ(line, canonical(parse_json(line).value()));
    const auto asked = parse_run_event(line);
    ASSERT_TRUE(asked) << asked.error();
    EXPECT_EQ(std::get<ApprovalRequested>(asked->payload).proposal->sandboxed, sandboxed);
  }
}

TEST(EventText, a_creation_names_further_requesters_only_where_there_are_any) {
  RunCreated created{.workflow = {"w"}, .version = 1, .input = "{}", .by = {"person:ada"}, .trigger_type = "retry"};
  for (const std::vector<Actor>& others : {std::vector<Actor>{}, {{"person:bo"}, {"key:cy"}}}) {
    created.other_requesters = others;
    std::string line;
    append_event(line, RunEvent{{1}, created});
    EXPECT_EQ(line, canonical(parse_json(line).value()));
    EXPECT_EQ(line.contains(R"("other_requesters":["person:bo","key:cy"])"), !others.empty());
    EXPECT_EQ(line.contains("other_requesters"), !others.empty());
    EXPECT_EQ(std::get<RunCreated>(parse_run_event(line)->payload).other_requesters, others);
  }
}

TEST(EventText, timers_and_releases_can_be_read_again) {
  const std::pair<RunPayload, const char*> rows[] = {
      {StepWaitOpened{{"a"}, {9}}, R"({"at":1,"due_at":9,"step":"a","type":"step.wait_opened","v":1})"},
      {StepArrived{{"a"}, "{}"}, R"({"at":1,"output":"{}","step":"a","type":"step.arrived","v":1})"},
      {StepReleased{{"a"}, ReleaseCause::worker, {"worker:w"}},
       R"({"at":1,"by":"worker:w","step":"a","type":"step.released","v":1})"},
      {StepReleased{{"a"}, ReleaseCause::server_lost},
       R"({"at":1,"cause":"server_lost","step":"a","type":"step.released","v":1})"},
      {StepReleased{{"a"}, ReleaseCause::suspended},
       R"({"at":1,"cause":"suspended","step":"a","type":"step.released","v":1})"},
  };
  for (const auto& [payload, text] : rows) {
    std::string line, copy;
    append_event(line, RunEvent{{1}, payload});
    EXPECT_EQ(line, text);
    auto read = parse_run_event(line);
    ASSERT_TRUE(read) << read.error();
    append_event(copy, *read);
    EXPECT_EQ(copy, line);
  }
  EXPECT_FALSE(parse_run_event(R"({"at":1,"cause":"whim","step":"a","type":"step.released","v":1})"));
}

TEST(EventText, readers_get_json_values_as_json) {
  auto shown = [](const RunPayload& payload) {
    std::string line;
    append_event(line, RunEvent{{1}, payload});
    return shown_event_text(line);
  };
  const JsonText value = R"({"n":9007199254740993,"a":[1.0]})", same = R"({"a":[1],"n":9007199254740993})";
  EXPECT_TRUE(shown(StepCompleted{{"a"}, value, {}}).contains("\"output\":" + same));
  EXPECT_TRUE(shown(StepAsked{{"a"}, value}).contains("\"question\":" + same));
  EXPECT_TRUE(shown(StepAnswered{{"a"}, value, {}}).contains("\"answer\":" + same));
  EXPECT_TRUE(shown(RunCreated{.input = value}).contains("\"input\":" + same));
  EXPECT_TRUE(shown(RunObserved{.output = value}).contains("\"output\":" + same));
  EXPECT_TRUE(shown(TaskAsked{.question = value}).contains("\"question\":" + same));
  EXPECT_TRUE(shown(TaskMoved{.trigger = TaskTrigger::answer, .message = value}).contains("\"message\":" + same));
  EXPECT_TRUE(shown(TaskMoved{.trigger = TaskTrigger::finish, .result = value}).contains("\"result\":" + same));
  EXPECT_TRUE(shown(TaskChanged{.changes = value}).contains("\"changes\":" + same));
  EXPECT_TRUE(
      shown(ReceiptMoved{.trigger = ReceiptTrigger::succeed, .response = value}).contains("\"response\":" + same));
  const auto proposal = std::make_shared<const Proposal>(Proposal{.before = value});
  EXPECT_TRUE(shown(ActionDenied{.step = {"a"}, .proposal = proposal}).contains("\"before\":" + same));
}

TEST(EventText, text_that_happens_to_be_json_stays_text) {
  auto shown = [](const RunPayload& payload) {
    std::string line;
    append_event(line, RunEvent{{1}, payload});
    EXPECT_EQ(shown_event_text(line), line);
  };
  shown(TaskMoved{.trigger = TaskTrigger::reject, .by = {}, .message = "17"});
  shown(TaskAsked{.question = {}, .about = {}, .answer = "17"});
  shown(ReceiptMoved{.receipt = {}, .trigger = ReceiptTrigger::fail, .by = {}, .error_code = "1", .message = "17"});
  EXPECT_EQ(shown_event_text("no event"), "no event");
}

TEST(EventText, a_tenants_event_that_does_not_fit_leaves_no_trace) {
  Tenant tenant;
  evolve(tenant, {{1}, {}, TenantCreated{"t"}});
  const Tenant before = tenant;
  EXPECT_FALSE(evolve_checked(tenant, {{2}, {}, WorkflowPublished{{"w"}, 2, "digest", "source"}}));
  EXPECT_FALSE(evolve_checked(tenant, {{2}, {}, PolicyPublished{2, "digest", "source"}}));
  EXPECT_EQ(tenant, before);
}

TEST(EventText, a_policy_that_was_published_can_be_read_again) {
  std::string line;
  append_event(line, TenantEvent{{7}, Actor{"key:1"}, PolicyPublished{1, "abc", "policy: p\n# é\n"}});
  EXPECT_EQ(
      line,
      R"({"at":7,"by":"key:1","digest":"abc","source":"policy: p\n# é\n","type":"policy.published","v":1,"version":1})");
  Tenant tenant;
  evolve(tenant, {{1}, {}, TenantCreated{"t"}});
  evolve(tenant, parse_tenant_event(line).value());
  EXPECT_EQ(tenant.policy, (Tenant::Policy{1, "abc", "policy: p\n# é\n"}));
  EXPECT_EQ(tenant.seq, 2u);
}

TEST(EventText, evidence_of_a_tenant_can_be_read_again_and_must_follow_what_was_there) {
  Tenant tenant;
  evolve(tenant, {{1}, {}, TenantCreated{"t"}});
  auto again = [](const TenantPayload& payload) {
    std::string line, copy;
    append_event(line, TenantEvent{{7}, Actor{"engine"}, payload});
    TenantEvent event = parse_tenant_event(line).value();
    append_event(copy, event);
    EXPECT_EQ(copy, line);
    return event;
  };
  CheckpointMade made{
      .checkpoint = {1, 1, {}, {}, {5}, "k1"}, .hash = {}, .signature = "aa", .peaks = {Hash{}}, .entries = {"a"}};
  made.hash.bytes[0] = 1;
  EXPECT_FALSE(evolve_checked(tenant, again(made))) << "nobody signs here yet";
  evolve(tenant, again(SigningKeySet{"k1", "public", {}, {}}));
  EXPECT_FALSE(evolve_checked(tenant, again(SigningKeySet{"k2", "public", {}, {}}))) << "it follows nothing";
  evolve(tenant, again(made));
  EXPECT_FALSE(evolve_checked(tenant, again(made))) << "its number is taken";
  evolve(tenant, again(SigningKeySet{"k2", "public", "k1", "bb"}));
  CheckpointMade next = made;
  next.checkpoint.number = 2;
  next.checkpoint.size = 2;
  next.checkpoint.previous = made.hash;
  EXPECT_FALSE(evolve_checked(tenant, again(next))) << "the old key does not sign any more";
  next.checkpoint.key = "k2";
  evolve(tenant, again(next));
  evolve(tenant, again(BundleStored{RunId{{1, 2}}, 9, made.hash, 100, "/somewhere"}));
  EXPECT_EQ(tenant.checkpoint.number, 2u);
  EXPECT_EQ(tenant.signing_keys.at("k1").until, Instant{7});
  EXPECT_EQ(tenant.seq, 6u);
}

}  // namespace
}  // namespace pawl
