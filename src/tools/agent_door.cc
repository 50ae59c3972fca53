#include "tools/agent_door.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <system_error>
#include <vector>

#include "tools/agent_stream.h"
#include "tools/message_id.h"
#include "tools/outcome.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t callers_max = 16;  // an agent and those that it starts
constexpr std::size_t message_bytes_max = std::size_t{1} << 20;
constexpr timeval send_time_max{.tv_sec = 5, .tv_usec = 0};

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

// The name of a socket may have about a hundred bytes, and folders may be deeper than that: it is reached through the
// open folder.
struct ShortName {
  explicit ShortName(const fs::path& socket)
      : folder(::open(socket.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
    if (!folder.is_open()) fail("open the folder of a socket");
    const auto name = fmt::format("/proc/self/fd/{}/{}", folder.get(), socket.filename().string());
    address.sun_family = AF_UNIX;
    if (name.size() >= sizeof address.sun_path) throw std::system_error(ENAMETOOLONG, std::generic_category(), name);
    std::memcpy(address.sun_path, name.c_str(), name.size() + 1);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  Descriptor folder;
  sockaddr_un address{};
};

bool send_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

struct Caller {
  Descriptor socket;
  LineSplitter lines{message_bytes_max};
  MessageIdFinder too_long = {};  // of the message that is going by
};

std::string refusal_of(const MessageIdFinder& message) {
  constexpr int invalid_request = -32600;
  return fmt::format(
      R"({{"jsonrpc":"2.0","id":{},"error":{{"code":{},"message":"This message is longer than {} bytes and was not )"
      R"(read. Send less: write what is long to a file in your folder, and name the file."}}}})",
      message.id(), invalid_request, message_bytes_max);
}

// False when the caller is gone.
bool take(Caller& caller, const AgentDoor::Answer& answer) {
  char buffer[16 << 10];
  const auto got = ::recv(caller.socket.get(), buffer, sizeof buffer, 0);
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  bool is_there = true;
  const auto say = [&](const std::string& said) {
    if (is_there && !said.empty()) is_there = send_all(caller.socket.get(), said + "\n");
  };
  caller.lines.feed(
      {buffer, static_cast<std::size_t>(got)},
      [&](std::string_view line) {
        if (is_there && line.find_first_not_of(" \t\r") != line.npos) say(answer(std::string(line)));
      },
      // Whoever asked waits for an answer, whatever it is.
      [&](std::string_view piece, bool is_end) {
        caller.too_long.feed(piece);
        if (!is_end) return;
        say(refusal_of(caller.too_long));
        caller.too_long = {};
      });
  return is_there;
}

}  // namespace

AgentDoor::AgentDoor(const fs::path& folder, Answer answer)
    : path_(folder / agent_socket_name),
      answer_(std::move(answer)),
      listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  if (!listener_.is_open()) fail("socket");
  std::error_code ignored;
  fs::remove(path_, ignored);
  const ShortName name(path_);
  if (::bind(listener_.get(), name.get(), sizeof name.address) != 0) fail("bind");
  if (::chmod(path_.c_str(), 0600) != 0) fail("chmod");
  if (::listen(listener_.get(), callers_max) != 0) fail("listen");
  thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
}

AgentDoor::~AgentDoor() {
  thread_.request_stop();
  thread_.join();
  std::error_code ignored;
  fs::remove(path_, ignored);
}

void AgentDoor::serve(const std::stop_token& stop) {
  const StopEvent stop_event(stop);
  std::list<Caller> callers;
  while (!stop.stop_requested()) {
    std::vector<pollfd> waits{
        {.fd = stop_event.fd(), .events = POLLIN, .revents = 0},
        {.fd = callers.size() < callers_max ? listener_.get() : -1, .events = POLLIN, .revents = 0}};
    for (const Caller& caller : callers) waits.push_back({.fd = caller.socket.get(), .events = POLLIN, .revents = 0});
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    std::size_t at = 2;
    for (auto caller = callers.begin(); caller != callers.end(); ++at)
      caller = waits[at].revents && !take(*caller, answer_) ? callers.erase(caller) : std::next(caller);
    if (!waits[1].revents) continue;
    Descriptor accepted(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!accepted.is_open()) continue;
    ::setsockopt(accepted.get(), SOL_SOCKET, SO_SNDTIMEO, &send_time_max, sizeof send_time_max);
    callers.push_back({.socket = std::move(accepted)});
  }
}

Descriptor open_agent_door(const fs::path& socket) {
  Descriptor out(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!out.is_open()) fail("socket");
  const ShortName name(socket);
  if (::connect(out.get(), name.get(), sizeof name.address) != 0) fail("connect");
  return out;
}

}  // namespace pawl
