// The engine: decides commands against the working set in memory and gathers their events into journal frames.
//
// It is a plain object that does one thing at a time: no threads, no clock of its own, no I/O but loading a run that
// is not in memory. Whoever drives it (Runtime with threads, the simulator without) does, over and over:
//
//   1. call commands, reports, offers;          2. advance();           3. Turn turn = take_turn();
//   4. commit turn.frame to the store;          5. durable(position);   6. release the turn: answers, leases, revokes.
//
// Turns must be committed and released in the order they were taken. Step 3 of the next turn may come before step 4 of
// this one: the next frame is decided while the last is being synced. Nothing leaves the engine except in a turn, so
// nobody is answered, and no worker begins, before the commit that says so is durable.
//
// The working set is bounded: a run that is folded and durable, and that nothing will move soon, leaves memory and is
// loaded again when something concerns it.
//
// In a store with several servers (store/shared_store.h) what is in memory is only a cache. Rows are written with every
// turn; when a commit finds that another server wrote a run first, what was decided on that load of it (its
// *incarnation*) is void, in this turn and in those decided since: release() holds those answers back, lose() forgets
// the run, and decide_again() decides anew. Callers notice nothing. engine_shared.cc has that part.
#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "core/installation_rules.h"
#include "engine/clock.h"
#include "engine/lease_tokens.h"
#include "engine/outcome_figures.h"
#include "engine/policy_cache.h"
#include "engine/request.h"
#include "engine/scheduler.h"
#include "engine/turn.h"
#include "engine/workflows.h"

namespace pawl {

struct EngineLimits {
  // Of runs in memory, by what they hold. Past it, those that no worker holds leave and are loaded again when needed.
  std::size_t working_set_bytes_max = 256 << 20;
  // Journal that is not folded yet: bounds the replay at start and the size of the frames table.
  std::size_t unfolded_bytes_max = 32 << 20;
  // Those that carry runs for this engine, beside itself and whoever reports.
  std::set<Provider> foreign = {};
  // What tenants' workflows may use.
  InstallationRules rules = {};
  // How far ahead timers are held in memory.
  Duration timer_horizon = std::chrono::seconds(60);
};

struct EngineStats {
  std::uint64_t events = 0;
  std::uint64_t runs_created = 0;
  std::uint64_t runs_finished = 0;
  std::uint64_t leases_granted = 0;
  std::uint64_t runs_loaded = 0;
  std::uint64_t runs_recovered = 0;  // at the start, from frames that the tables had not seen
  std::uint64_t steps_succeeded = 0;
  std::uint64_t steps_failed_retryable = 0;
  std::uint64_t steps_failed_terminal = 0;
  std::uint64_t steps_released = 0;
  std::uint64_t runs_resident = 0;
  std::uint64_t working_set_bytes = 0;  // of these
  std::uint64_t steps_queued = 0;
  std::uint64_t polls_waiting = 0;
  std::uint64_t leases_open = 0;
  Instant oldest_lease = end_of_time;  // when the step that has been running for longest began
  std::vector<std::pair<TenantId, HeldBack>> held_back;
  Instant oldest_queued = end_of_time;  // since when the step has been queued here that waited longest
  // Since this process began. Without a name: all that have no row of their own.
  struct OfWorkflow {
    TenantId tenant;
    WorkflowName workflow;
    RunOutcomes outcomes;
  };
  std::vector<OfWorkflow> by_workflow;
  std::vector<std::pair<ToolName, ToolOutcomes>> by_tool;
};

class Engine {
 public:
  Engine(Store& store, const ToolCatalog& tools, const Clock& clock, Random& random, EngineLimits limits = {},
         LeaseTokens tokens = LeaseTokens());
  ~Engine();

  // Once, before anything else: replays what the tables have not seen, finds queues, leases and timers again.
  void recover();
  // Instead of recover(), for an engine that is to do nothing else: writes what the tables lack, and moves no run.
  void complete_tables();

  // Decides what is asked; the reply is called once the answer is durable (request.h).
  template <class R>
  void request(R value, Reply<typename R::Answer> reply = {}) {
    process(EngineRequest(PendingRequest<R>{std::move(value), std::move(reply)}));
  }

  std::optional<TenantId> find_tenant(std::string_view name) const;
  // As decided so far; null when there is none. Valid until the next request.
  const Tenant* find_tenant(TenantId tenant) const;

