// Notices: what a reviewer reads of a task's result, within bounds.
#include "notify/slack_notice.h"

#include <gtest/gtest.h>

#include <boost/json/object.hpp>

namespace pawl::notify {
namespace {

// The notice of a task that is ready for review, with this result.
std::string review_of(std::string result) {
  pawl::Run run;
  run.id = RunId{{1, 2}};
  Task task;
  task.spec.title = "Tidy up";
  task.state = TaskState::ready;
  task.executions.emplace_back().result = std::move(result);
  run.task = std::make_shared<const Task>(std::move(task));
  auto notice = task_notice(run);
  return notice ? canonical(*notice) : "";
}

TEST(Review, shows_the_beginning_of_what_was_said) {
  const std::string said = "All <!channel> shelves " + std::string(5000, 's');
  const std::string text = review_of(canonical(boost::json::object{{"text", said}, {"output", nullptr}}));
  EXPECT_NE(text.find(R"("All <!channel> shelves sss)"), text.npos) << "literal, in rich text";
  EXPECT_LT(text.size(), 4000u);
  EXPECT_NE(text.find("sss..."), text.npos);
}

TEST(Review, shows_the_output_where_nothing_was_said) {
  EXPECT_NE(review_of(R"({"text":null,"output":{"n":7}})").find(R"({\"n\":7})"), std::string::npos);
}

TEST(Review, names_the_tools_that_were_not_permitted_once_each_also_below_a_long_text) {
  const std::string text =
      review_of(R"({"text":")" + std::string(5000, 't') +
                R"(","output":null,"permission_denials":[{"tool":"Bash"},{"tool":"Write"},{"tool":"Bash"}]})");
  EXPECT_NE(text.find(R"(*Not permitted*\nBash, Write)"), text.npos);
}

TEST(Review, has_no_text_without_a_result) {
  EXPECT_NE(review_of("").find("Ready for review: Tidy up"), std::string::npos);
}

}  // namespace
}  // namespace pawl::notify
