// A load generator: one thread, any number of keep-alive connections to servers on this machine, each with one
// request open at a time. It shares the cores with what it measures, so it does as little as a client can: plain
// sockets, one write a request, one read an answer, no copy of either.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace pawl::bench {

class Client {
 public:
  // The body is good until the function returns; it may send the connection's next request.
  using Reply = std::move_only_function<void(int status, std::string_view body)>;
  // What a stream delivered, as it came: a message may be in two pieces.
  using Piece = std::move_only_function<void(std::string_view bytes)>;

  Client(std::uint16_t port, const std::string& key);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // The new connection's number, from 0.
  std::size_t connect() { return connect(port_); }
  // To another server that takes the same key.
  std::size_t connect(std::uint16_t port);
  std::size_t size() const { return connections_.size(); }
  void send(std::size_t connection, std::string_view method, std::string_view path, std::string_view body, Reply reply);
  // An answer without an end, such as the feed; `open` is called when its head has come.
  void follow(std::size_t connection, std::string_view path, std::function<void()> open, Piece piece);

  // Handles what comes until `done`. Throws std::runtime_error when nothing comes for long, or a connection ends.
  template <class Done>
  void run_until(Done done) {
    while (!done()) turn();
  }
  // Sends and waits for the answer's body; throws when its status is another one.
  std::string ask(std::string_view method, std::string_view path, std::string_view body, int status);

 private:
  struct Connection {
    int socket = -1;
    std::string out;  // what the socket did not take at once
    std::vector<char> in;
    std::size_t in_bytes = 0;
    Reply reply;
    std::function<void()> open;  // a stream whose head has not come
    Piece piece;
  };

  void turn();
  void write(Connection& connection, std::string_view bytes);
  void receive(Connection& connection);
  // True when a whole answer was there.
  bool take_answer(Connection& connection);

  std::uint16_t port_;
  std::string key_;
  int epoll_ = -1;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::string request_;  // being written
};

// Throws when it is not: every answer of a measurement is looked at.
void expect_status(int got, int wanted, std::string_view body);

}  // namespace pawl::bench