  // The first part of publishing a workflow: it takes long for a large definition, calls nothing else of the engine,
  // and may be done by any thread.
  std::expected<Workflow, std::string> read_definition(const Tenant& tenant, const WorkflowName& name,
                                                       std::string_view source) const;

  // Whether the tenant has what tasks are made of: the workflows of pawl's own that they need.
  bool can_make_tasks(TenantId tenant, TaskAgent agent);

  // What a worker outside does not get to say about its own step. Nothing when it does not hold the lease.
  struct LeaseContext {
    WorkspaceName workspace;
    WorkflowName workflow;
    Tier risk = Tier::low;  // at least
    std::string idempotency_key;
  };
  std::optional<LeaseContext> lease_context(TenantId tenant, RunId run, const StepId& step, const LeaseProof& proof);

  // Workers. A sink outlives its worker's registration. `shares_slots`: it says of each slot that it gives back whose
  // lease held it, and no tenant gets all of them while there are others (may_hold_another).
  void add_worker(const WorkerName& worker, std::vector<ToolName> tools, LeaseSink& sink, bool shares_slots = false);
  // Its leases are over at once.
  void remove_worker(const WorkerName& worker);
  void offer(const SlotOffer& offer);

  void poll(Poll poll);
  // Answers those with none that wait until then at most.
  void end_polls(Instant until = end_of_time);
  // From now on nothing is handed out: polls that wait, and those that still come, are answered with none. Leases that
  // are held go on. For the end of a process.
  void wind_down();
  // Told when a worker was not heard of in time and the step waits for another. Must return at once.
  using LeaseLost = std::function<void(const Run& run, StepIndex step)>;
  void on_lease_lost(LeaseLost call) { lease_lost_ = std::move(call); }

  // Called once this turn is durable, after the replies that were asked for before.
  void when_durable(std::move_only_function<void()> call) {
    turn_.answers.push_back({.say = std::move(call), .round = round_, .ends_round = true});
  }

  // With several servers.
  // New requests came: what was looked up before is not the present to them.
  void requests_came() { ++arrivals_; }
  // A task begins: its answers belong together.
  void begin_round() {
    if (shared_) round_ = std::make_shared<Round>();
  }
  // Fetches, in one look, those of them that are not in memory: they are about to be asked for.
  void expect(std::span<const StreamKey> runs);
  void decide_again(Again again);
  void hear(const News& news);
  // What was left to whoever takes it can be taken now.
  void ready_is_durable() {
    may_be_ready_for_polls_ = true;
    has_left_durably_ |= std::exchange(has_left_for_room_, false);
  }
  // Told of every tenant that another server changed.
  void on_tenant(std::function<void(const Tenant&)> call) { tenant_changed_ = std::move(call); }
  // Told of stored data that is not what the journal says and is therefore not used; more than once of the same.
  using DamageFound = std::function<void(const std::string& subject, const std::string& what)>;
  void on_damage(DamageFound call) { damage_found_ = std::move(call); }

  // Time and turns.
  void advance();
  Turn take_turn();
  // Everything up to this position is durable, but for the streams that were lost to other servers on the way.
  void durable(Position position, std::span<const Lost> lost = {});
  // When advance() must be called at the latest.
  Instant next_wakeup() const;
  // Writes every changed run's row with the next turn, so that queries see all of it.
  void fold_all();

  // Thread-safe, unlike the rest.
  const PolicyCache& policy_cache() const { return policy_cache_; }

  // The same, and never changes.
  const ToolCatalog& tools() const { return tools_; }

  EngineStats stats() const;
  const Scheduler& scheduler() const { return scheduler_; }

 private:
  struct Resident;
  struct TenantEntry {
    Tenant tenant;
    Hash head;
    Incarnation incarnation = 0;
    Position changed_at = 0;
    std::int64_t uncounted_bytes = 0;  // that its streams have grown by here, and its own does not say yet
  };
  struct Worker {
    WorkerName name;
    std::vector<ToolName> tools;
    LeaseSink* sink = nullptr;
    bool shares_slots = false;
    int slots = 0;                 // free
    std::map<TenantId, int> held;  // by leases, of one that shares slots
    std::vector<Lease> granted;    // in this turn

