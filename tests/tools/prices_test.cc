#include "tools/prices.h"

#include <gtest/gtest.h>

namespace pawl {
namespace {

Prices table() {
  return *Prices::read(R"({"version": "v1", "models": [
    {"provider": "a", "model": "big", "input": "3.00", "cache_read": "0.30", "output": "15.00"},
    {"provider": "a", "model": "big-mini", "input": "0.10", "output": "0.40"},
    {"provider": "b", "model": "big", "input": "1.00", "output": "1.00"}]})");
}

std::string cost(std::string_view provider, std::string_view model, TokenCounts tokens) {
  const auto found = table().cost(provider, model, tokens);
  return found ? print_money(*found) : "unknown";
}

TEST(Prices, are_those_of_the_longest_name_that_fits) {
  const TokenCounts million{.input_uncached = 1'000'000};
  EXPECT_EQ(cost("a", "big", million), "3.00");
  EXPECT_EQ(cost("a", "big-2025-01-01", million), "3.00");
  EXPECT_EQ(cost("a", "big-mini", million), "0.10");
  EXPECT_EQ(cost("a", "big-mini@eu", million), "0.10");
  EXPECT_EQ(cost("b", "big-mini", million), "1.00");
  EXPECT_EQ(cost("a", "bigger", million), "unknown");
  EXPECT_EQ(cost("a", "big.5", million), "unknown");
  EXPECT_EQ(cost("c", "big", million), "unknown");
}

TEST(Prices, of_each_kind_of_token_are_added_and_rounded_once) {
  EXPECT_EQ(cost("a", "big", {.input_uncached = 10, .input_cache_read = 10, .output = 10}), "0.000183");
  EXPECT_EQ(cost("a", "big-mini", {.input_uncached = 5}), "0.000001");  // half a millionth and above is one
  EXPECT_EQ(cost("a", "big-mini", {.input_uncached = 4}), "0.00");
  EXPECT_EQ(cost("a", "big", {}), "0.00");
}

TEST(Prices, that_are_missing_for_what_was_used_make_the_cost_unknown) {
  EXPECT_EQ(cost("a", "big-mini", {.input_uncached = 1, .input_cache_read = 1}), "unknown");
  EXPECT_EQ(cost("a", "big", {.input_cache_write_1h = 1}), "unknown");
  EXPECT_EQ(cost("a", "big", {.input_uncached = -1}), "unknown");
}

TEST(Prices, that_cannot_be_read_are_refused_with_the_reason) {
  const std::pair<const char*, const char*> rows[] = {
      {"[", "is not JSON"},
      {"{}", "must be a map with `version` and a list `models`"},
      {R"({"models": []})", "needs a `version`"},
      {R"({"version": "1", "models": [{"provider": "a"}]})", "needs `provider` and `model`"},
      {R"({"version": "1", "models": [{"provider": "a", "model": "m", "input": 3}]})", "must be an amount in quotes"},
      {R"({"version": "1", "models": [{"provider": "a", "model": "m", "inputs": "3"}]})", "unknown key `inputs`"}};
  for (const auto& [text, why] : rows) {
    const auto read = Prices::read(text);
    ASSERT_FALSE(read) << text;
    EXPECT_NE(read.error().find(why), std::string::npos) << read.error();
  }
}

TEST(Prices, come_with_pawl) {
  EXPECT_FALSE(Prices::shipped().version().empty());
  EXPECT_EQ(Prices::shipped().cost("anthropic", "claude-haiku-4-5-20251001", {.output = 1'000'000}), Money{5'000'000});
}

}  // namespace
}  // namespace pawl
