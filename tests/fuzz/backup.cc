// The archive of a backup, as `pawl restore` reads it: what is not whole gives no manifest, and nothing has a name that
// leads out of the folder.
#include <sstream>

#include "cli/backup_archive.h"
#include "fuzz.h"

namespace pawl::fuzz {

FUZZ_TARGET(backup) {
  std::istringstream in{std::string(input)};
  std::size_t members = 0;
  try {
    const auto manifest = extract_archive(in, [&](const std::string& name) -> Sink {
      check(("/" + name + "/").find("/../") == std::string::npos && !name.starts_with('/'), "a member stays inside");
      ++members;
      return [](std::string_view) {};
    });
    check(manifest.at("files").as_array().size() == members, "the manifest names every member");
  } catch (const ArchiveFailure&) {
  }
}

}  // namespace pawl::fuzz
