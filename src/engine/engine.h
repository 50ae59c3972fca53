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

#include "core/decide.h"
#include "core/installation_rules.h"
#include "core/task_command.h"
#include "core/tenant.h"
#include "engine/clock.h"
#include "engine/lease.h"
#include "engine/lease_tokens.h"
#include "engine/outcome_figures.h"
#include "engine/policy_cache.h"
#include "engine/scheduler.h"
#include "engine/workflows.h"
#include "govern/policies.h"
#include "store/shared_store.h"

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

// What a caller learns of a run.
struct RunAnswer {
  RunId run;
  RunStatus status = RunStatus::created;
  std::uint64_t seq = 0;
  bool is_new = false;  // this request created it; otherwise it was there
  RunPhase phase = RunPhase::plain;
};

template <class T>
using Reply = std::move_only_function<void(std::expected<T, Refusal>)>;

// Of one run. Inputs stand in the journal for ever; what is larger belongs in a file that the input names.
inline constexpr std::size_t run_input_bytes_max = std::size_t{1} << 20;

struct NewRun {
  TenantId tenant;
  WorkflowName workflow;
  std::optional<int> version;  // absent: the latest
  WorkspaceName workspace{"default"};
  std::optional<Provider> provider;  // absent: the workflow's
  JsonText input = "{}";
  Actor by;
  std::string trigger_type = "api";
  std::string trigger_ref;
  std::shared_ptr<const Idempotency> idempotency;
  std::optional<Money> budget;
  std::optional<Duration> timeout;
  bool is_internal = false;      // pawl's own doing: of a workflow that nobody else may start (core/notices.h)
  std::optional<RunId> id = {};  // chosen beforehand: nobody else has it
  std::optional<RunId> retry_of = {};
  std::vector<Actor> other_requesters = {};  // as other_requesters_of() gives them
};

struct NewTask {
  TenantId tenant;
  WorkspaceName workspace{"default"};
  TaskSpec spec;
  bool like_parent = false;  // carried out by the agent that carries its parent out, if one does
  Actor by;
  std::shared_ptr<const Idempotency> idempotency;
};

// Where a task stands once it has followed the world around it.
struct TaskView {
  bool exists = false;  // and is not deleted
  // Something around it is being written at this moment, or it has to be looked at once more: ask again.
  bool is_unsettled = false;
  TaskState state = TaskState::pending;
  TaskPriority priority = TaskPriority::normal;
  std::optional<TaskId> parent;
  std::vector<TaskId> waits_for;  // while it is queued: those it depends on that are not completed
};

// What the gate says to a worker that proposes an action.
struct GateAnswer {
  Effect effect = Effect::deny;
  bool is_done = false;  // allowed once before, and done: `response` is the outcome
  ReceiptId receipt;     // allow
  ApprovalId approval;   // needs_approval
  PolicyReason policy_reason;
  Tier risk = Tier::low;  // of the action, by the highest word on it,
  Hash digest;            // which its digest covers
  JsonText response;
  // Of a call that is in doubt and to be made again: what stood there before the first. What stands there now may be
  // its doing.
  JsonText before;
};

struct WorkflowRef {
  WorkflowName name;
  int version = 0;
  bool is_new = false;
};

struct PolicyRef {
  int version = 0;
  std::string digest;
  bool is_new = false;
};

// One load of a run or a tenant into memory, of all that this process ever did. 0 is none.
using Incarnation = std::uint64_t;

// What one task asked for is answered together with its last part: an answer that says "that was all of them" waits for
// those that have to be decided again.
struct Round {
  std::size_t open = 0;  // being decided again
  std::vector<std::move_only_function<void()>> waiting;
};

// Called with the leases of a poll once their claims are durable, or with none when the poll ended without any.
using LeaseReply = std::move_only_function<void(std::vector<Lease>)>;

// A worker can take so many more leases; of a tenant: because that many of its leases hold a slot no longer.
struct SlotOffer {
  WorkerName worker;
  int slots = 0;
  std::optional<TenantId> held_by = {};
};

// What turned out to be void and is to be decided anew.
struct Again {
  struct Request {
    std::shared_ptr<Round> round;
    std::move_only_function<void()> decide;
  };
  std::vector<Request> requests;
  std::vector<SlotOffer> offers;  // slots that got nothing

  bool empty() const { return requests.empty() && offers.empty(); }
};

