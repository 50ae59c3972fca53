#include "core/retry.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace pawl {
namespace {

using namespace std::chrono_literals;

TEST(Retry, waits_base_times_two_to_the_attempts_up_to_max) {
  const RetryPolicy policy{.max_attempts = 9, .base = 5s, .max = 1min, .jitter = 0, .schedule = {}};
  EXPECT_EQ(retry_delay(policy, 1, 0), 10s);
  EXPECT_EQ(retry_delay(policy, 2, 0), 20s);
  EXPECT_EQ(retry_delay(policy, 3, 0), 40s);
  EXPECT_EQ(retry_delay(policy, 4, 0), 1min);
  EXPECT_EQ(retry_delay(policy, 100, 0), 1min);
}

TEST(Retry, follows_a_schedule_and_stays_at_its_end) {
  const RetryPolicy policy{.max_attempts = 9, .base = 1s, .max = 1s, .jitter = 0, .schedule = {5s, 30s, 2min}};
  EXPECT_EQ(retry_delay(policy, 1, 0), 5s);
  EXPECT_EQ(retry_delay(policy, 2, 0), 30s);
  EXPECT_EQ(retry_delay(policy, 3, 0), 2min);
  EXPECT_EQ(retry_delay(policy, 50, 0), 2min);
}

TEST(Retry, spreads_by_the_draw) {
  const RetryPolicy policy{.max_attempts = 3, .base = 5s, .max = 10min, .jitter = 0.2, .schedule = {}};
  EXPECT_EQ(retry_delay(policy, 1, -1), 8s);
  EXPECT_EQ(retry_delay(policy, 1, 0), 10s);
  EXPECT_EQ(retry_delay(policy, 1, 1), 12s);
}

RC_GTEST_PROP(Retry, never_leaves_max_plus_jitter, ()) {
  RetryPolicy policy;
  policy.base = Duration(*rc::gen::inRange<std::int64_t>(0, duration_max.count() + 1));
  policy.max = Duration(*rc::gen::inRange<std::int64_t>(0, duration_max.count() + 1));
  policy.jitter = *rc::gen::inRange(0, 101) / 100.0;
  const int attempts = *rc::gen::inRange(1, max_attempts_limit + 1);
  const double draw = *rc::gen::inRange(-100, 101) / 100.0;
  const Duration wait = retry_delay(policy, attempts, draw);
  RC_ASSERT(wait >= 0ms);
  RC_ASSERT(wait <= policy.max * 2);
}

}  // namespace
}  // namespace pawl
