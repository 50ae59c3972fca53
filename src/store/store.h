// Where the journal and the tables live. One interface in domain words; the engine knows nothing below it.
//
// The journal is a sequence of frames. A frame holds the events that one turn of the engine appended to any number of
// streams, and, beside them, what is written behind: rows of runs that changed, their history. Everything in one
// commit is durable together or not at all.
//
//   parts := part*
//   part  := tenant(16 bytes) stream(16 bytes) first_seq(varint) size(varint) lines
//   lines := (canonical JSON of one event, '\n')*                      first_seq counts from 1
//
// A stream is a run's, or the tenant's own (then stream = tenant). Rows and history of a run lag behind its events by
// the frames that are not folded yet; a run whose last event is folded is *clean*. Only clean runs may leave the
// engine's memory, so load() always gives the present state of a run that is not in memory.
//
// Threads: commit() and tidy() are called by one thread, the rest by any. Errors of the disk or the database are
// thrown as StoreFailure; after one from commit() nothing may be believed any more and the process must stop.
// Locks are taken in this order: writer, reader.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/chain.h"
#include "core/checkpoint.h"
#include "core/id.h"
#include "core/run.h"
#include "core/tenant.h"
#include "core/time.h"
#include "core/vocabulary.h"

namespace pawl {

class StoreFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Frames are numbered from 1, without gaps.
using Position = std::uint64_t;

struct StreamKey {
  TenantId tenant;
  IdBits stream;  // a RunId's bits, or the tenant's own

  static StreamKey of(TenantId tenant) { return {tenant, tenant.bits}; }
  static StreamKey of(TenantId tenant, RunId run) { return {tenant, run.bits}; }
  bool is_tenant() const { return stream == tenant.bits; }
  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};

// The hash that a stream's first event follows.
Hash genesis(StreamKey key);

struct StreamPart {
  StreamKey key;
  std::uint64_t first_seq = 0;
  std::string_view lines;
};

inline constexpr std::size_t part_header_bytes_max = 16 + 16 + 10 + 10;
void append_part(std::string& parts, const StreamPart& part);
// Takes the first part off the front; throws StoreFailure when the bytes are not a frame's.
StreamPart take_part(std::string_view& parts);
// Calls for each part in order; throws as take_part() does.
void for_each_part(std::string_view parts, const std::function<void(const StreamPart&)>& visit);

// Events of one stream since it was last folded, moved from frames to where they stay.
struct History {
  StreamKey key;
  std::uint64_t first_seq = 0;
  std::string lines;
  std::uint64_t last_seq = 0;
  Hash head;  // after last_seq
};

struct ReadyStep {
  TenantId tenant;
  WorkspaceName workspace;
  WorkflowName workflow;
  ToolName tool;  // empty: the run starts at a gate and needs no worker
  RunId run;
  StepIndex step = 0;
  bool fresh = false;  // the run has not started yet: its start is paced
};

struct RunRow {
  TenantId tenant;
  RunId id;
  WorkflowName workflow;
  int version = 0;
  WorkspaceName workspace;
  RunStatus status = RunStatus::created;
  // What other vocabularies need beside the status. Absent in the row of an older pawl that nobody has migrated.
  std::optional<RunPhase> phase = RunPhase::plain;
  std::string error_code;  // empty unless it ended badly
  Instant created_at;
  Instant updated_at;            // the last event's
  Instant due_at = end_of_time;  // when time alone will move it
  bool leased = false;           // some step is running
  std::uint64_t seq = 0;
  Hash head;
  std::string snapshot;
  // For a store with several servers: names this write of the row, and no other write has the same name. 0 = unnamed.
  std::uint64_t revision = 0;
};

struct ApprovalRow {
  TenantId tenant;
  ApprovalId id;
  RunId run;
  StepId step;
  ApprovalStatus status = ApprovalStatus::requested;
  Tier tier = Tier::low;
  Instant requested_at;
  Instant expires_at;
};

struct ReceiptRow {
  TenantId tenant;
  ReceiptId id;
  RunId run;
  ReceiptStatus status = ReceiptStatus::intended;
  std::string key;  // its action's idempotency key

