// Folders that only their owner may enter, whatever the umask says.
#pragma once

#include <filesystem>
#include <system_error>

namespace pawl {

// Makes the folder and those above it that are missing, each with mode 0700. A folder that is there keeps its mode.
void make_private_folders(const std::filesystem::path& folder, std::error_code& error);

}  // namespace pawl
