#include "secrets/command.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "process/process.h"

namespace pawl {
namespace {

using std::chrono::steady_clock;

// Until the other end is closed. False when the time was up, or it is too much.
bool read_to_end(int fd, std::string& out, steady_clock::time_point deadline, std::size_t bytes_max) {
  while (out.size() <= bytes_max) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
    if (left <= 0) return false;
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, static_cast<int>(left)) < 0 && errno != EINTR) return false;
    if (!wait.revents) continue;
    char buffer[4096];
    const auto got = ::read(fd, buffer, sizeof buffer);
    if (got == 0) return true;
    if (got > 0) out.append(buffer, static_cast<std::size_t>(got));
  }
  return false;
}

}  // namespace

std::expected<std::string, std::string> ask_program(const std::vector<std::string>& argv,
                                                    std::chrono::milliseconds time_max, std::size_t bytes_max) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry; ++entry) environment.emplace_back(*entry);
  auto out_pipe = make_pipe();
  const auto nothing = open_null_device();
  auto process = Process::spawn({.argv = argv,
                                 .environment = std::move(environment),
                                 .directory = {},
                                 .stdin_fd = nothing.get(),
                                 .stdout_fd = out_pipe.write_end.get(),
                                 .stderr_fd = nothing.get(),
                                 .dies_with_thread = true});
  if (!process)
    return std::unexpected("could not be started: " + std::generic_category().message(process.error().error));
  out_pipe.write_end.close();
  const auto deadline = steady_clock::now() + time_max;
  std::string out;
  const bool ended = read_to_end(out_pipe.read_end.get(), out, deadline, bytes_max);
  if (!ended)
    return std::unexpected(out.size() > bytes_max ? fmt::format("printed more than {} bytes", bytes_max)
                                                  : fmt::format("did not end within {} ms", time_max.count()));
  // It has closed its stdout; it may still have to say how it ended.
  pollfd wait{.fd = process->ended_fd(), .events = POLLIN, .revents = 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
  if (::poll(&wait, 1, static_cast<int>(std::max<decltype(left)>(left, 1))) <= 0)
    return std::unexpected(fmt::format("did not end within {} ms", time_max.count()));
  const int status = process->kill_and_reap().value_or(SIGKILL);
  if (WIFSIGNALED(status)) return std::unexpected(fmt::format("was killed by signal {}", WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) return std::unexpected(fmt::format("exited with {}", WEXITSTATUS(status)));
  return out;
}

}  // namespace pawl
