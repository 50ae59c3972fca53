// What all connections of one store share: where the database is, its clock, and how long one waits for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <string>

#include "core/time.h"
#include "store/postgres/connection.h"

namespace pawl::postgres {

class Database {
 public:
  using Report = std::function<void(const std::string&)>;
  Database(const std::string& url, Report report, bool is_view = false)
      : address(url), one_moment(is_view), report_(std::move(report)) {}

  const Address address;
  // A connection sees the database as it was when it was made, and writes nothing. One that breaks is not made again.
  const bool one_moment;

  bool is_reachable() const { return reachable_; }
  // The first of a row of failures is reported, and the first success after it.
  void note_lost(const std::string& reason);
  void note_reached();

  void stop_waiting();
  const std::atomic<bool>& given_up() const { return given_up_; }
  // Before the next try: longer each time, up to two seconds. Throws StoreFailure when nobody waits any more, or when
  // `deadline` would pass.
  void wait_before_retry(int tries, std::optional<Deadline> deadline, const std::string& reason);

  // Until then, or until nobody waits any more.
  void pause(Deadline until);

  // The database's clock, without asking it. Never goes back.
  Instant now();
  // It said `at`, in answer to what was asked at `asked`.
  void learn_time(Instant at, Deadline asked);

 private:
  Report report_;
  std::atomic<bool> reachable_ = true;
  std::atomic<bool> given_up_ = false;
  std::mutex mutex_;
  std::condition_variable stopped_;
  std::minstd_rand random_{std::random_device{}()};
  std::atomic<std::int64_t> offset_ms_ = 0;  // the database's clock less the steady one
  std::atomic<std::int64_t> latest_ms_ = 0;
};

// A connection that comes back. Belongs to one thread at a time.
class Link {
 public:
  explicit Link(Database& database) : database_(database) {}

  // The connection, made if it is not there; waits for the database, at most until `deadline`. `greet` is run first on
  // each new one.
  using Greet = std::function<void(Connection&)>;
  Connection& connection(std::optional<Deadline> deadline = std::nullopt, const Greet& greet = {});
  bool is_open() const { return connection_ != nullptr; }
  void drop() { connection_.reset(); }

  // Runs `use(connection)`, again and again while the database is away. For what may be done twice: reads.
  template <class Use>
  auto read(Use use, std::optional<Deadline> deadline = std::nullopt) {
    for (int tries = 0;; ++tries) {
      std::string reason;
      try {
        auto result = use(connection(deadline));
        database_.note_reached();
        return result;
      } catch (const ConnectionLost& lost) {
        reason = lost.what();
        if (database_.one_moment) throw_failure(lost);
        drop();
        if (tries == 0) continue;  // an old connection says nothing about the database
        database_.note_lost(reason);
      } catch (const Refused& refused) {
        reason = refused.what();
        if (!after(refused)) throw_failure(refused);
      }
      database_.wait_before_retry(tries, deadline, reason);
    }
  }

  // True when another try makes sense.
  bool after(const Refused& refused);
  [[noreturn]] static void throw_failure(const Refused& refused);
  [[noreturn]] static void throw_failure(const ConnectionLost& lost);

 private:
  Database& database_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace pawl::postgres
