// Whose turn it is. Ready steps wait here, as ids, until a worker asks for them:
//
//   tool -> tenants, weighted round robin -> workspaces, weighted round robin -> first come, first served
//
// A tenant with a million queued steps delays another tenant's first step by no more than its own turn. Caps are kept
// here: a tenant or workflow at its max_concurrency is set aside until one of its leases ends; one that has used up
// its max_runs_per_min until the minute allows another start. Starts are paced, never lost. Steps of runs that have
// started go before runs that have not: what was begun is finished first, which keeps the working set small.
//
// Entries are not removed when a run is canceled: whoever takes a ticket checks that it still means something, and
// gives it back with put_back() when it does not.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/id.h"
#include "core/time.h"
#include "core/workflow.h"
#include "store/store.h"

namespace pawl {

// What caps did to a tenant since this process began: how often each made steps or starts wait, or refused a write. One
// that waits and is looked at again counts again.
struct HeldBack {
  std::uint64_t max_concurrency = 0;
  std::uint64_t max_runs_per_min = 0;
  std::uint64_t max_writes_per_run = 0;

  friend bool operator==(const HeldBack&, const HeldBack&) = default;
};

class Scheduler {
 public:
  // This scheduler's own, for (tenant, workflow).
  using WorkflowNumber = std::uint32_t;

  struct TenantLimits {
    int weight = 1;
    Caps caps;
  };

  struct Ticket {
    TenantId tenant;
    RunId run;
    StepIndex step = 0;
    bool fresh = false;
    bool is_lease = false;  // false: a run that starts at a gate
    WorkflowNumber workflow = 0;
  };

  void set_limits(TenantId tenant, const TenantLimits& limits);
  void set_workspace_weight(TenantId tenant, const WorkspaceName& workspace, int weight);
  void set_workflow_caps(TenantId tenant, const WorkflowName& workflow, const Caps& caps);

  WorkflowNumber number_of(TenantId tenant, const WorkflowName& workflow);
  void add(const ReadyStep& step);

  // The next step for a worker that offers these tools, or nothing. Counts as a lease, and, when fresh, as a start.
  std::optional<Ticket> take(std::span<const ToolName> tools, Instant now);
  // The same for a worker that belongs to one tenant: whoever's turn it is.
  std::optional<Ticket> take(std::span<const ToolName> tools, Instant now, TenantId only);
  // The same without those that must not have more of the worker's slots now; they keep their turn.
  using MayTake = std::function<bool(TenantId)>;
  std::optional<Ticket> take(std::span<const ToolName> tools, Instant now, const MayTake& may_take);
  // The ticket meant nothing: as if it had not been taken.
  void put_back(const Ticket& ticket);
  // The run had already started: only the lease counts.
  void not_a_start(const Ticket& ticket);

  // What a restart finds.
  void lease_restored(WorkflowNumber workflow);
  void start_restored(TenantId tenant, const WorkflowName& workflow, Instant at);
  void lease_ended(WorkflowNumber workflow);

  // When a paced start becomes possible; end_of_time when nothing waits for the clock.
  Instant next_start_at() const;
  // Whether starts of this workflow are counted, so that they must be remembered across a restart.
  bool is_paced(WorkflowNumber workflow) const;

  // Whose it is.
  std::pair<TenantId, WorkflowName> workflow_of(WorkflowNumber number) const {
    return {workflows_[number].tenant->id, workflows_[number].name};
  }

  std::size_t size() const { return size_; }
  std::uint64_t running(TenantId tenant) const;
  std::uint64_t queued(TenantId tenant) const;
  // Of all tenants of which something was.
  std::vector<std::pair<TenantId, HeldBack>> held_back() const;
  HeldBack held_back(TenantId tenant) const;
  // What the tenant's caps and those of its workflows leave now; those without a cap are left out.
  std::vector<CapUse> cap_use(TenantId tenant, Instant now) const;
  // A cap that is not kept here did.
  void count_held_back(TenantId tenant, std::uint64_t HeldBack::*cap) { ++(tenant_state(tenant).held_back.*cap); }

 private:
  struct TenantState;
  struct ToolQueue;

