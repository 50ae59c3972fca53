// A run as its events tell it, read with rules of the checker's own: nothing of evolve() is used here, so that a
// mistake there shows. Every event is checked when it is applied; what must hold of the whole, when its frame is.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/chain.h"
#include "core/event.h"
#include "core/run.h"

namespace pawl::simulator {

struct StepModel {
  StepStatus status = StepStatus::pending;
  int attempts = 0;
  std::uint64_t token = 0;
  bool wrote = false;
  WorkerName owner;
  std::optional<RemoteHolder> holder;  // of a remote one
  Instant claimed_at;
  bool is_new = false;    // claimed in this frame, and not from a worker that was lost
  bool orphaned = false;  // its worker is gone, whoever bears the name now
  // When the lease ends: at the earliest as its worker may count on, at the latest as the engine may see it.
  Instant earliest_end;
  Instant latest_end;
  Instant next_eligible_at;
  Instant due_at;  // of its timer
  int server_losses = 0;
  JsonText output;
  Money cost;
  std::optional<ReceiptId> doubt;  // the question that is open is about it
};

struct ApprovalModel {
  ApprovalId id;
  StepIndex step = 0;
  ApprovalStatus status = ApprovalStatus::requested;
  ApprovalTerms terms;
  Instant requested_at;
  Instant expires_at;
  std::vector<Actor> votes;
  std::shared_ptr<const Proposal> proposal;  // null for a gate of the workflow
  PolicyReason policy_reason;
};

struct ReceiptModel {
  ReceiptId id;
  StepIndex step = 0;
  ReceiptStatus status = ReceiptStatus::intended;
  std::shared_ptr<const Proposal> proposal;
  std::vector<std::uint64_t> tokens;  // of the attempts that were allowed to call
  Actor by;                           // who proposed it last
  bool by_program = false;
  std::optional<ReceiptId> reversed_by;

  const std::string& key() const { return proposal->action.idempotency_key; }
};

// What a frame said that only the whole tenant can judge.
struct Voted {
  std::size_t approval;
  Actor by;
  Actor via;
};
struct Granted {
  std::shared_ptr<const Proposal> proposal;
  PolicyReason policy_reason;
  std::optional<ApprovalId> approval;
  bool denied = false;
};
struct Settled {
  ReceiptId receipt;
  bool happened;
};

class RunModel {
 public:
  RunModel(TenantId owner, RunId run, const Workflow& version, const Hash& genesis)
      : tenant(owner), id(run), workflow(&version), head(genesis) {}

  // One event, checked. Throws Broken.
  void apply(std::string_view line);
  // What must hold whenever a commit is complete.
  void check_whole() const;
  // What time should have moved by `now`, and has not; empty when all is well. `is_held` says whose lease does not end.
  std::string overdue(Instant now, const std::function<bool(const StepModel&)>& is_held) const;

  bool is_native() const { return provider == Provider::native; }
  bool ended() const { return is_terminal(status); }
  bool is_requester(const Actor& actor) const {
    return actor == created_by || std::ranges::find(other_requesters, actor) != other_requesters.end();
  }
  Instant deadline() const { return timeout && started ? started_at + *timeout : end_of_time; }
  const StepDefinition& definition(StepIndex index) const { return workflow->steps[index]; }
  std::optional<StepIndex> find_step(const StepId& step) const { return workflow->find(step); }
  bool starts_at_gate() const;
  // The run that the engine holds, or that a row's snapshot gives, says the same.
  void compare(const Run& run, const char* where) const;

  TenantId tenant;
  RunId id;
  const Workflow* workflow;
  Provider provider = Provider::native;
  RunStatus status = RunStatus::created;
  WorkspaceName workspace;
  Actor created_by;
  std::vector<Actor> other_requesters;
  std::optional<RunId> retry_of;
  std::optional<TaskId> carries;  // which task it was made for
  std::optional<Money> budget;
  std::optional<Duration> timeout;
  bool started = false;
  Instant created_at;
  Instant started_at;
  Instant updated_at;
  Money cost;
  int writes = 0;
  std::string error_code;
  std::vector<StepModel> steps;
  std::vector<ApprovalModel> approvals;
  std::vector<ReceiptModel> receipts;
  std::uint64_t seq = 0;
  Hash head;
  std::string lines;
  std::vector<RunStatus> status_after;  // [seq - 1]
  // What the frame that is being applied brought.
  bool is_new_in_frame = false;
  int claims_in_frame = 0;
  int starts_in_frame = 0;
  int writes_in_frame = 0;
  std::vector<Voted> voted_in_frame;
  std::vector<Granted> granted_in_frame;
  std::vector<Settled> settled_in_frame;
  std::vector<ActionFound> found_in_frame;
  std::vector<std::string> keys_in_frame;

  const ReceiptModel* find_receipt(ReceiptId receipt) const;
  // Effects of the step, each key once; at least one when an attempt was allowed to write without saying what.
  int writes_of(StepIndex step) const;
  void begin_frame();

 private:
  struct Rules;
};

}  // namespace pawl::simulator
