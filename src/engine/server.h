// What a process is among those that use the same store.
#pragma once

#include <unistd.h>

#include <string>

#include "engine/clock.h"
#include "engine/engine.h"
#include "store/shared_store.h"

namespace pawl {

// What all servers of a database go by; alone, the machine's own.
class ServiceClock : public Clock {
 public:
  explicit ServiceClock(Store& store) : shared_(store.shared()) {}
  Instant now() const override { return shared_ ? shared_->now() : SystemClock().now(); }

 private:
  SharedStore* shared_;
};

// The name of the workers inside this process.
inline WorkerName local_worker(Store& store) {
  std::string server = store.shared() ? std::to_string(store.shared()->server_number()) + "/" : "";
  return {std::string(local_worker_prefix) + server + std::to_string(::getpid())};
}

}  // namespace pawl
