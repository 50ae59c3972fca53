// What is durable, and what must be true of it. The simulation tells the checker of every frame once it knows that the
// frame is on disk; the checker reads the events with its own rules (run_model.h), and compares what the engine says
// and what the tables hold with them. The numbers are those of the invariants in docs/architecture.md.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/tool_spec.h"
#include "engine/engine.h"
#include "simulator/actions.h"
#include "simulator/run_model.h"
#include "simulator/task_model.h"
#include "store/store.h"

namespace pawl::simulator {

// One of the simulation's workers as the engine knew it when a turn was taken.
struct WorkerView {
  WorkerName name;
  std::vector<ToolName> tools;
  int slots = 0;  // left over
};

// A turn and what it was decided on.
struct TakenTurn {
  Turn turn;
  std::uint64_t number = 0;
  Instant at;
  std::vector<WorkerView> workers;
  std::set<WorkerName> alive;  // in-process workers that were registered: their leases do not end
  int replies = 0;             // that it owes
};

class Checker {
 public:
  // What the journal says of effects is held against the target.
  Checker(const ToolCatalog& tools, const Target& target, bool is_shared)
      : tools_(tools), target_(target), is_shared_(is_shared) {}

  // The turn's frame is durable. Checks it and, since advance() came right before the turn was taken, that nothing
  // was left undone that could have been done.
  void turn_is_durable(const TakenTurn& turn);
  // Of a store with several servers: what it took of a turn.
  void commit_is_durable(std::string_view parts, const TakenTurn& turn, Instant now);

  // The process died, and a new one recovered at this moment.
  void process_restarted(Instant now);
  // Its leases are over; those in turns up to this number were given to it.
  void worker_removed(const WorkerName& worker, Instant now, std::uint64_t turn);
  // An extension that is not acknowledged may have happened all the same.
  void lease_extended(RunId run, const StepId& step, std::uint64_t token, Instant until, bool is_acknowledged);

  // A worker is about to call: what it has been told is durable, and is this very action.
  struct Call {
    TenantId tenant;
    RunId run;
    StepId step;
    std::uint64_t token;
    ReceiptId receipt;
    const Action& action;
  };
  void check_call(const Call& call) const;

  // Everything durable is in the store, stream by stream, and the streams verify.
  void compare_streams(Store& store) const;
  // After a fold of everything: rows, queues, approvals and snapshots equal the fold of the journal.
  void compare_tables(Store& store) const;

  const RunModel* find(RunId run) const;
  const std::map<RunId, RunModel>& runs() const { return runs_; }
  const TaskModel* find(TaskId task) const;
  const std::map<TaskId, TaskModel>& tasks() const { return tasks_; }
  Position position() const { return position_; }
  // The tenant that a run belongs to, and the number of workflow versions known.
  const Workflow* workflow(TenantId tenant, const WorkflowName& name, int version) const;

 private:
  // Whose keys and accounts are whose, by rules of the checker's own.
  struct Identities {
    std::map<std::string, std::string> person_of;  // "key:...", "slack:..." -> name
    std::map<std::string, Actor> maker_of;         // "key:..." -> who made it

    Actor person(const Actor& actor) const;
    Actor answerable(const Actor& actor) const;
  };
  // A cap that comes and goes: since when it is there, and when it last changed.
  struct Limits {
    Caps caps;
    Instant paced_since = end_of_time;
    Instant changed_at;
    bool is_new = false;  // set by the commit that is looked at
    void set(const Caps& caps, Instant at);
  };
  struct TenantModel {
    std::string lines;
    std::uint64_t seq = 0;
    Hash head;
    Limits limits;
    std::map<WorkflowName, Limits> workflow_limits;
    pawl::Limits own, ceiling;
    bool suspended = false;
    // Scopes and connectors that are frozen, as it was during this commit: any of them.
    using Frozen = std::set<std::pair<FreezeScope, std::string>>;
    std::vector<Frozen> frozen = std::vector<Frozen>(1);
    Caps in_force() const;
    std::map<WorkflowName, int> latest;
    std::map<std::pair<WorkflowName, int>, std::unique_ptr<const Workflow>> workflows;
    std::vector<int> policies{0};  // by version: their numbers
    // Commands of one turn come in any order, so what they stood on is any of what held during it.
    std::size_t policies_before = 1;
    std::vector<Identities> identities = std::vector<Identities>(1);
    std::vector<std::optional<int>> write_caps = std::vector<std::optional<int>>(1);
    void begin_frame();
    void note(const TenantEvent& event);
    void note_limits(const TenantPayload& payload);
    bool may_have_been_open(FreezeScope scope, const std::string& connector) const;
  };
  struct Start {
    TenantId tenant;
    WorkflowName workflow;
    Instant at;
    bool by_engine;  // a claim or a gate, not a cancel or a report
  };

  void apply(std::string_view parts, const TakenTurn& turn);
  void apply_tenant(TenantModel& tenant, const StreamPart& part);
  void apply_run(const StreamPart& part, std::uint64_t turn);
  void apply_task(const StreamPart& part);
  void check_tasks();
  void check_writes(const RunModel& run) const;
  void check_votes(const RunModel& run) const;
  void check_requesters(const RunModel& run) const;
  void check_grounds(const RunModel& run) const;
  void check_effects(const RunModel& run);
  void compare_receipts(Store& store) const;
  std::string list_live(TenantId tenant, const WorkflowName* workflow, const TakenTurn& turn) const;
  void check_concurrency(const TakenTurn& turn) const;
  void check_pace(const Start& start) const;
  void check_grants(const TakenTurn& turn) const;
  bool is_held(const StepModel& step, const TakenTurn& turn) const;
  void check_overdue(const TakenTurn& turn) const;
  void check_idle_workers(const TakenTurn& turn) const;
  bool may_be_leased(const RunModel& run) const;
  bool may_start(const RunModel& run, Instant now) const;
  void compare_row(Store& store, const RunModel& run) const;
  void compare_row(Store& store, const TaskModel& task) const;
  // `live` given: only those whose lease somebody can count on at that turn.
  std::size_t count_running(TenantId tenant, const WorkflowName* workflow, const TakenTurn* live) const;
  std::size_t count_starts(TenantId tenant, const WorkflowName* workflow, Instant after, Instant until,
                           bool by_engine) const;

  const ToolCatalog& tools_;
  const Target& target_;
  const bool is_shared_;
  Instant committed_at_;  // of what is looked at: several servers pace starts by the database's clock
  Position position_ = 0;
  std::map<TenantId, TenantModel> tenants_;
  std::map<RunId, RunModel> runs_;
  std::vector<RunModel*> touched_;
  std::map<TaskId, TaskModel> tasks_;  // whose streams are no runs here
  std::vector<TaskModel*> touched_tasks_;
  std::vector<Start> starts_;
  std::map<std::pair<TenantId, std::string>, std::set<RunId>> runs_of_key_;  // that ever intended something under it
  std::map<WorkerName, std::pair<std::uint64_t, Instant>> removed_;          // up to that turn, its leases ended then
};

}  // namespace pawl::simulator
