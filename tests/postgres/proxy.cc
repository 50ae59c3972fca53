#include "postgres/proxy.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace pawl::test {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// False once there will be no more.
bool take(int from, std::string& into) {
  char bytes[65536];
  auto count = ::recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
  if (count > 0) into.append(bytes, static_cast<std::size_t>(count));
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR));
}

void give(int to, std::string& from) {
  if (to < 0 || from.empty()) return;
  auto count = ::send(to, from.data(), from.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count > 0) from.erase(0, static_cast<std::size_t>(count));
}

void shut(int& socket) {
  if (socket >= 0) ::close(socket);
  socket = -1;
}

}  // namespace

Proxy::Proxy() : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(listening_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(listening_, 64) != 0 ||
      ::getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("no port for the proxy");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

Proxy::~Proxy() {
  over_ = true;
  thread_.join();
  for (Pair& pair : pairs_) {
    shut(pair.client);
    shut(pair.server);
  }
  shut(listening_);
}

std::string Proxy::url(const std::string& database) const {
  return fmt::format("postgres://pawl@127.0.0.1:{}/{}?sslmode=disable&gssencmode=disable", port_, database);
}

void Proxy::set_all(bool Pair::*what, bool value) {
  std::lock_guard lock(mutex_);
  for (Pair& pair : pairs_) pair.*what = value;
}

bool Proxy::holds_request() {
  // What the client sends ends with the protocol's Sync.
  static const std::string sync("S\0\0\0\4", 5);
  std::lock_guard lock(mutex_);
  return std::ranges::any_of(pairs_, [](Pair& pair) { return pair.requests_held && pair.to_server.ends_with(sync); });
}

void Proxy::cut_clients() {
  std::lock_guard lock(mutex_);
  for (Pair& pair : pairs_) shut(pair.client);
}

void Proxy::release() {
  std::lock_guard lock(mutex_);
  for (Pair& pair : pairs_) pair.requests_held = pair.answers_held = false;
}

void Proxy::run() {
  while (!over_) {
    std::vector<pollfd> sockets{{listening_, POLLIN, 0}};
    {
      std::lock_guard lock(mutex_);
      for (Pair& pair : pairs_)
        for (int socket : {pair.client, pair.server})
          if (socket >= 0) sockets.push_back({socket, POLLIN, 0});
    }
    if (::poll(sockets.data(), sockets.size(), 2) < 0) continue;
    if (sockets[0].revents) accept_one();
    std::lock_guard lock(mutex_);
    for (Pair& pair : pairs_) pump(pair);
    std::erase_if(pairs_, [](const Pair& pair) { return pair.client < 0 && pair.server < 0; });
  }
}

void Proxy::accept_one() {
  Pair pair;
  pair.client = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
  pair.server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(std::atoi(std::getenv("PAWL_PG_PORT")));
  if (::connect(pair.server, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    shut(pair.client);
    shut(pair.server);
    return;
  }
  std::lock_guard lock(mutex_);
  pairs_.push_back(std::move(pair));
}

void Proxy::pump(Pair& pair) {
  if (pair.client >= 0 && !take(pair.client, pair.to_server)) shut(pair.client);
  if (pair.server >= 0 && !take(pair.server, pair.to_client)) {
    give(pair.client, pair.to_client);
    shut(pair.server);
    shut(pair.client);
    return;
  }
  if (!pair.requests_held) give(pair.server, pair.to_server);
  if (!pair.answers_held) give(pair.client, pair.to_client);
  // A client that is gone has said all it had to say.
  bool all_said = pair.client < 0 && !pair.requests_held && pair.to_server.empty();
  if (all_said && !pair.answers_held) {
    pair.to_client.clear();
    ::shutdown(pair.server, SHUT_WR);
  }
}

}  // namespace pawl::test
