// Who works for a tenant, as this server sees it: remote workers by the requests they make, and the server's own.
//
// With several servers each knows the workers that ask it.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "core/id.h"
#include "core/names.h"
#include "core/time.h"

namespace pawl::api {

class WorkerRegistry {
 public:
  struct Worker {
    WorkerName name;
    KeyId key;
    std::vector<ToolName> tools;  // that it asked for last
    Instant since;                // since when it has been there without a long silence
    Instant last_seen;
  };

  // It asks for steps, and waits for them at most until `until`.
  void polled(TenantId tenant, Worker worker, Instant until);
  // A report or heartbeat through this key.
  void heard(TenantId tenant, KeyId key, Instant now);

  // Those who were heard of not long ago, by name.
  std::vector<Worker> connected(TenantId tenant, Instant now);

 private:
  struct Entry {
    Worker worker;
    Instant until;  // how long it is there without another word
  };
  using Key = std::tuple<TenantId, WorkerName, KeyId>;

  std::mutex mutex_;
  std::map<Key, Entry> workers_;
};

}  // namespace pawl::api
