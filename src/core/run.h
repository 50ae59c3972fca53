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

struct Step {
  StepStatus status = StepStatus::pending;
  bool wrote = false;  // an attempt was allowed to write; counted once against max_writes_per_run
  int attempts = 0;    // begun, without those that went on after waiting for a person
  // Fencing: grows with every claim and reclaim. A report on another claim changes nothing, ever.
  std::uint64_t lease_token = 0;
  std::optional<RemoteHolder> lease_holder;  // absent: a worker in this process, or a claim from before tokens
  WorkerName lease_owner;
  // The one field that may move without an event: a heartbeat extends it. Losing an extension can only bring a
  // reclaim forward, which the token makes safe.
  Instant lease_expires_at;
  Instant started_at;              // of the latest attempt
  Instant finished_at;             // of the step
  Instant next_eligible_at;        // while failed_retryable
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

  friend bool operator==(const Approval& a, const Approval& b);
};

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

struct Run {
  const Workflow* workflow = nullptr;  // outlives the run
  TenantId tenant;
  RunId id;
  WorkspaceName workspace;
  Provider provider = Provider::native;
  RunStatus status = RunStatus::created;
  JsonText input;
  Actor created_by;
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
  const StepDefinition& definition(StepIndex index) const { return workflow->steps[index]; }
};

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

// Whether the step's lease can be given to another worker.
bool is_reclaimable(const Run& run, StepIndex step, Instant now);

// The step's input with every expression replaced, or what led nowhere. Of a step that names secrets it is still a
// template, whose only expressions are these.
std::expected<JsonText, std::string> render_input(const Run& run, StepIndex step);
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
