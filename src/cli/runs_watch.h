// pawl runs --watch.
#pragma once

#include "cli/commands.h"
#include "cli/run_rows.h"

namespace pawl {

// Until it is interrupted, or a person presses q. A server that is away for a while is waited for.
ExitCode watch_runs(const RunRows& source, const RunsOptions& options);

}  // namespace pawl
