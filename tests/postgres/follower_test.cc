// Whose a follower of the journal is, among several servers.
#include "postgres/postgres_case.h"

namespace pawl::test {
namespace {

constexpr Duration follow_hold = hang_limit;

class PostgresFollower : public PostgresCase {
 protected:
  std::unique_ptr<PostgresStore> one_ = database_.open();
  std::unique_ptr<PostgresStore> other_ = database_.open();
};

TEST_F(PostgresFollower, is_one_servers_at_a_time) {
  EXPECT_TRUE(one_->follow("f", follow_hold));
  EXPECT_FALSE(other_->follow("f", follow_hold));
  EXPECT_TRUE(one_->follow("f", follow_hold));
  EXPECT_TRUE(other_->follow("another", follow_hold));
}

TEST_F(PostgresFollower, goes_on_elsewhere_where_it_was_when_its_server_lets_go) {
  ASSERT_TRUE(one_->follow("f", follow_hold));
  commit(*one_, new_run(acme, 1));
  Position position = one_->last_position();
  one_->followed("f", position);
  one_->unfollow("f");
  EXPECT_EQ(other_->follow("f", follow_hold), position);
  EXPECT_FALSE(one_->follow("f", follow_hold));
  one_->unfollow("f");  // not its own any more
  EXPECT_FALSE(one_->follow("f", follow_hold));
}

TEST_F(PostgresFollower, goes_on_elsewhere_when_its_server_is_not_heard_of) {
  ASSERT_TRUE(one_->follow("f", std::chrono::milliseconds(50)));
  EXPECT_TRUE(eventually([&] { return other_->follow("f", follow_hold).has_value(); }));
  EXPECT_FALSE(one_->follow("f", follow_hold));
}

TEST_F(PostgresFollower, is_kept_by_a_server_that_is_heard_of) {
  ASSERT_TRUE(one_->follow("f", std::chrono::milliseconds(1)));
  one_->wait_for_news(Duration(0));
  EXPECT_FALSE(other_->follow("f", follow_hold));
}

TEST_F(PostgresFollower, whose_server_is_not_heard_of_is_news_to_the_others) {
  other_->wait_for_news(hang_limit);  // what it may have missed
  ASSERT_TRUE(one_->follow("f", std::chrono::milliseconds(50)));
  EXPECT_TRUE(eventually([&] { return other_->wait_for_news(hang_limit).events; }));
  EXPECT_TRUE(other_->follow("f", follow_hold));
}

TEST_F(PostgresFollower, that_is_new_begins_with_what_comes_from_now_on) {
  commit(*one_, new_run(acme, 1));
  Position last = one_->last_position();
  EXPECT_EQ(other_->follow("f", follow_hold), last);
  // What began before and is not over yet is to come, too.
  Sql slow(database_);
  slow.rows("BEGIN");
  slow.rows(
      "INSERT INTO pawl.events SELECT tenant, gen_random_uuid(), 1, 1, pg_current_xact_id()::text::bigint + origin, "
      "'x' FROM pawl.events, pawl.journal");
  commit(*one_, new_run(acme, 2));
  EXPECT_EQ(other_->follow("g", follow_hold), last);
  slow.rows("COMMIT");
}

}  // namespace
}  // namespace pawl::test
