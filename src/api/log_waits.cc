#include "api/log_waits.h"

#include <exception>
#include <utility>

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

bool LogWaits::add(std::chrono::milliseconds wait, Look look) {
  const std::lock_guard lock(mutex_);
  if (ending_ || count_ >= waits_max) return false;
  if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
  waits_.push_back({std::chrono::steady_clock::now() + wait, std::move(look)});
  ++count_;
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
    const std::size_t done = std::erase_if(looked_at, [&](Wait& wait) {
      try {
        return wait.look(now >= wait.until);
      } catch (const std::exception&) {
        return true;  // a disk that cannot be read: who waits is answered that nobody answers
      }
    });
    lock.lock();
    count_ -= done;
    waits_.splice(waits_.end(), looked_at);
    changed_.wait_for(lock, look_interval, [this] { return ending_; });
  }
}

}  // namespace pawl::api