    void take_slot(TenantId tenant);
    void give_back(TenantId tenant, int count);
  };
  // A remote worker that was given work a moment ago: it will ask for more.
  struct ReturningPoll {
    TenantId tenant;
    WorkerName worker;
    std::vector<ToolName> tools;
    int max = 1;
    Instant until;
  };
  struct Timer {
    Instant at;
    TenantId tenant;
    RunId run;
    bool load = false;  // the run may have to be fetched; otherwise a run that is gone has finished
    bool operator>(const Timer& other) const { return at > other.at; }
  };
  // When a step was queued here. Those that were taken since are dropped now and then.
  struct QueuedSince {
    Instant since;
    RunId run;
    StepIndex step;
  };
  struct Unfolded {
    Position first;
    std::uint64_t bytes_before;
    RunId run;
  };

  // Residents.
  Resident* find(TenantId tenant, RunId run);
  // The same for the next of a queue.
  Resident* find_queued(TenantId tenant, RunId run);
  Resident& adopt(Run run, const Hash& head);
  Resident* load(TenantId tenant, RunId run);
  // Null when what is stored of it is damaged: then it is reported, and nothing is done with the run.
  Resident* adopt(RunRow row);
  void report_damage(const std::string& subject, const std::string& what) const;
  Run fold_history(const RunRow& row, const Workflow& workflow);
  bool may_leave(const Resident& resident, Position durable) const;
  bool is_parked(const Resident& resident) const;
  bool is_over_limit() const { return working_set_bytes_ > limits_.working_set_bytes_max; }
  // Counts the run's bytes anew, after it changed.
  void weigh(Resident& resident);
  void leave_memory(Resident& resident);
  void make_room();

  // Deciding.
  // The answer to a request.
  template <class T>
  struct Outcome {
    std::expected<T, Refusal> answer;
    Basis basis{};                // see turn.h
    bool waits_for_turn = false;  // nothing is decided before all that was decided so far is durable
  };
  struct LeaseBefore;
  // The lease that a report is about, by whoever holds it: its worker is told by the answer, and not once more.
  struct Reporter {
    const StepId& step;
    const LeaseProof& proof;
  };
  static std::optional<Reporter> reporter_of(const RunCommand& command);
  void apply(Resident& resident, const std::vector<RunEvent>& events, std::optional<Reporter> reporter);
  void react(Resident& resident, const RunEvent& event, std::optional<StepIndex> step, const LeaseBefore& before);
  void count_outcome(const Resident& resident, const RunEvent& event, std::optional<StepIndex> step);
  Decision decide_on(Resident& resident, const RunCommand& command);
  std::optional<Refusal> decide_and_apply(Resident& resident, const RunCommand& command);
  void audit_on_sealed(const Resident& resident, const RunCommand& command, const Refusal& refusal);
  // Into the run's stream while that is open, otherwise into the tenant's.
  void audit(Resident& resident, TransitionRefused refused);
  Resident& create(const CreateRun& command);
  // The run that an earlier request with the same names made, or a refusal when it was another request.
  std::optional<Outcome<RunAnswer>> answer_repeat(const NewRun& request, const Workflow& workflow);
  std::optional<Outcome<RunAnswer>> answer_repeat(TenantId tenant, const Idempotency& wanted, bool wants_state);
  // Why a run of this workflow cannot be executed by that provider.
  std::optional<Refusal> provider_problem(const Workflow& workflow, Provider wanted) const;
  std::optional<RunId> find_request(TenantId tenant, const std::string& key);
  std::expected<Workflow, std::string> compile(TenantId tenant, std::string_view source, std::string_view file,
                                               const Actor& by);
  Outcome<WorkflowRef> publish(TenantId tenant, Workflow workflow, const Actor& by);
  void append_tenant_event(TenantEntry& entry, TenantPayload payload, const Actor& by);
  // What follows here from a change of a tenant.
  void react(const Tenant& tenant, const TenantPayload& payload);
  void process(EngineRequest request);
  template <class R>
  void process(EngineRequest& request, PendingRequest<R>& pending);
  Outcome<RunAnswer> handle(NewRun& request);
  Outcome<RunAnswer> handle(RetryRun& request);
  Outcome<RunAnswer> handle(RunRequest& request);
  Outcome<RunAnswer> handle(ReportStatus& request);
  Outcome<std::shared_ptr<const Run>> handle(InspectRun& request);
  Outcome<RunAnswer> handle(FlushRows& request);
  Outcome<RunAnswer> handle(ReportStep& request);
  Outcome<Instant> handle(Heartbeat& request);
  Outcome<GateAnswer> handle(ProposeEffect& request);
  Outcome<RunAnswer> handle(NewTask& request);
  Outcome<RunAnswer> handle(TaskRequest& request);
  Outcome<std::shared_ptr<const Run>> handle(InspectTask& request);
  Outcome<TaskView> handle(UpdateTask& request);
  Outcome<TenantId> handle(CreateTenant& request);
  Outcome<TenantId> handle(TenantRequest& request);
  Outcome<WorkflowRef> handle(PublishWorkflow& request);
  Outcome<WorkflowRef> handle(PrepareTasks& request);
  Outcome<PolicyRef> handle(PublishPolicy& request);
  Outcome<TenantHead> handle(InspectTenant& request);

