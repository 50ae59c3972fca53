#include "tools/try_tool.h"

namespace pawl {
namespace {

TEST(Noop, gives_null_for_an_empty_input) { EXPECT_EQ(output_of(try_tool(*make_noop(), "{}")), "null"); }

TEST(Noop, gives_back_its_output) {
  EXPECT_EQ(output_of(try_tool(*make_noop(), R"({"output": {"a": [1, "two"]}})")), R"({"a":[1,"two"]})");
}

TEST(Noop, claims_the_cost_it_is_told_to) {
  const auto result = try_tool(*make_noop(), R"({"cost_usd": "0.25"})");
  EXPECT_EQ(std::get<Completed>(result).cost, Money{250'000});
}

TEST(Noop, fails_as_many_attempts_as_asked_and_then_succeeds) {
  const auto noop = make_noop();
  auto lease = lease_of("noop", R"({"fail_times": 2, "output": "done", "cost_usd": "0.10"})");
  for (lease.attempt = 1; lease.attempt <= 2; ++lease.attempt) {
    const auto failed = failure_of(noop->run(lease, test_now, {}));
    EXPECT_EQ(failed.error_code, "TOOL_FAILED");
    EXPECT_EQ(failed.cost, Money{100'000});
  }
  EXPECT_EQ(output_of(noop->run(lease, test_now, {})), R"("done")");
}

TEST(Noop, refuses_arguments_of_the_wrong_kind_by_name) {
  expect_failure(try_tool(*make_noop(), R"({"cost_usd": 1})"), "TOOL_INVALID_ARGUMENTS", "`cost_usd`");
  expect_failure(try_tool(*make_noop(), R"({"fail_times": -1})"), "TOOL_INVALID_ARGUMENTS", "`fail_times`");
  expect_failure(try_tool(*make_noop(), "[]"), "TOOL_INVALID_ARGUMENTS", "must be a map");
  expect_failure(try_tool(*make_noop(), "{"), "TOOL_INVALID_ARGUMENTS", "not JSON");
}

TEST(Sleep, is_done_after_its_duration) {
  const auto result = try_tool(*make_sleep(), R"({"duration": "90s"})");
  ASSERT_TRUE(std::holds_alternative<CompleteAt>(result)) << describe(result);
  EXPECT_EQ(std::get<CompleteAt>(result).at, test_now + std::chrono::seconds(90));
  EXPECT_EQ(std::get<CompleteAt>(result).outcome.output, R"({"slept_ms":90000})");
}

TEST(Sleep, refuses_what_is_no_duration) {
  for (const char* input : {"{}", R"({"duration": null})", R"({"duration": 5})", R"({"duration": "soon"})"})
    expect_failure(try_tool(*make_sleep(), input), "TOOL_INVALID_ARGUMENTS", "`duration`");
}

TEST(Sleep, refuses_to_sleep_past_the_time_out_at_once) {
  expect_failure(try_tool(*make_sleep(), R"({"duration": "11m"})"), "TOOL_INVALID_ARGUMENTS", "timeout of 10m");
}

TEST(Catalog, lists_every_tool_and_those_that_no_worker_executes) {
  const auto tools = built_in_tools({});
  const auto catalog = catalog_of(tools);
  for (const char* name : {"noop", "sleep", "transform", "shell", "http.request", "servicenow.incident.update",
                           "slack.post", "github.labels", "github.assignees", "model.chat", "approval", "wait"})
    EXPECT_NE(catalog.find({name}), nullptr) << name;
  EXPECT_EQ(catalog.all().size(), tools.size() + 2);
}

TEST(Catalog, knows_what_can_change_the_world) {
  const auto catalog = catalog_of(built_in_tools({}));
  for (const char* name : {"noop", "sleep", "transform", "approval"})
    EXPECT_FALSE(may_write(*catalog.find({name}), "{}"));
  EXPECT_TRUE(may_write(*catalog.find({"shell"}), "{}"));
  EXPECT_FALSE(may_write(*catalog.find({"http.request"}), R"({"method": "GET"})"));
  EXPECT_FALSE(may_write(*catalog.find({"http.request"}), R"({"url": "http://x"})"));
  EXPECT_FALSE(may_write(*catalog.find({"http.request"}), R"({"url": "http://x", "method": null})"));
  EXPECT_TRUE(may_write(*catalog.find({"http.request"}), R"({"method": "POST"})"));
  EXPECT_TRUE(may_write(*catalog.find({"http.request"}), R"({"method": "GET", "writes": true})"));
  EXPECT_TRUE(may_write(*catalog.find({"http.request"}), R"({"method": "GET", "writes": "no"})"));
  EXPECT_FALSE(may_write(*catalog.find({"http.request"}), R"({"method": "GET", "writes": false})"));
  EXPECT_TRUE(may_write(*catalog.find({"http.request"}), R"({"method": "POST", "writes": false})"));
  EXPECT_TRUE(may_write(*catalog.find({"http.request"}), R"({"url": "http://x", "body": "x"})"));
  EXPECT_FALSE(may_write(*catalog.find({"model.chat"}), "{}"));
  EXPECT_TRUE(may_write(*catalog.find({"model.chat"}), R"({"base_url": "https://models.example"})"));
}

}  // namespace
}  // namespace pawl
