#include "cli/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "cli/exit_code.h"
#include "cli/terminal.h"

namespace pawl {
namespace {

sigset_t watched_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP}) ::sigaddset(&set, signal);
  return set;
}

void end_at_once_when_insisted() {
  struct sigaction at_once {};
  at_once.sa_handler = [](int) {
    restore_terminal();
    std::_Exit(exit_interrupted);
  };
  ::sigaction(SIGINT, &at_once, nullptr);
  sigset_t only;
  ::sigemptyset(&only);
  ::sigaddset(&only, SIGINT);
  ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
}

}  // namespace

void block_signals() {
  sigset_t set = watched_signals();
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

Signals::Signals() {
  sigset_t set = watched_signals();
  file_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

Signals::Taken Signals::take() {
  Taken out;
  signalfd_siginfo info;
  while (::read(file_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGWINCH) {
      out.resized = true;
    } else if (info.ssi_signo == SIGTSTP) {
      out.suspended = true;
    } else {
      out.interrupted = true;
      end_at_once_when_insisted();
    }
  }
  return out;
}

}  // namespace pawl
