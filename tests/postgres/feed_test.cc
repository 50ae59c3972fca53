// The journal as those who follow it see it: every event, in order per stream, none skipped, whatever order
// transactions end in.
#include <fmt/format.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "postgres/postgres_case.h"

namespace pawl::test {
namespace {

class PostgresFeed : public PostgresCase {
 protected:
  // Every run in the frames behind `position`, which moves on.
  std::vector<RunId> follow(Position& position) {
    std::vector<RunId> runs;
    while (auto frame = store_->frame_after(position)) {
      EXPECT_GT(frame->position, position);
      position = frame->position;
      for_each_part(frame->parts, [&](const StreamPart& part) { runs.push_back({part.key.stream}); });
    }
    return runs;
  }

  std::unique_ptr<PostgresStore> store_ = database_.open();
};

TEST_F(PostgresFeed, a_commit_is_a_frame_with_its_events) {
  RunFold run = new_run(acme, 1), other = new_run(acme, 2);
  commit(*store_, frame_of({run, other}));
  commit(*store_, later(run, 0, RunStatus::running));  // says nothing new
  RunFold next = later(run, 2, RunStatus::running);
  commit(*store_, next);
  auto first = store_->frame_after(0);
  ASSERT_TRUE(first);
  std::string expected;
  append_part(expected, {run.history.key, 1, run.history.lines});
  append_part(expected, {other.history.key, 1, other.history.lines});
  EXPECT_EQ(first->parts, expected);
  auto second = store_->frame_after(first->position);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->position, store_->last_position());
  expected.clear();
  append_part(expected, {run.history.key, 4, next.history.lines});
  EXPECT_EQ(second->parts, expected);
  EXPECT_FALSE(store_->frame_after(second->position));
  EXPECT_EQ(store_->frame_after(0)->position, first->position);
}

TEST_F(PostgresFeed, what_began_earlier_and_ends_later_is_not_skipped) {
  commit(*store_, new_run(acme, 1));
  Position position = 0;
  EXPECT_EQ(follow(position).size(), 1u);
  Sql slow(database_);
  slow.rows("BEGIN");
  slow.rows(
      "INSERT INTO pawl.events SELECT tenant, gen_random_uuid(), 1, 1, pg_current_xact_id()::text::bigint + origin, "
      "'x' "
      "FROM pawl.events, pawl.journal");
  commit(*store_, new_run(acme, 2));
  EXPECT_TRUE(follow(position).empty());
  EXPECT_EQ(store_->last_position(), position);
  slow.rows("COMMIT");
  auto runs = follow(position);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[1], run_id(2));
}

TEST_F(PostgresFeed, a_frame_larger_than_what_is_read_ahead_comes_whole) {
  for (int big = 0; big < 2; ++big) {
    Frame frame;
    for (std::uint64_t n = 0; n < 1500; ++n)
      frame.runs.push_back(new_run(acme, static_cast<std::uint64_t>(big) * 1500 + n, 1));
    commit(*store_, frame);
  }
  for (std::uint64_t n = 0; n < 20; ++n) commit(*store_, new_run(acme, 9000 + n, 1));
  Position position = 0;
  auto first = store_->frame_after(position);
  std::size_t parts = 0;
  for_each_part(first->parts, [&](const StreamPart&) { ++parts; });
  EXPECT_EQ(parts, 1500u);
  auto runs = follow(position);
  EXPECT_EQ(runs.size(), 3020u);
  EXPECT_EQ(std::set<RunId>(runs.begin(), runs.end()).size(), 3020u);
}

TEST_F(PostgresFeed, a_follower_sees_everything_while_servers_write) {
  constexpr int writers = 3, commits = 150;
  std::atomic<int> done = 0;
  std::vector<std::thread> threads;
  for (int writer = 0; writer < writers; ++writer)
    threads.emplace_back([&, writer] {
      auto store = database_.open();
      RunFold fold = new_run(acme, static_cast<std::uint64_t>(writer), 1);
      for (int n = 0; n < commits; ++n) {
        EXPECT_TRUE(commit(*store, fold).empty());
        fold = later(fold, 1 + static_cast<std::uint64_t>(n % 3), RunStatus::running);
      }
      ++done;
    });
  std::map<IdBits, std::string> seen;
  Position position = 0;
  for (bool last = false; !last;) {
    last = done == writers;
    while (auto frame = store_->frame_after(position)) {
      position = frame->position;
      for_each_part(frame->parts, [&](const StreamPart& part) { seen[part.key.stream] += part.lines; });
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (int writer = 0; writer < writers; ++writer) {
    StreamKey key = StreamKey::of(acme, run_id(static_cast<std::uint64_t>(writer)));
    EXPECT_EQ(seen[key.stream], store_->history(key).lines);
  }
}

TEST_F(PostgresFeed, positions_go_on_in_a_cluster_whose_numbers_are_behind) {
  commit(*store_, new_run(acme, 1));
  // As if restored from a cluster that was a billion transactions ahead.
  Sql(database_).rows("UPDATE pawl.events SET position = position + 1000000000");
  store_ = database_.open();
  Position before = store_->last_position();
  EXPECT_GT(before, 1'000'000'000u);
  EXPECT_TRUE(store_->frame_after(0));
  commit(*store_, new_run(acme, 2));
  auto next = store_->frame_after(before);
  ASSERT_TRUE(next);
  EXPECT_EQ(store_->last_position(), next->position);
  store_ = database_.open();
  EXPECT_EQ(store_->last_position(), next->position);
}

}  // namespace
}  // namespace pawl::test
