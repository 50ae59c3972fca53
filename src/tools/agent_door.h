// The way from an agent to this server's tools that needs no network: a socket in a folder that the agent sees, for the
// time of one attempt. Who can open it speaks for that attempt, one JSON-RPC message a line.
#pragma once

#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "process/descriptor.h"

namespace pawl {

inline constexpr std::string_view agent_socket_name = "mcp.sock";

class AgentDoor {
 public:
  // What is said to a line; empty: nothing. Called on the door's own thread, one line at a time.
  using Answer = std::function<std::string(const std::string& line)>;

  // Throws std::system_error when the socket cannot be made. `folder` is there.
  AgentDoor(const std::filesystem::path& folder, Answer answer);
  AgentDoor(const AgentDoor&) = delete;
  AgentDoor& operator=(const AgentDoor&) = delete;
  ~AgentDoor();

  const std::filesystem::path& path() const { return path_; }

 private:
  void serve(const std::stop_token& stop);

  const std::filesystem::path path_;
  const Answer answer_;
  Descriptor listener_;
  std::jthread thread_;
};

// The other side of it. Throws std::system_error.
Descriptor open_agent_door(const std::filesystem::path& socket);

}  // namespace pawl