  static constexpr Basis no_basis{};
  Basis basis_of(const Resident& resident) const;
  Basis basis_of(const TenantEntry& entry) const;
  RunAnswer answer_of(const Resident& resident, bool wants_state = false) const;
  RunAnswer answer_of_new(const Resident& resident, bool wants_state) const;
  Outcome<RunAnswer> outcome_of(std::optional<Refusal> refusal, const Resident& resident,
                                bool wants_state = false) const;
  Resident* find_leased(TenantId tenant, RunId run);
  bool is_live_lease(Resident& resident, StepIndex step, const LeaseProof& proof);
  // Nothing when the lease is lost.
  std::optional<Instant> extend_lease(Resident& resident, const StepId& step, const LeaseProof& proof);
  // Who decides, as the tenant knows them.
  void identify(const Run& run, ResolveApproval& command) const;
  TenantEntry* find_entry(TenantId tenant);
  TenantEntry* find_current(TenantId tenant);
  // The tenant's streams have grown.
  void count_stored(TenantEntry& entry, std::size_t bytes);
  // Why nothing new can begin: the journal of the tenant is as large as it may be.
  std::optional<Refusal> storage_problem(TenantId tenant) const;
  void limit(const Tenant& tenant);
  void release_leases(TenantId tenant);
  void add_workflow(TenantId tenant, Workflow workflow);
  // Tasks.
  Resident* find_task(TenantId tenant, TaskId task);
  std::optional<Refusal> decide_and_apply(Resident& resident, const TaskCommand& command);
  std::optional<Refusal> task_problem(const NewTask& request);
  bool waits_for_any(TenantId tenant, std::vector<TaskId> from, TaskId wanted);
  std::optional<Refusal> subtask_problem_of(TenantId tenant, Resident& parent, const TaskSpec& spec);
  // What the task may still spend: its budget, less what it has cost and what its subtasks have cost or may still cost.
  // Nothing when it has no budget.
  std::optional<Money> budget_left(TenantId tenant, const Run& stream);
  Money spoken_for(TenantId tenant, const Run& stream);
  std::size_t& count_tree(TenantId tenant, TaskId root);
  std::optional<Refusal> command_task(Resident& resident, const TaskCommand& command, Resident*& other);
  // Nothing when some of it is not durable.
  std::optional<FollowTask> look_around_task(Resident& resident, Resident*& run);
  std::optional<Relative> relative(TenantId tenant, TaskId task);
  NewRun carrying_run(const Run& task);
  std::vector<Actor> requesters_of_tree(TenantId tenant, const Run& stream);
  std::optional<Refusal> answer_task(Resident& resident, AnswerTask command, Resident*& other);
  std::optional<Refusal> delete_task(Resident& resident, DeleteTask command);
  std::optional<Refusal> change_task(Resident& resident, ChangeTask command);
  // All of its subtasks, and theirs, that are there.
  std::vector<TaskId> tasks_beneath(TenantId tenant, const Task& task);
  template <class Command>
  void command_beneath(const Resident& resident, const Command& command);
  Basis basis_of(const Resident& resident, const Resident* other) const;

