#include "evidence/artifacts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace pawl {
namespace {

namespace fs = std::filesystem;

class FolderArtifacts final : public Artifacts {
 public:
  explicit FolderArtifacts(fs::path folder) : folder_(std::move(folder)) {}

  std::string put(const std::string& name, std::string_view bytes) override {
    const fs::path path = folder_ / name;
    make_folders(path.parent_path());
    const fs::path draft = fmt::format("{}.{}.new", path.string(), ::getpid());
    write(draft, bytes);
    if (::rename(draft.c_str(), path.c_str()) != 0) fail(path);
    sync_folder(path.parent_path());
    return fs::absolute(path).string();
  }

 private:
  [[noreturn]] static void fail(const fs::path& path) {
    throw ArtifactFailure(fmt::format("{} cannot be written: {}", path.string(), std::strerror(errno)));
  }

  void make_folders(const fs::path& folder) {
    if (fs::exists(folder)) return;
    make_folders(folder.parent_path());
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) fail(folder);
  }

  static void write(const fs::path& path, std::string_view bytes) {
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0) fail(path);
    bool is_written = true;
    while (is_written && !bytes.empty()) {
      const ssize_t count = ::write(file, bytes.data(), bytes.size());
      is_written = count > 0;
      if (is_written) bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    is_written = is_written && ::fsync(file) == 0;
    const int error = errno;
    ::close(file);
    errno = error;
    if (!is_written) fail(path);
  }

  static void sync_folder(const fs::path& folder) {
    const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file < 0) fail(folder);
    ::fsync(file);
    ::close(file);
  }

  fs::path folder_;
};

}  // namespace

std::unique_ptr<Artifacts> make_folder_artifacts(fs::path folder) {
  return std::make_unique<FolderArtifacts>(std::move(folder));
}

std::unique_ptr<Artifacts> make_artifacts(const std::string& setting, const std::string& endpoint,
                                          const fs::path& usual_folder) {
  if (setting.starts_with("s3://")) return make_s3_artifacts(find_s3_options(setting, endpoint));
  if (setting.find("://") != setting.npos)
    throw ArtifactFailure(fmt::format("{} is neither a folder nor s3://bucket/prefix", setting));
  return make_folder_artifacts(setting.empty() ? usual_folder : fs::path(setting));
}

}  // namespace pawl
