#include "tools/cost_meter.h"

#include <gtest/gtest.h>

#include <vector>

namespace pawl::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class CostMeters : public testing::Test {
 protected:
  struct Asked {
    Money cost;
    std::function<void(bool)> reply;
  };

  CostMeter make() {
    return CostMeter(
        [this](const Lease&, Money cost, std::function<void(bool)> reply) {
          asked.push_back({cost, std::move(reply)});
        },
        lease);
  }

  Lease lease;
  std::vector<Asked> asked;
  const CostMeter::Time begin = std::chrono::steady_clock::now();
};

TEST_F(CostMeters, tell_nothing_in_the_first_second_and_what_is_new_once_a_second) {
  CostMeter meter = make();
  meter.note(Money{10}, begin);
  EXPECT_TRUE(asked.empty());
  EXPECT_LT(meter.due(), begin + seconds(2));
  meter.note(Money{10}, begin + seconds(2));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].cost, Money{10});
  asked[0].reply(true);
  EXPECT_EQ(meter.due(), CostMeter::Time::max()) << "all of it is told";
  meter.note(Money{25}, begin + milliseconds(2500));
  EXPECT_EQ(asked.size(), 1u);
  meter.note(Money{30}, begin + seconds(3));
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[1].cost, Money{20});
  asked[1].reply(true);
  EXPECT_EQ(meter.finish(), Money{30});
}

TEST_F(CostMeters, ask_one_at_a_time_and_do_not_spin_while_nobody_answers) {
  CostMeter meter = make();
  meter.note(Money{10}, begin + seconds(2));
  meter.note(Money{20}, begin + seconds(4));
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_GT(meter.due(), begin + seconds(4));
  asked[0].reply(true);
  meter.note(Money{20}, begin + seconds(5));
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[1].cost, Money{10});
}

TEST_F(CostMeters, say_no_more_once_the_lease_is_over) {
  CostMeter meter = make();
  meter.note(Money{10}, begin + seconds(2));
  asked[0].reply(false);
  meter.note(Money{20}, begin + seconds(4));
  EXPECT_EQ(asked.size(), 1u);
  EXPECT_EQ(meter.due(), CostMeter::Time::max());
  EXPECT_EQ(meter.finish(), Money{});
}

TEST_F(CostMeters, tell_the_last_at_once) {
  CostMeter meter = make();
  meter.note_last(Money{7});
  ASSERT_EQ(asked.size(), 1u);
  asked[0].reply(true);
  EXPECT_EQ(meter.finish(), Money{7});
}

TEST_F(CostMeters, take_what_is_not_answered_for_told) {
  CostMeter meter = make();
  meter.note(Money{10}, begin + seconds(2));
  EXPECT_EQ(meter.finish(milliseconds(1)), Money{10});
}

TEST_F(CostMeters, tell_nobody_when_there_is_nobody) {
  CostMeter meter({}, lease);
  meter.note(Money{10}, begin + seconds(2));
  EXPECT_EQ(meter.due(), CostMeter::Time::max());
  EXPECT_EQ(meter.finish(), Money{});
}

}  // namespace
}  // namespace pawl::tests