  friend bool operator==(const ReceiptRow&, const ReceiptRow&) = default;
};

// The bundle that was stored last of a run: what the last `bundle.stored` of its tenant's stream says.
struct BundleRow {
  TenantId tenant;
  BundleStored stored;
  Instant at;
};

// All that is written of a run when it is folded.
struct RunFold {
  RunRow row;
  History history;      // goes on where the last fold ended, and ends at row.seq; may be without lines
  bool is_new = false;  // never folded before: nothing to replace
  // For a store with several servers.
  Hash follows;  // the head that the history goes on from
  // The row that this one replaces. The head alone does not tell rows apart that differ in a lease's end. 0 = any.
  std::uint64_t follows_revision = 0;
  std::uint64_t incarnation = 0;          // which load of the run this was decided on
  int leases = 0;                         // steps that are running, now
  int leases_before = 0;                  // and when it was last folded
  int claims = 0;                         // ready steps that were leased since then
  bool was_ready = false;                 // some step was ready when it was last folded
  bool wants_latest = false;              // new, of whatever version of its workflow is the latest
  bool holds_ready = false;               // the ready steps are in this server's own queue
  std::vector<std::string> request_keys;  // when new: what a repeated request finds it by
  std::vector<ReadyStep> ready;           // the steps that are ready now; none unless the run is created or running
  std::vector<ApprovalRow> approvals;     // those that changed since the last fold
  // The same. A store with several servers leaves the run out when another run's receipt holds the key of one of them.
  std::vector<ReceiptRow> receipts;
};

struct TenantFold {
  Tenant tenant;
  History history;
  // For a store with several servers, as in RunFold.
  Hash follows;
  std::uint64_t incarnation = 0;
};

struct WorkflowRow {
  TenantId tenant;
  WorkflowName name;
  int version = 0;
  std::string digest;
  std::string source;
  Caps caps;  // what the source says; for a store with several servers
};

// What a cap of a tenant, or of one of its workflows, leaves at a moment.
struct CapUse {
  WorkflowName workflow;  // empty: the tenant's own
  Caps caps;              // of max_concurrency and max_runs_per_min
  std::uint64_t running = 0;
  Instant may_start_at;  // the next run, as far as max_runs_per_min goes; end_of_time: not before the cap changes
};

// A start that counts against max_runs_per_min. Kept for tenants and workflows with that cap only, for a minute.
struct StartRow {
  TenantId tenant;
  WorkflowName workflow;
  Instant at;
  RunId run;  // whose start it is; for a store with several servers
};

struct Frame {
  Position position = 0;
  std::string parts;
  std::vector<RunFold> runs;
  std::vector<TenantFold> tenants;
  std::vector<WorkflowRow> workflows;
  std::vector<StartRow> starts;
  // Every event in frames before this position is folded: they may be dropped.
  Position folded_before = 0;
};

// A frame as it is kept for those who follow the journal.
struct KeptFrame {
  Position position = 0;
  std::string parts;
};

struct DueRun {
  TenantId tenant;
  RunId run;
  Instant due_at;
};

struct RunFilter {
  std::optional<RunStatus> status;
  std::optional<WorkflowName> workflow;  // without one: of all but pawl's own (core/notices.h) that do not undo
  std::optional<WorkspaceName> workspace;
  std::optional<Instant> since;  // created then or later; an id is at most a day older than its run
  std::optional<RunId> before;   // cursor: runs older than this one
  std::size_t limit = 50;
};

struct ApprovalFilter {
  ApprovalStatus status = ApprovalStatus::requested;
  std::optional<ApprovalId> before = {};  // cursor: asked for before this one, whatever became of it since
  std::size_t limit = 50;
};

struct ReceiptFilter {
  std::optional<ReceiptStatus> status;
  std::optional<ReceiptId> before = {};  // cursor: older than this one
  std::size_t limit = 50;
};

struct WaitingFigures {
  std::uint64_t approvals = 0;
  Instant oldest_approval = end_of_time;  // when it was asked for
  std::uint64_t receipts_in_doubt = 0;
};

// No run that was created then or later has a lower id.
IdBits oldest_id_since(Instant since);

// A stream of which a commit wrote nothing.
struct Lost {
  StreamKey key;
  std::uint64_t incarnation = 0;  // as in the fold; 0 for a tenant
  bool capped = false;            // not because somebody else had written it, but because a cap is reached,
  bool is_pace = false;           // namely max_runs_per_min
};

class SharedStore;

class Store {
 public:
  virtual ~Store() = default;
  // Null when this process alone writes.
  virtual SharedStore* shared() { return nullptr; }

  // One transaction, one sync, for all of them. Durable when it returns; what is named there was left out, which only a
  // shared store does.
  virtual std::vector<Lost> commit(std::span<const Frame> frames) = 0;
  // Housekeeping when nothing waits to be committed; cheap when there is nothing to do.
  virtual void tidy() = 0;

