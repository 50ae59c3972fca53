#include "store/sqlite/private_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "store/store.h"

namespace pawl::sqlite {
namespace {

namespace fs = std::filesystem;

constexpr ::mode_t rights_of_others = 077;

// What pawl keeps in a data folder. A person may keep other things there, which are none of its business.
// The signing key is not among them: who finds it open to others must rotate it, and is told so
// (evidence/signing_keys).
constexpr std::array<std::string_view, 17> own_names = {
    "pawl.db",         "pawl.db-wal",     "pawl.db-shm", "pawl.db-sums", "pawl.db.new", "pawl.db.new-journal",
    "pawl.db.new-wal", "pawl.db.new-shm", "lock",        "secret",       "admin.key",   "server.json",
    "pawl.yaml",       "evidence",        "logs",        "agents",       "processes"};

// Without following a link in its place, however fast somebody puts one there.
class Entry {
 public:
  explicit Entry(const fs::path& path) : path_(path), file_(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC)) {
    if (file_ < 0 || ::fstat(file_, &stat_) != 0 || S_ISLNK(stat_.st_mode)) is_there_ = false;
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() {
    if (file_ >= 0) ::close(file_);
  }

  bool is_open_to_others() const { return is_there_ && (stat_.st_mode & rights_of_others) != 0; }
  bool is_folder() const { return S_ISDIR(stat_.st_mode); }

  void close_to_others() const {
    const std::string self = fmt::format("/proc/self/fd/{}", file_);
    if (::chmod(self.c_str(), stat_.st_mode & 07700) == 0) return;
    throw StoreFailure(fmt::format(
        "other users may use {} (mode {:04o}), and this user cannot change that: {}. It belongs to user {}: start pawl "
        "as that user, or let root run `chown` and `chmod go=` on it.",
        path_.string(), stat_.st_mode & 07777, std::strerror(errno), stat_.st_uid));
  }

 private:
  const fs::path& path_;
  int file_;
  bool is_there_ = true;
  struct ::stat stat_ = {};
};

// The folder last: who is interrupted finds it open, and begins again.
void close_all(const fs::path& path, std::vector<fs::path>& closed) {
  const Entry entry(path);
  if (!entry.is_open_to_others()) return;
  if (entry.is_folder()) {
    std::error_code error;
    for (fs::directory_iterator each(path, error), end; !error && each != end; each.increment(error))
      close_all(each->path(), closed);
  }
  entry.close_to_others();
  closed.push_back(path);
}

}  // namespace

std::vector<fs::path> make_private(const fs::path& folder) {
  std::vector<fs::path> closed;
  for (std::string_view name : own_names) close_all(folder / name, closed);
  // Workspaces hold what steps made, with the modes that these gave it: closing the folders above is enough.
  for (const fs::path& path : {folder / "workspaces", folder})
    if (const Entry entry(path); entry.is_open_to_others()) {
      entry.close_to_others();
      closed.push_back(path);
    }
  return closed;
}

}  // namespace pawl::sqlite
