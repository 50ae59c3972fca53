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

void Background::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !ready_.empty(); });
    if (ending_) return;
    Work next = std::move(ready_.front());
    ready_.pop_front();
    lock.unlock();
    next();
    next = nullptr;  // before the lock: what it held may post again as it goes
    lock.lock();
  }
}

}  // namespace pawl::api
