// Answers requests that wait for a database which is away: 503 with Retry-After, within seconds. What they asked for
// may be done all the same when it is back, as with every answer that does not arrive.
//
// A short absence is waited for, so that a failover costs a moment and no errors.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

namespace pawl::api {

class AwayWatch {
 public:
  // How long a request waits for a database that is away. Until it is known to be away (SharedStore::is_reachable) may
  // take 3 s more, when it falls silent.
  static constexpr std::chrono::milliseconds patience{2000};

  // `is_away` is called by a thread of this, a few times a second.
  explicit AwayWatch(std::function<bool()> is_away);
  ~AwayWatch();

  // Called once, on a thread of this, when the request has waited for too long.
  using GiveUp = std::move_only_function<void()>;
  // Of one request: give it back when it is answered.
  using Ticket = std::shared_ptr<void>;
  Ticket watch(GiveUp give_up);

 private:
  struct Entry {
    std::chrono::steady_clock::time_point since;
    GiveUp give_up;
  };
  // Shared with the tickets, which may outlive this.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::list<Entry> entries;
    bool ending = false;
  };
  void work();

  const std::function<bool()> is_away_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace pawl::api
