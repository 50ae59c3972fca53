// The engine with threads: one that decides, one that commits. Everything else talks to it from any thread.
//
//   post()/report()/offer() -> inbox -> [engine thread: decide] -> turns -> [writer thread: commit, sync] -> release
//
// The writer takes all turns that have queued up and commits them together, so the busier it is, the more commands
// share a sync; meanwhile the engine thread decides the next turn. Released turns call reply functions and lease sinks
// on the writer thread: those must return at once.
//
// With a store that other servers write to as well, a third thread listens to them, and what a commit lost to one of
// them goes back to the engine thread to be decided again.
//
// When the store fails, on_failure is called once, on the thread that saw it, and nothing is answered any more. The
// default prints the reason and ends the process: after a failed sync nothing in memory can be trusted.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "engine/losses.h"

namespace pawl {

struct RuntimeOptions {
  EngineLimits limits;
  std::uint64_t seed = 0;  // 0: drawn from the system
  std::function<void(const std::string& reason)> on_failure;
  // Sees every frame once it is durable, in order, on the writer thread, and may take what is in it.
  std::function<void(Frame&)> on_durable;
  // How long a commit took, and how many frames it held.
  std::function<void(std::chrono::nanoseconds, std::size_t frames)> on_commit;
  Engine::LeaseLost on_lease_lost;
  // With several servers: sees every tenant that another one changed, on the engine thread, and hears when the journal
  // may have grown, on any.
  std::function<void(const Tenant&)> on_tenant;
  std::function<void()> on_events;
  // On the engine thread, for what was damaged in the store and is not used. Without it the engine stops.
  Engine::DamageFound on_damage;
};

class Runtime : public LeaseBroker {
 public:
  using Task = std::move_only_function<void(Engine&)>;

  Runtime(Store& store, const ToolCatalog& tools, const Clock& clock, RuntimeOptions options = {});
  ~Runtime() override;

  // Recovers, then begins. Throws StoreFailure when the journal cannot be read.
  void start();
  // Finishes what has been decided, folds it into the tables, and ends the threads.
  void stop();

  // Nothing is handed out any more (Engine::wind_down), and all that was has reached its worker when this returns. Not
  // from a reply function.
  void wind_down();

  const PolicyCache& policy_cache() const { return engine_.policy_cache(); }
  // Engine::read_definition(), on the calling thread.
  std::expected<Workflow, std::string> read_definition(const Tenant& tenant, const WorkflowName& name,
                                                       std::string_view source) const {
    return engine_.read_definition(tenant, name, source);
  }

  // Runs on the engine thread, in order. After stop(), and after a failure, a task is dropped unrun, its reply
  // uncalled. What it concerns is only a hint, with several servers: runs that many tasks ask for are then fetched in
  // one look.
  void post(Task task, std::optional<StreamKey> concerns = {});
  // Before all that was posted: for what must not wait behind a crowd, and is cheap.
  void post_urgent(Task task);
  void offer(const WorkerName& worker, int slots) override;
  void give_back(const WorkerName& worker, TenantId tenant, int slots) override;
  void report(std::vector<StepReport> reports) override;

  // The same for one request.
  template <class R>
  void request(R value, Reply<typename R::Answer> reply = {}) {
    std::optional<StreamKey> concerns;
    if constexpr (requires { StreamKey::of(value.tenant, RunId(value.run)); })
      concerns = StreamKey::of(value.tenant, value.run);
    post([value = std::move(value),
          reply = std::move(reply)](Engine& engine) mutable { engine.request(std::move(value), std::move(reply)); },
         concerns);
  }

  // Asks and waits for the durable answer; throws std::runtime_error when the runtime ends before there is one. Not
  // from a reply function.
  template <class R>
  requires requires { typename R::Answer; }
  std::expected<typename R::Answer, Refusal> ask(R value) {
    return ask<typename R::Answer>(
        [&](Engine& engine, Reply<typename R::Answer> reply) { engine.request(std::move(value), std::move(reply)); });
  }
  template <class T>
  std::expected<T, Refusal> ask(std::move_only_function<void(Engine&, Reply<T>)> request) {
    // Shared: the writer thread may still be in set_value() when the caller has its answer and is gone.
    auto promise = std::make_shared<std::promise<std::expected<T, Refusal>>>();
    auto answer = promise->get_future();
    post([request = std::move(request), promise = std::move(promise)](Engine& engine) mutable {
      request(engine, [promise = std::move(promise)](std::expected<T, Refusal> result) {
        promise->set_value(std::move(result));
      });
    });
    try {
      return answer.get();
    } catch (const std::future_error&) {
      throw std::runtime_error("pawl stopped before it could answer");
    }
  }

 private:
  struct Inbox {
    std::vector<Lost> lost;  // with several servers
    std::vector<Task> urgent;
    std::vector<Task> tasks;
    std::vector<StreamKey> concerned;  // with several servers
    std::vector<StepReport> reports;
    std::vector<SlotOffer> offers;

    bool empty() const { return lost.empty() && urgent.empty() && tasks.empty() && reports.empty() && offers.empty(); }
  };

  void decide_loop();
  void decide(std::vector<Task>& urgent);
  void decide_urgent();
  bool receive(Inbox& taken);
  void begin_turn(std::span<const Lost> lost);
  void end_turn();
  void hand_over(Turn turn);
  void write_loop();
  void note_durable(std::optional<Position> position, std::vector<Lost> lost);
  void settle(std::vector<Turn>& turns);
  void listen_loop();
  void fail(const std::string& reason);
  void drop_inbox();

  Store& store_;
  SharedStore* const shared_;
  const Clock& clock_;
  StillClock still_clock_;
  RuntimeOptions options_;
  Random random_;
  Engine engine_;

  std::mutex inbox_mutex_;
  std::condition_variable inbox_changed_;
  Inbox inbox_;
  bool stopping_ = false;
  bool stopped_ = false;  // nobody reads the inbox any more

  std::mutex turns_mutex_;
  std::condition_variable turns_changed_;
  std::vector<Turn> turns_;
  std::size_t turns_bytes_ = 0;
  bool decided_all_ = false;

  Position durable_ = 0;        // with inbox_mutex_
  Position known_durable_ = 0;  // the deciding thread's own
  std::atomic<bool> failed_{false};
  Losses losses_;  // the writer's
  std::atomic<bool> ending_{false};
  std::thread engine_thread_;
  std::thread writer_thread_;
  std::thread listener_thread_;
};

}  // namespace pawl
