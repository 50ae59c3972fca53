// How pawl ends. Scripts rely on these numbers; docs/cli.md lists them.
#pragma once

namespace pawl {

enum ExitCode : int {
  exit_success = 0,
  exit_ended_badly = 1,  // a run failed, timed out or was canceled; verify found problems
  exit_usage = 2,        // wrong arguments, or a definition that does not validate
  exit_denied = 3,       // a policy or a person said no
  exit_not_found = 4,    // no such run, file or folder
  exit_waiting = 5,      // someone must decide or answer, and nobody here can
  exit_internal = 70,    // a bug in pawl
  exit_store_failure = 74,
  exit_busy = 75,  // another process writes the data folder
  exit_interrupted = 130
};

}  // namespace pawl
