// What systemd wants to know of a service of Type=notify: sd_notify's protocol, which is one datagram a message to the
// socket that $NOTIFY_SOCKET names. Without that variable nothing is sent.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace pawl {

class ServiceManager {
 public:
  // Takes the variables out of the environment: the programs of steps are not this service.
  ServiceManager();

  void say(std::string_view message) const;  // READY=1, STOPPING=1, WATCHDOG=1, STATUS=...
  // How often it wants to hear WATCHDOG=1; nothing when it does not.
  std::optional<std::chrono::microseconds> watchdog() const { return watchdog_; }

 private:
  std::string socket_;
  std::optional<std::chrono::microseconds> watchdog_;
};

}  // namespace pawl
