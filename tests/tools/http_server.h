// A small real HTTP server on 127.0.0.1: one thread a connection, one request each. Says what it was asked.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace pawl {

struct SeenRequest {
  std::string method;
  std::string target;
  std::string head;  // all of it, as it came
  std::string body;

  bool has(std::string_view line) const { return head.find(line) != std::string::npos; }
};

inline std::string http_reply(int status, std::string body = "", std::string headers = "") {
  return "HTTP/1.1 " + std::to_string(status) + " Text\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         headers + "\r\n" + body;
}

class HttpServer {
 public:
  // The bytes of the answer; nothing = never answer.
  using Handler = std::function<std::optional<std::string>(const SeenRequest&)>;

  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(listener_, 64);
    socklen_t size = sizeof address;
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::jthread([this](std::stop_token stop) { accept_until(stop); });
  }

  ~HttpServer() {
    acceptor_.request_stop();
    acceptor_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int fd : open_) ::shutdown(fd, SHUT_RDWR);
    }
    sessions_.clear();
    for (const int fd : open_) ::close(fd);
    ::close(listener_);
  }

  int port() const { return port_; }
  std::string url(std::string_view path = "/", std::string_view host = "127.0.0.1") const {
    return "http://" + std::string(host) + ":" + std::to_string(port_) + std::string(path);
  }
  std::vector<SeenRequest> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  void accept_until(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd wait{.fd = listener_, .events = POLLIN, .revents = 0};
      if (::poll(&wait, 1, 20) <= 0) continue;
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      const std::lock_guard lock(mutex_);
      open_.push_back(fd);
      sessions_.emplace_back([this, fd] { serve(fd); });
    }
  }

  void serve(int fd) {
    const auto request = receive(fd);
    if (!request) return;
    {
      const std::lock_guard lock(mutex_);
      seen_.push_back(*request);
    }
    const auto answer = handler_(*request);
    if (!answer) return;  // the connection stays open until the server goes
    std::string_view rest = *answer;
    while (!rest.empty()) {
      const auto sent = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent <= 0) break;
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    ::shutdown(fd, SHUT_RDWR);
  }

  static std::optional<SeenRequest> receive(int fd) {
    std::string text;
    std::size_t head_end = 0, body_bytes = 0;
    while (head_end == 0 || text.size() < head_end + body_bytes) {
      char buffer[16 * 1024];
      const auto got = ::recv(fd, buffer, sizeof buffer, 0);
      if (got <= 0) return std::nullopt;
      text.append(buffer, static_cast<std::size_t>(got));
      if (head_end != 0) continue;
      const auto end = text.find("\r\n\r\n");
      if (end == std::string::npos) continue;
      head_end = end + 4;
      if (const auto at = text.find("Content-Length: "); at < head_end) body_bytes = std::stoul(text.substr(at + 16));
    }
    SeenRequest request{.method = text.substr(0, text.find(' ')),
                        .target = {},
                        .head = text.substr(0, head_end),
                        .body = text.substr(head_end)};
    const auto begin = request.method.size() + 1;
    request.target = text.substr(begin, text.find(' ', begin) - begin);
    return request;
  }

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<SeenRequest> seen_;
  std::vector<int> open_;
  std::vector<std::jthread> sessions_;
  std::jthread acceptor_;
};

}  // namespace pawl
