// The disk that the crash tests stand on.
#include "store/crash_vfs.h"

#include <gtest/gtest.h>

namespace pawl::test {
namespace {

// One open file on a disk.
class OpenFile {
 public:
  OpenFile(CrashDisk& disk, const char* name) : bytes_(512) {
    sqlite3_vfs* vfs = sqlite3_vfs_find(disk.vfs().c_str());
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MAIN_DB;
    EXPECT_EQ(vfs->xOpen(vfs, name, file(), flags, nullptr), SQLITE_OK);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() { file()->pMethods->xClose(file()); }

  int write(const std::string& bytes, int offset) {
    return file()->pMethods->xWrite(file(), bytes.data(), static_cast<int>(bytes.size()), offset);
  }
  int sync() { return file()->pMethods->xSync(file(), SQLITE_SYNC_NORMAL); }

 private:
  sqlite3_file* file() { return reinterpret_cast<sqlite3_file*>(bytes_.data()); }
  std::vector<char> bytes_;
};

TEST(CrashDisk, what_is_synced_survives_and_what_is_not_may_be_lost_or_torn_by_sectors) {
  std::string old(2048, 'o'), fresh(2048, 'n');
  bool lost = false, landed = false, torn = false;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CrashDisk disk(seed);
    {
      OpenFile file(disk, "/f");
      EXPECT_EQ(file.write(old, 0), SQLITE_OK);
      EXPECT_EQ(file.sync(), SQLITE_OK);
      EXPECT_EQ(file.write(fresh, 0), SQLITE_OK);
      EXPECT_EQ(disk.image()["/f"], fresh);
      EXPECT_EQ(disk.durable_image()["/f"], old);
    }
    disk.crash(seed);
    std::string left = disk.image()["/f"];
    ASSERT_EQ(left.size(), 2048u);
    for (std::size_t sector = 0; sector < 2048; sector += 512)
      EXPECT_TRUE(left.substr(sector, 512) == old.substr(0, 512) || left.substr(sector, 512) == fresh.substr(0, 512));
    lost |= left == old;
    landed |= left == fresh;
    torn |= left != old && left != fresh;
  }
  EXPECT_TRUE(lost && landed && torn);
}

TEST(CrashDisk, the_same_seed_gives_the_same_disk) {
  auto play = [] {
    CrashDisk disk(7);
    {
      OpenFile file(disk, "/f");
      file.write(std::string(5000, 'x'), 100);
    }
    disk.crash(5);
    return disk.image();
  };
  EXPECT_EQ(play(), play());
}

TEST(CrashDisk, what_a_failed_sync_covered_is_shown_but_not_written_by_the_next) {
  bool lost = false;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CrashDisk disk(seed);
    {
      OpenFile file(disk, "/f");
      file.write(std::string(512, 'o'), 0);
      EXPECT_EQ(file.sync(), SQLITE_OK);
      file.write(std::string(512, 'n'), 0);
      disk.fail_sync(1);
      EXPECT_EQ(file.sync(), SQLITE_IOERR_FSYNC);
      EXPECT_EQ(file.sync(), SQLITE_OK);
      EXPECT_EQ(disk.image()["/f"][0], 'n');
    }
    disk.crash(seed);
    lost |= disk.image()["/f"][0] == 'o';
  }
  EXPECT_TRUE(lost);
}

TEST(CrashDisk, faults_strike_once_and_death_lasts_until_a_restart) {
  CrashDisk disk;
  {
    OpenFile file(disk, "/f");
    disk.fail_write(2);
    EXPECT_EQ(file.write("a", 0), SQLITE_OK);
    EXPECT_EQ(file.write("b", 0), SQLITE_FULL);
    EXPECT_EQ(file.write("c", 0), SQLITE_OK);
    disk.kill_at(2);
    EXPECT_EQ(file.write("d", 0), SQLITE_OK);
    EXPECT_NE(file.write("e", 0), SQLITE_OK);
    EXPECT_TRUE(disk.killed());
    EXPECT_NE(file.sync(), SQLITE_OK);
  }
  disk.restart();
  OpenFile file(disk, "/f");
  EXPECT_EQ(file.sync(), SQLITE_OK);
}

}  // namespace
}  // namespace pawl::test
