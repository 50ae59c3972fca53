// The workers inside this process: takes leases from the engine, runs their tools, reports.
//
//   grant -> quick -> one thread runs all that have queued up and reports them together
//         \-> slow -> a thread each, made on demand, kept
//   CompleteAt ------> a timer, no thread, until the keeper reports it
//
// The keeper is the thread that looks at the clock: it reports what is due, stops what overruns its time-out, makes
// threads, and offers the slots of leases that were lost.
//
// Every granted lease gives its slot back once (give_back), whatever became of it, and leads to at most one report. One
// that only waits for a timer gives it back at once: a thousand sleeping steps must not keep the others from working.
//
// At the end, what is not finished is reported as Released, without an offer: the pool wants no more.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/lease.h"
#include "tools/gate.h"
#include "tools/secret_use.h"
#include "tools/tool.h"

namespace pawl {

struct WorkerPoolOptions {
  WorkerName worker;
  int slots = 1024;          // leases queued or running at once
  int timers_max = 100'000;  // leases that wait for a timer without a slot; any further ones keep theirs
  int threads_max = 64;      // for slow tools
  std::function<Instant()> clock;
  FindSecret secrets = {};
};

class WorkerPool final : public LeaseSink {
 public:
  // Tools and gate must outlive the pool.
  WorkerPool(WorkerPoolOptions options, const std::vector<std::unique_ptr<Tool>>& tools, Gate& gate);
  ~WorkerPool() override;

  // Offers all slots. The broker must stay until stop() has returned. Once only.
  void start(LeaseBroker& broker);
  // Begins nothing more, lets what has begun end for at most `grace`, then stops every tool, and joins; nothing is
  // reported afterwards. A tool that does not end within stop_time_max is a bug, and ends the process. A broker that
  // still grants then should have been told before: such a lease is lost. Not from a thread of the pool.
  void stop(std::chrono::milliseconds grace = std::chrono::milliseconds(0));

  // Neither blocks on a tool or calls the broker.
  void grant(std::vector<Lease> leases) override;
  void revoke(RunId run, const StepId& step, std::uint64_t token) override;

 private:
  struct LeaseKey {
    RunId run;
    StepId step;
    std::uint64_t token = 0;

    friend bool operator==(const LeaseKey&, const LeaseKey&) = default;
  };
  struct LeaseKeyHash {
    std::size_t operator()(const LeaseKey& key) const noexcept;
  };

  // A slow lease in the hands of a thread, on that thread's stack.
  struct Running {
    const Lease& lease;
    Instant deadline = end_of_time;
    std::stop_source stop;
    // timed_out: told to stop, still given stop_grace. abandoned: reported without waiting any longer. released: told
    // to stop because the pool ends.
    enum class State { working, timed_out, abandoned, revoked, released } state = State::working;
    Instant abandon_at = end_of_time;
  };

  // By due time, then in the order of arrival.
  struct Timer {
    Instant at;
    std::uint64_t number = 0;

    friend auto operator<=>(const Timer&, const Timer&) = default;
  };

  struct Waiting {
    LeaseKey lease;
    StepReport report;
    bool holds_slot = false;
  };

  // Slots to give back, by whose lease held them.
  class FreedSlots {
   public:
    void add(TenantId tenant, int slots = 1);
    bool empty() const { return by_tenant_.empty(); }
    const std::vector<std::pair<TenantId, int>>& by_tenant() const { return by_tenant_; }

   private:
    std::vector<std::pair<TenantId, int>> by_tenant_;
  };

  // What a thread of the pool has to say once it has let go of the lock.
  struct Messages {
    std::vector<StepReport> reports;
    std::vector<std::stop_source> stops;
    FreedSlots freed;

    bool empty() const { return reports.empty() && stops.empty() && freed.empty(); }
  };

  Tool* find(const ToolName& name) const;
  // What a lease came to, and the effect that it had on the way.
  struct Result {
    ToolResult result;
    std::optional<EffectOutcome> effect = {};
  };
  Result execute(Tool* tool, const Lease& lease, Instant now, std::stop_token stop);
  Result execute(Tool& tool, const Lease& lease, SecretUse& secrets, Instant now, std::stop_token stop);
  Result execute_write(Tool& tool, Lease&& lease, SecretUse& secrets, Instant now, std::stop_token stop);
  void send(Messages messages);

  void run_quick_leases();
  Messages run_batch(std::vector<Lease>& batch, Instant now);
  void run_slow_leases();
  std::optional<StepReport> finish(Running& running, Lease&& lease, Result result);
  [[nodiscard]] int add_timer(Lease&& lease, CompleteAt result, Instant started);

  // With the lock held.
  void give_back(Lease&& lease);
  void give_back_timers_after(Instant last);
  bool is_at_rest() const;

  void keep();
  void make_threads();
  void collect_due_timers(Instant now, Messages& messages);
  void collect_overdue(Instant now, Messages& messages);
  std::optional<Instant> next_moment() const;

  const WorkerPoolOptions options_;
  Gate& gate_;
  std::unordered_map<ToolName, Tool*> tools_;
  LeaseBroker* broker_ = nullptr;

  std::mutex mutex_;          // for all that follows, except the threads themselves
  bool is_draining_ = false;  // nothing more begins
  Instant drain_end_;         // what would end later is given back
  bool is_stopping_ = false;  // and the threads end
  std::condition_variable quick_wake_, slow_wake_, keeper_wake_, came_to_rest_;

  std::vector<Lease> quick_queue_;
  bool batch_is_running_ = false;
  std::vector<LeaseKey> revoked_in_batch_;

  std::deque<Lease> slow_queue_;
  int idle_threads_ = 0;
  std::list<Running*> running_;

  std::map<Timer, Waiting> timers_;
  std::unordered_map<LeaseKey, Timer, LeaseKeyHash> timer_of_;
  std::uint64_t timers_made_ = 0;

  std::vector<StepReport> given_back_;
  FreedSlots freed_;
  bool keeper_is_called_ = false;

  std::thread quick_thread_, keeper_thread_;
  std::vector<std::thread> slow_threads_;  // the keeper's, then stop()'s
};

// Between asking a tool to stop because its time is up and reporting so without it.
inline constexpr Duration stop_grace = std::chrono::seconds(5);
inline constexpr std::chrono::seconds stop_time_max{10};

}  // namespace pawl
