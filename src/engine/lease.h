// Between the engine and whoever does the work: leases go out, reports come back.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/action.h"
#include "core/id.h"
#include "core/json.h"
#include "core/lease_proof.h"
#include "core/money.h"
#include "core/time.h"

namespace pawl {

// Of one step. Outputs stand in the journal for ever; what is larger belongs in a file that the output names.
inline constexpr std::size_t step_output_bytes_max = std::size_t{1} << 20;

// One attempt at one step, handed out only after its claim is durable.
struct Lease {
  TenantId tenant;
  RunId run;
  StepId step;
  WorkspaceName workspace;
  WorkflowName workflow;
  ToolName tool;
  Tier risk = Tier::low;
  JsonText input;  // `with`, every expression replaced
  // Secrets and the response are not: then `input` is still a template, whose only expressions they are. A tool in this
  // process is given the secrets' values in `input`, and in `shown`, which is a template always, what may be journaled,
  // proposed and told.
  bool keeps_expressions = false;
  JsonText shown = {};
  bool key_is_declared = false;  // the workflow gives the idempotency key: no tool knows better
  // Of a write that is in doubt and called again: what stood there before the first call, as its plan said. Empty
  // otherwise.
  JsonText before = {};
  JsonText question = {};   // that an earlier attempt asked; empty when none did
  JsonText answer = {};     // to it
  std::uint64_t token = 0;  // the number of the claim; nothing outside can use it
  // Of a remote worker: what it reports with. The text goes out with the lease and is kept nowhere.
  std::string remote_token = {};
  std::optional<RemoteHolder> holder = {};
  int attempt = 0;
  std::string idempotency_key;
  Instant expires_at;
  Duration term{};          // how long the lease is good, and each heartbeat extends it
  Duration timeout{};       // of this attempt
  std::uint64_t basis = 0;  // which load of the run it was claimed on (Resident::incarnation)

  // What a report on it shows.
  LeaseProof proof() const { return holder ? LeaseProof::remote(*holder) : LeaseProof::local(token); }
};

struct Completed {
  JsonText output = "null";
  Money cost;
  // Of a write, for its receipt: what the other side said, when that is not the output; what would undo it.
  JsonText response = {};
  std::shared_ptr<const Action> undo = {};
};

struct Failed {
  std::string error_code;
  std::string message;
  // Absent: what the table of error codes says.
  std::optional<bool> retryable;
  // What the dependency asked for (Retry-After); the retry waits at least this long.
  std::optional<Duration> retry_after;
  Money cost;
  bool is_harmless = false;  // of a write: it had no effect. Otherwise nobody knows, and it is in doubt
};

// The worker stops and has ended its work on the step: it is ready again, and the attempt does not count.
struct Released {};

// The step cannot go on without a person: it is leased again once there is an answer, with both (Lease::question).
struct Asked {
  JsonText question;
};

// Of a question: it stands in the journal, and people read it.
inline constexpr std::size_t question_bytes_max = std::size_t{64} << 10;

using StepOutcome = std::variant<Completed, Failed, Released, Asked>;

// What became of an effect that the worker was allowed.
struct EffectOutcome {
  ReceiptId receipt;
  bool succeeded = true;
  std::string error_code;  // of a failure: it did not happen
  std::string message;
  JsonText response;                   // what the other side said: metadata, without secrets
  std::shared_ptr<const Action> undo;  // what would undo it; null when nothing would
};

struct StepReport {
  TenantId tenant;
  RunId run;
  StepId step;
  LeaseProof proof;
  StepOutcome outcome;
  // Of the call that the outcome follows from, recorded before it.
  std::optional<EffectOutcome> effect = {};
  // Whoever reports has ended and cannot say more: an effect of which nothing was said is then in doubt, and the
  // attempt fails. Otherwise the report is refused until its outcome is recorded.
  bool is_last = false;
};

// What a worker can say to the engine. Thread-safe; none of these blocks on a commit.
class LeaseBroker {
 public:
  virtual ~LeaseBroker() = default;
  // The worker can take this many more leases than it was granted so far.
  virtual void offer(const WorkerName& worker, int slots) = 0;
  // The same, because so many leases of this tenant hold a slot no longer.
  virtual void give_back(const WorkerName& worker, TenantId tenant, int slots) = 0;
  virtual void report(std::vector<StepReport> reports) = 0;
};

// What the engine says to a worker. Called after the commit, from the thread that synced it: take, queue, return.
class LeaseSink {
 public:
  virtual ~LeaseSink() = default;
  virtual void grant(std::vector<Lease> leases) = 0;
  // The lease is lost (run canceled, step timed out, reclaimed): stop working on it. Its report would be refused.
  virtual void revoke(RunId run, const StepId& step, std::uint64_t token) = 0;
};

}  // namespace pawl
