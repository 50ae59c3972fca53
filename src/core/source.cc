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

}  // namespace pawl
