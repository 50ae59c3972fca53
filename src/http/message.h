// What the routes see of HTTP: plain values. Nothing here or above it knows Beast.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pawl::http {

enum class Method { get, head, post, put, patch, delete_, options };

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  Method method = Method::get;
  std::string path;     // as it came, still percent-encoded, without the query: /runs/run_01.../events
  std::string query;    // as it came, without '?'
  Headers headers;      // names in lower case
  std::string body;
  std::string peer;     // address of the client
  bool wants_websocket = false;

  // The first header of that (lower-case) name; empty when there is none.
  std::string_view header(std::string_view name) const {
    for (const auto& [key, value] : headers)
      if (key == name) return value;
    return {};
  }
};

// One direction, server to client, as server-sent events or WebSocket text messages. Any thread may call it.
class Channel {
 public:
  virtual ~Channel() = default;
  struct Message {
    std::string id;    // where a client resumes after this message; the SSE id
    std::string data;  // one JSON text
  };
  // False when the client is gone, or so slow that its queue is full: then it is told to resume, and disconnected.
  virtual bool push(std::shared_ptr<const Message> message) = 0;
  virtual bool is_open() const = 0;
  // Disconnects the client, which is told why.
  virtual void close(std::string_view reason) = 0;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;  // beyond Content-Type, Content-Length, Date, Server, Connection
  // When set, and the status is 200, there is no body: the connection becomes a channel, and this is called with it,
  // once, on a thread of the server. When the client goes, the channel is closed; whoever holds it lets go of it then.
  std::function<void(std::shared_ptr<Channel>)> stream;
};

// Answers one request, from any thread, once. Dropped without a call, it answers 503.
using Responder = std::move_only_function<void(Response)>;

class Handler {
 public:
  virtual ~Handler() = default;
  // On a thread of the server; must return at once and may answer later.
  virtual void handle(Request request, Responder respond) = 0;
  // What the server itself refuses before there is a request to handle: a body too large (413), headers too large
  // (431), a request that is not HTTP (400), too slow (408), too many connections (503).
  virtual Response refuse(int status, std::string_view code, std::string_view detail) = 0;
};

}  // namespace pawl::http
