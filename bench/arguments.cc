#include "arguments.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>

namespace pawl::bench {

namespace fs = std::filesystem;

bool Arguments::wants(std::string_view name) const {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

std::optional<Arguments> read_arguments(int argc, char** argv, std::span<const std::string_view> names,
                                        const char* usage) {
  Arguments out;
  out.self = fs::read_symlink("/proc/self/exe");
  out.pawl = out.self.parent_path().parent_path() / "pawl";
  out.parent = fs::temp_directory_path() / fmt::format("pawl-bench-{}", getpid());
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    bool has_value = i + 1 < argc;
    if (arg == "--json") {
      out.style = ReportStyle::json;
    } else if (arg == "--quick") {
      out.quick = true;
    } else if (arg == "--folder" && has_value) {
      out.parent = argv[++i];
    } else if (arg == "--pawl" && has_value) {
      out.pawl = argv[++i];
    } else if (std::ranges::find(names, arg) != names.end()) {
      out.names.push_back(arg);
    } else {
      fmt::print(stderr, "{}", usage);
      return std::nullopt;
    }
  }
  return out;
}

}  // namespace pawl::bench
