#include "tools/jq_pool.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <system_error>

#include "process/process.h"
#include "tools/jq_child.h"

namespace pawl {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t idle_children_max = 4;
// Afterwards a new one: what libjq leaks stays bounded.
constexpr int requests_per_child_max = 1000;
// Beyond the results themselves.
constexpr std::size_t reply_slack_bytes = 64 * 1024;

std::string bytes_of(const auto& header) { return std::string(reinterpret_cast<const char*>(&header), sizeof header); }

}  // namespace

class JqPool::Child {
 public:
  static std::unique_ptr<Child> start() {
    auto sockets = make_socket_pair();
    const auto nowhere = open_null_device();
    auto process = Process::spawn({.argv = {"/proc/self/exe", std::string(jq_child_argument)},
                                   .environment = {},
                                   .directory = {},
                                   .stdin_fd = sockets.theirs.get(),
                                   .stdout_fd = sockets.theirs.get(),
                                   .stderr_fd = nowhere.get()});
    if (!process) throw std::system_error(process.error().error, std::generic_category(), "jq helper");
    return std::unique_ptr<Child>(new Child(std::move(*process), std::move(sockets.ours)));
  }

  enum class Lost { died, overran, stopped };

  // Sends the request and fills reply and text. After a loss the child is of no further use.
  std::optional<Lost> exchange(std::string_view request, const JqLimits& limits, const std::stop_token& stop);

  // How a child that died ended, as waitpid says it.
  std::optional<int> end() { return process_.kill_and_reap(); }
  bool is_worn() const { return requests_ >= requests_per_child_max; }
  bool is_alive() const {
    pollfd ended{.fd = process_.ended_fd(), .events = POLLIN, .revents = 0};
    return ::poll(&ended, 1, 0) == 0;
  }

  const JqReply& reply() const { return reply_; }
  std::string& text() { return text_; }

 private:
  Child(Process process, Descriptor socket) : process_(std::move(process)), socket_(std::move(socket)) {}

  std::optional<Lost> send_some(std::string_view& rest);
  std::optional<Lost> receive_some(std::size_t text_bytes_max);
  bool is_complete() const { return received_ >= sizeof reply_ && text_.size() == reply_.text_bytes; }

  Process process_;
  Descriptor socket_;
  int requests_ = 0;
  std::size_t received_ = 0;
  JqReply reply_;
  std::string text_;
};

std::optional<JqPool::Child::Lost> JqPool::Child::exchange(std::string_view request, const JqLimits& limits,
                                                           const std::stop_token& stop) {
  ++requests_;
  received_ = 0;
  text_.clear();
  const StopEvent stop_event(stop);
  const auto deadline = steady_clock::now() + limits.wall_max;
  while (!request.empty() || !is_complete()) {
    const auto left = std::chrono::ceil<Duration>(deadline - steady_clock::now());
    if (left <= Duration::zero()) return Lost::overran;
    const short want = request.empty() ? POLLIN : static_cast<short>(POLLIN | POLLOUT);
    pollfd waits[] = {{.fd = socket_.get(), .events = want, .revents = 0},
                      {.fd = stop_event.fd(), .events = POLLIN, .revents = 0}};
    if (::poll(waits, std::size(waits), static_cast<int>(left.count())) < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "poll");
    if (waits[1].revents) return Lost::stopped;
    if (waits[0].revents & POLLOUT)
      if (const auto lost = send_some(request)) return lost;
    if (waits[0].revents & (POLLIN | POLLHUP | POLLERR))
      if (const auto lost = receive_some(limits.output_bytes_max + reply_slack_bytes)) return lost;
  }
  return std::nullopt;
}

std::optional<JqPool::Child::Lost> JqPool::Child::send_some(std::string_view& rest) {
  const auto sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (sent >= 0)
    rest.remove_prefix(static_cast<std::size_t>(sent));
  else if (errno != EAGAIN && errno != EINTR)
    return Lost::died;
  return std::nullopt;
}

