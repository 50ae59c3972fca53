// What the routes see of HTTP: plain values. Nothing here or above it knows Beast.
#pragma once

#include <atomic>
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
  std::string path;   // as it came, still percent-encoded, without the query: /runs/run_01.../events
  std::string query;  // as it came, without '?'
  Headers headers;    // names in lower case
  std::string body;
  std::string peer;  // address of the client
  std::string id;    // for logs; its response says it as X-Request-Id
  bool wants_websocket = false;
  bool has_body = false;  // by its head
  // What Handler::admit made of the head. Null in a request that did not come through it.
  std::shared_ptr<const void> admitted;
  // Becomes true when the client is seen to have gone, within a second or so, while it waits for its answer: whoever
  // answers late need not, and must not hand out what nobody will receive. Null: unknown.
  std::shared_ptr<const std::atomic<bool>> gone;

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
    std::string data;  // one JSON text; empty: only that all up to the id has been said
  };
  // False when the client is gone or was cut off. A push for which there is no room cuts it off.
  virtual bool push(std::shared_ptr<const Message> message) = 0;
  // Once it has said no, what on_room() was given is called when a good part of the queue is free again.
  virtual bool has_room() = 0;
  // Before the first push. Also called when the client is gone. On a thread of the server: it must return at once.
  virtual void on_room(std::function<void()> call) = 0;
  // What is queued is delivered, then the client is told to resume, and disconnected. A server-sent event `resume` has
  // the id of the last message delivered as its data; a WebSocket is closed with 1013 (or 1012 when the server stops),
  // and the reason names that id. One that takes nothing at all for write_timeout is disconnected without a word.
  virtual void cut_off() = 0;
  // The client may have nothing more, not even what is queued: it is told why, and disconnected. A server-sent event
  // `end` has {"code", "detail"} as its data; a WebSocket is closed with 1008 and the reason "CODE: detail".
  virtual void end(std::string_view code, std::string_view detail) = 0;
  // What push() would say; for those who hold channels on which nothing happens for long.
  virtual bool is_open() const = 0;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  Headers headers;  // beyond Content-Type, Content-Length, Date, Server, Connection, X-Request-Id, and what a page of
                    // an allowed origin needs to be let read all of it (Access-Control-Allow-Origin)
  // When set, and the status is 200, there is no body: the connection becomes a channel, and this is called with it,
  // once, on a thread of the server. When the client goes, the channel is closed; whoever holds it lets go of it then.
  // When its last holder lets go before that, what is queued is delivered and the connection ends.
  std::function<void(std::shared_ptr<Channel>)> stream;
};

// What all connections of one client hold together; the handler has one for each client that it knows. A client may use
// a part of what nobody else uses at the moment (see ServerOptions), and no more than the limits that stand here.
struct Account {
  std::atomic<std::size_t> connections_max{SIZE_MAX};
  std::atomic<std::size_t> connections{0};
  std::atomic<std::size_t> body_bytes{0};
};

// What the handler says to a request's head, before anything of the body is read.
struct Admission {
  // `unknown` has shown nothing that makes it a client of this server: its body is not read. A `callback` shows it with
  // the body (a signature), which has a small limit and a budget for all callbacks together. A `known` one has shown
  // it.
  enum class Client { unknown, callback, known };
  Client client = Client::known;
  std::shared_ptr<Account> account;      // of a known client; null: nobody counts
  std::shared_ptr<const void> admitted;  // handed back with the request
  // The answer: nothing of the body is read, and when there is one, the connection ends.
  std::optional<Response> refusal;
};

// Answers one request, from any thread, once; after that, and when the client has gone, a call does nothing. Dropped
// without a call, it answers 503. It may outlive the server.
using Responder = std::move_only_function<void(Response)>;

class Handler {
 public:
  virtual ~Handler() = default;
  // Judges a request by its head. On a thread of the server; must return at once. What it throws is answered with 500.
  virtual Admission admit(const Request&) { return {}; }
  // On a thread of the server; must return at once and may answer later. What it throws is answered with 500.
  virtual void handle(Request request, Responder respond) = 0;
  // The words for what the server itself has to answer, on any of its threads:
  //   400 REQUEST_MALFORMED  403 ORIGIN_NOT_ALLOWED  408 REQUEST_TOO_SLOW  413 BODY_TOO_LARGE
  //   417 EXPECTATION_UNKNOWN  421 HOST_NOT_ALLOWED  426 WEBSOCKET_VERSION_UNKNOWN  429 TENANT_LIMIT
  //   431 HEADERS_TOO_LARGE
  //   500 INTERNAL  501 METHOD_UNKNOWN  503 TOO_MANY_CONNECTIONS, TOO_MANY_BYTES, NOT_ANSWERED (the responder was
  //   dropped)
  virtual Response refuse(int status, std::string_view code, std::string_view detail) = 0;
};

}  // namespace pawl::http
