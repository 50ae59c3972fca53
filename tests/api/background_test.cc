#include "api/background.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <string>

#include "support/waiting.h"

namespace pawl::api {
namespace {

constexpr TenantId first_tenant{{0, 1}}, second_tenant{{0, 2}};

TEST(Background, has_a_thread_left_for_the_other_tenant) {
  std::latch go(1);
  std::atomic<int> waiting = 0, done = 0;
  Background background({.threads = 2, .running_per_tenant_max = 1});
  for (int i = 0; i < 10; ++i)
    background.post(first_tenant, [&] {
      ++waiting;
      go.wait();
    });
  background.post(second_tenant, [&] { ++done; });
  EXPECT_TRUE(eventually([&] { return done == 1; }));
  EXPECT_EQ(waiting, 1);
  go.count_down();
  EXPECT_TRUE(eventually([&] { return waiting == 10; }));
}

TEST(Background, lets_tenants_take_turns) {
  std::latch go(1);
  std::mutex mutex;
  std::string order;
  std::atomic<bool> began = false;
  Background background({.threads = 1, .running_per_tenant_max = 1});
  const auto note = [&](char c) {
    std::lock_guard lock(mutex);
    order += c;
  };
  background.post(first_tenant, [&] {
    began = true;
    go.wait();
  });
  ASSERT_TRUE(eventually([&] { return began.load(); }));
  for (int i = 0; i < 5; ++i) background.post(first_tenant, [&] { note('1'); });
  for (int i = 0; i < 3; ++i) background.post(second_tenant, [&] { note('2'); });
  go.count_down();
  EXPECT_TRUE(eventually([&] {
    std::lock_guard lock(mutex);
    return order.size() == 8;
  }));
  EXPECT_EQ(order, "21212111");
}

TEST(Background, refuses_what_is_too_much_of_one_tenant) {
  std::latch go(1);
  std::atomic<bool> began = false;
  std::atomic<int> done = 0;
  Background background({.threads = 1, .running_per_tenant_max = 1, .waiting_per_tenant_max = 2});
  background.post(first_tenant, [&] {
    began = true;
    go.wait();
  });
  ASSERT_TRUE(eventually([&] { return began.load(); }));
  const auto offer = [&](TenantId tenant) {
    Background::Work work = [&] { ++done; };
    const bool taken = background.offer(tenant, work);
    EXPECT_EQ(taken, !work) << "what is not taken stays";
    return taken;
  };
  EXPECT_TRUE(offer(first_tenant));
  EXPECT_TRUE(offer(first_tenant));
  EXPECT_FALSE(offer(first_tenant));
  EXPECT_TRUE(offer(second_tenant));
  background.post(first_tenant, [&] { ++done; });
  go.count_down();
  EXPECT_TRUE(eventually([&] { return done == 4; }));
  EXPECT_TRUE(offer(first_tenant));
}

}  // namespace
}  // namespace pawl::api
