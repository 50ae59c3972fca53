#include "cli/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "process/descriptor.h"

namespace pawl {
namespace {

std::string take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::string out = value ? value : "";
  ::unsetenv(name);
  return out;
}

std::optional<long> number_in(const std::string& text) {
  long out = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out > 0 ? std::optional(out) : std::nullopt;
}

}  // namespace

ServiceManager::ServiceManager() : socket_(take_variable("NOTIFY_SOCKET")) {
  auto process = number_in(take_variable("WATCHDOG_PID"));
  auto period = number_in(take_variable("WATCHDOG_USEC"));
  if (period && (!process || *process == ::getpid())) watchdog_ = std::chrono::microseconds(*period);
}

void ServiceManager::say(std::string_view message) const {
  sockaddr_un address{};
  if (socket_.empty() || socket_.size() >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (socket_.front() == '@') address.sun_path[0] = '\0';  // the abstract namespace
  Descriptor sender(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  // Nothing to be done when it fails: the manager will see that it heard nothing.
  (void)!::sendto(sender.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                  reinterpret_cast<const sockaddr*>(&address), size);
}

}  // namespace pawl
