#include "api/feed_position.h"

#include <gtest/gtest.h>

#include <set>

namespace pawl::api {
namespace {

constexpr TenantId reader{{0, 1}}, stranger{{0, 2}};

TEST(FeedPositions, come_back_as_they_were) {
  FeedPositions positions(std::string(32, 's')), after_a_restart(std::string(32, 's'));
  for (const FeedPosition at : {FeedPosition{0, 0}, FeedPosition{1, 0}, FeedPosition{7, 3},
                                FeedPosition{1ULL << 40, 1 << 24}, FeedPosition{(1ULL << 56) - 1, (1ULL << 32) - 1}}) {
    EXPECT_EQ(after_a_restart.parse(reader, positions.print(reader, at)), at);
    EXPECT_EQ(after_a_restart.parse(reader, positions.print_anew(reader, at)), at);
    EXPECT_EQ(positions.print(reader, at), after_a_restart.print(reader, at));
  }
}

TEST(FeedPositions, are_of_one_tenant_and_one_installation) {
  FeedPositions positions(std::string(32, 's')), elsewhere(std::string(32, 't'));
  const std::string text = positions.print(reader, {7, 3});
  EXPECT_EQ(positions.parse(stranger, text), std::nullopt);
  EXPECT_EQ(elsewhere.parse(reader, text), std::nullopt);
  EXPECT_NE(positions.print(stranger, {7, 3}), text);
}

TEST(FeedPositions, that_do_not_move_cannot_be_told_from_those_that_do) {
  FeedPositions positions(std::string(32, 's'));
  std::set<std::string> texts;
  for (int i = 0; i < 20; ++i) texts.insert(positions.print_anew(reader, {7, 0}));
  EXPECT_GT(texts.size(), 15u);
}

TEST(FeedPositions, cannot_be_made) {
  FeedPositions positions(std::string(32, 's'));
  const std::string good = positions.print(reader, {7, 3});
  for (std::size_t i = 5; i < good.size(); ++i) {
    std::string changed = good;
    changed[i] = changed[i] == '0' ? '1' : '0';
    EXPECT_EQ(positions.parse(reader, changed), std::nullopt) << changed;
  }
  for (const char* text : {"", "0", "7.3", "pos_", "run_01kaw3v9m8f2hr4x6q0t7c5ezy", "pos_01kaw3v9m8f2hr4x6q0t7c5ezy"})
    EXPECT_EQ(positions.parse(reader, text), std::nullopt) << text;
}

}  // namespace
}  // namespace pawl::api
