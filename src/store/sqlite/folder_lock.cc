#include "store/sqlite/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "store/sqlite/private_files.h"
#include "store/store.h"

namespace pawl::sqlite {
namespace {

[[noreturn]] void fail(std::string_view what, const std::filesystem::path& path) {
  throw StoreFailure(fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(errno)));
}

std::string holder_of(int file) {
  char text[32] = {};
  auto size = ::pread(file, text, sizeof text - 1, 0);
  std::string pid(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  while (!pid.empty() && (pid.back() == '\n' || pid.back() == ' ')) pid.pop_back();
  return pid.empty() ? "another process" : "process " + pid;
}

}  // namespace

void make_folder(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0) {
    if (errno != EEXIST) fail("make the data folder", folder);
    make_private(folder);
    return;
  }
  // A folder that a power failure can take back would take the journal with it.
  sync_folder(folder / "..");
}

void sync_folder(const std::filesystem::path& folder) {
  int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) fail("open the folder", folder);
  bool synced = ::fsync(file) == 0;
  int reason = errno;
  ::close(file);
  errno = reason;
  if (!synced) fail("sync the folder", folder);
}

namespace {

bool is_locked(const std::filesystem::path& path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  bool locked = ::flock(file, LOCK_SH | LOCK_NB) != 0;
  ::close(file);
  return locked;
}

// The same file in two folders has two locks, and two servers would write it.
void refuse_links(const std::filesystem::path& folder) {
  for (const char* name : {"pawl.db", "pawl.db-wal"}) {
    struct ::stat stat = {};
    const auto path = folder / name;
    if (::lstat(path.c_str(), &stat) != 0) continue;
    if (S_ISLNK(stat.st_mode))
      throw StoreFailure(fmt::format(
          "{} is a link to a file in another folder, and another server could write it there. Move the file here, or "
          "use the folder that holds it; the data folder itself may be a link.",
          path.string()));
    if (stat.st_nlink <= 1) continue;
    throw StoreFailure(fmt::format(
        "{} has {} hard links, so another folder holds the same file (made by `cp -al`, for example) and another "
        "server could write it. Copy the folder with `pawl backup`, or with `cp -a` while no server runs, and use the "
        "copy.",
        path.string(), stat.st_nlink));
  }
}

}  // namespace

bool is_folder_locked(const std::filesystem::path& folder) { return is_locked(folder / "lock") || is_locked(folder); }

FolderLock::FolderLock(const std::filesystem::path& folder) {
  auto path = folder / "lock";
  try {
    folder_ = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_ < 0) fail("open", folder);
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file_ < 0) fail("open", path);
    for (int file : {folder_, file_}) {
      if (::flock(file, LOCK_EX | LOCK_NB) == 0) continue;
      if (errno != EWOULDBLOCK) fail("lock", file == file_ ? path : folder);
      throw StoreFailure(fmt::format("{} is already in use by {}. Stop it first, or use another data folder.",
                                     folder.string(), holder_of(file_)));
    }
    refuse_links(folder);
    std::string pid = fmt::format("{}\n", ::getpid());
    if (::ftruncate(file_, 0) != 0 || ::pwrite(file_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
      fail("write", path);
  } catch (const StoreFailure&) {
    release();
    throw;
  }
}

FolderLock::~FolderLock() { release(); }

void FolderLock::release() {
  for (int file : {file_, folder_})
    if (file >= 0) ::close(file);
}

}  // namespace pawl::sqlite
