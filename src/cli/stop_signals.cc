#include "cli/stop_signals.h"

#include <cstdlib>

namespace pawl {

StopSignals::StopSignals() {
  sigemptyset(&signals_);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, signal);
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
}

std::optional<int> StopSignals::wait(std::chrono::nanoseconds at_most) {
  timespec time{.tv_sec = at_most.count() / 1'000'000'000, .tv_nsec = at_most.count() % 1'000'000'000};
  int signal = sigtimedwait(&signals_, nullptr, &time);
  return signal > 0 ? std::optional(signal) : std::nullopt;
}

int StopSignals::wait() {
  int signal = 0;
  sigwait(&signals_, &signal);
  return signal;
}

std::jthread StopSignals::end_process_meanwhile(std::function<void(int signal)> say) const {
  return std::jthread([signals = signals_, say = std::move(say)](const std::stop_token& stop) {
    constexpr timespec a_moment{.tv_sec = 0, .tv_nsec = 10'000'000};
    while (!stop.stop_requested())
      if (int signal = sigtimedwait(&signals, nullptr, &a_moment); signal > 0) {
        say(signal);
        std::_Exit(exit_success);
      }
  });
}

void StopSignals::next_one_ends() {
  std::thread([signals = signals_] {
    int signal = 0;
    sigwait(&signals, &signal);
    std::_Exit(exit_interrupted);
  }).detach();
}

}  // namespace pawl
