// pawl mcp: the server's tools for agents, on stdin and stdout. One JSON-RPC message a line is handed to the server's
// /mcp, and its answer written as one line: both transports are one implementation.
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "cli/commands.h"
#include "cli/folder.h"
#include "cli/remote.h"

namespace pawl {
namespace {

using boost::json::object;

constexpr int server_away = -32000;

void print_message(const Json& message) {
  fmt::print("{}\n", boost::json::serialize(message));
  std::fflush(stdout);
}

const object* object_in(const object* in, std::string_view key) {
  const Json* value = in ? in->if_contains(key) : nullptr;
  return value ? value->if_object() : nullptr;
}

std::string text_in(const object* in, std::string_view key) {
  const Json* value = in ? in->if_contains(key) : nullptr;
  return value && value->is_string() ? std::string(std::string_view(value->get_string())) : "";
}

// What a client on HTTP says in headers, taken from the message.
std::vector<std::string> headers_for(const object* message) {
  std::vector<std::string> out{"Accept: application/json, text/event-stream"};
  const object* params = object_in(message, "params");
  const auto version = text_in(object_in(params, "_meta"), "io.modelcontextprotocol/protocolVersion");
  if (version.empty()) return out;
  const auto add = [&](const char* name, const std::string& value) {
    // Nothing that comes in a message may become another header.
    if (!value.empty() && value.find_first_of("\r\n") == value.npos) out.push_back(std::string(name) + ": " + value);
  };
  add("MCP-Protocol-Version", version);
  add("Mcp-Method", text_in(message, "method"));
  if (text_in(message, "method") == "tools/call") add("Mcp-Name", text_in(params, "name"));
  return out;
}

void hand_over(const Remote& remote, const std::string& line) {
  const auto parsed = parse_json(line);
  const object* message = parsed ? parsed->if_object() : nullptr;
  const Json* id = message ? message->if_contains("id") : nullptr;
  const auto refuse = [&](std::string_view why) {
    if (id)
      print_message(
          object{{"jsonrpc", "2.0"}, {"id", *id}, {"error", object{{"code", server_away}, {"message", why}}}});
    else
      fmt::print(stderr, "pawl: {}\n", why);
  };
  try {
    const auto answer = remote.exchange("POST", "/mcp", line, headers_for(message));
    if (answer.body.empty()) return;
    const auto body = parse_json(answer.body);
    if (body && body->is_object() && body->get_object().contains("jsonrpc")) return print_message(*body);
    // The server refused before it came to that: the key, as a rule.
    const std::string detail = body ? text_in(body->if_object(), "detail") : "";
    refuse(detail.empty() ? fmt::format("the server answered {}", answer.status) : detail);
  } catch (const Stop& stop) {
    refuse(stop.what());
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
  heed_lease();
  const Remote remote = Remote::require(options.server, data_folder(options.data));
  for (std::string line; std::getline(std::cin, line);)
    if (line.find_first_not_of(" \t\r") != line.npos) hand_over(remote, line);
  return exit_success;
}

}  // namespace pawl