  // At start, for all tenants. Whatever is visited, here and below, the visitor may call the store again.
  virtual Position last_position() = 0;
  virtual std::vector<Tenant> tenants() = 0;
  virtual void for_each_workflow(const std::function<void(const WorkflowRow&)>& visit) = 0;
  // Frames that are not folded into the tables yet, oldest first.
  virtual void for_each_frame(const std::function<void(Position, std::string_view parts)>& visit) = 0;
  // Of each tenant: those of runs that have started, then of those that have not; oldest run first.
  virtual void for_each_ready(const std::function<void(const ReadyStep&)>& visit) = 0;
  // The oldest kept frame later than this one. Frames stay a while after they are folded, for those who follow.
  virtual std::optional<KeptFrame> frame_after(Position position) = 0;
  // Someone in this installation who reads the journal in order, across restarts, and must miss nothing
  // (engine/follower.h): the last position of which it wants nothing more. One that is new begins with what is kept,
  // or, in a store with several servers, with what comes from now on. There a follower is one server's at a time, this
  // one's for `hold` from now on when a position is given; nothing when it is another's. Frames that a follower has not
  // seen are kept, as long as they are not more than the store's limit.
  virtual std::optional<Position> follow(const std::string& follower, Duration hold) = 0;
  // It wants nothing more of all up to there. Cheap, and durable soon: after a crash it may be an earlier one.
  virtual void followed(const std::string& follower, Position position) = 0;
  // Another server may have it, at once.
  virtual void unfollow(const std::string&) {}
  virtual void for_each_start(Instant since, const std::function<void(const StartRow&)>& visit) = 0;
  // Runs with a lease that someone may still hold.
  virtual std::vector<DueRun> leased_runs() = 0;
  // Runs that time will move by `until`, earliest first, later than `after` when given.
  virtual std::vector<DueRun> due_runs(Instant until, std::size_t limit, std::optional<DueRun> after) = 0;

  // For one tenant.
  // The runs with this id and the next ones, `limit` in all.
  virtual std::vector<RunRow> load_from(TenantId tenant, RunId run, std::size_t limit) = 0;
  std::optional<RunRow> load(TenantId tenant, RunId run) {
    auto rows = load_from(tenant, run, 1);
    return !rows.empty() && rows[0].id == run ? std::optional(std::move(rows[0])) : std::nullopt;
  }
  // The run that was created under this key (core's request_keys()).
  virtual std::optional<RunId> find_request(TenantId tenant, const std::string& request_key) = 0;
  // What waits for people, of all tenants, as far as the tables know. Walks over all of it: for monitoring.
  virtual WaitingFigures count_waiting() = 0;
  // How many such keys there are, of all tenants. Reads them all: for verification.
  virtual std::uint64_t count_requests() = 0;
  // Newest first; without snapshots.
  virtual std::vector<RunRow> list_runs(TenantId tenant, const RunFilter& filter) = 0;
  virtual std::optional<ApprovalRow> find_approval(TenantId tenant, ApprovalId approval) = 0;
  virtual std::optional<WorkflowRow> find_workflow(TenantId tenant, const WorkflowName& name, int version) = 0;
  // Newest first; none when there is no such approval to go on from.
  virtual std::vector<ApprovalRow> list_approvals(TenantId tenant, const ApprovalFilter& filter) = 0;
  virtual std::optional<ReceiptRow> find_receipt(TenantId tenant, ReceiptId receipt) = 0;
  // Those that hold the key (core's holds_key()), by what the tables know. Of a key that is a run's own
  // (owner_of_key()) a store may keep no index, and find none.
  virtual std::vector<ReceiptRow> find_effects(TenantId tenant, const std::string& key) = 0;
  // Newest run first.
  virtual std::vector<ReceiptRow> list_receipts(TenantId tenant, const ReceiptFilter& filter) = 0;
  virtual std::optional<BundleRow> find_bundle(TenantId tenant, RunId run) = 0;
  // One for each run that has any. For verification; in no order.
  virtual void for_each_bundle(TenantId tenant, const std::function<void(const BundleRow&)>& visit) = 0;
  // The folded part of a stream, first event first; empty when none is. `head` is that of the last line.
  struct Stream {
    std::string lines;
    std::uint64_t last_seq = 0;
    Hash head;
  };
  virtual Stream history(StreamKey key) = 0;
  // The same piece by piece, newest first, until the visitor says false; it must not call the store. For looking up
  // what is recent in a long stream.
  virtual void for_each_piece_back(
      StreamKey key, const std::function<bool(std::uint64_t first_seq, std::string_view lines)>& visit) = 0;
  virtual void for_each_stream(const std::function<void(StreamKey)>& visit) = 0;
};

}  // namespace pawl