std::optional<JqPool::Child::Lost> JqPool::Child::receive_some(std::size_t text_bytes_max) {
  char buffer[64 * 1024];
  const auto got = ::recv(socket_.get(), buffer, sizeof buffer, 0);
  if (got < 0) return errno == EAGAIN || errno == EINTR ? std::nullopt : std::optional(Lost::died);
  if (got == 0) return Lost::died;
  std::string_view fresh(buffer, static_cast<std::size_t>(got));
  if (received_ < sizeof reply_) {
    const auto part = fresh.substr(0, sizeof reply_ - received_);
    std::memcpy(reinterpret_cast<char*>(&reply_) + received_, part.data(), part.size());
    received_ += part.size();
    fresh.remove_prefix(part.size());
  }
  text_ += fresh;
  // A helper that answers more than was asked for is not ours, or no longer in its senses.
  const bool header_known = received_ == sizeof reply_;
  if (header_known && (reply_.text_bytes > text_bytes_max || text_.size() > reply_.text_bytes)) return Lost::died;
  return std::nullopt;
}

JqPool::JqPool(const JqLimits& limits) : limits_(limits) {}
JqPool::~JqPool() = default;

std::unique_ptr<JqPool::Child> JqPool::take() {
  {
    const std::lock_guard lock(mutex_);
    while (!idle_.empty()) {
      auto child = std::move(idle_.back());
      idle_.pop_back();
      // One that someone killed meanwhile must not fail the next step.
      if (child->is_alive()) return child;
    }
  }
  return Child::start();
}

void JqPool::keep(std::unique_ptr<Child> child) {
  if (child->is_worn()) return;
  const std::lock_guard lock(mutex_);
  if (idle_.size() < idle_children_max) idle_.push_back(std::move(child));
}

struct JqPool::Question {
  std::string_view program;
  std::string_view input;
  bool compiles_only = false;
};

std::expected<JqResults, JqError> JqPool::evaluate(std::string_view program, std::string_view input,
                                                   const std::stop_token& stop) {
  return ask({.program = program, .input = input}, stop);
}

std::expected<void, JqError> JqPool::compile(std::string_view program, const std::stop_token& stop) {
  auto answer = ask({.program = program, .input = {}, .compiles_only = true}, stop);
  if (!answer) return std::unexpected(std::move(answer.error()));
  return {};
}

std::expected<JqResults, JqError> JqPool::ask(const Question& question, const std::stop_token& stop) {
  using Kind = JqError::Kind;
  const JqRequest header{.program_bytes = static_cast<std::uint32_t>(question.program.size()),
                         .input_bytes = static_cast<std::uint32_t>(question.input.size()),
                         .output_bytes_max = static_cast<std::uint32_t>(limits_.output_bytes_max),
                         .cpu_ms_max = static_cast<std::uint32_t>(limits_.cpu_max.count()),
                         .memory_bytes_max = limits_.memory_bytes_max,
                         .compiles_only = question.compiles_only};
  std::string request = bytes_of(header);
  request.append(question.program).append(question.input);

  auto child = take();
  if (const auto lost = child->exchange(request, limits_, stop)) {
    if (*lost == Child::Lost::stopped) return std::unexpected(JqError{Kind::stopped, {}});
    if (*lost == Child::Lost::overran) return std::unexpected(JqError{Kind::wall_time, {}});
    const int status = child->end().value_or(0);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF) return std::unexpected(JqError{Kind::cpu_time, {}});
    const auto how = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                                         : fmt::format("exit code {}", WEXITSTATUS(status));
    return std::unexpected(JqError{Kind::crashed, how});
  }
  switch (child->reply().kind) {
    case JqReply::Kind::results: {
      JqResults results{.count = child->reply().count, .text = std::move(child->text())};
      keep(std::move(child));
      return results;
    }
    case JqReply::Kind::error: {
      JqError error{Kind::program, std::move(child->text())};
      keep(std::move(child));
      return std::unexpected(std::move(error));
    }
    case JqReply::Kind::output_too_large:
      keep(std::move(child));
      return std::unexpected(JqError{Kind::output_too_large, {}});
    case JqReply::Kind::out_of_memory:
      return std::unexpected(JqError{Kind::memory, {}});
  }
  return std::unexpected(JqError{Kind::crashed, "an answer of no known kind"});
}

}  // namespace pawl
