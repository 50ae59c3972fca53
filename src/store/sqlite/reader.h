// Everything that only looks. One thread at a time; the owner locks.
//
// Reads share one open view of the database as long as no commit has come between them: beginning and ending one
// costs more than finding a run does. A view that stays open keeps the log from starting over, so the committing
// thread asks for release() before it checkpoints.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "store/sqlite/connection.h"
#include "store/sqlite/schema.h"
#include "store/store.h"

namespace pawl::sqlite {

class Reader {
 public:
  // `version` is the schema's: looking needs no migration.
  Reader(Connection& connection, int version);

  // Sees everything up to commit number `commits`.
  void freshen(std::uint64_t commits);
  void release();

  Position last_position();
  Position first_unfolded();
  std::vector<Tenant> tenants();
  std::vector<RunRow> load_from(TenantId tenant, RunId run, std::size_t limit);
  std::optional<RunId> find_request(TenantId tenant, const std::string& request_key);
  std::uint64_t count_requests();
  WaitingFigures count_waiting();
  std::vector<std::string> problems();
  std::vector<RunRow> list_runs(TenantId tenant, const RunFilter& filter);
  std::optional<ApprovalRow> find_approval(TenantId tenant, ApprovalId approval);
  std::optional<WorkflowRow> find_workflow(TenantId tenant, const WorkflowName& name, int version);
  std::vector<ApprovalRow> list_approvals(TenantId tenant, const ApprovalFilter& filter);
  std::optional<ReceiptRow> find_receipt(TenantId tenant, ReceiptId receipt);
  std::vector<ReceiptRow> find_effects(TenantId tenant, const std::string& key);
  std::vector<ReceiptRow> list_receipts(TenantId tenant, const ReceiptFilter& filter);
  // At most `limit`, of this run and later ones. Of an older database: of all runs, found in the history.
  std::vector<BundleRow> bundles_from(TenantId tenant, RunId run, std::size_t limit);
  std::vector<DueRun> leased_runs();
  std::vector<DueRun> due_runs(Instant until, std::size_t limit, std::optional<DueRun> after);
  Store::Stream history(StreamKey key);
  void for_each_piece_back(StreamKey key,
                           const std::function<bool(std::uint64_t first_seq, std::string_view lines)>& visit);

  // Pages, so that a long walk holds neither the lock nor the view: each gives what follows the place given.
  std::optional<KeptFrame> frame_from(Position position);
  struct ReadyRuns {
    std::vector<ReadyStep> steps;
    std::size_t runs = 0;
    RunId last;
  };
  ReadyRuns ready_after(TenantId tenant, RunStatus status, RunId run, std::size_t limit);
  std::vector<WorkflowRow> workflows_after(const WorkflowRow& place, std::size_t limit);
  struct StartPlace {
    Instant at;
    std::int64_t position = 0;
    std::int64_t ordinal = 0;
  };
  struct PlacedStart {
    StartPlace place;
    StartRow start;
  };
  std::vector<PlacedStart> starts_after(const StartPlace& place, std::size_t limit);
  std::vector<StreamKey> run_streams_after(StreamKey key, std::size_t limit);
  std::vector<StreamKey> tenant_streams_after(TenantId tenant, std::size_t limit);

 private:
  // Where a stream's folded part ends.
  struct StreamEnd {
    std::uint64_t seq = 0;
    Hash head;
    std::optional<std::int64_t> newest;  // piece of history
  };
  StreamEnd end_of(StreamKey key);
  void for_each_piece_back(const StreamEnd& end,
                           const std::function<bool(std::uint64_t first_seq, std::string_view lines)>& visit);

  Connection& connection_;
  const bool has_requests_;
  const bool has_receipts_;
  const bool has_bundles_;
  bool view_open_ = false;
  std::uint64_t view_commits_ = 0;

  Statement begin_, end_;
  Statement last_frame_, next_frame_;
  Statement all_tenants_, load_runs_, find_request_, list_runs_, list_runs_by_status_, list_approvals_, find_approval_;
  Statement find_receipt_, find_effects_, list_receipts_, list_receipts_by_status_, list_receipts_in_doubt_;
  Statement bundles_from_, leased_runs_, due_runs_;
  Statement find_run_stream_, find_tenant_stream_, find_history_, run_streams_, tenant_streams_;
  Statement ready_after_, workflows_after_, find_workflow_, starts_after_;
};

}  // namespace pawl::sqlite
