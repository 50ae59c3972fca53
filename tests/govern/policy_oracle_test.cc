// Verdicts against truth that is computed otherwise, and without memory.
#include "govern/policy_oracle.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

namespace pawl::test {
namespace {

TEST(PolicyOracle, verdicts_are_the_truth_and_whatever_fails_is_a_deny) {
  ASSERT_TRUE(ending_memory_is_installed);
  const bool deep = std::getenv("PAWL_TEST_DEEP") != nullptr;
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  for (int round = 0; round < (deep ? 100'000 : 1500); ++round) {
    std::string input;
    for (int left = 40; left > 0; --left) input += static_cast<char>(random() & 0xff);
    ASSERT_EQ(PolicyOracle::check(input), "") << "seed " << seed << ", round " << round;
  }
}

TEST(PolicyOracle, a_condition_of_any_text_never_allows_by_error) {
  for (const char* text : {"fields ->> 'amount' > 1", "length(fields) > 10", "fields LIKE '%a%a%a%'", "1", "NULL", "x",
                           "EXISTS (SELECT 1 FROM json_each(fields))", "coalesce(fields ->> 'a', 1) IN (1, 2)"})
    EXPECT_EQ(PolicyOracle::check(text), "") << text;
}

}  // namespace
}  // namespace pawl::test
