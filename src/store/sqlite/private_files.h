// A data folder is its owner's only. pawl makes files with mode 0600 and folders with mode 0700; what an older version
// made, or a person restored or copied, may be open to others, and is closed when the folder is opened for writing.
#pragma once

#include <filesystem>
#include <vector>

namespace pawl::sqlite {

// Takes the rights of group and others away from the folder, from the files of pawl in it, and from its folders
// together with all that is in them. The content of a folder that is closed already is left as it is: nobody else
// reaches it, and the start of a server does not walk through a million files. Symbolic links are not followed.
// Gives what was open. Throws StoreFailure when something that others may use belongs to another user.
std::vector<std::filesystem::path> make_private(const std::filesystem::path& folder);

}  // namespace pawl::sqlite