// One frame and all that must wait until it is durable.
struct Turn {
  Frame frame;
  bool needs_commit = false;
  struct Answer {
    std::move_only_function<void()> say;
    // In a store with several servers: what it was decided on, and how to decide it once more. Without `say`: what has
    // to be decided when this turn is durable.
    std::array<Incarnation, 2> basis{};
    std::move_only_function<void()> again;
    std::shared_ptr<Round> round;
    bool ends_round = false;
    bool was_open = false;  // decided again already: its round waits for it
  };
  std::vector<Answer> answers;
  struct Grant {
    WorkerName worker;
    LeaseSink* sink;  // or, for one that asked once:
    LeaseReply reply;
    std::vector<Lease> leases;
    std::move_only_function<void(LeaseReply)> wait_on = {};  // with several servers: when all of them are lost
  };
  std::vector<Grant> grants;
  struct Revoke {
    LeaseSink* sink;
    RunId run;
    StepId step;
    std::uint64_t token;
    Incarnation basis;
  };
  std::vector<Revoke> revokes;
  // For the other servers.
  News news;
  std::vector<std::pair<std::uint32_t, StreamKey>> servers_to_notify;  // servers whose own workers lost a lease

  bool empty() const { return !needs_commit && answers.empty() && grants.empty() && revokes.empty(); }
  // Says and grants everything, but for what was decided on one of these.
  using IsLost = std::function<bool(Incarnation)>;
  Again release(const IsLost& is_lost = {});
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

  // Tenants and their configuration.
  std::optional<TenantId> find_tenant(std::string_view name) const;
  // As decided so far; null when there is none. Valid until the next command.
  const Tenant* find_tenant(TenantId tenant) const;
  void create_tenant(std::string name, Actor by, Reply<TenantId> reply);
  void create_key(TenantId tenant, KeyCreated key, Actor by, Reply<TenantId> reply);
  void revoke_key(TenantId tenant, KeyRevoked key, Actor by, Reply<TenantId> reply);
  // By the tenant's own admins, of the limits as they are when it is decided: whatever somebody else has changed before
  // stays. Refused when it would raise one above the ceiling.
  using LimitsChange = std::function<void(LimitsSet&)>;
  void change_limits(TenantId tenant, LimitsChange change, Actor by, Reply<TenantId> reply);
  // By the installation. The caller sees to it that nobody else asks for this; likewise for suspending and resuming.
  using CeilingChange = std::function<void(CeilingSet&)>;
  void change_ceiling(TenantId tenant, CeilingChange change, Actor by, Reply<TenantId> reply);
  // From now on nothing of the tenant is leased or started, and its workers are told to stop.
  void suspend_tenant(TenantId tenant, TenantSuspended suspended, Actor by, Reply<TenantId> reply);
  void resume_tenant(TenantId tenant, Actor by, Reply<TenantId> reply);
  // From now on effects are denied. Who may use which scope is the caller's to see to.
  void freeze_effects(TenantId tenant, EffectsFrozen freeze, Actor by, Reply<TenantId> reply);
  void unfreeze_effects(TenantId tenant, EffectsUnfrozen freeze, Actor by, Reply<TenantId> reply);
  void set_workspace(TenantId tenant, WorkspaceSet workspace, Actor by, Reply<TenantId> reply);
  void set_person(TenantId tenant, PersonSet person, Actor by, Reply<TenantId> reply);
  void remove_person(TenantId tenant, PersonRemoved person, Actor by, Reply<TenantId> reply);
  void set_webhook(TenantId tenant, WebhookSet webhook, Actor by, Reply<TenantId> reply);
  void remove_webhook(TenantId tenant, WebhookRemoved webhook, Actor by, Reply<TenantId> reply);
  // Of one that is disabled already, or gone, nothing more is said.
  void disable_webhook(TenantId tenant, WebhookDisabled webhook, Actor by, Reply<TenantId> reply);
  void set_slack(TenantId tenant, SlackSet slack, Actor by, Reply<TenantId> reply);
  void remove_slack(TenantId tenant, Actor by, Reply<TenantId> reply);
  // The same content gives the same version. Names that begin with reserved_prefix are for the engine itself.
  void publish(TenantId tenant, std::string source, std::string file, Actor by, Reply<WorkflowRef> reply);
  // Refused unless the definition bears this name.
  void publish_as(TenantId tenant, const WorkflowName& name, std::string source, Actor by, Reply<WorkflowRef> reply);

  // The same in two parts: reading takes long for a large definition, calls nothing else of the engine, and may be done
  // by any thread.
  std::expected<Workflow, std::string> read_definition(const Tenant& tenant, const WorkflowName& name,
                                                       std::string_view source) const;
  void publish_read(TenantId tenant, Workflow workflow, Actor by, Reply<WorkflowRef> reply);

