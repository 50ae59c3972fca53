// pawl mcp: the server's tools for agents, on stdin and stdout. One JSON-RPC message a line is handed to the server's
// /mcp, and its answer written as one line: all transports are one implementation. With a socket that pawl made for an
// agent, both only pass lines on.
#include "api/mcp.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <system_error>

#include "cli/commands.h"
#include "cli/folder.h"
#include "cli/remote.h"
#include "cli/terminal.h"
#include "tools/agent_door.h"

namespace pawl {
namespace {

void print_line(const std::string& line) {
  if (line.empty()) return;
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void hand_over(const Remote& remote, const std::string& line) {
  try {
    std::vector<std::string> headers;
    for (const auto& [name, value] : api::mcp::headers_for(line)) headers.push_back(name + ": " + value);
    const auto answer = remote.exchange("POST", "/mcp", line, headers);
    print_line(api::mcp::line_for(line, static_cast<int>(answer.status), answer.body));
  } catch (const Stop& stop) {
    const auto said = api::mcp::line_for_failure(line, stop.what());
    if (said.empty()) fmt::print(stderr, "pawl: {}\n", stop.what());
    print_line(said);
  }
}

// Both ways, until the agent has said all and was answered, or the socket is closed.
ExitCode pass_lines(const std::string& path) {
  Descriptor socket;
  try {
    socket = open_agent_door(path);
  } catch (const std::system_error& error) {
    throw Stop(exit_busy, fmt::format("cannot reach the server at {}: {}", path, error.what()));
  }
  char buffer[16 << 10];
  int input = STDIN_FILENO;
  while (true) {
    pollfd waits[] = {{.fd = input, .events = POLLIN, .revents = 0},
                      {.fd = socket.get(), .events = POLLIN, .revents = 0}};
    if (::poll(waits, 2, -1) < 0) continue;
    if (waits[0].revents) {
      const auto got = ::read(input, buffer, sizeof buffer);
      if (got > 0 && !write_all(socket.get(), {buffer, static_cast<std::size_t>(got)})) return exit_busy;
      if (got <= 0) {
        ::shutdown(socket.get(), SHUT_WR);
        input = -1;
      }
    }
    if (!waits[1].revents) continue;
    const auto got = ::read(socket.get(), buffer, sizeof buffer);
    if (got <= 0) return input < 0 ? exit_success : exit_busy;
    if (!write_all(STDOUT_FILENO, {buffer, static_cast<std::size_t>(got)})) return exit_success;
  }
}

// An agent that pawl runs is told by its environment where its server is, and what it may.
void heed_lease() {
  const char* key = std::getenv("PAWL_LEASE_KEY");
  const char* url = std::getenv("PAWL_MCP_URL");
  if (!key || !url || std::getenv("PAWL_KEY")) return;
  std::string server = url;
  if (server.ends_with("/mcp")) server.resize(server.size() - 4);
  ::setenv("PAWL_KEY", key, 1);
  ::setenv("PAWL_SERVER", server.c_str(), 0);
}

}  // namespace

ExitCode speak_mcp(const McpOptions& options) {
  const char* given = std::getenv("PAWL_MCP_SOCKET");
  const bool names_server = !options.server.empty() || std::getenv("PAWL_KEY");
  if (!options.socket.empty()) return pass_lines(options.socket);
  if (given && *given && !names_server) return pass_lines(given);
  heed_lease();
  const Remote remote = Remote::require(options.server, data_folder(options.data));
  for (std::string line; std::getline(std::cin, line);)
    if (line.find_first_not_of(" \t\r") != line.npos) hand_over(remote, line);
  return exit_success;
}

}  // namespace pawl
