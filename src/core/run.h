// The state of one run: what folding its events gives, and all that decide() looks at.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/approval_lifecycle.h"
#include "core/diagnostic.h"
#include "core/id.h"
#include "core/json.h"
#include "core/lease_proof.h"
#include "core/money.h"
#include "core/provider.h"
#include "core/receipt.h"
#include "core/run_lifecycle.h"
#include "core/step_lifecycle.h"
#include "core/task.h"
#include "core/time.h"
#include "core/workflow.h"

namespace pawl {

// Workers inside a server process have names that begin so; with several servers the server's number follows:
// local/7/... They die with the process, which a restart therefore knows.
inline constexpr std::string_view local_worker_prefix = "local/";
inline constexpr Duration local_lease_max = std::chrono::seconds(30);
// How often the server may die while it executes one step. Then the step is taken for the cause.
inline constexpr int server_losses_max = 10;

struct Step {
  StepStatus status = StepStatus::pending;
  bool wrote = false;  // an attempt was allowed to write; counted once against max_writes_per_run
  int attempts = 0;    // begun, without those that went on after waiting for a person or the loss of their server
  int server_losses = 0;
  // Fencing: grows with every claim and reclaim. A report on another claim changes nothing, ever.
  std::uint64_t lease_token = 0;
  std::optional<RemoteHolder> lease_holder;  // absent: a worker in this process, or a claim from before tokens
  WorkerName lease_owner;
  // The one field that may move without an event: a heartbeat extends it. An extension that was acknowledged is never
  // lost (Engine::heartbeat).
  Instant lease_expires_at;
  Instant started_at;              // of the latest attempt
  Instant finished_at;             // of the step
  Instant next_eligible_at;        // while failed_retryable
  Instant due_at;                  // while waiting_event
  JsonText output;                 // empty until succeeded
  Money cost;                      // of all attempts
  JsonText question;               // the latest one
  JsonText answer;                 // to `question`; without a question it came early and answers the next one
  std::optional<ReceiptId> doubt;  // the question is whether this effect happened
  std::shared_ptr<const Diagnostic> last_error;
};

// Why a second request to create this run finds this one instead.
struct Idempotency {
  std::string scope;   // whose keys: an API key's id
  std::string key;     // the caller's own
  std::string digest;  // of the request: the same key with another one is a mistake

  friend bool operator==(const Idempotency&, const Idempotency&) = default;
};

struct Vote {
  Actor by;   // the person
  Actor via;  // the key or account that spoke for them; empty when it is the same
  Instant at;
  std::string as = {};  // which of the approvers: the name, or a group; empty when the approval names none

  friend bool operator==(const Vote&, const Vote&) = default;
};

struct Approval {
  ApprovalId id;
  StepIndex step = 0;
  ApprovalStatus status = ApprovalStatus::requested;
  ApprovalTerms terms;
  // What is approved: an action, for the policy in force then; null for a gate of the workflow.
  std::shared_ptr<const Proposal> proposal;
  PolicyReason policy_reason;
  Instant requested_at;
  Instant expires_at;
  Instant resolved_at;
  std::vector<Vote> votes;  // approvals so far; the quorum-th one approves
  Actor resolved_by;
  std::string reason;
  bool reminded = false;
  bool escalated = false;

  friend bool operator==(const Approval& a, const Approval& b);
};

// When somebody has to be told next that it is open, or it expires.
Instant next_due(const Approval& approval);
// Under which of the names that the approval has this person may decide it now; "" when it names nobody. Nothing: not
// at all. `groups` are the person's.
std::optional<std::string> entitlement(const Approval& approval, const Actor& by,
                                       const std::vector<std::string>& groups);
// Whether that name may decide it now, and can be this actor's.
bool is_entitled(const Approval& approval, const Actor& by, std::string_view as);
// All who may decide it now, as the author named them; empty: everybody who may approve at all.
Approvers approvers_now(const Approval& approval);

// What is known of a run that another engine carries, as it was last seen there.
struct Foreign {
  std::string id;     // an invocation, an execution's ARN; empty until it was accepted there
  std::string state;  // in the provider's own word; empty until it was seen there
  SubState sub_state = SubState::running;
  int retries = 0;  // never fewer than were seen before: providers forget them
  Instant next_retry_at;
  std::string last_failure;  // of an attempt, or why the provider cannot be asked
  JsonText output;
  // An approval that somebody there waits for.
  struct Bound {
    ApprovalId approval;
    Callback callback;
    bool told = false;    // the answer has arrived there, or cannot any more:
    std::string problem;  // then this says why

    friend bool operator==(const Bound&, const Bound&) = default;
  };
  std::vector<Bound> bound;

