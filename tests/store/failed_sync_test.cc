// After a failed sync the kernel shows bytes that the disk never got. The next process must not build on them as if
// they were safe.
#include <gtest/gtest.h>

#include "store/crash_vfs.h"
#include "store/sqlite/sqlite_store.h"
#include "store/store_suite.h"

namespace pawl::test {
namespace {

std::unique_ptr<SqliteStore> open_store(CrashDisk& disk) {
  SqliteOptions options;
  options.folder = "/data";
  options.vfs = disk.vfs();
  options.single_connection = true;
  options.page_bytes = 1024;
  return std::make_unique<SqliteStore>(options);
}

Frame frame_with_run(Position position) {
  Frame frame;
  frame.position = position;
  frame.parts = parts_of({StreamKey::of(tenant_id(1))});
  frame.runs.push_back(new_run(tenant_id(1), position));
  return frame;
}

TEST(FailedSync, what_the_next_process_found_survives_a_power_failure) {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CrashDisk disk(seed);
    auto store = open_store(disk);
    store->commit(std::vector{frame_with_run(1)});
    disk.fail_sync(1);
    EXPECT_THROW(store->commit(std::vector{frame_with_run(2)}), StoreFailure);
    store.reset();
    disk.restart();

    store = open_store(disk);
    Position last = store->last_position();
    if (last == 2) {  // whether it may count on that frame or not, it does
      ++found;
      disk.kill_at(1 + seed % 4);
      EXPECT_THROW(store->commit(std::vector{frame_with_run(3)}), StoreFailure);
    }
    disk.kill_at(0);
    store.reset();
    disk.crash(seed);
    store = open_store(disk);
    EXPECT_GE(store->last_position(), last) << "seed " << seed;
    for (Position i = 1; i <= last; ++i)
      EXPECT_TRUE(store->load(tenant_id(1), new_run(tenant_id(1), i).row.id)) << "seed " << seed << ", run " << i;
  }
  EXPECT_GT(found, 0);
}

}  // namespace
}  // namespace pawl::test
