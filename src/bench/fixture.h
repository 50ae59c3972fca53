// A whole pawl in this process, on a real folder or database: store, engine threads, in-process workers.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/runtime.h"
#include "engine/server.h"
#include "store/store.h"
#include "tools/tools.h"
#include "tools/worker_pool.h"

namespace pawl::bench {

// Counts up and lets others wait for it. (std::atomic's own wait misses wake-ups in libstdc++ 12.)
class Counter {
 public:
  void add(std::uint64_t count);
  void wait_for(std::uint64_t count);
  std::uint64_t value();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t value_ = 0;
};

struct FixtureOptions {
  std::filesystem::path folder;
  std::string database;            // postgres://...: there instead
  int slots = 8192;                // of the in-process workers; 0 = no workers
  int threads = 4;                 // for those of their tools that are slow
  std::optional<ToolLimits> http;  // they have http.request too, so limited
  bool governed = false;           // what they write passes the gate of the engine
  EngineLimits limits;
  // What stands between the engine and its store, when something shall.
  std::function<std::unique_ptr<Store>(Store&)> between;
};

class Fixture {
 public:
  explicit Fixture(const FixtureOptions& options);
  ~Fixture();

  // Publishes and returns its name.
  WorkflowName publish(const std::string& source);

  // Creates `count` runs with at most `in_flight` unfinished at a time, and waits for all to end. Seconds it took.
  double run_many(const WorkflowName& workflow, std::uint64_t count, std::uint64_t in_flight);
  // Creates runs without waiting for their end; returns when the last creation is durable. Seconds it took.
  double create_many(const WorkflowName& workflow, std::uint64_t count);
  // One run, from the call to its durable end. Seconds.
  double run_one(const WorkflowName& workflow);

  void start_workers();
  std::uint64_t finished() { return finished_.value(); }
  void wait_for_finished(std::uint64_t count) { finished_.wait_for(count); }
  EngineStats stats();
  Runtime& runtime() { return *runtime_; }
  TenantId tenant() const { return tenant_; }
  void publish_policy(const std::string& source);

 private:
  void watch(const Frame& frame);

  FixtureOptions options_;
  std::unique_ptr<Store> store_;
  ServiceClock clock_;
  std::vector<std::unique_ptr<Tool>> tools_;
  ToolCatalog catalog_;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<Store> between_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<WorkerPool> workers_;
  TenantId tenant_;
  Counter finished_;
};

// Five steps of no-op, one of them, or a gate.
std::string steps_workflow(const std::string& name, int steps);
std::string gate_workflow(const std::string& name);

}  // namespace pawl::bench
