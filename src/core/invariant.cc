#include "core/invariant.h"

#include <cstdio>
#include <cstdlib>

namespace pawl {

void invariant_failed(std::string_view what, std::source_location where) {
  std::fprintf(
      stderr,
      "pawl: invariant broken: %.*s (%s:%u)\npawl: this is a bug; the process stops so that the journal stays right\n",
      static_cast<int>(what.size()), what.data(), where.file_name(), where.line());
  std::abort();
}

}  // namespace pawl
