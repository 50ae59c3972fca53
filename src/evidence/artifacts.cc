#include "evidence/artifacts.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "evidence/whole_file.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

class FolderArtifacts final : public Artifacts {
 public:
  explicit FolderArtifacts(fs::path folder) : folder_(std::move(folder)) {}

  std::string put(const std::string& name, std::string_view bytes) override {
    const fs::path path = folder_ / name;
    make_folders(path.parent_path());
    try {
      WholeFile(path, bytes).replace();
    } catch (const std::system_error& error) {
      throw ArtifactFailure(fmt::format("{} cannot be written: {}", path.string(), error.code().message()));
    }
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
