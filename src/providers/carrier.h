// Takes runs to the provider that carries them, and brings back what it says.
//
// Two things go on. A follower of the journal hands over: what the journal says is to be started, stopped or told over
// there is done, and only then does the follower's place move on; so a crash anywhere in between does it again, and
// doing it twice is as doing it once. A thread of its own looks: at all runs that are carried, in batches, once an
// interval, which grows when looking takes long or fails. What it sees becomes a command (ObserveRun), and core decides
// what that means.
//
// With several servers both are one server's at a time, and another's when that one is not heard of (follower.h).
// Should two look at once, for a moment, nothing is harmed: a run moves by what is new only, and never after its end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/follower.h"
#include "engine/runtime.h"
#include "providers/provider.h"

namespace pawl::providers {

struct CarrierOptions {
  Duration interval = std::chrono::seconds(1);
  // After which a run that the provider does not know has failed.
  Duration lost_after = std::chrono::minutes(10);
  // Sentences for the log.
  std::function<void(const std::string&)> report;
  // A word that provider_states does not have.
  std::function<void(Provider, const std::string& word)> unknown_state;
  // A look that saw everything, or did not; and how many runs are carried.
  std::function<void(Provider, bool succeeded, std::size_t runs)> looked;
};

class Carrier final : public Follower {
 public:
  // All of them outlive it, and are there before it sees anything.
  Carrier(Runtime& runtime, Store& store, const Clock& clock, Client& client, CarrierOptions options);
  ~Carrier() override;

  // Begins to look. Before that, and after stop(), it only hands over.
  void start();
  void stop();

  std::string name() const override { return "provider." + std::string(to_string(client_.provider())); }
  bool wants(const Tenant&) const override { return true; }
  void see(const JournalEvent& event) override;
  void settle() override;
  void took_over() override;
  void let_go() override;
  void missed(Position first, Position last) override;

 private:
  using Key = std::pair<TenantId, RunId>;
  using Runs = std::vector<std::shared_ptr<const Run>>;

  // Does what is to be done over there; gives why some of it could not be.
  std::string act();
  Runs inspect(const std::vector<Key>& keys);
  Runs take(std::set<Key>& set, std::vector<Key>& keys);
  void command(const std::vector<std::pair<Key, ObserveRun>>& commands);
  void find_live();
  void find_stopping(TenantId tenant);
  bool is_carried(TenantId tenant, const RunRow& row);
  void hand_over(std::string& problem);
  void tell(std::string& problem);
  void end(std::string& problem);
  void begin_watching(const Run& run);

  // Of the thread that looks.
  void look_again_and_again();
  void take_changes();
  void note(const std::vector<Sighting>& seen);
  // Nothing when it says what was known.
  std::optional<ObserveRun> news_in(const Sighting& sighting);
  void say_unknown(const std::string& said);

  Runtime& runtime_;
  Store& store_;
  const Clock& clock_;
  Client& client_;
  const CarrierOptions options_;

  // What is to be done. Taken before mutex_.
  std::mutex acting_mutex_;
  std::set<Key> to_start_, to_tell_, to_stop_;
  std::atomic<bool> is_owing_ = false;
  std::map<std::tuple<TenantId, WorkflowName, int>, bool> workflows_;

  // Between the two threads.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Carried> joining_;
  std::vector<RunId> leaving_;
  bool leave_all_ = false;
  bool ending_ = false;

  struct Watched {
    TenantId tenant;
    Sighting last;
    std::optional<Instant> missing_since;
  };
  std::unordered_map<RunId, Watched> watched_;
  std::set<std::string> unknown_;
  std::thread thread_;
};

}  // namespace pawl::providers