  friend bool operator==(const Foreign&, const Foreign&) = default;
};

inline constexpr std::size_t foreign_output_bytes_max = std::size_t{1} << 20;

// A run has no more requesters than this, the creator included: what would add another is refused.
inline constexpr std::size_t requesters_max = 100;

struct Run {
  const Workflow* workflow = nullptr;  // outlives the run
  TenantId tenant;
  RunId id;
  WorkspaceName workspace;
  Provider provider = Provider::native;
  RunStatus status = RunStatus::created;
  JsonText input;
  Actor created_by;
  // Who counts as having asked for it beside the creator, each once. Of a retry, the requesters of the run before; of
  // an undo, those of the run that it undoes; of a task, everybody who had it run; of a task's run, those of the task
  // and of all tasks above it.
  std::vector<Actor> other_requesters;
  std::string trigger_type;
  std::string trigger_ref;
  std::shared_ptr<const Idempotency> idempotency;
  std::optional<RunId> retry_of;
  std::optional<Money> budget;
  std::optional<Duration> timeout;
  Instant created_at;
  Instant started_at;
  Instant finished_at;
  Money cost;
  int writes = 0;           // against max_writes_per_run: see writes_of()
  std::vector<Step> steps;  // one a definition; none when another engine executes the run
  std::vector<Approval> approvals;
  std::vector<Receipt> receipts;  // oldest first
  std::shared_ptr<const Diagnostic> diagnostic;
  // Set when the stream is a task's (core/task.h). Its state is the task's then, and `status` only what rows show of
  // it.
  std::shared_ptr<const Task> task;
  std::shared_ptr<const Foreign> foreign;  // set when another engine carries it
  std::uint64_t seq = 0;                   // events folded so far

  // Counted from the start, not from the creation: waiting for a turn is not execution.
  Instant deadline() const { return timeout && started_at.ms != 0 ? started_at + *timeout : end_of_time; }
  // A step is known by its id, and in memory by its place among the definitions, which never changes. A run that
  // another engine executes has definitions, of the approvals that may be asked for there, and no steps.
  const StepDefinition& definition(StepIndex index) const { return workflow->steps[index]; }
  std::size_t defined_steps() const { return workflow->steps.size(); }
  std::optional<StepIndex> find_step(const StepId& step) const { return workflow->find(step); }
};

// Everybody who counts as having asked for the run: the creator first. None of them approves it under two_person.
std::vector<Actor> requesters_of(const Run& run);
bool is_requester(const Run& run, const Actor& actor);

// The earliest moment at which time alone will move this run or make a lease reclaimable; end_of_time when none will.
// A lease that is reclaimable already at `now` waits for a worker, not for time.
Instant next_due(const Run& run, Instant now = {});

// What the step counts for against max_writes_per_run: its effects, each key once; at least one when an attempt was
// allowed to write without saying what.
int writes_of(const Run& run, StepIndex step);
// The idempotency keys of the step's effects, each once.
std::vector<std::string_view> effect_keys(const Run& run, StepIndex step);

const Receipt* find_receipt(const Run& run, ReceiptId receipt);
// The receipt that keeps this idempotency key from another effect of this run.
const Receipt* find_effect(const Run& run, std::string_view key);

// What the holder of the step's lease would show.
LeaseProof proof_of(const Step& step);
// Whether the proof is that of the step's live lease. A stale one and a foreign one are the same to this.
bool is_held_by(const Step& step, const LeaseProof& proof);
// Whoever reports with this proof, as the journal names them.
Actor reporter_of(const Run& run, StepIndex step, const LeaseProof& proof);

// The worker that holds the lease lives in a server process and dies with it.
bool is_in_process(const Step& step);
// How long the worker's lease lasts before it has to be extended. A server extends those of its own workers by itself;
// they are short, so that other servers soon notice when it is gone.
Duration lease_term(const StepDefinition& step, const WorkerName& worker, bool is_remote);
// Whether the step's lease can be given to another worker, as one attempt more. Leases of workers in a server process
// are released instead when they run out.
bool is_reclaimable(const Run& run, StepIndex step, Instant now);

// The step's input with every expression replaced, or what led nowhere. Of a step that names secrets it is still a
// template, whose only expressions are these.
std::expected<JsonText, std::string> render_input(const Run& run, StepIndex step);
// When the step's timer is due that is started now.
std::expected<Instant, std::string> render_due(const Run& run, StepIndex step, Instant now);
// The key under which the step's effect may happen once: the workflow's own template, or "<run id>:<step id>".
std::expected<std::string, std::string> render_idempotency_key(const Run& run, StepIndex step);
// Whose key it is when it begins as those do that no workflow gives, "<run id>:". No other run may use such a one, so
// that nobody has to look for it in other runs.
std::optional<RunId> owner_of_key(std::string_view key);
// What the people who decide the gate are asked. The journal keeps the template and the values; doors show this.
std::expected<std::string, std::string> render_prompt(const Run& run, const Approval& approval);

// The names under which a repeated request finds this run: its idempotency key, its trigger.
std::vector<std::string> request_keys(const Run& run);
std::string idempotency_request_key(std::string_view scope, std::string_view key);
std::string trigger_request_key(const WorkflowName& workflow, std::string_view type, std::string_view ref);

// How often it was tried again, by whoever carries it.
int retries_of(const Run& run);
// What its provider calls the state it is in.
std::string_view provider_state(const Run& run);

// The target's key for this run; empty when it has none.
std::expected<std::string, std::string> render_target_key(const Run& run);

// Equal in all that events determine (so not in lease_expires_at of a running step).
bool same_fold(const Run& a, const Run& b);

}  // namespace pawl
