// A store that several servers write to at once, all equal, none leading.
//
// Rows are written in the same commit as the events they come from, so what is loaded is the present. Every write of a
// stream names the event that it follows (RunFold::follows, TenantFold::follows). When somebody else has written
// meanwhile, that stream's write is left out and commit() says so; the engine loads it anew and decides again. The rest
// of the commit stands. So what a server holds in memory is a cache and nothing more.
//
// Ready steps stand in a queue that all servers take from. Whoever takes one has it for a moment, after which it is
// anybody's again: a server that dies, or is too slow, holds nothing up.
#pragma once

#include "store/store.h"

namespace pawl {

// A ready step with its run, as it is now.
struct TakenStep {
  ReadyStep step;
  RunRow row;
};

// What was taken from the queue, and of whom something was left in it because a cap has no room for it.
struct Taken {
  struct HeldBack {
    TenantId tenant;
    bool is_pace = false;  // by max_runs_per_min; otherwise by max_concurrency
  };
  std::vector<TakenStep> steps;
  std::vector<HeldBack> held_back;
};

// What one server tells the others. It only wakes them: each finds the same by looking now and then.
struct News {
  bool ready = false;             // steps wait in the queue
  bool events = false;            // the journal grew, or a follower is nobody's
  std::vector<TenantId> tenants;  // their configuration changed
  std::vector<StreamKey> runs;    // a lease of that server's own workers may be over
  // Found by looking; servers do not tell each other.
  bool overdue = false;             // a run waits for a timer that nobody acted on
  bool any_tenant = false;          // some tenant's configuration changed
  std::vector<std::uint32_t> gone;  // servers that were not heard of for so long that they are taken for dead

  bool empty() const { return *this == News(); }
  friend bool operator==(const News&, const News&) = default;
};

// How far the journal can be read.
struct JournalEnd {
  Position position = 0;
  // Later commits are there, which can be read as soon as an earlier transaction is over. Nobody tells of that.
  bool is_held_back = false;
};

class SharedStore : public Store {
 public:
  SharedStore* shared() final { return this; }

  // The database's clock: the one that all servers go by.
  virtual Instant now() = 0;
  // This server among the others; a new number each time one starts.
  virtual std::uint32_t server_number() const = 0;
  // False while the database cannot be reached. commit() and what the engine reads wait until it can be again.
  virtual bool is_reachable() const = 0;
  // From now on nothing waits for a database that is gone: StoreFailure instead. For the end of the process.
  virtual void stop_waiting() = 0;

  // No commit that was acknowledged by now has a later position; those that are under way may have an earlier one,
  // until last_position() is there.
  virtual Position newest_position() = 0;

  virtual JournalEnd journal_end() = 0;

  // These runs as they are now; those that are not there are left out.
  virtual std::vector<RunRow> load_all(std::span<const StreamKey> runs) = 0;
  // Runs with a lease of a worker inside of one of these servers, and perhaps others that have a lease.
  virtual std::vector<DueRun> leased_runs_of(std::span<const std::uint32_t> servers) = 0;
  // Ready steps for any of these tools that nobody has in hand, with their runs: of each tenant at most `per_tenant`,
  // and no more than its caps leave room for; steps of runs that have started first, oldest run first. They are this
  // server's until `hold` has passed. `only`: of this tenant.
  virtual Taken take_ready(std::span<const ToolName> tools, std::size_t per_tenant, Duration hold,
                           std::optional<TenantId> only) = 0;
  // What the tenant's caps and those of its workflows leave now; those without a cap are left out.
  virtual std::vector<CapUse> cap_use(TenantId tenant) = 0;
  // What is written of tenants: the sequence number of each, and one with its head.
  virtual std::vector<std::pair<TenantId, std::uint64_t>> tenant_heads() = 0;
  virtual std::optional<std::pair<Tenant, Hash>> load_tenant(TenantId tenant) = 0;
  virtual std::vector<WorkflowRow> workflows_of(TenantId tenant) = 0;

  // For one thread: waits for news of other servers, at most this long.
  virtual News wait_for_news(Duration at_most) = 0;
  // Whether wait_for_news() tells of everything that happens: those who hear it need not look for themselves. False
  // until somebody waits there, and while the database does not answer.
  virtual bool reports_all() const { return false; }
  // Soon, to all others; to one when `server` is given. It may get lost.
  virtual void tell(const News& news, std::optional<std::uint32_t> server) = 0;
};

}  // namespace pawl
