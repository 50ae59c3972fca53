// Databases to measure in, on the PostgreSQL server that tests/postgres/cluster started, and what that server does.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "store/postgres/connection.h"

namespace pawl::bench {

class DatabaseServer {
 public:
  // Where the environment says it is.
  DatabaseServer();

  std::string url(const std::string& user, const std::string& database) const;
  // In the database `postgres`, as the superuser.
  postgres::Rows ask(const char* sql) { return connection_->call(sql, {}); }
  void run(const std::string& sql) { connection_->script(sql); }
  // What a setting is.
  std::string setting(const std::string& name);

  // Of all its processes, those that have ended included.
  double cpu_seconds() const;
  // Written to the log so far.
  double wal_bytes() {
    return static_cast<double>(ask("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").i64(0, 0));
  }
  // pgbench's simple update, prepared: an UPDATE, a SELECT and an INSERT a transaction. Transactions a second.
  double simple_updates_per_s(int clients, int seconds);

 private:
  std::string host_, port_;
  std::atomic<bool> given_up_{false};
  std::optional<postgres::Address> address_;
  std::optional<postgres::Connection> connection_;
  pid_t postmaster_ = 0;
  bool has_pgbench_ = false;
};

// Empty at first, gone at the end. Nobody may be connected to it then.
class FreshDatabase {
 public:
  FreshDatabase(DatabaseServer& server, std::string name);
  ~FreshDatabase();
  FreshDatabase(const FreshDatabase&) = delete;
  FreshDatabase& operator=(const FreshDatabase&) = delete;

  // As the role `pawl`.
  std::string url() const { return server_.url("pawl", name_); }
  // Rows that were written since it was made, a run: "runs 1.0 new, 5.2 changed, ...". For when all servers of it have
  // ended, because a server's own counts come late.
  std::string rows_a_run();

 private:
  DatabaseServer& server_;
  std::string name_;
};

// How many cores PostgreSQL kept busy, and what it wrote to its log, since the object was made.
class DatabaseMeanwhile {
 public:
  explicit DatabaseMeanwhile(DatabaseServer& server);
  std::string text(std::uint64_t runs) const;

 private:
  DatabaseServer& server_;
  double cpu_, wal_, begin_;
};

}  // namespace pawl::bench
