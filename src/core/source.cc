#include "core/source.h"

namespace pawl {

std::string print_error(std::string_view file, const SourceError& error) {
  std::string out(file);
  out += ':';
  out += std::to_string(error.place.line);
  out += ':';
  out += std::to_string(error.place.column);
  out += ": ";
  out += error.reason;
  return out;
}

std::string print_errors(std::string_view file, const std::vector<SourceError>& errors) {
  std::string lines;
  for (const auto& error : errors) {
    if (!lines.empty()) lines += '\n';
    lines += print_error(file, error);
  }
  return lines;
}

}  // namespace pawl
