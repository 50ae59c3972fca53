// A client that says exactly what a test wants it to say, a handler that does what it is told, and a server between.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "http/server.h"
#include "support/waiting.h"

namespace pawl::http {

using namespace std::chrono_literals;

class Client {
 public:
  // A receive buffer of `receive_bytes` makes a client that is slow as soon as it does not read.
  explicit Client(std::uint16_t port, int receive_bytes = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_bytes) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof receive_bytes);
    if (port) connect(port);
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void connect(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(0, ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address));
  }

  int socket() const { return socket_; }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  void shut_sending() { ::shutdown(socket_, SHUT_WR); }

  // False when the server no longer takes it.
  bool send(std::string_view text) {
    while (!text.empty()) {
      const auto sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // Whether something (or the end) came within the time.
  bool hears_within(std::chrono::milliseconds time) {
    if (!received_.empty()) return true;
    pollfd one{.fd = socket_, .events = POLLIN, .revents = 0};
    return ::poll(&one, 1, static_cast<int>(time.count())) > 0;
  }

  // Reads until the text has come, and gives all up to its end; what was there at the end of the connection otherwise.
  std::string until(std::string_view text) {
    auto at = received_.find(text);
    while (at == std::string::npos && receive()) at = received_.find(text);
    return take(at == std::string::npos ? received_.size() : at + text.size());
  }
  std::string exactly(std::size_t bytes) {
    while (received_.size() < bytes && receive()) {
    }
    return take(std::min(bytes, received_.size()));
  }
  std::string rest() {
    while (receive()) {
    }
    return take(received_.size());
  }

 private:
  bool receive() {
    if (!hears_more()) return false;
    char buffer[65536];
    const auto bytes = ::recv(socket_, buffer, sizeof buffer, 0);
    if (bytes <= 0) return false;
    received_.append(buffer, static_cast<std::size_t>(bytes));
    return true;
  }
  bool hears_more() {
    pollfd one{.fd = socket_, .events = POLLIN, .revents = 0};
    const bool heard = ::poll(&one, 1, static_cast<int>(std::chrono::milliseconds(hang_limit).count())) > 0;
    EXPECT_TRUE(heard) << "the server said nothing for " << hang_limit.count() << " s; until then: " << received_;
    return heard;
  }
  std::string take(std::size_t bytes) {
    std::string taken = received_.substr(0, bytes);
    received_.erase(0, bytes);
    return taken;
  }

  int socket_;
  std::string received_;
};

struct Reply {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string head;
  std::string body;
};

inline Reply read_head(Client& client) {
  Reply reply;
  reply.head = client.until("\r\n\r\n");
  if (!reply.head.starts_with("HTTP/1.1 ")) return reply;
  reply.status = std::stoi(reply.head.substr(9, 3));
  for (auto line = reply.head.find("\r\n") + 2; line < reply.head.size() - 2;) {
    const auto end = reply.head.find("\r\n", line);
    const auto colon = reply.head.find(": ", line);
    auto name = reply.head.substr(line, colon - line);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    reply.headers[name] = reply.head.substr(colon + 2, end - colon - 2);
    line = end + 2;
  }
  return reply;
}

inline Reply read_reply(Client& client) {
  auto reply = read_head(client);
  const auto length = reply.headers.find("content-length");
  if (length != reply.headers.end()) reply.body = client.exactly(std::stoul(length->second));
  return reply;
}

inline std::string get(std::string_view path, std::string_view headers = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: here\r\n" + std::string(headers) + "\r\n";
}

inline std::string post(std::string_view path, std::string_view body) {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: here\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

// Says back what it was asked, unless a test gives it something else to do.
class Echo final : public Handler {
 public:
  std::function<void(Request, Responder)> handling;
  std::function<Admission(const Request&)> admitting;  // unless there is one, every client is known

  Admission admit(const Request& head) override { return admitting ? admitting(head) : Admission{}; }
  void handle(Request request, Responder respond) override {
    if (handling) return handling(std::move(request), std::move(respond));
    respond({.body = request.path + "|" + request.query + "|" + request.body});
  }
  Response refuse(int status, std::string_view code, std::string_view) override {
    return {.status = status, .content_type = "application/problem+json", .body = std::string(code)};
  }
};

class ServerTest : public testing::Test {
 protected:
  // Clients can connect and send, and nobody accepts yet: the time that the server gives them has not begun.
  void listen() { server_.emplace(options, handler); }
  void start() {
    if (!server_) listen();
    server_->start();
  }
  std::uint16_t port() { return server_->port(); }

  Reply ask(const std::string& request) {
    Client client(port());
    client.send(request);
    return read_reply(client);
  }

  ServerOptions options{.port = 0, .hosts = {"here", "h", "a"}};
  Echo handler;
  std::optional<Server> server_;
};

}  // namespace pawl::http
