#include "measure.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

namespace {
std::atomic<std::uint64_t> sync_calls{0};
}  // namespace

// Linked before the C library's, so that SQLite's syncs are counted where they happen.
extern "C" int fsync(int fd) {
  sync_calls.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int>(syscall(SYS_fsync, fd));
}
extern "C" int fdatasync(int fd) {
  sync_calls.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}

namespace pawl::bench {

double cpu_seconds_now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  double size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

std::uint64_t syncs() { return sync_calls.load(); }

}  // namespace pawl::bench
