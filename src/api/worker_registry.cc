#include "api/worker_registry.h"

#include <algorithm>

namespace pawl::api {
namespace {

// Of one tenant. Names are the workers' own, and a worker may take a new one with every request.
constexpr std::ptrdiff_t workers_max = 1000;
// A worker that has enough to do reports now and then, and asks for nothing.
constexpr Duration silence_max = std::chrono::minutes(2);

}  // namespace

void WorkerRegistry::polled(TenantId tenant, Worker worker, Instant until) {
  const Instant now = worker.last_seen;
  const std::lock_guard lock(mutex_);
  const Key key{tenant, worker.name, worker.key};
  auto first = workers_.lower_bound({tenant, WorkerName{}, KeyId{}});
  auto known = workers_.find(key);
  if (known == workers_.end()) {
    std::ptrdiff_t count = 0;
    for (auto entry = first; entry != workers_.end() && std::get<0>(entry->first) == tenant;) {
      const bool is_gone = entry->second.until < now;
      count += is_gone ? 0 : 1;
      entry = is_gone ? workers_.erase(entry) : std::next(entry);
    }
    if (count >= workers_max) return;
    worker.since = now;
  } else {
    worker.since = known->second.until < now ? now : known->second.worker.since;
  }
  workers_[key] = {std::move(worker), std::max(until, now) + silence_max};
}

void WorkerRegistry::heard(TenantId tenant, KeyId key, Instant now) {
  const std::lock_guard lock(mutex_);
  for (auto entry = workers_.lower_bound({tenant, WorkerName{}, KeyId{}});
       entry != workers_.end() && std::get<0>(entry->first) == tenant; ++entry) {
    if (entry->second.worker.key != key || entry->second.until < now) continue;
    entry->second.worker.last_seen = now;
    entry->second.until = std::max(entry->second.until, now + silence_max);
  }
}

std::vector<WorkerRegistry::Worker> WorkerRegistry::connected(TenantId tenant, Instant now) {
  const std::lock_guard lock(mutex_);
  std::vector<Worker> out;
  for (auto entry = workers_.lower_bound({tenant, WorkerName{}, KeyId{}});
       entry != workers_.end() && std::get<0>(entry->first) == tenant; ++entry)
    if (entry->second.until >= now) out.push_back(entry->second.worker);
  return out;
}

}  // namespace pawl::api
