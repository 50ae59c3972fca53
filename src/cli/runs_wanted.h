// Which runs a list is of.
#pragma once

#include <optional>
#include <string>

#include "core/id.h"
#include "core/names.h"
#include "core/provider.h"
#include "core/run_lifecycle.h"
#include "core/time.h"

namespace pawl {

struct RunsWanted {
  std::optional<RunStatus> status;
  std::optional<SubState> sub_state;
  std::optional<Provider> provider;
  int retries_min = 0;
  std::string workflow;
  std::string workspace;
  std::string error_code;
  std::string text;  // in the id, the workflow's name or the error code
  std::optional<Instant> since;
  std::optional<Instant> until;

  // A status alone is all that rows are needed for.
  bool is_by_status() const {
    return !sub_state && !provider && retries_min == 0 && workflow.empty() && workspace.empty() && error_code.empty() &&
           text.empty() && !since && !until;
  }
};

}  // namespace pawl
