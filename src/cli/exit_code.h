// How pawl ends. Scripts rely on these numbers; docs/cli.md lists them.
#pragma once

#include <array>
#include <string_view>

namespace pawl {

enum ExitCode : int {
  exit_success = 0,
  exit_ended_badly = 1,
  exit_usage = 2,
  exit_denied = 3,
  exit_not_found = 4,
  exit_waiting = 5,
  exit_internal = 70,
  exit_store_failure = 74,
  exit_busy = 75,
  exit_interrupted = 130
};

struct ExitMeaning {
  ExitCode code;
  std::string_view means;
};

inline constexpr std::array exit_meanings{
    ExitMeaning{exit_success, "success"},
    ExitMeaning{exit_ended_badly, "the run failed, timed out or was canceled; verify found problems"},
    ExitMeaning{exit_usage, "wrong arguments, or a definition or input that does not validate"},
    ExitMeaning{exit_denied, "denied or rejected, by a policy, a person or the server"},
    ExitMeaning{exit_not_found, "no such run, workflow, file or folder"},
    ExitMeaning{exit_waiting, "waiting for someone: no terminal, no flag, or left for later"},
    ExitMeaning{exit_internal, "internal error: a bug in pawl"},
    ExitMeaning{exit_store_failure, "the store failed (disk, database)"},
    ExitMeaning{exit_busy, "another process has the data folder, or the server does not answer"},
    ExitMeaning{exit_interrupted, "interrupted; the run can be resumed"},
};

}  // namespace pawl
