#include "api/background.h"

#include <pthread.h>

#include <utility>

namespace pawl::api {

Background::Background(Limits limits) : limits_(limits) {
  for (int i = 0; i < limits_.threads; ++i) {
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

bool Background::offer(TenantId tenant, Work& work) {
  {
    std::lock_guard lock(mutex_);
    Queue& queue = queues_[tenant];
    if (queue.waiting.size() >= limits_.waiting_per_tenant_max) return false;
    add(tenant, queue, std::move(work));
  }
  changed_.notify_one();
  return true;
}

void Background::post(TenantId tenant, Work work) {
  {
    std::lock_guard lock(mutex_);
    add(tenant, queues_[tenant], std::move(work));
  }
  changed_.notify_one();
}

void Background::add(TenantId tenant, Queue& queue, Work work) {
  queue.waiting.push_back(std::move(work));
  give_turn(tenant, queue);
}

void Background::give_turn(TenantId tenant, Queue& queue) {
  if (queue.has_turn || queue.waiting.empty() || queue.running >= limits_.running_per_tenant_max) return;
  queue.has_turn = true;
  turns_.push_back(tenant);
}

void Background::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || !turns_.empty(); });
    if (ending_) return;
    const TenantId tenant = turns_.front();
    turns_.pop_front();
    Queue& queue = queues_.at(tenant);  // stays while something of it runs
    queue.has_turn = false;
    Work next = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    ++queue.running;
    give_turn(tenant, queue);
    const bool more = !turns_.empty();
    lock.unlock();
    if (more) changed_.notify_one();
    next();
    next = nullptr;  // before the lock: what it held may post again as it goes
    lock.lock();
    --queue.running;
    give_turn(tenant, queue);
    if (queue.running == 0 && queue.waiting.empty()) queues_.erase(tenant);
  }
}

}  // namespace pawl::api
