// Checks a whole folder against the design's invariants: every stream, every table. Reads only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cli/history.h"
#include "evidence/checkpoints.h"
#include "store/store.h"
#include "store/stream.h"

namespace pawl {

struct Problem {
  std::string subject;    // a run's or tenant's id, or the file
  std::uint64_t seq = 0;  // 0 = not one event's
  std::string what;
};

struct VerifyCounts {
  std::uint64_t tenants = 0;
  std::uint64_t runs = 0;
  std::uint64_t events = 0;
  std::uint64_t approvals = 0;
  std::uint64_t receipts = 0;
  std::uint64_t ready = 0;
  std::uint64_t checkpoints = 0;
  std::uint64_t bundles = 0;  // that were stored in files which are there
};

using Found = std::function<void(const Problem&)>;
using Progress = std::function<void(const VerifyCounts&)>;

// Folds the line into `run` and tells what is wrong with it; nothing when the stream cannot go on after it.
std::optional<RunEvent> fold_line(Run& run, const StreamLine& line, const Found& found);

// What of the row is not the fold of its stream: `run` is folded up to the row's event. The rows of other tables are
// not looked at.
void compare_row(const Run& run, const WholeStream& stream, const RunRow& row, const Found& found);

// One run on its own: its chain, its fold, its row, and the rows of its approvals, receipts and requests. Rows of those
// that no run has are not looked for. What is returned holds an idempotency key and is not found by it in the store.
std::vector<ReceiptRow> check_run_alone(Store& store, const WholeStream& stream, const RunRow& row,
                                        const PublishedWorkflows& workflows, const Found& found);
// One tenant on its own: its chain, its fold, its row, and the signature of its last checkpoint. The digests of the
// workflow versions that its stream says were published.
WorkflowDigests check_tenant_alone(const WholeStream& stream, const Tenant& tenant, const Found& found);

// All rows of workflows against what the journal says was published.
void check_workflow_rows(Store& store, std::map<TenantId, WorkflowDigests> published, const Found& found);
// A stream of a tenant that has no row: everything of that tenant would be gone without a word.
void check_tenant_is_there(StreamKey key, const std::vector<Tenant>& tenants, const Found& found);

class Verification {
 public:
  Verification(Store& store, Found found, Progress progress);
  // One that somebody holds: the journal must go on from it.
  void expect(const SignedCheckpoint& held) { held_.push_back(held); }
  VerifyCounts check();

 private:
  void check_tenant(const Tenant& tenant);
  void read_receipts(TenantId tenant);
  void check_run_stream(StreamKey key);
  // The run after the last event that folds; problems are reported.
  void fold_and_compare(StreamKey key, const WholeStream& stream, const Workflow& workflow);
  void check_row(const Run& folded, const WholeStream& stream, const RunRow& row);
  void check_approval_rows(const Run& run);
  void check_receipt_rows(const Run& run);
  void check_ready_rows(const Run& run);
  void check_requests(const Run& run);
  void check_start(const Run& run);
  void check_bundle_rows(TenantId tenant);
  void check_bundles();
  void check_leftovers();
  void audit(StreamKey key, const WholeStream& stream);
  void report(std::string subject, std::uint64_t seq, std::string what);

  Store& store_;
  Found found_;
  Progress progress_;
  StreamReader streams_;
  PublishedWorkflows workflows_;
  VerifyCounts counts_;
  std::map<TenantId, WorkflowDigests> published_;  // by the journal
  std::map<TenantId, CheckpointAudit> audits_;
  std::vector<SignedCheckpoint> held_;
  std::map<RunId, std::vector<ApprovalRow>> approvals_;
  std::map<RunId, std::vector<ReceiptRow>> receipts_;
  std::map<RunId, std::vector<ReadyStep>> ready_;
  std::multiset<std::tuple<TenantId, WorkflowName, Instant>> starts_;
  std::uint64_t request_keys_ = 0;                           // that runs were created under
  std::map<std::pair<TenantId, RunId>, BundleRow> bundles_;  // the newest of each run
};

}  // namespace pawl
