// Power failures, full disks and failed syncs: what was acknowledged is there, what was not is there whole or not at
// all.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "store/crash_vfs.h"
#include "store/sqlite/sqlite_store.h"
#include "store/store_suite.h"
#include "support/depth.h"

namespace pawl::test {
namespace {

std::unique_ptr<SqliteStore> open(CrashDisk& disk) {
  SqliteOptions options;
  options.folder = "/data";
  options.vfs = disk.vfs();
  options.single_connection = true;
  options.page_bytes = 1024;
  // Small, so that a short script sees the log moved and started over.
  options.wal_bytes_max = 12 * 1024;
  options.wal_bytes_idle = 6 * 1024;
  return std::make_unique<SqliteStore>(options);
}

const CrashDisk::Image& empty_store() {
  static const CrashDisk::Image image = [] {
    CrashDisk disk;
    open(disk).reset();
    return disk.image();
  }();
  return image;
}

// A little of everything, eight commits.
const std::vector<std::vector<Frame>>& script() {
  static const auto commits = [] {
    std::vector<std::vector<Frame>> made;
    std::vector<RunFold> alive;
    for (Position at = 1; at <= 8; ++at) {
      Frame frame;
      frame.position = at;
      frame.folded_before = at > 2 ? at - 2 : 0;
      frame.parts = parts_of({StreamKey::of(acme)});
      if (at % 4 == 0) append_part(frame.parts, {StreamKey::of(acme), 4, std::string(3000, 'x')});
      RunFold fold = new_run(acme, at);
      fold.row.due_at = run_time(at + 100);
      fold.row.leased = at % 2 == 0;
      fold.ready = {ready_step(fold, 1), ready_step(fold, 2)};
      fold.approvals = {approval(fold, 1)};
      alive.push_back(fold);
      frame.runs.push_back(fold);
      if (at > 1) {
        RunFold& before = alive[at - 2];
        RunFold next = later(before, 2, RunStatus::running);
        next.ready = {ready_step(before, 2)};
        next.approvals = {approval(before, 1, ApprovalStatus::approved)};
        frame.runs.push_back(next);
        before = next;
      }
      if (at % 3 == 1) {
        std::uint64_t seq = (at + 2) / 3;
        frame.tenants = {{tenant_named(acme, "acme", seq), history_of(StreamKey::of(acme), seq, seq)}};
      }
      frame.workflows = {{acme, {"triage"}, static_cast<int>(at), "digest", "source"}};
      frame.starts = {{acme, {"triage"}, {static_cast<std::int64_t>(at) * 20'000}}};
      made.push_back({frame});
    }
    return made;
  }();
  return commits;
}

// What the store says after each commit, and before the first.
const std::vector<std::string>& expected() {
  static const auto texts = [] {
    CrashDisk disk;
    auto store = open(disk);
    std::vector<std::string> said{describe(*store)};
    for (const auto& frames : script()) {
      store->commit(frames);
      said.push_back(describe(*store));
    }
    return said;
  }();
  return texts;
}

struct Outcome {
  std::size_t acknowledged = 0;
  bool commit_under_way = false;
};

// Opens the disk and commits what follows `done`, up to `end`, until something fails.
Outcome play(CrashDisk& disk, std::size_t done = 0, std::size_t end = script().size()) {
  Outcome outcome{done, false};
  try {
    auto store = open(disk);
    while (outcome.acknowledged < end) {
      outcome.commit_under_way = true;
      store->commit(script()[outcome.acknowledged]);
      outcome.commit_under_way = false;
      ++outcome.acknowledged;
      if (outcome.acknowledged % 5 == 0) store->tidy();
    }
  } catch (const StoreFailure&) {
  }
  return outcome;
}

// How many commits the store holds; fails when it holds part of one, or less or more than it may.
std::size_t check(Store& store, const Outcome& outcome) {
  std::string said = describe(store);
  if (said == expected()[outcome.acknowledged]) return outcome.acknowledged;
  std::size_t next = outcome.acknowledged + 1;
  EXPECT_TRUE(outcome.commit_under_way && said == expected()[next])
      << "after " << outcome.acknowledged << " acknowledged commits:\n"
      << said;
  return next;
}

std::size_t check(CrashDisk& disk, const Outcome& outcome) { return check(*open(disk), outcome); }

// Kills the process and the power at every call that the first `end` commits on this disk make.
void crash_at_every_call(const CrashDisk::Image& image, std::size_t end) {
  CrashDisk whole(1, image);
  ASSERT_EQ(play(whole, 0, end).acknowledged, end);
  for (std::uint64_t call = 1; call <= whole.calls(); ++call)
    for (std::uint64_t seed : {call, call + 1'000'000}) {
      SCOPED_TRACE(fmt::format("killed at call {}, seed {}", call, seed));
      CrashDisk disk(seed, image);
      disk.kill_at(call);
      Outcome outcome = play(disk, 0, end);
      disk.crash(seed);
      std::size_t done = check(disk, outcome);
      if (testing::Test::HasFailure()) return;
      // And it goes on from there.
      outcome = play(disk, done, end);
      ASSERT_EQ(outcome.acknowledged, end);
      disk.crash(seed + 1);
      ASSERT_EQ(check(disk, outcome), end);
    }
}

TEST(Crash, at_every_call_all_or_nothing_of_a_commit_is_there_and_everything_acknowledged) {
  crash_at_every_call(empty_store(), script().size());
}

TEST(Crash, at_every_call_of_a_first_start_it_can_be_started_again) { crash_at_every_call({}, 2); }

TEST(Crash, a_process_that_dies_alone_loses_nothing) {
  CrashDisk whole;
  play(whole);
  for (std::uint64_t call = 1; call <= whole.calls(); ++call) {
    SCOPED_TRACE(fmt::format("killed at call {}", call));
    CrashDisk disk;
    disk.kill_at(call);
    Outcome outcome = play(disk);
    disk.restart();
    check(disk, outcome);
    if (HasFailure()) return;
  }
}

TEST(Crash, again_and_again_in_one_life) {
  for (std::uint64_t seed = 0; seed < repeats<std::uint64_t>(20, 60); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    std::mt19937_64 random(seed);
    CrashDisk disk(seed, empty_store());
    std::size_t done = 0;
    while (done < script().size()) {
      disk.kill_at(1 + random() % 60);
      Outcome outcome = play(disk, done);
      if (random() % 4 == 0)
        disk.restart();
      else
        disk.crash(random());
      // The start after a crash may be cut short too.
      if (random() % 3 == 0) {
        disk.kill_at(1 + random() % 8);
        try {
          open(disk);
        } catch (const StoreFailure&) {
        }
        disk.crash(random());
      }
      done = check(disk, outcome);
      if (HasFailure()) return;
    }
  }
}

// Plays with the fault set by `arm`, then checks that the failed store refuses everything.
void play_into_fault(CrashDisk& disk, Outcome& outcome, const std::function<void()>& arm) {
  auto store = open(disk);
  arm();
  try {
    for (const auto& frames : script()) {
      store->commit(frames);
      ++outcome.acknowledged;
    }
    return;
  } catch (const StoreFailure& failure) {
    EXPECT_NE(std::string(failure.what()).find("start again"), std::string::npos) << failure.what();
  }
  outcome.commit_under_way = true;
  EXPECT_THROW(store->commit(script()[outcome.acknowledged]), StoreFailure);
  EXPECT_THROW(store->tidy(), StoreFailure);
  EXPECT_THROW(store->last_position(), StoreFailure);
  EXPECT_THROW(store->load(acme, run_id(1)), StoreFailure);
}

TEST(Crash, a_full_disk_stops_the_store_and_loses_nothing) {
  bool failed = true;
  for (std::uint64_t write = 1; failed; ++write) {
    SCOPED_TRACE(fmt::format("full at write {}", write));
    for (bool power_fails : {false, true}) {
      CrashDisk disk(write, empty_store());
      Outcome outcome;
      play_into_fault(disk, outcome, [&] { disk.fail_write(write); });
      failed = outcome.commit_under_way;
      power_fails ? disk.crash(write) : disk.restart();
      check(disk, outcome);
      if (HasFailure()) return;
    }
    ASSERT_TRUE(failed || write > 50);
  }
}

TEST(Crash, a_failed_sync_stops_the_store_and_what_is_built_after_a_restart_lasts) {
  bool failed = true;
  for (std::uint64_t sync = 1; failed; ++sync)
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      SCOPED_TRACE(fmt::format("sync {} fails, seed {}", sync, seed));
      CrashDisk disk(seed, empty_store());
      Outcome outcome;
      play_into_fault(disk, outcome, [&] { disk.fail_sync(sync); });
      failed = outcome.commit_under_way;
      // Only the process starts again: the kernel still shows pages that the disk may have lost.
      disk.restart();
      {
        auto store = open(disk);
        std::size_t done = check(*store, outcome);
        if (HasFailure()) return;
        // A commit or two, too few for the log to be moved; then the power fails before anything is closed.
        outcome = {std::min(done + 1 + seed % 2, script().size()), false};
        for (; done < outcome.acknowledged; ++done) store->commit(script()[done]);
        disk.kill_at(1);
      }
      disk.crash(seed);
      check(disk, outcome);
      if (HasFailure()) return;
    }
}

TEST(Crash, the_power_fails_right_after_a_failed_sync) {
  for (std::uint64_t sync = 1; sync < 20; ++sync)
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
      SCOPED_TRACE(fmt::format("sync {} fails, seed {}", sync, seed));
      CrashDisk disk(seed, empty_store());
      Outcome outcome;
      play_into_fault(disk, outcome, [&] { disk.fail_sync(sync); });
      disk.crash(seed);
      check(disk, outcome);
      if (HasFailure()) return;
    }
}

TEST(Syncs, a_commit_is_one_sync) {
  CrashDisk disk;
  SqliteOptions options;
  options.folder = "/data";
  options.vfs = disk.vfs();
  options.single_connection = true;
  SqliteStore store(options);
  store.commit(script()[0]);  // the first one begins the log
  for (std::size_t n = 1; n < script().size(); ++n) {
    auto before = disk.syncs();
    store.commit(script()[n]);
    EXPECT_EQ(disk.syncs(), before + 1);
  }
}

TEST(Syncs, tidying_with_nothing_to_do_touches_no_disk) {
  CrashDisk disk;
  auto store = open(disk);
  store->commit(script()[0]);
  store->tidy();
  auto before = disk.calls();
  store->tidy();
  EXPECT_EQ(disk.calls(), before);
}

}  // namespace
}  // namespace pawl::test
