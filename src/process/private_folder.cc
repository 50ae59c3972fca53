#include "process/private_folder.h"

#include <sys/stat.h>

#include <cerrno>

namespace pawl {

void make_private_folders(const std::filesystem::path& folder, std::error_code& error) {
  if (std::filesystem::is_directory(folder, error)) return;
  error.clear();
  if (folder.has_parent_path() && folder.parent_path() != folder) make_private_folders(folder.parent_path(), error);
  if (error || folder.filename().empty()) return;
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) error.assign(errno, std::generic_category());
}

}  // namespace pawl
