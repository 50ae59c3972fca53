// Hears what other servers tell, and tells them; and looks, once in a while, for what nobody told.
//
// NOTIFY is sent by itself: within a transaction that writes, it would make all commits of the database wait for each
// other. What is to be told is kept until it is sent.
//
// The look (the pulse) is one statement a server: what it finds becomes news, so nobody else has to look. It also says
// that this server lives, which keeps its followers its own. Behind a pooler nothing can be heard; there it comes
// often.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>

#include "store/postgres/database.h"
#include "store/postgres/server_watch.h"
#include "store/shared_store.h"

namespace pawl::postgres {

// A follower of a server that is not heard of is anybody's after this.
inline constexpr Duration follower_hold = server_gone_after;

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
  // Whether it looked a moment ago. Any thread.
  bool is_looking() const;
  // Whether the database has not answered for seconds, though no connection has broken. Any thread.
  bool is_silent() const;

 private:
  // What the last look found; only what is different is news.
  struct Found {
    std::uint64_t tenants = 0, tenant_seqs = 0;
    Position newest = 0, end = 0;
    std::string free_followers;
  };
  using Told = std::map<std::optional<std::uint32_t>, News>;  // by the server that it is for; none: all

  void listen(Connection& connection);
  void send_told(Connection& connection);
  void look(Connection& connection, News& news);

  Database& database_;
  std::uint32_t server_;
  Link link_;
  bool hears_ = false;
  bool missed_ = true;  // the connection is new: something may have been told before it listened
  Deadline next_look_{};
  Found found_;
  ServerWatch others_;
  std::atomic<std::int64_t> looked_at_ms_ = INT64_MIN / 2;  // by the steady clock
  std::atomic<std::int64_t> asking_since_ms_ = 0;           // 0: nothing waits for an answer
  int wake_fd_ = -1;
  std::mutex mutex_;  // guards told_
  Told told_;
};

}  // namespace pawl::postgres
