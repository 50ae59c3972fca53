// The reader of headers must agree with the full parser, whatever stands in the payload.
#include "core/event_header.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "core/event.h"
#include "core/tenant.h"

namespace pawl {
namespace {

std::string line_of(RunPayload payload) {
  std::string out;
  append_event(out, RunEvent{{1'800'000'000'000}, std::move(payload)});
  return out;
}

TEST(EventHeader, has_the_type_and_the_subject) {
  const std::string line = line_of(StepMoved{.step = {"a"}, .trigger = StepTrigger::unblock});
  EXPECT_EQ(read_event_header(line).type, "step.unblocked");
  EXPECT_EQ(read_event_header(line).subject(), "step");
}

TEST(EventHeader, of_a_created_run_names_the_provider) {
  RunCreated created{.workflow = {"w"}, .provider = Provider::restate, .input = "{}", .by = {"key:a"}};
  const std::string line = line_of(created);
  EXPECT_EQ(read_event_header(line).provider, Provider::restate);
  EXPECT_EQ(read_event_header(line).type, "run.created");
}

TEST(EventHeader, says_whom_to_tell) {
  RunMoved moved{.trigger = RunTrigger::cancel, .by = {}, .reason = "\"tells\":\"restate\"", .diagnostic = {}};
  EXPECT_FALSE(read_event_header(line_of(moved)).tells) << "the reason is somebody's text";
  moved.tells = Provider::stepfunctions;
  EXPECT_EQ(read_event_header(line_of(moved)).tells, Provider::stepfunctions);
}

TEST(EventHeader, is_not_fooled_by_payloads) {
  for (const char* payload :
       {R"("\"type\":\"run.failed\"")", R"({"type":"run.failed"})", R"([{"type":"run.failed"},"}"])", R"("\\")",
        R"("\\\"")", R"("]}")", R"([[],{},[{}]])", "null", "-1.5e3", "true"}) {
    const std::string line = R"({"a":)" + std::string(payload) + R"(,"at":1,"type":"step.due","v":1})";
    EXPECT_EQ(read_event_header(line).type, "step.due") << line;
  }
}

TEST(EventHeader, of_what_is_no_event_is_empty) {
  const std::string line = line_of(StepMoved{.step = {"a\\"}, .trigger = StepTrigger::unblock, .by = {"b\""}});
  for (const char* text :
       {"", "{}", "[]", "7", "\"type\"", "type", R"({"at":1,"v":1})", R"({"type":1})", "{,", R"({"a":[)"})
    EXPECT_EQ(read_event_header(text).type, "") << text;
  // A line that was cut reads no further than it is.
  for (std::size_t size = 0; size < line.size(); ++size) read_event_header(std::string(line, 0, size));
}

RC_GTEST_PROP(EventHeader, agrees_with_the_parser, ()) {
  const auto some_text =
      rc::gen::container<std::string>(rc::gen::element('"', '\\', '{', '}', '[', ']', ',', ':', '\n', 'a', 'z'));
  boost::json::object event;
  const auto members = *rc::gen::inRange(0, 5);
  for (int i = 0; i < members; ++i) {
    const auto key = *some_text, text = *some_text;
    Json value(text);
    const auto nested = *rc::gen::inRange(0, 3);
    for (int level = 0; level < nested; ++level)
      value = level % 2 == 0 ? Json(boost::json::object{{text, value}, {"type", "nested"}})
                             : Json(boost::json::array{value, 1, nullptr});
    event[key] = value;
  }
  event["type"] = *rc::gen::element<std::string>("run.failed", "step.claimed");
  const std::string line = canonical(event);
  RC_ASSERT(read_event_header(line).type == event.at("type").get_string());
}

TEST(EventHeader, of_a_tenants_event_is_read_alike) {
  std::string line;
  append_event(line, TenantEvent{{1}, {"key:a"}, PolicyPublished{1, "d", "rules: [\"type\"]\n"}});
  EXPECT_EQ(read_event_header(line).type, "policy.published");
}

TEST(HasEvent, looks_at_each_line) {
  const std::string lines = R"({"at":1,"type":"run.created"})"
                            "\n"
                            R"({"at":1,"type":"run.started"})"
                            "\n";
  auto has = [&](std::string_view type) {
    return has_event(lines, [&](const EventHeader& event) { return event.type == type; });
  };
  EXPECT_TRUE(has("run.created"));
  EXPECT_TRUE(has("run.started"));
  EXPECT_FALSE(has("run.failed"));
  EXPECT_FALSE(has_event("", [](const EventHeader&) { return true; }));
}

TEST(EndsRun, is_true_of_the_five_ends) {
  for (const char* type : {"run.succeeded", "run.failed", "run.denied", "run.timed_out", "run.canceled"})
    EXPECT_TRUE(ends_run(type)) << type;
  for (const char* type : {"run.created", "run.paused", "run.observed", "task.failed", ""})
    EXPECT_FALSE(ends_run(type)) << type;
}

}  // namespace
}  // namespace pawl
