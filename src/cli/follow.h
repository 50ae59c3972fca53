// Stays with runs until each has ended, or waits for someone who is not here: shows progress, asks, obeys signals.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/carrier.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/folder.h"

namespace pawl {

struct FollowOptions {
  Location location;
  // Given with a flag: every approval is decided so, without asking.
  std::optional<bool> approve;
  std::string reason;
  bool json = false;
  bool no_colour = false;
};
FollowOptions follow_options(Location location, const ProgressFlags& flags);

// The runs as they are known now; a run that was just made may have seq 0. Starts the carrier, and stops it before it
// returns. Signals are blocked (signals.h).
ExitCode follow(Carrier& carrier, std::vector<Run> runs, const FollowOptions& options);

}  // namespace pawl
