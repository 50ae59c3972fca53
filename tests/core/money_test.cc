#include "core/money.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace pawl {
namespace {

TEST(Money, prints_two_to_six_decimals) {
  EXPECT_EQ(print_money({0}), "0.00");
  EXPECT_EQ(print_money({2'500'000}), "2.50");
  EXPECT_EQ(print_money({125}), "0.000125");
  EXPECT_EQ(print_money({1'234'500}), "1.2345");
  EXPECT_EQ(print_money({-2'500'000}), "-2.50");
  EXPECT_EQ(print_money({INT64_MIN}), "-9223372036854.775808");
}

TEST(Money, reads_digits_with_at_most_six_decimals) {
  EXPECT_EQ(parse_money("2.50"), (Money{2'500'000}));
  EXPECT_EQ(parse_money("2"), (Money{2'000'000}));
  EXPECT_EQ(parse_money("0.000001"), (Money{1}));
  EXPECT_EQ(parse_money("1000000000"), (Money{1'000'000'000'000'000}));
  EXPECT_EQ(parse_money("1000000000.000000"), (Money{1'000'000'000'000'000}));
}

TEST(Money, refuses_everything_else) {
  for (const auto* text : {"", ".", ".5", "5.", "-1", "+1", "1.0000001", "1e3", "1,000", "$1", " 1", "1 ", "1.2.3",
                           "1000000000.000001", "99999999999999999999999999"})
    EXPECT_FALSE(parse_money(text)) << text;
}

TEST(Money, a_sum_that_is_too_large_stays_the_largest) {
  EXPECT_EQ(Money{INT64_MAX - 1} + Money{1}, Money{INT64_MAX});
  EXPECT_EQ(Money{INT64_MAX - 1} + Money{2}, Money{INT64_MAX});
  EXPECT_EQ(Money{INT64_MAX} + Money{INT64_MAX}, Money{INT64_MAX});
}

RC_GTEST_PROP(Money, reads_back_what_it_prints, ()) {
  const Money amount{*rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000'001)};
  RC_ASSERT(parse_money(print_money(amount)) == amount);
}

}  // namespace
}  // namespace pawl
