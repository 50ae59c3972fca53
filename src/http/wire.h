#pragma once

#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/ssl.hpp>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <tuple>

#include "http/loop.h"

namespace pawl::http {

// A socket, with TLS or without.
class Wire {
 public:
  Wire(Socket socket, asio::ssl::context* tls) : socket_(std::move(socket)) {
    if (tls) tls_ = std::make_unique<asio::ssl::stream<Socket&>>(socket_, *tls);
  }

  void prepare(std::chrono::milliseconds unacknowledged_max) {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.non_blocking(true, ignored);
    // A peer that vanished acknowledges nothing; without this, heartbeats would fill the socket's buffer for hours
    // before a write waits.
    const auto milliseconds = static_cast<int>(unacknowledged_max.count());
    ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
  }
  std::string peer() const {
    error_code failed;
    const auto endpoint = socket_.remote_endpoint(failed);
    return failed ? std::string() : endpoint.address().to_string();
  }

  // What the kernel holds for a peer that does not read. It would grow to megabytes by itself.
  void limit_unsent(std::size_t bytes) {
    error_code ignored;
    socket_.set_option(Socket::send_buffer_size(static_cast<int>(bytes)), ignored);
  }

  bool has_tls() const { return tls_ != nullptr; }
  Task<std::tuple<error_code>> handshake() { return tls_->async_handshake(asio::ssl::stream_base::server, as_result); }
  Task<std::tuple<error_code>> say_goodbye() { return tls_->async_shutdown(as_result); }

  Task<std::tuple<error_code, std::size_t>> read(asio::mutable_buffer room) {
    return tls_ ? tls_->async_read_some(room, as_result) : socket_.async_read_some(room, as_result);
  }
  template <class Buffers>
  Task<std::tuple<error_code, std::size_t>> write(const Buffers& buffers) {
    return tls_ ? tls_->async_write_some(buffers, as_result) : socket_.async_write_some(buffers, as_result);
  }
  Task<std::tuple<error_code, std::size_t>> read_raw(asio::mutable_buffer room) {
    return socket_.async_read_some(room, as_result);
  }
  // Writes what the socket takes without waiting, which is nearly always all of it.
  template <class Buffers>
  std::size_t write_at_once(const Buffers& buffers) {
    error_code failed;
    return tls_ ? 0 : socket_.write_some(buffers, failed);
  }

  // Whether the other side has ended the connection. Looks, reads nothing.
  bool is_ended() {
    char byte;
    const auto got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }

  void shut_sending() {
    error_code ignored;
    socket_.shutdown(Socket::shutdown_send, ignored);
  }
  void cancel() {
    error_code ignored;
    socket_.cancel(ignored);
  }
  void close() {
    error_code ignored;
    socket_.close(ignored);
  }

 private:
  Socket socket_;
  std::unique_ptr<asio::ssl::stream<Socket&>> tls_;
};

}  // namespace pawl::http
