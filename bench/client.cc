#include "client.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

namespace pawl::bench {
namespace {

constexpr int patience_ms = 30'000;
constexpr std::size_t in_bytes_first = 16 << 10;
constexpr std::string_view end_of_head = "\r\n\r\n";

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

// As this server writes it.
std::optional<std::size_t> content_length(std::string_view head) {
  constexpr std::string_view name = "\r\nContent-Length: ";
  std::size_t at = head.find(name);
  if (at == head.npos) return std::nullopt;
  std::size_t value = 0;
  std::from_chars(head.data() + at + name.size(), head.data() + head.size(), value);
  return value;
}

}  // namespace

void expect_status(int got, int wanted, std::string_view body) {
  if (got != wanted) throw std::runtime_error(fmt::format("answered {} instead of {}: {}", got, wanted, body));
}

Client::Client(std::uint16_t port, const std::string& key)
    : port_(port), key_(key), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0) fail("epoll_create1");
}

Client::~Client() {
  for (const auto& connection : connections_) close(connection->socket);
  close(epoll_);
}

std::size_t Client::connect(std::uint16_t port) {
  auto connection = std::make_unique<Connection>();
  connection->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection->socket < 0) fail("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(connection->socket, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
  int on = 1;
  setsockopt(connection->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  epoll_event wanted{};
  wanted.events = EPOLLIN;
  wanted.data.ptr = connection.get();
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, connection->socket, &wanted) != 0) fail("epoll_ctl");
  connection->in.resize(in_bytes_first);
  connections_.push_back(std::move(connection));
  return connections_.size() - 1;
}

void Client::send(std::size_t number, std::string_view method, std::string_view path, std::string_view body,
                  Reply reply) {
  Connection& connection = *connections_.at(number);
  connection.reply = std::move(reply);
  request_.clear();
  for (std::string_view part :
       {method, std::string_view(" "), path, std::string_view(" HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "),
        std::string_view(key_), std::string_view("\r\nContent-Length: ")})
    request_ += part;
  request_ += std::to_string(body.size());
  (request_ += end_of_head) += body;
  write(connection, request_);
}

void Client::follow(std::size_t number, std::string_view path, std::function<void()> open, Piece piece) {
  connections_.at(number)->open = std::move(open);
  connections_.at(number)->piece = std::move(piece);
  send(number, "GET", path, "", {});
}

std::string Client::ask(std::string_view method, std::string_view path, std::string_view body, int status) {
  std::optional<std::string> answer;
  if (connections_.empty()) connect();
  send(0, method, path, body, [&](int got, std::string_view text) {
    expect_status(got, status, text);
    answer = text;
  });
  run_until([&] { return answer.has_value(); });
  return *answer;
}

void Client::write(Connection& connection, std::string_view bytes) {
  ssize_t written = ::send(connection.socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written < 0 && errno != EAGAIN) fail("the server ended a connection");
  bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  bool was_waiting = !connection.out.empty();
  connection.out = std::string(bytes);
  if (was_waiting == !bytes.empty()) return;
  epoll_event wanted{};
  wanted.events = EPOLLIN | (bytes.empty() ? 0u : static_cast<unsigned>(EPOLLOUT));
  wanted.data.ptr = &connection;
  if (epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.socket, &wanted) != 0) fail("epoll_ctl");
}

void Client::turn() {
  std::array<epoll_event, 64> events;
  int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), patience_ms);
  if (count < 0 && errno != EINTR) fail("epoll_wait");
  if (count == 0) throw std::runtime_error("the server has been silent for 30 seconds");
  for (int i = 0; i < count; ++i) {
    auto& connection = *static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr);
    unsigned what = events[static_cast<std::size_t>(i)].events;
    if (what & EPOLLOUT) write(connection, std::string(connection.out));
    if (what & ~static_cast<unsigned>(EPOLLOUT)) receive(connection);
  }
}

void Client::receive(Connection& connection) {
  if (connection.in_bytes == connection.in.size()) connection.in.resize(2 * connection.in.size());
  ssize_t got = recv(connection.socket, connection.in.data() + connection.in_bytes,
                     connection.in.size() - connection.in_bytes, MSG_DONTWAIT);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) throw std::runtime_error("the server ended a connection");
  connection.in_bytes += static_cast<std::size_t>(got);
  if (take_answer(connection)) connection.in_bytes = 0;
}

bool Client::take_answer(Connection& connection) {
  std::string_view text(connection.in.data(), connection.in_bytes);
  bool streaming = connection.piece && !connection.open;
  if (streaming) return connection.piece(text), true;
  std::size_t end = text.find(end_of_head);
  if (end == text.npos) return false;
  std::string_view head = text.substr(0, end);
  std::string_view body = text.substr(end + end_of_head.size());
  int status = 0;
  std::from_chars(head.data() + std::string_view("HTTP/1.1 ").size(), head.data() + head.size(), status);
  if (connection.open) {
    expect_status(status, 200, body);
    std::exchange(connection.open, nullptr)();
    if (!body.empty()) connection.piece(body);
    return true;
  }
  auto length = content_length(head);
  if (!length) throw std::runtime_error("an answer without a length");
  if (body.size() < *length) return false;
  if (body.size() > *length) throw std::runtime_error("an answer that nobody asked for");
  // In a variable of its own: it may send the next request, with the next reply.
  Reply reply = std::move(connection.reply);
  reply(status, body);
  return true;
}

}  // namespace pawl::bench
