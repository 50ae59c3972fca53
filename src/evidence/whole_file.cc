#include "evidence/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <utility>

namespace pawl {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path) { throw std::system_error(errno, std::generic_category(), path.string()); }

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

void sync_folder_of(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) fail(folder);
  const bool is_synced = ::fsync(file) == 0;
  const int error = errno;
  ::close(file);
  errno = error;
  if (!is_synced) fail(folder);
}

}  // namespace

WholeFile::WholeFile(fs::path place, std::string_view bytes) : place_(std::move(place)) {
  std::string name = place_.string() + ".new-XXXXXX";
  const int file = ::mkostemp(name.data(), O_CLOEXEC);  // mode 0600
  if (file < 0) fail(place_);
  draft_ = name;
  const bool is_written = write_all(file, bytes) && ::fsync(file) == 0;
  const int error = errno;
  ::close(file);
  if (is_written) return;
  ::unlink(name.c_str());
  errno = error;
  fail(place_);
}

WholeFile::~WholeFile() {
  if (!draft_.empty()) ::unlink(draft_.c_str());
}

void WholeFile::replace() {
  if (::rename(draft_.c_str(), place_.c_str()) != 0) fail(place_);
  draft_.clear();
  sync_folder_of(place_);
}

bool WholeFile::put() {
  // Linked, not renamed: whoever was faster keeps its place.
  if (::link(draft_.c_str(), place_.c_str()) != 0) {
    if (errno == EEXIST) return false;
    fail(place_);
  }
  sync_folder_of(place_);
  return true;
}

}  // namespace pawl
