// Stands between a store and the server and does what networks do: keeps requests or answers to itself, and cuts.
#pragma once

#include <atomic>
#include <list>
#include <mutex>
#include <string>
#include <thread>

namespace pawl::test {

class Proxy {
 public:
  // In front of the cluster's server.
  Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;
  ~Proxy();

  std::string url(const std::string& database) const;

  // From now on, on connections that are open, until release().
  void hold_requests() { set_all(&Pair::requests_held, true); }
  void hold_answers() { set_all(&Pair::answers_held, true); }
  // Whether a request that was held back is there as a whole.
  bool holds_request();
  // The clients see their connections broken. The server does not.
  void cut_clients();
  // What was held back reaches the server after all; answers have nobody left to go to.
  void release();

 private:
  struct Pair {
    int client = -1;
    int server = -1;
    bool requests_held = false, answers_held = false;
    std::string to_server, to_client;
  };

  void set_all(bool Pair::*what, bool value);
  void run();
  void accept_one();
  void pump(Pair& pair);

  int listening_ = -1;
  int port_ = 0;
  std::atomic<bool> over_ = false;
  std::mutex mutex_;  // guards pairs_
  std::list<Pair> pairs_;
  std::thread thread_;
};

}  // namespace pawl::test
