// What someone or something wants of a run. decide() turns each into events or a refusal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/event.h"
#include "core/lease_proof.h"

namespace pawl {

struct CreateRun {
  TenantId tenant;
  RunId id;
  const Workflow* workflow = nullptr;
  WorkspaceName workspace{"default"};
  Provider provider = Provider::native;
  JsonText input = "{}";
  Actor by;
  std::string trigger_type = "api";
  std::string trigger_ref;
  std::shared_ptr<const Idempotency> idempotency;
  std::optional<RunId> retry_of;
  std::optional<Money> budget;               // over the workflow's
  std::optional<Duration> timeout;           // over the workflow's
  std::vector<Actor> other_requesters = {};  // as other_requesters_of() gives them
};

// The scheduler's: a run whose first step is a gate starts without a worker.
struct StartRun {};

// A worker takes a ready step, or one whose lease ran out.
struct ClaimStep {
  StepId step;
  WorkerName worker;
  bool writes = false;            // this attempt may have an effect outside
  std::optional<int> writes_max;  // the cap in force
  // Why the step's input could not be built; the claim then ends in a failure, in the same commit.
  std::optional<std::string> input_error;
  std::optional<RemoteHolder> holder = {};  // absent: a worker in this process
};

struct CompleteStep {
  StepId step;
  LeaseProof proof;
  JsonText output;
  Money cost;
};

struct FailStep {
  StepId step;
  LeaseProof proof;
  std::string error_code;
  std::string message;
  std::optional<bool> retryable;  // absent: what the table of codes says
  std::optional<Duration> retry_after;
  Money cost;
};

// What the attempt has spent since it last said so. A run that passes its budget ends with it.
struct ChargeStep {
  StepId step;
  LeaseProof proof;
  Money cost;
};

// The worker stops in an orderly way and has ended its work on the step, which is as if it had never begun.
struct ReleaseStep {
  StepId step;
  LeaseProof proof;
};

// The engine takes the lease away, for a reason that is not the worker's.
struct WithdrawLease {
  StepId step;
  ReleaseCause cause = ReleaseCause::suspended;
};

struct AskQuestion {
  StepId step;
  LeaseProof proof;
  JsonText question;
};

struct AnswerQuestion {
  StepId step;
  JsonText answer;
  Actor by;
};

struct ResolveApproval {
  std::optional<ApprovalId> approval;  // absent: the only one that is open
  bool approve = true;
  Actor by;  // the person, where the tenant knows whose key or account spoke
  std::string reason;
  Actor via = {};
  bool is_person = true;                 // somebody the tenant knows, not merely a key
  bool has_asked = false;                // the same person as one of the run's requesters, by whatever identity
  std::vector<std::string> groups = {};  // of that person
};

// A worker wants to have an effect outside.
struct ProposeAction {
  StepId step;
  LeaseProof proof;
  std::shared_ptr<const Proposal> proposal;
  Verdict verdict;                    // of the policy in force
  std::optional<int> writes_max;      // the cap in force
  std::optional<std::string> frozen;  // why effects are denied to everybody at this moment
  // Of an earlier call that is in doubt: whether its connector can find out if it had its effect, and what it found.
  bool can_look = false;
  std::optional<bool> happened;
  // What another run holds under the same idempotency key.
  struct Holder {
    RunId run;
    Receipt receipt;
    ToolName tool;  // of the step that made the receipt
  };
  std::optional<Holder> holder;
};

// The worker that executes the intent says what became of it.
struct RecordOutcome {
  StepId step;
  LeaseProof proof;
  ReceiptId receipt;
  bool succeeded = true;
  std::string error_code;
  std::string message;
  JsonText response;
  std::shared_ptr<const Action> undo;
};

// A person says whether an effect in doubt happened, after the run is over.
struct SettleReceipt {
  ReceiptId receipt;
  bool happened = true;
  Actor by;
};

// Another effect has undone it.
struct ReverseReceipt {
  ReceiptId receipt;
  ReceiptId by;
};

struct CancelRun {
  Actor by;
  std::string reason;
};

// Everything that is due by now: retries, lost leases, time-outs, expiries, the deadline.
struct TimePasses {};

// Another orchestrator reports; contract v1 is enforced on it.
struct ReportRun {
  RunTrigger trigger;
  Actor by;
  std::shared_ptr<const Diagnostic> diagnostic;
  std::string reason;
};

// What the provider of a foreign run says of it. Nothing changes by what was known before, nor after the run's end.
struct ObserveRun {
  // As Foreign has it; what is empty here is not known to this look, and stays as it was.
  std::string id;
  std::string state;
  SubState sub_state = SubState::running;
  // Only that it goes on is known: what it does just now, and why it is tried again, stay as they were.
  bool is_partial = false;
  int retries = 0;
  Instant next_retry_at;
  std::string last_failure;
  JsonText output;
  std::optional<RunTrigger> ends;                // succeed, fail, time_out or cancel
  std::shared_ptr<const Diagnostic> diagnostic;  // fail, time_out: always
  std::vector<ApprovalId> failed_by;             // fail: approvals whose refusal the provider gives as its reason
  std::string reason;                            // of a cancel
};

// Somebody in the engine that executes the run waits for a decision of people here.
struct RequestApproval {
  StepId gate;  // of the workflow's `approvals`
  Callback callback;
  Actor by;
};

// The answer to an approval has arrived where it was waited for; or cannot, any more, and why.
struct RecordTold {
  ApprovalId approval;
  std::string problem;
};

using RunCommand =
    std::variant<StartRun, ClaimStep, CompleteStep, FailStep, ChargeStep, ReleaseStep, WithdrawLease, AskQuestion,
                 AnswerQuestion, ResolveApproval, ProposeAction, RecordOutcome, SettleReceipt, ReverseReceipt,
                 CancelRun, TimePasses, ReportRun, ObserveRun, RequestApproval, RecordTold>;

}  // namespace pawl