  // The gate.
  // Refused when a receipt holds the key and its run cannot be read: it may have happened.
  std::expected<std::optional<ProposeAction::Holder>, Refusal> find_holder(TenantId tenant, RunId run,
                                                                           const std::string& key);
  std::optional<int> writes_max_of(const Run& run) const;
  GateAnswer gate_answer(const Run& run, const ProposeAction& command, const Decision& decision) const;
  void remember_effect(const Run& run, const Proposal& proposal);
  void remember_effects(const Resident& resident);
  void forget_effects(const Run& run);
  // The step's effect has happened: if it undoes another, that one is reversed, in this very turn.
  void note_reversal(const Run& run, StepIndex step, ReceiptId effect);
  void record_reversals();

  // Scheduling.
  void queue_step(Resident& resident, StepIndex step);
  void queue_gate_start(Resident& resident);
  void queue(Resident& resident, const ReadyStep& step);
  void add_to_queue(const ReadyStep& step);
  bool is_queued(const QueuedSince& queued) const;
  Instant oldest_queued() const;
  void start_gates();
  void remember_start(const Resident& resident);
  void serve_workers();
  // Long steps cannot be interrupted, so a share of the slots is kept for tenants that come later.
  bool may_hold_another(const Worker& worker, TenantId tenant) const;
  // Whether anything was taken, which may have made other steps ready.
  bool serve_polls();
  void serve();
  void drop_unwanted_polls();
  void drop_ended_grants();
  void check_in_time(const WaitingPoll& waiting);
  // `key`: of a remote worker.
  std::optional<Lease> claim(const WorkerName& worker, std::optional<KeyId> key, const Scheduler::Ticket& ticket);
  Worker* find_worker(const WorkerName& name);
  void end_lease(Resident& resident, StepIndex step);
  void revoke(Worker& worker, const Run& run, StepIndex step, std::uint64_t token);

  // Time.
  Instant due_of(const Resident& resident) const;
  // The step's lease ran out, and nobody has queued it again yet.
  bool is_unnoticed(const Resident& resident, StepIndex step, Instant now) const;
  void register_timer(Resident& resident);
  void sweep_timers();
  void fire_timers();
  void pass_time(Resident& resident);

  // Folding.
  std::vector<Resident*> residents_by_age() const;
  void fold(Resident& resident);
  void fold_oldest();
  // The state that the journal tells of. What it returns holds leases of workers that died with their process.
  std::vector<Resident*> restore();
  void recover_frames();
  const Workflow& workflow_of(TenantId tenant, std::string_view lines) const;
  void recover_queues();
  // Gives those that lost a lease with the last process.
  std::vector<Resident*> recover_leases();

  // With several servers.
  bool is_undurable(const Resident& resident) const;
  // What was decided on it here can turn out to be void, because another server was faster. Never with one server.
  bool may_be_lost(const Resident& resident) const;
  bool may_be_lost(const TenantEntry& entry) const;
  // Looks whether the store has it otherwise, unless this server itself is about to write it; true when it had. With
  // one server what is in memory is the present.
  bool verify(Resident& resident);
  Resident* find_verified(TenantId tenant, RunId run);
  void find_place(Resident& resident, const RunRow& row);
  void reload(Resident& resident, RunRow row);
  void forget(Resident& resident);
  void forget_requests(const Run& run);
  void lose(const Lost& lost);
  bool holds_local_leases(const Resident& resident) const;
  void tell_owner(const Run& run, const WorkerName& worker);
  // Its row is written with this turn, whether an event comes or not.
  void rewrite(Resident& resident);
  bool keeps(TenantId tenant, const ToolName& tool) const;
  void expect_back(const Poll& poll);
  void wait_for_work(Poll poll, Instant until);
  bool is_paced_by_store(const Run& run) const;
  bool is_capped(const Scheduler::Ticket& ticket);
  bool claims_enough(const Resident& resident) const;
  bool refill();
  bool refill(std::span<const ToolName> tools, std::size_t wanted, std::optional<TenantId> only);
  void look_around();
  void pass_overdue_time();
  void release_leases_of(std::span<const std::uint32_t> servers);
  void fold_shared(Resident& resident, RunFold& out);
  void end_shared_turn();
  // True when the store knew more than this server.
  bool learn(TenantId tenant);
  void learn_workflows(TenantId tenant);
  void learn_tenants();
  // The same, unless they were learned since the last request came.
  void learn_tenants_once();
  // Without a version the latest; null when there is none.
  const Workflow* find_workflow(TenantId tenant, const WorkflowName& name, std::optional<int> version = {});

