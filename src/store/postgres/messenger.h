// Hears what other servers tell, and tells them. NOTIFY is sent by itself: within a transaction that writes, it would
// make all commits of the database wait for each other. Behind a pooler nothing can be heard; then one looks instead.
#pragma once

#include <deque>
#include <mutex>
#include <string>

#include "store/postgres/database.h"
#include "store/shared_store.h"

namespace pawl::postgres {

class Messenger {
 public:
  Messenger(Database& database, std::uint32_t server);
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;
  ~Messenger();

  // Belongs to one thread, which also sends what others have told.
  News wait(Duration at_most);
  // Any thread.
  void tell(const News& news, std::optional<std::uint32_t> server);

 private:
  void listen(Connection& connection);
  void send_told(Connection& connection);
  void learn_time(Connection& connection);

  Database& database_;
  std::uint32_t server_;
  Link link_;
  bool hears_ = false;
  bool missed_ = true;  // the connection is new: something may have been told before it listened
  Deadline next_clock_{};
  int wake_fd_ = -1;
  std::mutex mutex_;  // guards told_
  std::deque<std::string> told_;
};

}  // namespace pawl::postgres