  // The same content as the latest version's gives that version.
  void publish_policy(TenantId tenant, PolicySource source, Actor by, Reply<PolicyRef> reply);

  // The tenant as decided so far, and its stream's head; the answer waits for it to be durable.
  struct TenantHead {
    Tenant tenant;
    Hash head;
  };
  void inspect_tenant(TenantId tenant, Reply<TenantHead> reply);
  // What src/evidence made of the journal is recorded. Refused as invalid when it does not follow
  // what is there: somebody else was faster, and whoever made it looks again.
  using EvidenceRecord = std::variant<SigningKeySet, CheckpointMade, BundleStored>;
  void record_evidence(TenantId tenant, EvidenceRecord record, Actor by, Reply<TenantId> reply);

  // Runs.
  // Gives the run that the answer will name, so that the same turn can ask for more of it.
  std::optional<RunId> create_run(NewRun request, Reply<RunAnswer> reply);
  void command(TenantId tenant, RunId run, const RunCommand& command, Reply<RunAnswer> reply);
  // Finds the step by its name; for AnswerQuestion.
  void answer(TenantId tenant, RunId run, const StepId& step, JsonText text, Actor by, Reply<RunAnswer> reply);
  // While the attempt goes on; a lease that is over is refused.
  void charge(TenantId tenant, RunId run, const StepId& step, const LeaseProof& proof, Money cost,
              Reply<RunAnswer> reply);
  // With an idempotency key a repeat answers with the run that the first request made. `made` is given the run that the
  // answer will name, so that the same turn can ask for more of it.
  void retry(TenantId tenant, RunId run, Actor by, Reply<RunAnswer> reply,
             std::shared_ptr<const Idempotency> idempotency = {}, std::function<void(Engine&, RunId)> made = {});
  // What another orchestrator says of a run that it carries.
  struct StatusReport {
    RunStatus status = RunStatus::running;
    Actor by;
    std::shared_ptr<const Diagnostic> diagnostic;
    std::string reason;
  };
  void report_status(TenantId tenant, RunId run, StatusReport report, Reply<RunAnswer> reply);
  // The run as decided so far; the answer waits for it to be durable like any other.
  void inspect(TenantId tenant, RunId run, Reply<std::shared_ptr<const Run>> reply);

  // Tasks. engine_tasks.cc has that part.
  // Whether the tenant has what tasks are made of: the workflows of pawl's own that they need.
  bool can_make_tasks(TenantId tenant, TaskAgent agent);
  // Publishes those; the answer comes once they can be used.
  void prepare_tasks(TenantId tenant, TaskAgent agent, Reply<WorkflowRef> reply);
  // As create_run().
  std::optional<RunId> create_task(NewTask request, Reply<RunAnswer> reply);
  void command_task(TenantId tenant, TaskId task, const TaskCommand& command, Reply<RunAnswer> reply);
  // The stream of the task, and in it the task; the answer waits for it to be durable.
  void inspect_task(TenantId tenant, TaskId task, Reply<std::shared_ptr<const Run>> reply);
  // Brings the task to where its run, its subtasks and those it depends on have it, and does what it needs for that:
  // makes its run, passes an answer on, ends a run that nobody wants any more. Done twice, it is as if done once.
  void follow_task(TenantId tenant, TaskId task, Reply<TaskView> reply);

  // The gate: every effect outside passes here first. engine_gate.cc has that part.
  struct ActionRequest {
    TenantId tenant;
    RunId run;
    StepId step;
    LeaseProof proof;
    std::shared_ptr<const Proposal> proposal;
    Verdict verdict;               // of the policy in force: refused when it is not, any more
    bool can_look = false;         // its connector can find out what became of a call that is in doubt,
    std::optional<bool> happened;  // and has
  };
  // What a worker outside does not get to say about its own step. Nothing when it does not hold the lease.
  struct LeaseContext {
    WorkspaceName workspace;
    WorkflowName workflow;
    Tier risk = Tier::low;  // at least
    std::string idempotency_key;
  };
  std::optional<LeaseContext> lease_context(TenantId tenant, RunId run, const StepId& step, const LeaseProof& proof);
  void propose(ActionRequest request, Reply<GateAnswer> reply);
  void record_outcome(TenantId tenant, RunId run, const StepId& step, const LeaseProof& proof, EffectOutcome outcome,
                      Reply<RunAnswer> reply);
  // A worker asks a person: its lease is over, and the step is leased again with the answer.
  void ask(TenantId tenant, RunId run, const StepId& step, const LeaseProof& proof, JsonText question,
           Reply<RunAnswer> reply);

