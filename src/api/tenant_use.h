// What each tenant uses of this server at the moment. Without a limit of its own (Api::limit_of), a tenant may use a
// part of what is free.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>

#include "core/tenant.h"
#include "http/message.h"

namespace pawl::api {

// So many a minute, as fast as they come: a tenant that was idle has a minute's worth at once, and what it has used
// comes back evenly. Thread-safe.
class RequestRate {
 public:
  bool admit(std::int64_t per_minute, std::chrono::steady_clock::time_point now);

 private:
  std::mutex mutex_;
  double left_ = 0;
  std::chrono::steady_clock::time_point since_ = {};
};

struct TenantUse {
  std::shared_ptr<http::Account> account = std::make_shared<http::Account>();  // connections and bodies
  std::atomic<std::size_t> in_flight = 0;
  RequestRate rate;
};

// Thread-safe.
class TenantUses {
 public:
  std::shared_ptr<TenantUse> of(TenantId tenant) {
    std::lock_guard lock(mutex_);
    auto& use = uses_[tenant];
    if (!use) use = std::make_shared<TenantUse>();
    return use;
  }

 private:
  std::mutex mutex_;
  std::map<TenantId, std::shared_ptr<TenantUse>> uses_;
};

}  // namespace pawl::api
