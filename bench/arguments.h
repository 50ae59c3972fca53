// What every benchmark is told on its command line: [--json] [--quick] [--folder DIR] [--pawl FILE] [NAME...]
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/figures.h"

namespace pawl::bench {

struct Arguments {
  ReportStyle style = ReportStyle::markdown;
  bool quick = false;
  std::filesystem::path self;    // this program
  std::filesystem::path pawl;    // the one beside it, unless told otherwise
  std::filesystem::path parent;  // of all folders to measure in
  std::vector<std::string> names;

  // Without names, all are meant.
  bool wants(std::string_view name) const;
};

// Nothing, after saying how it is used, when something is not understood.
std::optional<Arguments> read_arguments(int argc, char** argv, std::span<const std::string_view> names,
                                        const char* usage);

}  // namespace pawl::bench
