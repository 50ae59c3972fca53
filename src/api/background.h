// Threads beside the server's own, for what may take a moment: reading tables, writing long answers. Tenants take
// turns, and none has all threads, so one that asks for much waits for itself.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "core/id.h"

namespace pawl::api {

class Background {
 public:
  using Work = std::move_only_function<void()>;

  struct Limits {
    int threads = 2;
    int running_per_tenant_max = 1;
    std::size_t waiting_per_tenant_max = 1024;
  };
  explicit Background(Limits limits);
  ~Background();  // what has not begun is dropped

  // False, and `work` stays as it was, when too much of this tenant's waits already.
  [[nodiscard]] bool offer(TenantId tenant, Work& work);
  // For the answer to what is done already: always taken. There are as many as requests that were admitted.
  void post(TenantId tenant, Work work);

 private:
  struct Queue {
    std::deque<Work> waiting;
    int running = 0;
    bool has_turn = false;  // stands in turns_
  };

  void add(TenantId tenant, Queue& queue, Work work);
  void give_turn(TenantId tenant, Queue& queue);
  void work();

  const Limits limits_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<TenantId, Queue> queues_;  // of tenants with something that waits or runs
  std::deque<TenantId> turns_;        // those that may begin something
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace pawl::api