  Store& store_;
  SharedStore* const shared_;  // the same, when there are several servers
  const ToolCatalog& tools_;
  const Clock& clock_;
  Random& random_;
  IdSource ids_;
  LeaseTokens tokens_;
  EngineLimits limits_;
  Scheduler scheduler_;
  Workflows workflows_;
  std::unordered_map<TenantId, TenantEntry> tenants_;
  PolicyCache policy_cache_;
  boost::unordered_flat_map<RunId, std::unique_ptr<Resident>, std::hash<RunId>> residents_;
  std::size_t working_set_bytes_ = 0;
  // Clean runs that stayed because there was room, longest there first. Some may be gone or changed since.
  std::deque<RunId> idle_;
  // Rows of runs that are not in memory, so nobody changes them, in the order a queue will want them.
  struct {
    std::deque<RunRow> rows;
    std::size_t count = 1;      // to fetch next: grows while what is fetched is what is wanted,
    std::size_t row_bytes = 0;  // and not past what rows of this size may take together
  } ahead_;
  std::vector<Worker> workers_;
  std::deque<WaitingPoll> polls_;          // longest waiting first
  Instant next_poll_check_ = end_of_time;  // none of them ends before
  std::uint64_t leases_ended_ = 0;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  Instant horizon_;
  Position position_ = 0;  // of the last frame taken
  std::uint64_t journal_bytes_ = 0;
  std::deque<Unfolded> unfolded_;                  // oldest first; some may be folded already
  std::deque<std::pair<Position, RunId>> folded_;  // may leave memory once that position is durable
  // Of runs whose row may not be durable yet; the table knows the rest.
  std::map<std::pair<TenantId, std::string>, RunId> requests_;
  // The same for effects, by idempotency key: the run that last had one. Keys that are a run's own are not among them.
  struct HashEffect {
    std::size_t operator()(const std::pair<TenantId, std::string>& effect) const {
      return std::hash<TenantId>{}(effect.first) ^ std::hash<std::string>{}(effect.second);
    }
  };
  boost::unordered_flat_map<std::pair<TenantId, std::string>, RunId, HashEffect> effects_;
  std::vector<Resident*> touched_;  // in this turn
  // Effects that were undone by what is being decided, and the receipts of what undid them.
  struct Reversal {
    TenantId tenant;
    ReceiptId undone;
    ReceiptId by;
  };
  std::vector<Reversal> reversals_;
  Turn turn_;
  EngineStats stats_;
  OutcomeFigures outcomes_;
  std::deque<QueuedSince> queued_since_;  // oldest first
  LeaseLost lease_lost_;
  bool winding_down_ = false;

  // Tasks that were seen to be completed, which is for ever: a parent of many need not fetch them all for each that
  // ends.
  std::unordered_set<TaskId> completed_tasks_;
  // Tasks in the tree of each task without a parent, as far as this server was asked for more of them.
  std::unordered_map<TaskId, std::size_t> tree_sizes_;

  // With several servers.
  Incarnation incarnations_ = 0;
  std::uint64_t arrivals_ = 0;
  std::uint64_t tenants_learned_in_ = 0;  // arrivals_
  Position durable_ = 0;
  std::vector<RunId> rewrites_;  // their rows change in this turn without an event
  std::shared_ptr<Round> round_;
  bool deciding_again_ = false;
  std::map<std::pair<TenantId, WorkflowName>, Instant> capped_;  // claims wait until then
  std::deque<ReturningPoll> returning_;                          // first to be given up first
  bool may_be_ready_ = true;             // something may wait in the queue that all servers take from
  bool may_be_ready_for_polls_ = false;  // the same, of those who ask here
  bool has_held_back_ = false;           // a cap left something in it when it was last looked at
  bool has_left_for_room_ = false;       // this server left something in it, because enough waited here,
  bool has_left_durably_ = false;        // and that can be taken
  bool may_be_overdue_ = true;           // timers that nobody acted on
  bool tenants_may_differ_ = true;
  std::vector<std::uint32_t> gone_servers_;  // whose workers' leases are released with the next look
  Instant next_refill_;
  Instant next_look_;
  std::function<void(const Tenant&)> tenant_changed_;
  DamageFound damage_found_;
  bool recovered_ = false;
};

}  // namespace pawl