  // Workers. A sink outlives its worker's registration. `shares_slots`: it says of each slot that it gives back whose
  // lease held it, and no tenant gets all of them while there are others (may_hold_another).
  void add_worker(const WorkerName& worker, std::vector<ToolName> tools, LeaseSink& sink, bool shares_slots = false);
  // Its leases are over at once.
  void remove_worker(const WorkerName& worker);
  void offer(const WorkerName& worker, int slots) { offer({worker, slots, {}}); }
  void offer(const SlotOffer& offer);

  // A remote worker asks once: up to `max` leases of its own tenant, now or as soon as there is one within `wait`.
  struct Poll {
    TenantId tenant;
    KeyId key;  // that asks: only this one can report on what it is given
    WorkerName worker;
    std::vector<ToolName> tools;
    int max = 1;
    Duration wait{0};
    std::function<bool()> is_wanted;  // still: what nobody will receive is not taken
    LeaseReply reply;
  };
  void poll(Poll poll);
  // Answers those with none that wait until then at most.
  void end_polls(Instant until = end_of_time);
  // From now on nothing is handed out: polls that wait, and those that still come, are answered with none. Leases that
  // are held go on. For the end of a process.
  void wind_down();
  // Without a reply nobody is told that a report was refused; in-process workers do not ask.
  void report(StepReport& report, Reply<RunAnswer> reply = {});
  // Extends the lease, and answers until when; refused as lost otherwise. One server answers at once: it alone takes
  // leases back, and after a restart it gives remote ones a whole term (recover_leases). With several servers the
  // answer waits for the extension to be durable, as every other answer does.
  void heartbeat(TenantId tenant, RunId run, const StepId& step, const LeaseProof& proof, Reply<Instant> reply);

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
  // The same, and says when it is durable; with a run, that one only.
  void flush(TenantId tenant, std::optional<RunId> run, Reply<RunAnswer> reply);

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
  struct WaitingPoll {
    Poll poll;
    Instant until;
    std::vector<Lease> granted;  // in this turn
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
  struct LeaseBefore;
  // `own`: the report that these events follow from; its worker need not be told.
  void apply(Resident& resident, const std::vector<RunEvent>& events, const StepReport* own);
  void react(Resident& resident, const RunEvent& event, std::optional<StepIndex> step, const LeaseBefore& before);
  void count_outcome(const Resident& resident, const RunEvent& event, std::optional<StepIndex> step);
  Decision decide_on(Resident& resident, const RunCommand& command);
  std::optional<Refusal> decide_and_apply(Resident& resident, const RunCommand& command, const StepReport* own);
  void audit_on_sealed(const Resident& resident, const RunCommand& command, const Refusal& refusal);
  // Into the run's stream while that is open, otherwise into the tenant's.
  void audit(Resident& resident, TransitionRefused refused);
  Resident& create(const CreateRun& command);
  // The run that an earlier request with the same names made, or a refusal when it was another request.
  using Repeat = std::optional<std::expected<RunAnswer, Refusal>>;
  Repeat answer_repeat(const NewRun& request, const Workflow& workflow);
  Repeat answer_repeat(TenantId tenant, const Idempotency& wanted);
  // Why a run of this workflow cannot be executed by that provider.
  std::optional<Refusal> provider_problem(const Workflow& workflow, Provider wanted) const;
  std::optional<RunId> find_request(TenantId tenant, const std::string& key);
  std::expected<Workflow, std::string> compile(TenantId tenant, std::string_view source, std::string_view file,
                                               const Actor& by);
  void publish_compiled(TenantId tenant, Workflow workflow, const Actor& by, Reply<WorkflowRef>& reply);
  void append_tenant_event(TenantEntry& entry, TenantPayload payload, const Actor& by);
  template <class T>
  void answer_with(Reply<T>& reply, std::expected<T, Refusal> answer);
  // The same for what was decided on these; `make_again` gives how to decide it once more, for the same reply.
  template <class T, class MakeAgain>
  void answer_on(std::array<Incarnation, 2> basis, Reply<T>& reply, std::expected<T, Refusal> answer,
                 MakeAgain make_again);
  std::optional<RunId> make_retry(Resident& resident, const Actor& by, Reply<RunAnswer> reply,
                                  std::shared_ptr<const Idempotency> idempotency);
  // Decides on nothing yet, but once all that was decided so far is durable.
  template <class T, class Decide>
  void when_durable(Reply<T>& reply, Decide decide);
  static constexpr std::array<Incarnation, 2> no_basis{};
  std::array<Incarnation, 2> basis_of(const Resident& resident) const;
  std::array<Incarnation, 2> basis_of(const TenantEntry& entry) const;
  RunAnswer answer_of(const Resident& resident) const;
  RunAnswer answer_of_new(const Resident& resident) const;
  std::expected<RunAnswer, Refusal> answer_or(std::optional<Refusal> refusal, const Resident& resident) const;
  Resident* find_leased(TenantId tenant, RunId run);
  bool is_live_lease(Resident& resident, StepIndex step, const LeaseProof& proof);
  // Nothing when the lease is lost.
  std::optional<Instant> extend_lease(Resident& resident, const StepId& step, const LeaseProof& proof);
  // Who decides, as the tenant knows them.
  void identify(const Run& run, ResolveApproval& command) const;
  TenantEntry* find_entry(TenantId tenant);
  // The tenant's streams have grown.
  void count_stored(TenantEntry& entry, std::size_t bytes);
  // Why nothing new can begin: the journal of the tenant is as large as it may be.
  std::optional<Refusal> storage_problem(TenantId tenant) const;
  void limit(const Tenant& tenant);
  void release_leases(TenantId tenant);
  void add_workflow(TenantId tenant, Workflow workflow);
  template <class Request>
  void configure(TenantId tenant, const Request& request, const Actor& by, Reply<TenantId>& reply);
  template <class Request>
  void answer_on_tenant(const TenantEntry& entry, Reply<TenantId>& reply, const Request& request, const Actor& by);
  // The same request by its name, to be decided again.
  void request(TenantId tenant, const TenantSuspended& suspended, const Actor& by, Reply<TenantId> reply) {
    suspend_tenant(tenant, suspended, by, std::move(reply));
  }
  void request(TenantId tenant, const TenantResumed&, const Actor& by, Reply<TenantId> reply) {
    resume_tenant(tenant, by, std::move(reply));
  }
  void request(TenantId tenant, const EffectsFrozen& freeze, const Actor& by, Reply<TenantId> reply) {
    freeze_effects(tenant, freeze, by, std::move(reply));
  }
  void request(TenantId tenant, const EffectsUnfrozen& freeze, const Actor& by, Reply<TenantId> reply) {
    unfreeze_effects(tenant, freeze, by, std::move(reply));
  }
  void request(TenantId tenant, const WorkspaceSet& workspace, const Actor& by, Reply<TenantId> reply) {
    set_workspace(tenant, workspace, by, std::move(reply));
  }
  void request(TenantId tenant, const KeyCreated& key, const Actor& by, Reply<TenantId> reply) {
    create_key(tenant, key, by, std::move(reply));
  }
  void request(TenantId tenant, const KeyRevoked& key, const Actor& by, Reply<TenantId> reply) {
    revoke_key(tenant, key, by, std::move(reply));
  }
  void request(TenantId tenant, const PersonSet& person, const Actor& by, Reply<TenantId> reply) {
    set_person(tenant, person, by, std::move(reply));
  }
  void request(TenantId tenant, const PersonRemoved& person, const Actor& by, Reply<TenantId> reply) {
    remove_person(tenant, person, by, std::move(reply));
  }
  void request(TenantId tenant, const WebhookSet& webhook, const Actor& by, Reply<TenantId> reply) {
    set_webhook(tenant, webhook, by, std::move(reply));
  }
  void request(TenantId tenant, const WebhookRemoved& webhook, const Actor& by, Reply<TenantId> reply) {
    remove_webhook(tenant, webhook, by, std::move(reply));
  }
  void request(TenantId tenant, const WebhookDisabled& webhook, const Actor& by, Reply<TenantId> reply) {
    disable_webhook(tenant, webhook, by, std::move(reply));
  }
  void request(TenantId tenant, const SlackSet& slack, const Actor& by, Reply<TenantId> reply) {
    set_slack(tenant, slack, by, std::move(reply));
  }
  void request(TenantId tenant, const SlackRemoved&, const Actor& by, Reply<TenantId> reply) {
    remove_slack(tenant, by, std::move(reply));
  }

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
  std::array<Incarnation, 2> basis_of(const Resident& resident, const Resident* other) const;

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
  void record_reversal(const Run& run, StepIndex step, ReceiptId effect);

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
  // Looks whether the store has it otherwise, unless this server itself is about to write it; true when it had.
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
  std::optional<RunId> redirected(RunId run);
  std::function<void(Engine&, Reply<RunAnswer>)> creating(RunId run, std::shared_ptr<const NewRun> request);
  std::function<void(Engine&, Reply<WorkflowRef>)> publishing(TenantId tenant, const Workflow& workflow,
                                                              const Actor& by);

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
  std::map<RunId, std::optional<RunId>> redirects_;  // runs that were decided to be made, and what became of them
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
