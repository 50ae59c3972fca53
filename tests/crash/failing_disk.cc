// Loaded before libc: makes the disk under a pawl database fail, once and for ever, or ends the process at a certain
// moment of its dealings with the disk.
//
//   FAIL_SYNC=N    the N-th and every later fsync or fdatasync fails with EIO
//   FAIL_SPACE=N   the N-th and every later write fails with ENOSPC
//   KILL_AT=N      before the N-th call that changes a file or which files there are, the process is killed
//
// Only files whose name holds "pawl.db" are meant.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> syncs, writes, changes;

bool is_database(const char* path) { return std::strstr(path, "pawl.db") != nullptr; }

bool is_database(int fd) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path - 1);
  if (size <= 0) return false;
  path[size] = 0;
  return is_database(path);
}

template <class File>
void may_be_killed(File file) {
  const char* number = std::getenv("KILL_AT");
  if (number && is_database(file) && ++changes == std::atol(number)) ::kill(::getpid(), SIGKILL);
}

bool is_over(const char* limit, std::atomic<long>& count, int fd) {
  may_be_killed(fd);
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

int ftruncate(int fd, off_t size) {
  may_be_killed(fd);
  return next<int(int, off_t)>("ftruncate")(fd, size);
}

int ftruncate64(int fd, off64_t size) {
  may_be_killed(fd);
  return next<int(int, off64_t)>("ftruncate64")(fd, size);
}

int unlink(const char* path) {
  may_be_killed(path);
  return next<int(const char*)>("unlink")(path);
}

int remove(const char* path) {
  may_be_killed(path);
  return next<int(const char*)>("remove")(path);
}

int rename(const char* from, const char* to) {
  may_be_killed(to);
  return next<int(const char*, const char*)>("rename")(from, to);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (flags & O_CREAT) may_be_killed(path);
  return next<int(const char*, int, ...)>("open64")(path, flags, mode);
}

}  // extern "C"
