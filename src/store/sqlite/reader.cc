#include "store/sqlite/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "store/sqlite/ready_steps.h"
#include "store/tenant_state.h"

namespace pawl::sqlite {
namespace {

// Sorts behind every id.
constexpr std::string_view behind_all_ids("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 17);

std::int64_t as_limit(std::size_t limit) { return static_cast<std::int64_t>(std::min<std::size_t>(limit, INT64_MAX)); }

RunRow read_run(TenantId tenant, const Cursor& rows) {
  RunRow run;
  run.tenant = tenant;
  run.id.bits = rows.id(0);
  run.status = rows.enumerator<RunStatus>(1);
  run.due_at = rows.is_null(2) ? end_of_time : rows.instant(2);
  run.leased = rows.flag(3);
  run.created_at = rows.instant(4);
  run.updated_at = rows.instant(5);
  run.version = rows.i32(6);
  run.workflow.text = rows.bytes(7);
  run.workspace.text = rows.bytes(8);
  run.error_code = rows.bytes(9);
  run.seq = rows.u64(10);
  run.head = rows.hash(11);
  run.phase = rows.is_null(12) ? std::nullopt : std::optional(rows.enumerator<RunPhase>(12));
  return run;
}

}  // namespace

Reader::Reader(Connection& connection, int version)
    : connection_(connection),
      has_requests_(version >= 2),
      has_receipts_(version >= 4),
      has_bundles_(version >= 6),
      begin_(connection, "BEGIN"),
      end_(connection, "COMMIT"),
      last_frame_(connection, sqlite::last_frame),
      next_frame_(connection, sqlite::next_frame),
      all_tenants_(connection, sqlite::all_tenants),
      load_runs_(connection, version < 3 ? sqlite::load_runs_before_3 : sqlite::load_runs),
      find_request_(connection, sqlite::find_request),
      list_runs_(connection, version < 3 ? sqlite::list_runs_before_3 : sqlite::list_runs),
      list_runs_by_status_(connection,
                           version < 3 ? sqlite::list_runs_by_status_before_3 : sqlite::list_runs_by_status),
      list_approvals_(connection, sqlite::list_approvals),
      find_approval_(connection, sqlite::find_approval),
      find_receipt_(connection, sqlite::find_receipt),
      find_effects_(connection, sqlite::find_effects),
      list_receipts_(connection, sqlite::list_receipts),
      list_receipts_by_status_(connection, sqlite::list_receipts_by_status),
      list_receipts_in_doubt_(connection, sqlite::list_receipts_in_doubt),
      bundles_from_(connection, sqlite::bundles_from),
      leased_runs_(connection, sqlite::leased_runs),
      due_runs_(connection, sqlite::due_runs),
      find_run_stream_(connection, sqlite::find_run_stream),
      find_tenant_stream_(connection, sqlite::find_tenant_stream),
      find_history_(connection, sqlite::find_history),
      run_streams_(connection, sqlite::run_streams),
      tenant_streams_(connection, sqlite::tenant_streams),
      ready_after_(connection, sqlite::ready_after),
      workflows_after_(connection, sqlite::workflows_after),
      find_workflow_(connection, sqlite::find_workflow),
      starts_after_(connection, sqlite::starts_after) {}

void Reader::freshen(std::uint64_t commits) {
  if (view_open_ && view_commits_ == commits) return;
  release();
  begin_.run();
  view_open_ = true;
  view_commits_ = commits;
}

void Reader::release() {
  if (!view_open_) return;
  view_open_ = false;
  // After some errors SQLite has ended it already.
  if (!sqlite3_get_autocommit(connection_.handle())) end_.run();
}

Position Reader::last_position() {
  auto rows = last_frame_.query();
  return rows.next() ? rows.u64(0) : 0;
}

Position Reader::first_unfolded() {
  auto rows = last_frame_.query();
  return rows.next() ? std::max<Position>(rows.u64(1), 1) : 1;
}

std::vector<Tenant> Reader::tenants() {
  std::vector<Tenant> tenants;
  std::vector<std::size_t> stale;
  {
    auto rows = all_tenants_.query();
    while (rows.next()) {
      TenantId id{rows.id(0)};
      auto tenant = read_tenant(id, rows.bytes(1));
      if (!tenant) {
        stale.push_back(tenants.size());
        tenant.emplace().id = id;
      }
      tenants.push_back(std::move(*tenant));
    }
  }
  for (std::size_t index : stale) {
    TenantId id = tenants[index].id;
    tenants[index] = fold_tenant(id, history(StreamKey::of(id)).lines);
  }
  return tenants;
}

std::vector<RunRow> Reader::load_from(TenantId tenant, RunId run, std::size_t limit) {
  IdBytes tenant_key(tenant.bits), run_key(run.bits);
  auto rows = load_runs_.query(tenant_key, run_key, as_limit(limit));
  std::vector<RunRow> out;
  while (rows.next()) {
    out.push_back(read_run(tenant, rows));
    out.back().snapshot = rows.bytes(13);
  }
  return out;
}

std::optional<RunId> Reader::find_request(TenantId tenant, const std::string& request_key) {
  IdBytes tenant_key(tenant.bits);
  auto rows = find_request_.query(tenant_key, std::string_view(request_key));
  return rows.next() ? std::optional(RunId{rows.id(0)}) : std::nullopt;
}

std::uint64_t Reader::count_requests() {
  if (!has_requests_) return 0;
  return static_cast<std::uint64_t>(connection_.number(sqlite::count_requests));
}

WaitingFigures Reader::count_waiting() {
  WaitingFigures out;
  Statement approvals(connection_, sqlite::count_waiting_approvals);
  if (auto rows = approvals.query(); rows.next()) {
    out.approvals = static_cast<std::uint64_t>(rows.i64(0));
    if (out.approvals > 0) out.oldest_approval = Instant{rows.i64(1)};
  }
  out.receipts_in_doubt = static_cast<std::uint64_t>(connection_.number(sqlite::count_receipts_in_doubt));
  return out;
}

std::vector<std::string> Reader::problems() {
  std::vector<std::string> found;
  Statement folded(connection_, sqlite::frames_folded_ahead);
  for (auto rows = folded.query(); rows.next();)
    found.push_back(
        fmt::format("frame {} says that all before {} is folded, which cannot be", rows.text(0), rows.text(1)));
  if (auto count = connection_.number(sqlite::idle_runs_with_ready); count > 0)
    found.push_back(fmt::format("{} runs have ready steps and are neither created nor running", count));
  Statement pieces(connection_, sqlite::history_of_nothing);
  if (auto rows = pieces.query(); rows.next() && rows.i64(0) > 0)
    found.push_back(fmt::format("{} pieces of history belong to no run or tenant: a row is gone (the first is {})",
                                rows.i64(0), rows.i64(1)));
  if (!has_receipts_) return found;  // nor followers
  Statement ahead(connection_, sqlite::followers_ahead);
  for (auto rows = ahead.query(); rows.next();)
    found.push_back(
        fmt::format("the follower {} is at {}, which is not a position in the journal", rows.text(0), rows.text(1)));
  return found;
}

std::vector<RunRow> Reader::list_runs(TenantId tenant, const RunFilter& filter) {
  IdBytes tenant_key(tenant.bits);
  IdBytes oldest(filter.since ? oldest_id_since(*filter.since) : IdBits{});
  std::optional<IdBytes> before;
  if (filter.before) before.emplace(filter.before->bits);
  Blob end{behind_all_ids};
  if (before) end = before->blob();

  std::optional<std::int64_t> status;
  if (filter.status) status = static_cast<std::int64_t>(*filter.status);
  std::optional<std::string_view> workflow, workspace;
  if (filter.workflow) workflow = filter.workflow->text;
  if (filter.workspace) workspace = filter.workspace->text;

  Statement& statement = status && *filter.status != RunStatus::success ? list_runs_by_status_ : list_runs_;
  auto rows = statement.query(tenant_key, status, workflow, workspace, filter.since.value_or(Instant{INT64_MIN}),
                              oldest, end, as_limit(filter.limit));
  std::vector<RunRow> runs;
  while (rows.next()) runs.push_back(read_run(tenant, rows));
  return runs;
}

namespace {

ApprovalRow read_approval(TenantId tenant, const Cursor& rows) {
  ApprovalRow row;
  row.tenant = tenant;
  row.id.bits = rows.id(0);
  row.run.bits = rows.id(1);
  row.step.text = rows.bytes(2);
  row.status = rows.enumerator<ApprovalStatus>(3);
  row.tier = rows.enumerator<Tier>(4);
  row.requested_at = rows.instant(5);
  row.expires_at = rows.instant(6);
  return row;
}

}  // namespace

std::optional<ApprovalRow> Reader::find_approval(TenantId tenant, ApprovalId approval) {
  IdBytes tenant_key(tenant.bits), approval_key(approval.bits);
  auto rows = find_approval_.query(tenant_key, approval_key);
  return rows.next() ? std::optional(read_approval(tenant, rows)) : std::nullopt;
}

std::optional<WorkflowRow> Reader::find_workflow(TenantId tenant, const WorkflowName& name, int version) {
  IdBytes tenant_key(tenant.bits);
  auto rows = find_workflow_.query(tenant_key, std::string_view(name.text), version);
  if (!rows.next()) return std::nullopt;
  return WorkflowRow{tenant, name, version, rows.text(0), rows.text(1)};
}

std::vector<ApprovalRow> Reader::list_approvals(TenantId tenant, const ApprovalFilter& filter) {
  IdBytes tenant_key(tenant.bits);
  Instant asked{INT64_MAX};
  Blob before{behind_all_ids};
  std::optional<IdBytes> cursor;
  if (filter.before) {
    auto row = find_approval(tenant, *filter.before);
    if (!row) return {};
    asked = row->requested_at;
    before = cursor.emplace(row->id.bits).blob();
  }
  auto rows = list_approvals_.query(tenant_key, static_cast<int>(filter.status), asked, before, as_limit(filter.limit));
  std::vector<ApprovalRow> approvals;
  while (rows.next()) approvals.push_back(read_approval(tenant, rows));
  return approvals;
}

namespace {

std::vector<ReceiptRow> read_receipts(TenantId tenant, Cursor rows) {
  std::vector<ReceiptRow> out;
  while (rows.next()) {
    RunId run{rows.id(1)};
    std::string key = rows.is_blob(3) ? run.str() + rows.text(3) : rows.text(3);
    out.push_back({tenant, ReceiptId{rows.id(0)}, run, rows.enumerator<ReceiptStatus>(2), std::move(key)});
  }
  return out;
}

}  // namespace

std::optional<ReceiptRow> Reader::find_receipt(TenantId tenant, ReceiptId receipt) {
  if (!has_receipts_) return std::nullopt;
  IdBytes tenant_key(tenant.bits), receipt_key(receipt.bits);
  auto found = read_receipts(tenant, find_receipt_.query(tenant_key, receipt_key));
  return found.empty() ? std::nullopt : std::optional(std::move(found[0]));
}

std::vector<ReceiptRow> Reader::find_effects(TenantId tenant, const std::string& key) {
  if (!has_receipts_) return {};
  IdBytes tenant_key(tenant.bits);
  return read_receipts(tenant, find_effects_.query(tenant_key, std::string_view(key)));
}

std::vector<ReceiptRow> Reader::list_receipts(TenantId tenant, const ReceiptFilter& filter) {
  if (!has_receipts_) return {};
  IdBytes tenant_key(tenant.bits);
  std::optional<IdBytes> cursor;
  if (filter.before) cursor.emplace(filter.before->bits);
  Blob before = cursor ? cursor->blob() : Blob{behind_all_ids};
  auto limit = as_limit(filter.limit);
  if (!filter.status) return read_receipts(tenant, list_receipts_.query(tenant_key, before, limit));
  if (*filter.status == ReceiptStatus::in_doubt)
    return read_receipts(tenant, list_receipts_in_doubt_.query(tenant_key, before, limit));
  return read_receipts(tenant,
                       list_receipts_by_status_.query(tenant_key, before, limit, static_cast<int>(*filter.status)));
}

std::vector<BundleRow> Reader::bundles_from(TenantId tenant, RunId run, std::size_t limit) {
  std::vector<BundleRow> out;
  if (!has_bundles_) {
    std::map<RunId, BundleRow> newest;
    for (BundleRow& row : stored_bundles(tenant, history(StreamKey::of(tenant)).lines))
      newest[row.stored.run] = std::move(row);
    for (auto at = newest.lower_bound(run); at != newest.end() && out.size() < limit; ++at)
      out.push_back(std::move(at->second));
    return out;
  }
  IdBytes tenant_key(tenant.bits), run_key(run.bits);
  auto rows = bundles_from_.query(tenant_key, run_key, as_limit(limit));
  while (rows.next())
    out.push_back({tenant, {RunId{rows.id(0)}, rows.u64(2), rows.hash(4), rows.u64(3), rows.text(5)}, rows.instant(1)});
  return out;
}

std::vector<DueRun> Reader::leased_runs() {
  auto rows = leased_runs_.query();
  std::vector<DueRun> runs;
  while (rows.next()) runs.push_back({{rows.id(0)}, {rows.id(1)}, rows.is_null(2) ? end_of_time : rows.instant(2)});
  return runs;
}

std::vector<DueRun> Reader::due_runs(Instant until, std::size_t limit, std::optional<DueRun> after) {
  DueRun place = after.value_or(DueRun{.tenant = {}, .run = {}, .due_at = {INT64_MIN}});
  IdBytes tenant(place.tenant.bits), run(place.run.bits);
  auto rows = due_runs_.query(until, place.due_at, tenant, run, as_limit(limit));
  std::vector<DueRun> runs;
  while (rows.next()) runs.push_back({{rows.id(1)}, {rows.id(2)}, rows.instant(0)});
  return runs;
}

Reader::StreamEnd Reader::end_of(StreamKey key) {
  StreamEnd out;
  IdBytes tenant(key.tenant.bits), run(key.stream);
  auto rows = key.is_tenant() ? find_tenant_stream_.query(tenant) : find_run_stream_.query(tenant, run);
  if (!rows.next()) return out;
  out.seq = rows.u64(0);
  if (!rows.is_null(1)) out.newest = rows.i64(1);
  out.head = rows.hash(2);
  return out;
}

// Pieces never change: reading them one by one is safe.
void Reader::for_each_piece_back(const StreamEnd& end,
                                 const std::function<bool(std::uint64_t first_seq, std::string_view lines)>& visit) {
  std::optional<std::int64_t> number = end.newest;
  std::uint64_t first_seq = end.seq + 1;
  while (number) {
    auto rows = find_history_.query(*number);
    // Each piece holds the events from its first one up to the first of the piece that follows. Whether the newest one
    // holds what its row says, those who fold the stream see.
    const bool fits =
        rows.next() && rows.u64(1) < first_seq && rows.is_null(0) == (rows.u64(1) == 1) &&
        (number == end.newest || std::cmp_equal(std::ranges::count(rows.bytes(2), '\n'), first_seq - rows.u64(1)));
    if (!fits)
      throw StoreFailure(
          fmt::format("{}: the history of a stream is broken. {}", connection_.path(), advice(SQLITE_CORRUPT)));
    number = rows.is_null(0) ? std::nullopt : std::optional(rows.i64(0));
    first_seq = rows.u64(1);
    if (!visit(first_seq, rows.text(2))) return;
  }
}

Store::Stream Reader::history(StreamKey key) {
  const StreamEnd end = end_of(key);
  Store::Stream stream{.lines = {}, .last_seq = end.seq, .head = end.head};
  // Newest piece first, so they are put together from behind.
  std::vector<std::string> pieces;
  for_each_piece_back(end, [&](std::uint64_t, std::string_view lines) {
    pieces.emplace_back(lines);
    return true;
  });
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) stream.lines += *piece;
  return stream;
}

void Reader::for_each_piece_back(StreamKey key,
                                 const std::function<bool(std::uint64_t first_seq, std::string_view lines)>& visit) {
  for_each_piece_back(end_of(key), visit);
}

std::optional<KeptFrame> Reader::frame_from(Position position) {
  auto rows = next_frame_.query(position);
  if (!rows.next()) return std::nullopt;
  return KeptFrame{rows.u64(0), rows.text(1)};
}

Reader::ReadyRuns Reader::ready_after(TenantId tenant, RunStatus status, RunId run, std::size_t limit) {
  IdBytes tenant_key(tenant.bits), run_key(run.bits);
  auto rows = ready_after_.query(tenant_key, static_cast<int>(status), run_key, as_limit(limit));
  ReadyRuns out;
  while (rows.next()) {
    ++out.runs;
    out.last = {rows.id(0)};
    ReadyStep row{tenant, {rows.text(1)}, {rows.text(2)}, {}, out.last, 0, status == RunStatus::created};
    for (ReadyStep& step : read_ready(rows.bytes(3), row)) out.steps.push_back(std::move(step));
  }
  return out;
}

std::vector<WorkflowRow> Reader::workflows_after(const WorkflowRow& place, std::size_t limit) {
  IdBytes tenant(place.tenant.bits);
  auto rows = workflows_after_.query(tenant, std::string_view(place.name.text), place.version, as_limit(limit));
  std::vector<WorkflowRow> workflows;
  while (rows.next()) {
    WorkflowRow& row = workflows.emplace_back();
    row.tenant.bits = rows.id(0);
    row.name.text = rows.bytes(1);
    row.version = rows.i32(2);
    row.digest = rows.bytes(3);
    row.source = rows.bytes(4);
  }
  return workflows;
}

std::vector<Reader::PlacedStart> Reader::starts_after(const StartPlace& place, std::size_t limit) {
  auto rows = starts_after_.query(place.at, place.position, place.ordinal, as_limit(limit));
  std::vector<PlacedStart> starts;
  while (rows.next())
    starts.push_back({{rows.instant(0), rows.i64(1), rows.i64(2)}, {{rows.id(3)}, {rows.text(4)}, rows.instant(0)}});
  return starts;
}

std::vector<StreamKey> Reader::run_streams_after(StreamKey key, std::size_t limit) {
  IdBytes tenant(key.tenant.bits), run(key.stream);
  auto rows = run_streams_.query(tenant, run, as_limit(limit));
  std::vector<StreamKey> keys;
  while (rows.next()) keys.push_back({{rows.id(0)}, rows.id(1)});
  return keys;
}

std::vector<StreamKey> Reader::tenant_streams_after(TenantId tenant, std::size_t limit) {
  IdBytes key(tenant.bits);
  auto rows = tenant_streams_.query(key, as_limit(limit));
  std::vector<StreamKey> keys;
  while (rows.next()) keys.push_back(StreamKey::of(TenantId{rows.id(0)}));
  return keys;
}

}  // namespace pawl::sqlite
