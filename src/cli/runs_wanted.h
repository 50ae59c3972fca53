// Which runs a list is of.
#pragma once

#include <optional>

#include "core/provider.h"
#include "core/run_lifecycle.h"

namespace pawl {

struct RunsWanted {
  std::optional<RunStatus> status;
  std::optional<SubState> sub_state;
  std::optional<Provider> provider;
  int retries_min = 0;

  // A status alone is all that rows are needed for.
  bool is_by_status() const { return !sub_state && !provider && retries_min == 0; }
};

}  // namespace pawl