  struct Entry {
    RunId run;
    WorkflowNumber workflow = 0;
    StepIndex step = 0;
    bool fresh = false;
  };

  // What caps count, for a tenant or for one workflow of it.
  struct Meter {
    Caps caps;
    std::uint64_t running = 0;
    std::deque<Instant> starts;  // of the last minute; kept only under max_runs_per_min

    bool may_run() const;
    Instant may_start_at(Instant now);  // now, or when the minute allows it
    void started(Instant at);
    void unstart();
  };

  struct WorkspaceQueue {
    WorkspaceName name;
    int weight = 1;
    int credit = 1;  // takes left before the next workspace's turn
    bool in_ring = false;
    std::deque<Entry> started;
    std::deque<Entry> fresh;
  };

  // One tenant's steps for one tool.
  struct TenantQueue {
    TenantState* tenant = nullptr;
    ToolQueue* tool = nullptr;
    int credit = 1;
    bool in_ring = false;
    bool waits_for_clock = false;  // a wakeup is set for it
    std::map<WorkspaceName, WorkspaceQueue> workspaces;
    std::deque<WorkspaceQueue*> ring;
  };

  struct ToolQueue {
    ToolName name;
    std::unordered_map<TenantId, TenantQueue> tenants;
    std::deque<TenantQueue*> ring;
  };

  struct WorkflowState {
    WorkflowName name;
    WorkflowNumber number = 0;
    TenantState* tenant = nullptr;
    Meter meter;
    // Waiting for this workflow's own caps.
    struct Aside {
      std::deque<ReadyStep> started;
      std::deque<ReadyStep> fresh;
    };
    std::map<ToolName, Aside> aside;
    bool waits_for_clock = false;  // a wakeup is set for it
  };

  struct TenantState {
    TenantId id;
    int weight = 1;
    Meter meter;
    std::map<WorkspaceName, int> workspace_weights;
    std::map<WorkflowName, WorkflowNumber> workflows;
    std::vector<TenantQueue*> aside;  // out of their rings until a lease ends
    HeldBack held_back;
  };

  // Something waits for the clock: a tenant's queue, or a workflow's steps.
  struct Wakeup {
    Instant at;
    TenantQueue* queue = nullptr;
    WorkflowState* workflow = nullptr;
    bool operator>(const Wakeup& other) const { return at > other.at; }
  };

  TenantState& tenant_state(TenantId id);
  WorkflowState& workflow_state(TenantState& tenant, const WorkflowName& name);
  WorkspaceQueue& workspace_queue(const ReadyStep& step);
  void insert(const ReadyStep& step, bool at_front);
  void enter(TenantQueue& queue);
  void leave(TenantQueue& queue);
  void wake(Instant now);
  void await_next_start(WorkflowState& workflow, Instant now);
  void release(TenantState& tenant);
  void release(WorkflowState& workflow);
  void bring_back(std::deque<ReadyStep>& aside, std::size_t count);
  template <class TakeOne>
  std::optional<Ticket> take_of_tools(std::span<const ToolName> tools, Instant now, TakeOne take_one);
  std::optional<Ticket> take_in_turn(ToolQueue& tool, Instant now, const MayTake& may_take);
  std::optional<Ticket> take_from(TenantQueue& queue, Instant now);
  // The queue's next step by workspace turns, skipping runs that may not start yet.
  std::optional<Entry> pick(TenantQueue& queue, bool may_start, const WorkspaceName*& from);
  // False when the workflow's own caps hold the step back; it is then set aside.
  bool admit(const Entry& entry, const TenantQueue& queue, const WorkspaceName& workspace, Instant now);

  std::unordered_map<TenantId, std::unique_ptr<TenantState>> tenants_;
  std::deque<WorkflowState> workflows_;
  std::map<ToolName, ToolQueue> tools_;
  // Where the last step was queued. Nothing in these maps is ever removed, and the next step mostly goes there too.
  TenantQueue* last_queue_ = nullptr;
  WorkspaceQueue* last_workspace_ = nullptr;
  std::priority_queue<Wakeup, std::vector<Wakeup>, std::greater<>> wakeups_;
  std::size_t turn_ = 0;  // rotates over the tools of a worker
  std::size_t size_ = 0;
};

}  // namespace pawl
