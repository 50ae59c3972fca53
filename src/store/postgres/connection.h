// A thin, owning layer over libpq. A connection belongs to one thread at a time. Whatever is asked is one round trip
// and one transaction, without prepared statements or anything else that outlives it: behind a transaction pooler the
// next one may run elsewhere.
#pragma once

#include <libpq-fe.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "core/id.h"
#include "store/postgres/wire.h"

namespace pawl::postgres {

// The connection is gone, or could not be made. What was sent may have happened, or may still.
class ConnectionLost : public std::runtime_error {
 public:
  ConnectionLost(const std::string& what, std::string state) : std::runtime_error(what), state_(std::move(state)) {}
  // The server's SQLSTATE when it said why; empty otherwise.
  const std::string& state() const { return state_; }

 private:
  std::string state_;
};

// The database refused; nothing of what was sent has happened.
class Refused : public std::runtime_error {
 public:
  Refused(const std::string& what, std::string state) : std::runtime_error(what), state_(std::move(state)) {}
  const std::string& state() const { return state_; }
  // It may go another way a moment later: a deadlock, a full disk, a time-out, a server that is only a standby.
  bool is_temporary() const;

 private:
  std::string state_;
};

// Where the database is: at one host, or at one of several. Its text names host and database, and never a password.
class Address {
 public:
  // A URL or a libpq connection string; throws StoreFailure when it is neither.
  explicit Address(const std::string& url);
  const std::string& str() const { return name_; }

 private:
  friend class Connection;
  using Parameters = std::vector<std::pair<std::string, std::string>>;
  std::vector<Parameters> hosts_;  // to be tried in this order
  std::string name_;
};

using Deadline = std::chrono::steady_clock::time_point;

class Connection {
 public:
  // `given_up` turns true when nobody wants to wait any longer: see PostgresStore::stop_waiting.
  Connection(const Address& address, const std::atomic<bool>& given_up);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // A statement that sees one tenant, or all.
  Rows ask(TenantId tenant, const char* sql, const Values& values);
  Rows ask_all(const char* sql, const Values& values);
  // One that says itself what it sees, or asks for nothing of any tenant.
  Rows call(const char* sql, const Values& values);
  // Several statements without parameters, in one transaction unless they say otherwise.
  void script(const std::string& sql);

  // False behind a pooler: what a session remembers may be remembered elsewhere.
  bool has_session() const { return has_session_; }
  // Waits until there is something to read on the socket or `wake_fd`, at most until then.
  void wait_readable(int wake_fd, Deadline deadline);
  PGconn* handle() const { return handle_.get(); }

 private:
  void connect(const Address::Parameters& host, std::chrono::milliseconds at_most);
  Rows exchange(const char* scope, const char* sql, const Values& values);
  void send(const char* sql, const Values& values);
  void flush();
  PGresult* next_result();
  void wait(bool for_writing);
  [[noreturn]] void lost(const std::string& doing);

  struct Finish {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };
  const Address& address_;
  const std::atomic<bool>& given_up_;
  std::unique_ptr<PGconn, Finish> handle_;
  bool has_session_ = false;
};

}  // namespace pawl::postgres
