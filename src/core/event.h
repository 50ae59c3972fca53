// What happened. A status changes only by one of these being appended to a stream; the event is the transition.
//
// The text of an event is canonical JSON (RFC 8785), one object: "v" the format's version, "at" milliseconds since
// 1970 UTC, "type", and the fields below. That text is what is stored, hashed and shown to auditors. Events are for
// ever: a field may be added, none may change its meaning; an older version stays readable.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/approval_lifecycle.h"
#include "core/diagnostic.h"
#include "core/id.h"
#include "core/json.h"
#include "core/money.h"
#include "core/run.h"
#include "core/run_lifecycle.h"
#include "core/step_lifecycle.h"
#include "core/time.h"

namespace pawl {

inline constexpr int event_format_version = 1;

struct RunCreated {
  WorkflowName workflow;
  int version = 0;
  std::string workflow_digest;
  WorkspaceName workspace;
  Provider provider = Provider::native;
  JsonText input;
  Actor by;
  std::string trigger_type;
  std::string trigger_ref;
  std::shared_ptr<const Idempotency> idempotency;
  std::optional<RunId> retry_of;
  std::optional<Money> budget;
  std::optional<Duration> timeout;
  std::vector<Actor> other_requesters = {};  // see Run::other_requesters; absent in older events
};

enum class ReleaseCause {
  worker,       // stopped in an orderly way and gave it back
  server_lost,  // the server that executed the step died
  suspended     // nothing of this tenant is executed for the time being
};
template <>
inline constexpr std::array enum_names<ReleaseCause>{std::string_view("worker"), std::string_view("server_lost"),
                                                     std::string_view("suspended")};

struct RunMoved {
  RunTrigger trigger;
  Actor by;                                      // who canceled or reported; empty for the engine itself
  std::string reason;                            // of a cancel
  std::shared_ptr<const Diagnostic> diagnostic;  // fail, deny, time_out: always
  std::optional<Provider> tells = {};            // who executes the run and has to be told that it is over
};

// What was seen of a run that another engine carries, when it differs from what was known.
struct RunObserved {
  std::string id;
  std::string state;
  SubState sub_state = SubState::running;
  int retries = 0;
  Instant next_retry_at;
  std::string last_failure;
  JsonText output;
};

// unblock, open_gate, gate, due, approve_action, approve_gate, cancel: moves that carry nothing else.
struct StepMoved {
  StepId step;
  StepTrigger trigger;
  Actor by = {};  // whose report this follows from
};

// The engine's timer begins, and ends.
struct StepWaitOpened {
  StepId step;
  Instant due_at;
};
struct StepArrived {
  StepId step;
  JsonText output;
};

// The lease ends, the attempt is not counted, and the step is ready again.
struct StepReleased {
  StepId step;
  ReleaseCause cause = ReleaseCause::worker;
  Actor by = {};  // the worker that gave it back
};

struct StepClaimed {
  StepId step;
  StepTrigger trigger;  // claim or reclaim
  WorkerName worker;
  std::uint64_t token = 0;
  Instant lease_expires_at;
  bool writes = false;
  std::optional<RemoteHolder> holder = {};  // absent: a worker in this process
};

struct StepCompleted {
  StepId step;
  JsonText output;
  Money cost;
  Actor by = {};
};

struct StepFailed {
  StepId step;
  StepTrigger trigger;  // fail_retryable, fail_terminal or refuse
  std::shared_ptr<const Diagnostic> diagnostic;
  Instant next_eligible_at;  // fail_retryable only
  Money cost;
  Actor by = {};  // whose report this follows from
};

// While it runs; what else the attempt costs comes with its end.
struct StepCharged {
  StepId step;
  Money cost;
  Actor by = {};
};

struct StepAsked {
  StepId step;
  JsonText question;
  std::optional<ReceiptId> doubt = {};  // asks whether this effect happened
  Actor by = {};
};

struct StepAnswered {
  StepId step;
  JsonText answer;
  Actor by;
  bool early = false;  // came before the question: kept, moves nothing
};

struct ApprovalRequested {
  ApprovalId approval;
  StepId step;
  ApprovalTerms terms;
  Instant expires_at;
  std::shared_ptr<const Proposal> proposal = {};  // null for a gate of the workflow
  PolicyReason policy_reason = {};
  std::optional<Callback> callback = {};  // who waits for it in another engine
  Actor by = {};                          // and asked; or who proposed the action
};

// One of several needed said yes.
struct ApprovalVoted {
  ApprovalId approval;
  Actor by;
  Actor via = {};
  std::string as = {};
};

struct ApprovalMoved {
  ApprovalId approval;
  ApprovalTrigger trigger;
  Actor by;
  std::string reason;
  Actor via = {};
  std::optional<Provider> tells = {};  // where somebody waits for it
  std::string as = {};
};

// Nobody has decided for a while: those who were asked are told again, or others may decide as well.
struct ApprovalReminded {
  ApprovalId approval;
  bool escalates = false;
  Approvers to = {};  // who is told; empty: everybody who may approve
};

// The answer has arrived there, or cannot.
struct ApprovalTold {
  ApprovalId approval;
  std::string problem;
};

// The durable intent: exactly this action may be executed now, by the worker that holds the step.
struct ReceiptIntended {
  ReceiptId receipt;
  StepId step;
  std::shared_ptr<const Proposal> proposal;
  PolicyReason policy_reason;
  std::optional<ApprovalId> approval;
  Actor by = {};
  bool by_program = false;
};

// In doubt, and called again under its key: its connector is idempotent. Moves nothing.
struct ReceiptRepeated {
  ReceiptId receipt;
  PolicyReason policy_reason;
  std::optional<ApprovalId> approval;
  Actor by = {};
  std::shared_ptr<const Proposal> proposal = {};  // when it has another risk by now; otherwise the receipt's
};

struct ReceiptMoved {
  ReceiptId receipt;
  ReceiptTrigger trigger;
  Actor by;  // the worker or agent that recorded the outcome, or the person who resolved the doubt
  std::string error_code;
  std::string message;
  JsonText response;
  std::shared_ptr<const Undo> undo;
  std::optional<ReceiptId> reversed_by;
  bool is_reported = false;  // by who was allowed to call
};

// No effect: the policy, or a cap, said no.
struct ActionDenied {
  StepId step;
  std::shared_ptr<const Proposal> proposal;
  PolicyReason policy_reason;
  Actor by = {};
};

// No effect, because it has happened already: that receipt answers for it.
struct ActionFound {
  StepId step;
  std::shared_ptr<const Proposal> proposal;
  ReceiptId receipt;
  RunId run;  // whose receipt it is
  Actor by = {};
};

// The task's own move. What it carries depends on the trigger.
struct TaskMoved {
  TaskTrigger trigger;
  Actor by;             // whoever asked for it; empty for the engine itself
  std::string message;  // a comment, a reason; JSON when it is for the agent: an answer, or that it ran out of time
  // queue, retry, resume, answer: the execution that begins. None when nothing is to be executed.
  std::optional<RunId> run = {};
  std::string session = {};
  bool resumes = false;
  // block: which step of the run waits for an answer, and under which lease it asked.
  StepId step = {};
  std::uint64_t token = 0;
  // The end of an execution.
  Money cost = {};
  std::shared_ptr<const Diagnostic> diagnostic = {};  // fail, time_out, exceed_budget: always
  JsonText result = {};                               // finish, await_subtasks, complete: see task_result_of()
};

// What was asked for is another: the new values of some keys of its specification, null for one that is gone.
struct TaskChanged {
  JsonText changes;
  Actor by;
};

// The task has a question for a person; or, with an empty one, has it no longer.
struct TaskAsked {
  JsonText question;
  std::optional<TaskId> about;  // the subtask that failed, when pawl itself asks
  Actor by = {};                // who made it go away
  std::string answer = {};      // and how
};

struct TaskSubtask {
  TaskId subtask;
  bool dropped = false;  // not waited for any more; otherwise it is new
  Actor by = {};
};

// Its stream stays; to everybody who asks for it, it is gone.
struct TaskDeleted {
  Actor by;
};

// A request that did not fit. Audited, harmless.
struct TransitionRefused {
  std::string requested;  // the trigger or command
  std::string state;      // what it met
  std::string code;
  Actor by;
  bool of_task = false;
};

using RunPayload =
    std::variant<RunCreated, RunMoved, StepMoved, StepWaitOpened, StepArrived, StepReleased, StepClaimed, StepCompleted,
                 StepFailed, StepCharged, StepAsked, StepAnswered, ApprovalRequested, ApprovalVoted, ApprovalMoved,
                 ReceiptIntended, ReceiptRepeated, ReceiptMoved, ActionDenied, ActionFound, TaskMoved, TaskAsked,
                 TaskSubtask, TaskChanged, TaskDeleted, TransitionRefused, RunObserved, ApprovalTold, ApprovalReminded>;

struct RunEvent {
  Instant at;
  RunPayload payload;
};

// "run.created", "step.claimed", "approval.approved", ...: past tense of the trigger.
std::string_view type_of(const RunPayload& payload);
std::string_view event_name(RunTrigger trigger);
std::string_view event_name(StepTrigger trigger);
std::string_view event_name(ApprovalTrigger trigger);
std::string_view event_name(ReceiptTrigger trigger);
std::string_view event_name(TaskTrigger trigger);

void append_event(std::string& out, const RunEvent& event);
std::expected<RunEvent, std::string> parse_run_event(std::string_view text);

}  // namespace pawl
