// SIGTERM, SIGINT and SIGHUP for commands that stay: the first asks for an orderly end, the second ends the process.
#pragma once

#include <signal.h>

#include <chrono>
#include <functional>
#include <optional>
#include <thread>

#include "cli/exit_code.h"

namespace pawl {

class StopSignals {
 public:
  // Before any thread is made, so that all of them leave these signals to this.
  StopSignals();

  // As long as what it gives is there, a signal ends the process with exit_success; `say` comes before. For the time in
  // which nothing is under way that would have to be ended.
  std::jthread end_process_meanwhile(std::function<void(int signal)> say) const;

  // The signal that came, or nothing when the time is over.
  std::optional<int> wait(std::chrono::nanoseconds at_most);
  int wait();

  // From now on, a signal ends the process with exit_interrupted, whatever it is doing.
  void next_one_ends();

 private:
  sigset_t signals_;
};

}  // namespace pawl
