// In the simulator an invariant of pawl's own that does not hold is a finding, not the end of the process.
#include "core/invariant.h"

#include "simulator/failure.h"

namespace pawl {

void invariant_failed(std::string_view what, std::source_location where) {
  std::string_view file(where.file_name());
  file.remove_prefix(file.rfind('/') + 1);
  throw simulator::Broken("pawl's own invariant",
                          std::string(what) + " (" + std::string(file) + ":" + std::to_string(where.line()) + ")");
}

}  // namespace pawl
