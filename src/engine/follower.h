// Followers of the journal: what this installation does because of events, beside what the engine itself does.
//
// A follower sees the events of the tenants that it wants, in the journal's order, each at least once: after a crash
// some come again, so what follows from one must be the same when it is done twice (a run under a trigger, an upsert).
// Its place is kept in the store under its name (Store::follow) and moves only behind events whose consequences are
// durable, so that a crash between an event and what follows from it loses nothing.
//
// One thread a follower: a slow one is in nobody's way. Frames that one has not seen are kept for it up to the store's
// limit (SqliteOptions::followed_bytes_max; PostgreSQL keeps all). Who falls behind that is told what it missed.
//
// With several servers a follower is one server's at a time; when that server dies, another one goes on with it as soon
// as the hold has run out, and may see again what the dead one saw last.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/event_header.h"
#include "store/shared_store.h"

namespace pawl {

struct JournalEvent {
  Position position = 0;
  StreamKey stream;
  std::uint64_t seq = 0;
  EventHeader header;     // of the line: what a follower decides by
  std::string_view line;  // canonical JSON (core/event.h, core/tenant.h)
  const Tenant& tenant;   // as it is now, or was a moment ago: never older than the event

  RunId run() const { return {stream.stream}; }  // unless it is the tenant's own stream
};

// Called by one thread at a time.
class Follower {
 public:
  virtual ~Follower() = default;
  // Unique in the installation, and for ever: its place is kept under it.
  virtual std::string name() const = 0;
  // Whether it wants to see this tenant's events. While it wants nobody's, the journal is not even read. From any
  // thread.
  virtual bool wants(const Tenant& tenant) const = 0;
  // May begin what takes time; must not throw for what it sees.
  virtual void see(const JournalEvent& event) = 0;
  // Returns once all that follows from what it has seen is durable. What it throws makes it see the same again, later.
  virtual void settle() = 0;
  // A part of it, for a follower that may be long at it; false when there is more to do, from settles_at() on. It may
  // be shown more events in between.
  virtual bool settle_some() {
    settle();
    return true;
  }
  // It may take more before it settles what it has seen, until this moment.
  virtual std::chrono::steady_clock::time_point settles_at() const { return {}; }
  // Its place is this server's now: at the start, and when another server had it in between. What it remembers of what
  // it saw may be behind, and is seen again unless it was settled.
  virtual void took_over() {}
  // It is another server's now.
  virtual void let_go() {}
  // These frames are not kept any more. It may make up for them from the tables, before settle() returns.
  virtual void missed(Position /*first*/, Position /*last*/) {}
};

struct FollowingOptions {
  // How often a shared journal is looked at while nobody says that it grew, and nobody would (reports_all).
  Duration look_period = std::chrono::milliseconds(250);
  // How long another server waits for one that is gone.
  Duration hold = std::chrono::seconds(5);
  // After a failure.
  Duration pause = std::chrono::seconds(1);
  std::size_t batch_bytes_max = 1 << 20;
  // Sentences for the log.
  std::function<void(const std::string&)> report;
};

// Takes one follower through the journal, on a thread of its own.
class Following {
 public:
  // Both outlive it. Nothing happens before start().
  Following(Store& store, Follower& follower, FollowingOptions options = {});
  ~Following();

  void start();
  // Ends with what it is at; what is not settled then is seen again.
  void stop();

  // From the thread that committed it, for every frame, in order; before anybody is answered. Not with several servers.
  void publish(const Frame& frame);
  // With several servers: the journal may have grown. From any thread.
  void look();

  // The last position that it is done with here, and the journal's end when it last looked.
  Position position() const { return position_.load(std::memory_order_relaxed); }
  Position end() const { return end_.load(std::memory_order_relaxed); }

 private:
  // held_back: caught up with all that can be read yet.
  enum class Progress { caught_up, held_back, behind, waiting, elsewhere };
  using Moment = std::chrono::steady_clock::time_point;

  void work();
  // Until something calls for go_on(); false when that is the end.
  bool wait_for_work(Progress progress, bool failed);
  Moment next_try(Progress progress, bool failed);
  Progress go_on();
  // How far the journal is; all tenants are known as they are there, or later.
  JournalEnd find_end();
  void learn(const Tenant& tenant);
  void learn_tenants();
  void see_frame(const KeptFrame& frame);

  Store& store_;
  SharedStore* const shared_;
  Follower& follower_;
  const std::string name_;
  FollowingOptions options_;
  std::atomic<Position> position_{0}, end_{0};

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<TenantId, std::shared_ptr<const Tenant>> wanted_;  // those that it wants
  Position last_ = 0;
  bool may_have_grown_ = true;
  bool ending_ = false;

  // The thread's own.
  std::optional<Position> held_at_;          // where it left its place, while that is this server's
  std::optional<Position> seen_;             // beyond that: not settled yet
  std::map<TenantId, std::uint64_t> known_;  // how far each tenant's stream was when it was learned
  Duration held_back_pause_{0};              // doubles while it is held back
  std::thread thread_;
};

}  // namespace pawl
