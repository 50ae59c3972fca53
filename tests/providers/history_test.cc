// Retries and waiting, told from the history of an execution as AWS recorded it.
#include "providers/history.h"

#include <gtest/gtest.h>

namespace pawl::providers {
namespace {

struct Given {
  std::int64_t previous;
  const char* type;
};

// Ids count from 1.
History after(std::initializer_list<Given> events) {
  History out;
  std::int64_t id = 0;
  for (const Given& each : events) {
    ++id;
    std::string type(each.type);
    out.add({id, each.previous, type, type.ends_with("Failed") ? "Broken: attempt " + std::to_string(id) : ""});
  }
  return out;
}

TEST(ExecutionHistory, without_any_failure_has_no_sign_and_no_retries) {
  History history = after({{0, "ExecutionStarted"}, {0, "TaskStateEntered"}, {2, "TaskScheduled"}, {3, "TaskStarted"}});
  EXPECT_EQ(history.sign(), Sign::none);
  EXPECT_EQ(history.retries(), 0);
}

TEST(ExecutionHistory, that_ends_with_a_failure_is_between_two_attempts) {
  History history = after(
      {{0, "ExecutionStarted"}, {0, "TaskStateEntered"}, {2, "TaskScheduled"}, {3, "TaskStarted"}, {4, "TaskFailed"}});
  EXPECT_EQ(history.sign(), Sign::between_attempts);
  EXPECT_EQ(history.retries(), 0);
  EXPECT_EQ(history.last_failure(), "Broken: attempt 5");
}

TEST(ExecutionHistory, counts_each_attempt_that_follows_a_failure) {
  History history = after({{0, "ExecutionStarted"},
                           {0, "TaskStateEntered"},
                           {2, "TaskScheduled"},
                           {3, "TaskStarted"},
                           {4, "TaskFailed"},
                           {5, "TaskScheduled"},
                           {6, "TaskStarted"},
                           {7, "TaskFailed"},
                           {8, "TaskScheduled"},
                           {9, "TaskStarted"}});
  EXPECT_EQ(history.retries(), 2);
  EXPECT_EQ(history.sign(), Sign::after_failure);
}

TEST(ExecutionHistory, forgets_the_failure_with_the_state_that_it_was_in_but_not_the_count) {
  History history = after({{0, "ExecutionStarted"},
                           {0, "TaskStateEntered"},
                           {2, "TaskScheduled"},
                           {3, "TaskFailed"},
                           {4, "TaskScheduled"},
                           {5, "TaskSucceeded"},
                           {6, "TaskStateExited"},
                           {7, "PassStateEntered"}});
  EXPECT_EQ(history.sign(), Sign::none);
  EXPECT_EQ(history.retries(), 1);
  EXPECT_EQ(history.last_failure(), "");
}

TEST(ExecutionHistory, that_ends_with_a_task_that_was_submitted_awaits_its_callback) {
  EXPECT_EQ(after({{0, "ExecutionStarted"},
                   {0, "TaskStateEntered"},
                   {2, "TaskScheduled"},
                   {3, "TaskStarted"},
                   {4, "TaskSubmitted"}})
                .sign(),
            Sign::awaits_callback);
  EXPECT_EQ(after({{0, "ExecutionStarted"}, {0, "TaskStateEntered"}, {2, "ActivityScheduled"}}).sign(),
            Sign::awaits_callback);
  EXPECT_EQ(after({{0, "ExecutionStarted"}, {0, "WaitStateEntered"}}).sign(), Sign::awaits_callback);
}

TEST(ExecutionHistory, backs_off_only_when_every_branch_does) {
  std::initializer_list<Given> one_fails{
      {0, "ExecutionStarted"}, {0, "ParallelStateEntered"}, {2, "ParallelStateStarted"}, {3, "TaskStateEntered"},
      {4, "TaskScheduled"},    {3, "TaskStateEntered"},     {6, "TaskScheduled"},        {5, "TaskFailed"}};
  EXPECT_EQ(after(one_fails).sign(), Sign::none);
  History both = after(one_fails);
  both.add({9, 7, "TaskFailed", "Broken"});
  EXPECT_EQ(both.sign(), Sign::between_attempts);
  both.add({10, 9, "TaskScheduled", ""});
  EXPECT_EQ(both.sign(), Sign::after_failure);
  EXPECT_EQ(both.retries(), 1);
}

TEST(ExecutionHistory, a_branch_that_is_over_does_not_count) {
  History history = after({{0, "ExecutionStarted"},
                           {0, "ParallelStateEntered"},
                           {2, "ParallelStateStarted"},
                           {3, "PassStateEntered"},
                           {4, "PassStateExited"},
                           {3, "TaskStateEntered"},
                           {6, "TaskScheduled"},
                           {7, "TaskFailed"}});
  EXPECT_EQ(history.sign(), Sign::between_attempts);
}

TEST(ExecutionHistory, what_was_added_before_is_passed_over) {
  History history = after({{0, "ExecutionStarted"},
                           {0, "TaskStateEntered"},
                           {2, "TaskScheduled"},
                           {3, "TaskFailed"},
                           {4, "TaskScheduled"}});
  history.add({5, 4, "TaskScheduled", ""});
  history.add({4, 3, "TaskFailed", ""});
  EXPECT_EQ(history.retries(), 1);
}

}  // namespace
}  // namespace pawl::providers
