// Which servers are taken for dead by those that still look at the database.
#include "store/postgres/server_watch.h"

#include <gtest/gtest.h>

#include "postgres/postgres_case.h"

namespace pawl::test {
namespace {

using std::chrono::seconds;
using Gone = std::vector<std::uint32_t>;

class PostgresServerWatch : public testing::Test {
 protected:
  Gone look_after(seconds span, std::string_view seen) { return watch_.look(seen, now_ += span); }

  postgres::ServerWatch watch_;
  postgres::ServerWatch::Moment now_{seconds(1000)};
};

TEST_F(PostgresServerWatch, one_that_writes_nothing_for_five_seconds_is_gone) {
  look_after(seconds(1), "3:100 4:100");
  for (int at = 101; at <= 104; ++at) EXPECT_EQ(look_after(seconds(1), "3:100 4:" + std::to_string(at)), Gone{}) << at;
  EXPECT_EQ(look_after(seconds(1), "3:100 4:105"), Gone{3});
}

TEST_F(PostgresServerWatch, it_is_told_a_few_times) {
  look_after(seconds(1), "3:100");
  int told = 0;
  for (int i = 0; i < 60; ++i) told += static_cast<int>(look_after(seconds(1), "3:100").size());
  EXPECT_EQ(told, 5);
}

TEST_F(PostgresServerWatch, one_that_comes_back_and_goes_again_is_gone_again) {
  for (int i = 0; i < 20; ++i) look_after(seconds(1), "3:100");
  EXPECT_EQ(look_after(seconds(1), "3:101"), Gone{});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(look_after(seconds(1), "3:101"), Gone{});
  EXPECT_EQ(look_after(seconds(1), "3:101"), Gone{3});
}

TEST_F(PostgresServerWatch, an_absence_of_the_database_counts_against_nobody) {
  look_after(seconds(1), "3:100 4:100");
  EXPECT_EQ(look_after(seconds(600), "3:100 4:100"), Gone{});
  EXPECT_EQ(look_after(seconds(1), "3:100 4:700"), Gone{});
  EXPECT_EQ(look_after(seconds(1), "3:701 4:701"), Gone{});
  for (int i = 702; i < 705; ++i) EXPECT_EQ(look_after(seconds(1), "3:701 4:" + std::to_string(i)), Gone{});
}

class PostgresLeasesOfServers : public PostgresCase {
 protected:
  RunId add(std::uint64_t number, std::string snapshot, bool leased) {
    RunFold fold = new_run(acme, number, 1);
    fold.row.leased = leased;
    fold.row.snapshot = std::move(snapshot);
    EXPECT_TRUE(commit(*store_, fold).empty());
    return fold.row.id;
  }
  std::unique_ptr<PostgresStore> store_ = database_.open();
};

TEST_F(PostgresLeasesOfServers, are_found_by_the_names_of_their_workers) {
  const RunId held = add(1, std::string("x\0local/7/12", 12), true);
  add(2, "local/7/12", false);
  add(3, "local/8/12", true);
  add(4, "worker-7", true);
  const std::uint32_t gone[] = {7, 9};
  auto found = store_->leased_runs_of(gone);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].run, held);
}

}  // namespace
}  // namespace pawl::test
