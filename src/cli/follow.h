// Stays with runs until each has ended, or waits for someone who is not here: shows progress, asks, obeys signals.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/exit_code.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

namespace pawl {

// SIGINT and its kin arrive where follow() looks for them, not in the middle of something. Before any thread starts.
void block_signals();

struct FollowOptions {
  std::filesystem::path folder;
  // Given with a flag: every approval is decided so, without asking.
  std::optional<bool> approve;
  std::string reason;
  bool json = false;
  bool no_colour = false;
};
FollowOptions follow_options(std::filesystem::path folder, const ProgressFlags& flags);

// The runs as they are known now; a run that was just made may have seq 0. Starts the session's workers, and stops the
// session before it returns.
ExitCode follow(Session& session, std::vector<Run> runs, const FollowOptions& options);

}  // namespace pawl
