#include "api/background.h"

#include <pthread.h>

namespace pawl::api {

Background::Background(int threads) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { work(); });
    pthread_setname_np(threads_.back().native_handle(), "pawl-answers");
  }
}

Background::~Background() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Background::post(Work work) {
  {
    std::lock_guard lock(mutex_);
    ready_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void Background::post_after(std::chrono::milliseconds delay, Work work) {
  {
    std::lock_guard lock(mutex_);
    later_.emplace(std::chrono::steady_clock::now() + delay, std::move(work));
  }
  changed_.notify_one();
}

void Background::work() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    auto now = std::chrono::steady_clock::now();
    while (!later_.empty() && later_.begin()->first <= now) {
      ready_.push_back(std::move(later_.begin()->second));
      later_.erase(later_.begin());
    }
    if (ready_.empty()) {
      if (later_.empty()) {
        changed_.wait(lock);
      } else {
        auto until = later_.begin()->first;  // a copy: another thread may take the entry meanwhile
        changed_.wait_until(lock, until);
      }
      continue;
    }
    Work next = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    next();
    next = nullptr;  // before the lock: what it held may post again as it goes
    lock.lock();
  }
}

}  // namespace pawl::api
