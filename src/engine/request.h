// What callers ask of the engine: values, each with the type of its answer. Engine::request() decides them, and decides
// them again from the same value when another server was faster.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/decide.h"
#include "core/task_command.h"
#include "core/tenant_command.h"
#include "core/vocabulary.h"
#include "engine/lease.h"
#include "govern/policies.h"

namespace pawl {

template <class T>
using Reply = std::move_only_function<void(std::expected<T, Refusal>)>;

// ---- Runs

struct RunAnswer {
  RunId run;
  RunStatus status = RunStatus::created;
  std::uint64_t seq = 0;
  bool is_new = false;  // this request created it; otherwise it was there
  RunPhase phase = RunPhase::plain;
  std::shared_ptr<const Run> state = {};  // when the request wants it
};

// Of one run. Inputs stand in the journal for ever; what is larger belongs in a file that the input names.
inline constexpr std::size_t run_input_bytes_max = std::size_t{1} << 20;

struct NewRun {
  using Answer = RunAnswer;
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
  bool wants_state = false;
};

// With an idempotency key a repeat answers with the run that the first request made.
struct RetryRun {
  using Answer = RunAnswer;
  TenantId tenant;
  RunId run;
  Actor by;
  std::shared_ptr<const Idempotency> idempotency = {};
  bool wants_state = false;
};

struct RunRequest {
  using Answer = RunAnswer;
  TenantId tenant;
  RunId run;
  RunCommand command;
  bool wants_state = false;
};

// What another orchestrator says of a run that it executes.
struct ReportStatus {
  using Answer = RunAnswer;
  TenantId tenant;
  RunId run;
  RunStatus status = RunStatus::running;
  Actor by;
  std::shared_ptr<const Diagnostic> diagnostic = {};
  std::string reason = {};
};

// The run as decided so far; the answer waits for it to be durable like any other.
struct InspectRun {
  using Answer = std::shared_ptr<const Run>;
  TenantId tenant;
  RunId run;
};

// Writes rows that are behind, of one run or of all, and answers when they are durable.
struct FlushRows {
  using Answer = RunAnswer;
  TenantId tenant;
  std::optional<RunId> run = {};
};

// ---- Leases and the gate

// A worker reports on a lease, in the server's process or through the API.
struct ReportStep {
  using Answer = RunAnswer;
  StepReport report;
};

// Extends the lease; answers until when. One server answers at once: it alone takes leases back, and after a restart it
// gives remote ones a whole term. With several servers the answer waits for the extension to be durable.
struct Heartbeat {
  using Answer = Instant;
  TenantId tenant;
  RunId run;
  StepId step;
  LeaseProof proof;
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

// What its worker says of an effect.
RecordOutcome outcome_command(const StepId& step, const LeaseProof& proof, const EffectOutcome& effect);

struct ProposeEffect {
  using Answer = GateAnswer;
  TenantId tenant;
  RunId run;
  StepId step;
  LeaseProof proof;
  std::shared_ptr<const Proposal> proposal;
  Verdict verdict = {};          // of the policy in force: refused when it is not, any more
  bool can_look = false;         // its connector can find out what became of a call that is in doubt,
  std::optional<bool> happened;  // and has
};

// ---- Tasks

struct NewTask {
  using Answer = RunAnswer;
  TenantId tenant;
  WorkspaceName workspace{"default"};
  TaskSpec spec;
  bool like_parent = false;  // carried out by the agent that carries its parent out, if one does
  Actor by;
  std::shared_ptr<const Idempotency> idempotency;
  std::optional<RunId> stream = {};  // the engine's: chosen when it is first decided
};

struct TaskRequest {
  using Answer = RunAnswer;
  TenantId tenant;
  TaskId task;
  TaskCommand command;
};

// The stream of the task, and in it the task; the answer waits for it to be durable.
struct InspectTask {
  using Answer = std::shared_ptr<const Run>;
  TenantId tenant;
  TaskId task;
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

// Brings the task to where its run, its subtasks and those it depends on have it, and does what it needs for that:
// makes its run, passes an answer on, ends a run that nobody wants any more. Done twice, it is as if done once.
struct UpdateTask {
  using Answer = TaskView;
  TenantId tenant;
  TaskId task;
};

// ---- Tenants

struct CreateTenant {
  using Answer = TenantId;
  std::string name;
  Actor by;
};

struct TenantRequest {
  using Answer = TenantId;
  TenantId tenant;
  TenantCommand command;
  Actor by;
};

struct WorkflowRef {
  WorkflowName name;
  int version = 0;
  bool is_new = false;
};

// The same content gives the same version. Names that begin with reserved_prefix are for the engine itself.
struct PublishWorkflow {
  using Answer = WorkflowRef;
  TenantId tenant;
  std::string source;
  std::string file;  // named in messages
  Actor by;
  std::optional<WorkflowName> name = {};          // refused unless the definition bears it
  std::shared_ptr<const Workflow> workflow = {};  // read already (Engine::read_definition), instead of the source
};

// The workflows of pawl's own that tasks need; answers once they can be used.
struct PrepareTasks {
  using Answer = WorkflowRef;
  TenantId tenant;
  TaskAgent agent = TaskAgent::none;
};

struct PolicyRef {
  int version = 0;
  std::string digest;
  bool is_new = false;
};

// The same content as the latest version's gives that version.
struct PublishPolicy {
  using Answer = PolicyRef;
  TenantId tenant;
  PolicySource source;
  Actor by;
};

// The tenant as decided so far, and its stream's head; the answer waits for it to be durable.
struct TenantHead {
  Tenant tenant;
  Hash head;
};
struct InspectTenant {
  using Answer = TenantHead;
  TenantId tenant;
};

// ---- All of them

// A request that waits for its answer. Nobody else does when the reply is empty.
template <class R>
struct PendingRequest {
  R value;
  Reply<typename R::Answer> reply;
};

template <class... R>
using OneOf = std::variant<PendingRequest<R>...>;

using EngineRequest = OneOf<NewRun, RetryRun, RunRequest, ReportStatus, InspectRun, FlushRows, ReportStep, Heartbeat,
                            ProposeEffect, NewTask, TaskRequest, InspectTask, UpdateTask, CreateTenant, TenantRequest,
                            PublishWorkflow, PrepareTasks, PublishPolicy, InspectTenant>;

}  // namespace pawl
