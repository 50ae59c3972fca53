// Loaded before libc: makes the disk under a pawl database fail, once and for ever.
//
//   FAIL_SYNC=N    the N-th and every later fsync or fdatasync fails with EIO
//   FAIL_SPACE=N   the N-th and every later write fails with ENOSPC
//
// Only files whose name holds "pawl.db" are meant.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> syncs, writes;

bool is_database(int fd) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size <= 0) return false;
  path[size] = 0;
  return std::strstr(path, "pawl.db") != nullptr;
}

bool is_over(const char* limit, std::atomic<long>& count, int fd) {
  const char* number = std::getenv(limit);
  return number && is_database(fd) && ++count >= std::atol(number);
}

int fail(int reason) {
  errno = reason;
  return -1;
}

template <class Call>
Call* next(const char* name) {
  return reinterpret_cast<Call*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int fsync(int fd) { return is_over("FAIL_SYNC", syncs, fd) ? fail(EIO) : next<int(int)>("fsync")(fd); }

int fdatasync(int fd) { return is_over("FAIL_SYNC", syncs, fd) ? fail(EIO) : next<int(int)>("fdatasync")(fd); }

ssize_t write(int fd, const void* bytes, size_t size) {
  if (is_over("FAIL_SPACE", writes, fd)) return fail(ENOSPC);
  return next<ssize_t(int, const void*, size_t)>("write")(fd, bytes, size);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) {
  if (is_over("FAIL_SPACE", writes, fd)) return fail(ENOSPC);
  return next<ssize_t(int, const void*, size_t, off_t)>("pwrite")(fd, bytes, size, at);
}

ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t at) {
  if (is_over("FAIL_SPACE", writes, fd)) return fail(ENOSPC);
  return next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(fd, bytes, size, at);
}

}  // extern "C"
