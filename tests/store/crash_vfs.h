// A disk for SQLite that lives in memory and can lose power.
//
// What is written is seen by reads at once, as through the kernel's cache, but is on the disk only after a sync.
// crash() is a power failure: each 512-byte sector that was written and not synced lands or is lost, as the seed
// says. restart() is the death of the process alone: everything written is still there. A failed sync is as bad as
// on Linux: what it covered lands or is lost now, keeps being shown to reads, and a later sync does not write it again.
//
// Deterministic: the same calls with the same seeds give the same disk. One thread; one connection at a time, in
// locking_mode EXCLUSIVE (there is no shared memory).
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace pawl::test {

class CrashDisk {
 public:
  // Files and what is in them.
  using Image = std::map<std::string, std::string>;

  explicit CrashDisk(std::uint64_t seed = 1, const Image& image = {});
  CrashDisk(const CrashDisk&) = delete;
  CrashDisk& operator=(const CrashDisk&) = delete;
  ~CrashDisk();

  // The name to open databases with.
  const std::string& vfs() const { return name_; }

  // Nothing may be open. Both end all faults.
  void crash(std::uint64_t seed);
  void restart();

  // As it is in the cache, and what a power failure would surely leave.
  Image image() const;
  Image durable_image() const;

  // Calls that change something: writes, syncs, truncations, deletions, creations.
  std::uint64_t calls() const { return calls_; }
  std::uint64_t writes() const { return writes_; }
  std::uint64_t syncs() const { return syncs_; }
  std::uint64_t bytes_written() const { return bytes_written_; }

  // The n-th call from now (1 = the next) fails; once.
  void fail_write(std::uint64_t n) { failing_write_ = writes_ + n; }  // SQLITE_FULL
  void fail_sync(std::uint64_t n) { failing_sync_ = syncs_ + n; }     // SQLITE_IOERR_FSYNC
  // From the n-th changing call on, everything fails, until crash() or restart(). A write that dies so may land.
  void kill_at(std::uint64_t n) { killing_call_ = calls_ + n; }
  bool killed() const { return killing_call_ != 0 && calls_ >= killing_call_; }

 private:
  friend struct CrashCalls;  // SQLite's side of it, in the .cc

  struct Change {
    bool truncates = false;
    std::size_t offset = 0;  // the new size, for a truncation
    std::string bytes;
  };
  struct File {
    std::string cached;
    std::string durable;
    std::vector<Change> unsynced;
    bool named_durably = false;  // its directory entry survives a power failure
  };
  using Files = std::map<std::string, std::shared_ptr<File>, std::less<>>;

  enum class Fate { lost, landed, torn };

  // False when the process is dead.
  bool count_call();
  void write(File& file, std::string_view bytes, std::size_t offset);
  void sync(File& file);
  void lose_sync(File& file);
  static void apply(std::string& content, const Change& change, std::size_t from, std::size_t size);
  void settle(File& file, Fate fate, std::mt19937_64& random);

  std::string name_;
  std::unique_ptr<sqlite3_vfs> table_;
  std::mt19937_64 random_;
  Files files_;
  Files removed_;  // that a power failure may bring back
  int open_files_ = 0;

  std::uint64_t calls_ = 0, writes_ = 0, syncs_ = 0, bytes_written_ = 0;
  std::uint64_t failing_write_ = 0, failing_sync_ = 0, killing_call_ = 0;
};

}  // namespace pawl::test
