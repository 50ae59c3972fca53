// Requests that wait for a log to grow. Looked at a few times a second, all of them by one thread: a log is a file that
// any process may write, so nobody tells us, and nobody who waits costs a thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <thread>

#include "core/id.h"

namespace pawl::api {

class LogWaits {
 public:
  LogWaits() = default;
  ~LogWaits();

  // `look` is called with whether time is up, on a thread of this, until it says that it is done. False when too many
  // wait already, of all tenants or of this one: it may have as many as are free.
  using Look = std::move_only_function<bool(bool is_late)>;
  bool add(TenantId tenant, std::chrono::milliseconds wait, Look look);

 private:
  struct Wait {
    TenantId tenant;
    std::chrono::steady_clock::time_point until;
    Look look;
  };
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Wait> waits_;
  // Of those in the list and those being looked at.
  std::size_t count_ = 0;
  std::map<TenantId, std::size_t> counts_;
  bool ending_ = false;
  std::thread thread_;  // made for the first
};

}  // namespace pawl::api
