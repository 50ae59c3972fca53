#include "api/log_waits.h"

#include <exception>
#include <utility>
#include <vector>

namespace pawl::api {
namespace {

constexpr auto look_interval = std::chrono::milliseconds(100);
constexpr std::size_t waits_max = 256;

}  // namespace

LogWaits::~LogWaits() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool LogWaits::add(TenantId tenant, std::chrono::milliseconds wait, Look look) {
  const std::lock_guard lock(mutex_);
  if (ending_ || count_ >= waits_max) return false;
  const auto own = counts_.find(tenant);
  if (own != counts_.end() && own->second >= waits_max - count_) return false;
  if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
  waits_.push_back({tenant, std::chrono::steady_clock::now() + wait, std::move(look)});
  ++count_;
  ++counts_[tenant];
  changed_.notify_all();
  return true;
}

void LogWaits::watch() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    if (waits_.empty()) {
      changed_.wait(lock, [this] { return ending_ || !waits_.empty(); });
      continue;
    }
    std::list<Wait> looked_at = std::exchange(waits_, {});
    lock.unlock();
    const auto now = std::chrono::steady_clock::now();
    std::vector<TenantId> done;
    std::erase_if(looked_at, [&](Wait& wait) {
      bool is_done = true;
      try {
        is_done = wait.look(now >= wait.until);
      } catch (const std::exception&) {
        // A disk that cannot be read: who waits is answered that nobody answers.
      }
      if (is_done) done.push_back(wait.tenant);
      return is_done;
    });
    lock.lock();
    count_ -= done.size();
    for (const TenantId& tenant : done)
      if (--counts_[tenant] == 0) counts_.erase(tenant);
    waits_.splice(waits_.end(), looked_at);
    changed_.wait_for(lock, look_interval, [this] { return ending_; });
  }
}

}  // namespace pawl::api
