// HTTP/1.1, TLS, server-sent events and WebSocket over Boost.Asio and Beast. Only server.cc and connection.cc compile
// those two.
//
// One coroutine a connection. Every wait has a deadline, every size a limit: what a client can make the server hold is
// bounded by connections_max times the limits below.
//
// A client is unknown until the handler has admitted a request of its connection (Handler::admit, from the head alone).
// Unknown clients have a budget of their own, beside connections_max. When it is used up, the oldest of them is
// disconnected: whoever sends a good key at once gets in, however many others say nothing, or say it slowly.
//
// What known clients share (connections, bytes of bodies) is divided by what is free: a client may add to what it has
// as long as that is less than a given multiple of what nobody has. So one client alone can have most of it, none can
// have all of it, and there is always something left for a client that comes later.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace pawl::http {

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 7295;  // 0: any free one, see Server::port()
  int threads = 1;

  struct Tls {
    std::filesystem::path certificate;  // PEM, the whole chain
    std::filesystem::path key;
  };
  std::optional<Tls> tls;

  // Pages that may talk to this server from a browser, beside those that it serves itself: "https://ops.example".
  std::vector<std::string> origins;
  // Names that a request may call this server by, without a port. Who listens on loopback is called by the names of
  // this machine, beside these: a page whose own name was made to lead here (DNS rebinding) calls it by another. On
  // other addresses, without any here, every name will do.
  std::vector<std::string> hosts;

  std::size_t connections_max = 4096;          // of known clients
  std::size_t unknown_connections_max = 512;   // beside those; for each thread its part
  std::size_t connections_share = 3;           // times the free ones: what one account may have
  std::size_t callbacks_max = 128;             // whose bodies are being read
  std::size_t callback_bytes_max = 256 << 10;  // of one
  std::chrono::milliseconds callback_timeout{5'000};
  std::size_t header_bytes_max = 16 << 10;
  std::size_t body_bytes_max = 8 << 20;
  std::size_t channel_bytes_max = 64 << 10;          // queued for one slow consumer, and one message more
  std::size_t channel_unsent_bytes_max = 128 << 10;  // and in its socket
  // Bodies of requests not yet answered, all together; past it: 503. One account may have as much of it as is free;
  // past that: 429. The beginning of each body does not count, so that a heartbeat is taken whatever others send.
  std::size_t buffered_bytes_max = 256 << 20;
  std::size_t uncounted_body_bytes = 16 << 10;
  std::chrono::milliseconds header_timeout{10'000};  // from the first byte, or the accept, to the end of the headers
  std::chrono::milliseconds body_timeout{30'000};
  std::chrono::milliseconds idle_timeout{75'000};  // between requests
  std::chrono::milliseconds write_timeout{30'000};
  std::chrono::milliseconds channel_heartbeat{15'000};
};

class Server {
 public:
  // Binds and listens; throws std::runtime_error that says which address and why not.
  Server(ServerOptions options, Handler& handler);
  ~Server();  // as stop() with no grace

  void start();
  // Accepts no more, closes idle connections and channels (which are told to resume), lets requests that are being
  // answered end for at most `grace`. Not from a thread of the server. A server that was stopped stays so.
  void stop(std::chrono::milliseconds grace);

  std::uint16_t port() const;

  struct Counts {
    std::uint64_t accepted = 0;
    std::uint64_t refused = 0;       // for too many connections
    std::uint64_t disconnected = 0;  // unknown clients, for newer ones
    std::uint64_t open = 0;
    std::uint64_t channels = 0;
    std::uint64_t requests = 0;
  };
  Counts counts() const;

 private:
  class Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace pawl::http
