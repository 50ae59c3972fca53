#include "api/open_requests.h"

#include <gtest/gtest.h>

#include <atomic>

#include "api/problem.h"
#include "support/waiting.h"

namespace pawl::api {
namespace {

class SetClock : public Clock {
 public:
  Instant now() const override { return {now_.load()}; }
  void set(Instant now) { now_ = now.ms; }

 private:
  std::atomic<std::int64_t> now_ = 1'000'000;
};

class Open : public testing::Test {
 protected:
  Open() { tell_keys(); }
  ~Open() override { tickets_.clear(); }

  void tell_keys() {
    Tenant tenant{.id = {{0, 1}}, .name = "one"};
    for (const auto& [key, until] : expiries_)
      tenant.keys[key] = {.name = "k", .role = Role::viewer, .secret_hash = "x", .expires_at = until};
    keys_.update(tenant);
  }
  std::shared_ptr<std::atomic<bool>> open(KeyId key, OpenRequests::Kind kind = OpenRequests::Kind::stream,
                                          std::optional<std::int64_t> tenant_max = {}) {
    auto ended = std::make_shared<std::atomic<bool>>(false);
    tickets_.push_back(requests_.open({.tenant = {{0, 1}}, .tenant_name = "one", .key = key}, kind, tenant_max,
                                      [ended] { *ended = true; }));
    return ended;
  }

  static constexpr KeyId first{{1, 1}}, second{{1, 2}};
  std::map<KeyId, Instant> expiries_{{first, end_of_time}, {second, end_of_time}};
  SetClock clock_;
  KeyRing keys_{std::string(32, 's')};
  OpenRequests requests_{keys_, clock_, {.streams_per_key_max = 2, .all_per_key_max = 3}};
  std::vector<OpenRequests::Ticket> tickets_;
};

TEST_F(Open, requests_end_when_their_key_is_revoked) {
  const auto one = open(first), other = open(second);
  expiries_[first] = clock_.now();
  tell_keys();
  EXPECT_TRUE(eventually([&] { return one->load(); }));
  EXPECT_FALSE(*other);
}

TEST_F(Open, requests_of_a_key_that_is_revoked_already_end_at_once) {
  expiries_[first] = clock_.now();
  tell_keys();
  const auto one = open(first);
  EXPECT_TRUE(eventually([&] { return one->load(); }));
}

TEST_F(Open, requests_end_when_the_time_of_their_key_is_over) {
  expiries_[first] = clock_.now() + std::chrono::milliseconds(50);
  tell_keys();
  const auto one = open(first), other = open(second);
  clock_.set(expiries_[first]);
  EXPECT_TRUE(eventually([&] { return one->load(); }));
  EXPECT_FALSE(*other);
}

TEST_F(Open, requests_that_were_given_back_are_left_alone) {
  const auto one = open(first);
  tickets_.clear();
  expiries_[first] = expiries_[second] = clock_.now();
  const auto later = open(second);
  tell_keys();
  EXPECT_TRUE(eventually([&] { return later->load(); }));
  EXPECT_FALSE(*one);
}

TEST_F(Open, requests_of_one_key_have_a_limit) {
  using enum OpenRequests::Kind;
  open(first);
  open(first);
  EXPECT_THROW(open(first), Problem);
  open(first, poll);
  EXPECT_THROW(open(first, poll), Problem);
  open(second);
  tickets_.erase(tickets_.begin());
  open(first);
  EXPECT_THROW(open(second, stream, 3), Problem) << "the tenant has three";
  open(second, stream, 4);
}

}  // namespace
}  // namespace pawl::api
