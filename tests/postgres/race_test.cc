// Many servers at once, on the same few things. Each thread has a store of its own, as each server has.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "crypto/sha256.h"
#include "postgres/postgres_case.h"
#include "store/stream.h"
#include "support/depth.h"

namespace pawl::test {
namespace {

using std::chrono::milliseconds;

constexpr int servers = 4;

// Runs `work(store, number)` in as many threads as there are servers.
template <class Work>
void race(const TestDatabase& database, Work work) {
  std::vector<std::thread> threads;
  for (int number = 0; number < servers; ++number)
    threads.emplace_back([&, number] {
      auto store = database.open();
      work(*store, number);
    });
  for (std::thread& thread : threads) thread.join();
}

// One event on top of what is loaded, which names its writer.
RunFold next_of(const RunRow& row, const std::string& line) {
  RunFold fold;
  fold.row = row;
  fold.follows = row.head;
  fold.row.seq += 1;
  fold.row.head = chain_next(sha256, row.head, line);
  fold.history = {StreamKey::of(row.tenant, row.id), fold.row.seq, line + "\n", fold.row.seq, fold.row.head};
  return fold;
}

RunFold first_of(TenantId tenant, std::uint64_t number) {
  RunFold fold = new_run(tenant, number, 1);
  fold.row.seq = 0;
  fold.row.head = genesis(StreamKey::of(tenant, fold.row.id));
  RunFold first = next_of(fold.row, "{\"first\":1}");
  first.is_new = true;
  return first;
}

class PostgresRace : public PostgresCase {};

TEST_F(PostgresRace, of_servers_that_write_the_same_runs_one_wins_each_time_and_chains_stay_whole) {
  constexpr std::uint64_t runs = 5;
  const int commits = repeats(100, 400);
  {
    auto store = database_.open();
    Frame frame;
    for (std::uint64_t n = 0; n < runs; ++n) frame.runs.push_back(first_of(acme, n));
    ASSERT_TRUE(commit(*store, frame).empty());
  }
  std::atomic<int> written = 0, lost_count = 0;
  race(database_, [&](PostgresStore& store, int number) {
    std::mt19937 random(static_cast<unsigned>(number));
    std::vector<StreamKey> keys;
    for (std::uint64_t n = 0; n < runs; ++n) keys.push_back(StreamKey::of(acme, run_id(n)));
    for (int n = 0; n < commits; ++n) {
      std::ranges::shuffle(keys, random);
      auto rows = store.load_all(std::span(keys).first(1 + random() % runs));
      Frame frame;
      for (const RunRow& row : rows)
        frame.runs.push_back(next_of(row, fmt::format("{{\"by\":{},\"n\":{}}}", number, n)));
      std::ranges::shuffle(frame.runs, random);
      auto lost = commit(store, frame);
      written += static_cast<int>(frame.runs.size() - lost.size());
      lost_count += static_cast<int>(lost.size());
    }
  });
  auto store = database_.open();
  std::uint64_t events = 0;
  for (std::uint64_t n = 0; n < runs; ++n) {
    WholeStream stream = read_stream(*store, StreamKey::of(acme, run_id(n)));
    EXPECT_TRUE(stream.problems.empty()) << stream.problems.front();
    EXPECT_EQ(stream.folded_seq, store->load(acme, run_id(n))->seq);
    events += stream.lines.size() - 1;
  }
  EXPECT_EQ(events, static_cast<std::uint64_t>(written));
  EXPECT_GT(lost_count, 0) << "nobody was in anybody's way: this tests nothing";
}

TEST_F(PostgresRace, random_overlapping_commits_never_wait_for_each_other_in_a_circle) {
  constexpr std::uint64_t runs = 200;
  {
    auto store = database_.open();
    Frame frame;
    Tenant capped = tenant_named(acme, "acme", 1);
    capped.limits[Limit::max_concurrency] = 1'000'000;
    frame.tenants = {tenant_fold(capped, 1)};
    for (std::uint64_t n = 0; n < runs; ++n) frame.runs.push_back(first_of(n % 2 ? acme : tenant_id(2), n));
    ASSERT_TRUE(commit(*store, frame).empty());
  }
  race(database_, [&](PostgresStore& store, int number) {
    std::mt19937 random(static_cast<unsigned>(number));
    for (int n = 0; n < repeats(40, 120); ++n) {
      std::set<std::uint64_t> chosen;
      for (int k = 0; k < 60; ++k) chosen.insert(random() % runs);
      std::vector<StreamKey> keys;
      for (std::uint64_t k : chosen) keys.push_back(StreamKey::of(k % 2 ? acme : tenant_id(2), run_id(k)));
      Frame frame;
      for (const RunRow& row : store.load_all(keys)) {
        RunFold fold = next_of(row, fmt::format("{{\"by\":{},\"n\":{}}}", number, n));
        fold.was_ready = true;
        // Those that change what a meter counts take turns; the others meet at the runs.
        if (n % 4 == 0) fold.leases = static_cast<int>(random() % 2);
        if (random() % 2) fold.ready = {ready_step(fold, static_cast<StepIndex>(random() % 3))};
        frame.runs.push_back(std::move(fold));
      }
      for (int k = 0; k < 5; ++k) {
        RunFold fresh = first_of(acme, 10'000 + random() % 100'000);
        fresh.request_keys = {fmt::format("key {}", random() % 50), fmt::format("other {}", random() % 50)};
        frame.runs.push_back(std::move(fresh));
      }
      std::ranges::shuffle(frame.runs, random);
      commit(store, frame);
      store.take_ready(std::vector<ToolName>{{"tool-0"}, {"tool-1"}, {"tool-2"}}, 20, milliseconds(5), {});
    }
  });
  EXPECT_EQ(Sql(database_).number("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"), 0);
  EXPECT_EQ(
      Sql(database_).number("SELECT count(*) FROM pawl.requests q LEFT JOIN pawl.runs r ON r.tenant = q.tenant AND "
                            "r.id = q.run WHERE r.id IS NULL"),
      0);
}

TEST_F(PostgresRace, one_key_makes_one_run) {
  const int keys = repeats(50, 100);
  std::atomic<int> made = 0;
  race(database_, [&](PostgresStore& store, int number) {
    for (int n = 0; n < keys; ++n) {
      RunFold run = first_of(acme, static_cast<std::uint64_t>(1000 * number + n));
      run.request_keys = {fmt::format("key {}", n)};
      bool won = commit(store, run).empty();
      if (won) ++made;
      auto found = store.find_request(acme, run.request_keys[0]);
      EXPECT_TRUE(found && store.load(acme, *found));
      EXPECT_EQ(won, found == run.row.id);
    }
  });
  EXPECT_EQ(made, keys);
  EXPECT_EQ(Sql(database_).number("SELECT count(*) FROM pawl.runs"), keys);
}

TEST_F(PostgresRace, caps_are_never_exceeded) {
  constexpr int cap = 7;
  constexpr std::uint64_t runs_each = 6;
  {
    auto store = database_.open();
    Frame frame;
    Tenant tenant = tenant_named(acme, "acme", 1);
    tenant.limits = {};
    frame.tenants = {tenant_fold(tenant, 1)};
    for (std::uint64_t n = 0; n < servers * runs_each; ++n) frame.runs.push_back(first_of(acme, n));
    ASSERT_TRUE(commit(*store, frame).empty());
  }
  std::atomic<bool> over = false;
  std::atomic<int> refused = 0, looks = 0;
  // Looks all the time, from outside: what is above the cap, because it came before the cap, only falls.
  std::thread watcher([&] {
    Sql sql(database_);
    int last = INT_MAX;
    while (!over || looks == 0) {
      auto rows = sql.rows("SELECT (SELECT sum(leases) FROM pawl.runs), running FROM pawl.meters");
      if (rows.empty()) continue;
      auto blank = rows[0].find(' ');
      int leases = std::stoi(rows[0].substr(0, blank));
      EXPECT_EQ(leases, std::stoi(rows[0].substr(blank + 1)));
      EXPECT_LE(leases, std::max(cap, last));
      last = leases;
      ++looks;
    }
  });
  race(database_, [&](PostgresStore& store, int number) {
    std::mt19937 random(static_cast<unsigned>(number));
    std::map<RunId, int> leases;
    for (int n = 0; n < repeats(60, 150); ++n) {
      if (n == 20 && number == 0) {  // the cap comes in the middle, when more than that may be running
        Tenant tenant = tenant_named(acme, "acme", 2);
        tenant.limits = Caps{.max_concurrency = cap};
        Frame frame;
        frame.tenants = {tenant_fold(tenant, 2)};
        EXPECT_TRUE(commit(store, frame).empty());
      }
      Frame frame;
      for (std::uint64_t k = 0; k < runs_each; ++k) {
        auto row = store.load(acme, run_id(static_cast<std::uint64_t>(number) * runs_each + k));
        RunFold fold = next_of(*row, "{}");
        fold.leases_before = leases[row->id];
        // All give back at once now and then, so that those which came before the cap are over.
        fold.leases = n % 10 == 9 ? 0 : static_cast<int>(random() % 3);
        frame.runs.push_back(std::move(fold));
      }
      auto lost = commit(store, frame);
      for (const RunFold& fold : frame.runs)
        if (std::ranges::none_of(lost, [&](const Lost& one) { return one.key == fold.history.key; }))
          leases[fold.row.id] = fold.leases;
      for (const Lost& one : lost) EXPECT_TRUE(one.capped);
      refused += static_cast<int>(lost.size());
    }
  });
  over = true;
  watcher.join();
  EXPECT_GT(refused, 0);
  EXPECT_GT(looks, 0);
  Sql sql(database_);
  EXPECT_EQ(sql.one("SELECT running FROM pawl.meters"), sql.one("SELECT sum(leases) FROM pawl.runs"));
  EXPECT_LE(sql.number("SELECT running FROM pawl.meters"), cap);
}

TEST_F(PostgresRace, starts_are_never_more_than_the_pace) {
  constexpr int pace = 25;
  {
    auto store = database_.open();
    Frame frame;
    Tenant tenant = tenant_named(acme, "acme", 1);
    tenant.limits = Caps{.max_runs_per_min = pace};
    frame.tenants = {tenant_fold(tenant, 1)};
    ASSERT_TRUE(commit(*store, frame).empty());
  }
  std::atomic<int> started = 0;
  race(database_, [&](PostgresStore& store, int number) {
    for (int n = 0; n < 20; ++n) {
      RunFold run = first_of(acme, static_cast<std::uint64_t>(1000 * number + n));
      Frame frame = frame_of({run});
      frame.starts = {{acme, {"triage"}, store.now(), run.row.id}};
      if (commit(store, frame).empty()) ++started;
    }
  });
  EXPECT_EQ(started, pace);
}

TEST_F(PostgresRace, no_step_is_in_two_hands_and_all_come_back) {
  constexpr std::uint64_t runs = 300;
  {
    auto store = database_.open();
    Frame frame;
    for (std::uint64_t n = 0; n < runs; ++n) {
      RunFold fold = new_run(tenant_id(n % 3), n, 1);
      fold.ready = {ready_step(fold, 0)};
      frame.runs.push_back(std::move(fold));
    }
    ASSERT_TRUE(commit(*store, frame).empty());
  }
  for (int round = 0; round < 2; ++round) {
    std::mutex mutex;
    std::multiset<RunId> taken;
    race(database_, [&](PostgresStore& store, int) {
      while (true) {
        auto steps = store.take_ready(std::vector<ToolName>{{"tool-0"}}, 7, hang_limit, {}).steps;
        if (steps.empty()) return;
        std::lock_guard lock(mutex);
        for (const TakenStep& step : steps) taken.insert(step.step.run);
      }
    });
    EXPECT_EQ(taken.size(), runs);
    EXPECT_EQ(std::set<RunId>(taken.begin(), taken.end()).size(), runs);
    // As if the hold were over.
    Sql(database_).rows("UPDATE pawl.ready SET taken_until = 0");
  }
}

}  // namespace
}  // namespace pawl::test
