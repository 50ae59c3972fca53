// Requests that stay open: streams of the feed, and those that wait for something to happen (long polls).
//
// They end at once when their key is revoked, expires, or its tenant is suspended, and one key has only so many of
// them, whatever it is used for: it cannot hold all connections of the server.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "api/keys.h"
#include "engine/clock.h"

namespace pawl::api {

class OpenRequests {
 public:
  enum class Kind { stream, poll };
  struct Limits {
    std::size_t streams_per_key_max = 1024;
    std::size_t all_per_key_max = 2048;
  };
  OpenRequests(KeyRing& keys, const Clock& clock, Limits limits);
  ~OpenRequests();

  // Called once, on a thread of this, when the key is good no more. It may be under way while the ticket is given back.
  using End = std::move_only_function<void()>;
  // Counts until it is given back, which may be after this has gone.
  using Ticket = std::shared_ptr<void>;
  // Throws a Problem (429) when the key, or with `tenant_streams_max` its tenant, has too many open. `who` is no
  // lease's key: what that may do is asked of its lease.
  Ticket open(const Principal& who, Kind kind, std::optional<std::int64_t> tenant_streams_max, End end);

 private:
  struct Entry {
    TenantId tenant;
    KeyId key;
    Kind kind = Kind::poll;
    End end;  // empty once called
  };
  struct Counts {
    std::size_t streams = 0;
    std::size_t all = 0;
  };
  // Shared with the tickets.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::list<Entry> entries;
    std::map<KeyId, Counts> by_key;
    std::map<TenantId, std::size_t> streams_by_tenant;
    bool keys_changed = false;
    bool ending = false;
  };
  static void count(State& state, const Entry& entry, bool opened);
  void watch();
  // Ends those whose key is good no more, and says when the next one expires.
  Instant end_bad(std::list<End>& ends);

  KeyRing& keys_;
  const Clock& clock_;
  const Limits limits_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace pawl::api
