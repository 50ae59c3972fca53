#include "store/postgres/postgres_store.h"

#include <fmt/format.h>

#include <algorithm>

#include "crypto/sha256.h"
#include "store/postgres/migrate.h"
#include "store/postgres/statements.h"
#include "store/tenant_state.h"

namespace pawl {

using postgres::Connection;
using postgres::Rows;
using postgres::Values;

namespace {

constexpr std::size_t postgres_page_rows = 512;
constexpr std::size_t event_rows_ahead = 1000;
// One walk over tenants with ready steps ends here; the next goes on.
constexpr int tenants_per_walk = 256, steps_per_walk = 2000;
// How much earlier than due_at runs.check_at may be.
constexpr Duration check_ahead_max = std::chrono::seconds(5);
Instant read_due(const Rows& rows, int row, int column) {
  return rows.is_null(row, column) ? end_of_time : rows.at(row, column);
}

// Columns as in postgres::load_runs, `snapshot` included or not.
RunRow read_run(const Rows& rows, int row, bool with_snapshot) {
  RunRow run;
  run.tenant.bits = rows.id(row, 0);
  run.id.bits = rows.id(row, 1);
  run.status = rows.enumerator<RunStatus>(row, 2);
  run.due_at = read_due(rows, row, 3);
  run.leased = rows.flag(row, 4);
  run.created_at = rows.at(row, 5);
  run.updated_at = rows.at(row, 6);
  run.version = rows.i32(row, 7);
  run.workflow.text = rows.bytes(row, 8);
  run.workspace.text = rows.bytes(row, 9);
  run.error_code = rows.bytes(row, 10);
  run.seq = rows.u64(row, 11);
  run.head = rows.hash(row, 12);
  run.revision = rows.u64(row, 13);
  run.phase = rows.enumerator<RunPhase>(row, 14);
  if (with_snapshot) run.snapshot = rows.bytes(row, 15);
  return run;
}

std::vector<RunRow> read_runs(const Rows& rows, bool with_snapshot) {
  std::vector<RunRow> runs;
  for (int row = 0; row < rows.size(); ++row) runs.push_back(read_run(rows, row, with_snapshot));
  return runs;
}

std::vector<DueRun> read_due_runs(const Rows& rows) {
  std::vector<DueRun> runs;
  for (int row = 0; row < rows.size(); ++row)
    runs.push_back({{rows.id(row, 1)}, {rows.id(row, 2)}, read_due(rows, row, 0)});
  return runs;
}

WorkflowRow read_workflow_row(const Rows& rows, int row) {
  return {{rows.id(row, 0)}, {rows.text(row, 1)}, rows.i32(row, 2), rows.text(row, 3), rows.text(row, 4)};
}

ApprovalRow read_approval(TenantId tenant, const Rows& rows, int row) {
  return {.tenant = tenant,
          .id = {rows.id(row, 0)},
          .run = {rows.id(row, 1)},
          .step = {rows.text(row, 2)},
          .status = rows.enumerator<ApprovalStatus>(row, 3),
          .tier = rows.enumerator<Tier>(row, 4),
          .requested_at = rows.at(row, 5),
          .expires_at = rows.at(row, 6)};
}

std::vector<ReceiptRow> read_receipts(TenantId tenant, const Rows& rows) {
  std::vector<ReceiptRow> out;
  for (int row = 0; row < rows.size(); ++row)
    out.push_back(
        {tenant, {rows.id(row, 0)}, {rows.id(row, 1)}, rows.enumerator<ReceiptStatus>(row, 2), rows.text(row, 3)});
  return out;
}

// As pawl.take_ready gives it: the columns of a run, then the step's.
TakenStep read_taken(const Rows& rows, int row) {
  RunRow run = read_run(rows, row, true);
  ReadyStep step{run.tenant,           run.workspace, run.workflow,
                 {rows.text(row, 18)}, run.id,        static_cast<StepIndex>(rows.i32(row, 16)),
                 rows.flag(row, 17)};
  return {std::move(step), std::move(run)};
}

// Rows of one position are one frame.
std::deque<KeptFrame> read_frames(const Rows& rows) {
  std::deque<KeptFrame> frames;
  for (int row = 0; row < rows.size(); ++row) {
    Position position = rows.u64(row, 0);
    if (frames.empty() || frames.back().position != position) frames.push_back({position, {}});
    append_part(frames.back().parts, {{{rows.id(row, 1)}, rows.id(row, 2)}, rows.u64(row, 3), rows.bytes(row, 4)});
  }
  return frames;
}

postgres::Deadline in(Duration span) { return std::chrono::steady_clock::now() + span; }

}  // namespace

PostgresStore::PostgresStore(const PostgresOptions& options)
    : options_(options),
      database_(options.url, options.report),
      committer_(database_),
      engine_link_(database_),
      pool_(database_, options.readers) {
  auto deadline = in(options.open_patience);
  engine_link_.read(
      [&](Connection& connection) {
        postgres::migrate(connection, database_.address);
        connection.ask_all(postgres::move_origin, {});
        auto asked = std::chrono::steady_clock::now();
        database_.learn_time(connection.call(postgres::clock, {}).at(0, 0), asked);
        if (connection.call(postgres::bypasses_walls, {}).flag(0, 0))
          warnings_.push_back(
              fmt::format("pawl's role in {} is a superuser or bypasses row security, which takes away the "
                          "second wall between tenants. Give pawl a role of its own.",
                          database_.address.str()));
        if (connection.call(postgres::has_page_checksums, {}).text(0, 0) != "on")
          warnings_.push_back(
              fmt::format("{} keeps no checksums of its pages, so damage to its disk can go unseen for long. "
                          "Stop it and run pg_checksums --enable.",
                          database_.address.str()));
        return 0;
      },
      deadline);
  committer_.begin(deadline);
  messenger_.emplace(database_, committer_.server_number());
}

PostgresStore::PostgresStore(View, const PostgresOptions& options)
    : options_(options),
      database_(options.url, options.report, true),
      committer_(database_),
      engine_link_(database_),
      pool_(database_, 1) {
  auto read = [&](Connection& connection) {
    postgres::require_version(connection, database_.address);
    return 0;
  };
  pool_.read(read, in(options.open_patience));
}

std::unique_ptr<PostgresStore> PostgresStore::open_view(const std::string& url) {
  return std::unique_ptr<PostgresStore>(new PostgresStore(View{}, {.url = url}));
}

std::vector<std::string> PostgresStore::problems() {
  std::vector<std::string> found;
  Rows meters = wander(postgres::wrong_meters, {});
  for (int row = 0; row < meters.size(); ++row)
    found.push_back(fmt::format("a cap of {} counts {} leases, and there are {}",
                                meters.bytes(row, 0).empty() ? "a tenant" : "workflow " + meters.text(row, 0),
                                meters.i64(row, 1), meters.i64(row, 2)));
  if (auto count = wander(postgres::requests_for_nothing, {}).i64(0, 0); count > 0)
    found.push_back(fmt::format("{} idempotency keys belong to runs that are not there", count));
  Rows streams = wander(postgres::events_of_nothing, {});
  for (int row = 0; row < streams.size(); ++row) {
    const StreamKey key{{streams.id(row, 0)}, streams.id(row, 1)};
    found.push_back(fmt::format("the stream of {} is there, and it has no row",
                                key.is_tenant() ? key.tenant.str() : RunId{key.stream}.str()));
  }
  return found;
}

Rows PostgresStore::look(const char* sql, const Values& values) {
  if (database_.one_moment) return wander(sql, values);
  std::lock_guard lock(engine_mutex_);
  return engine_link_.read([&](Connection& connection) { return connection.ask_all(sql, values); });
}

Rows PostgresStore::look(TenantId tenant, const char* sql, const Values& values) {
  if (database_.one_moment) return list(tenant, sql, values);
  std::lock_guard lock(engine_mutex_);
  return engine_link_.read([&](Connection& connection) { return connection.ask(tenant, sql, values); });
}

Rows PostgresStore::list(TenantId tenant, const char* sql, const Values& values) {
  return pool_.read([&](Connection& connection) { return connection.ask(tenant, sql, values); },
                    in(options_.list_patience));
}

Rows PostgresStore::wander(const char* sql, const Values& values) {
  return pool_.read([&](Connection& connection) { return connection.ask_all(sql, values); });
}

std::vector<Lost> PostgresStore::commit(std::span<const Frame> frames) { return committer_.commit(frames); }

void PostgresStore::tidy() { committer_.tidy(); }

void PostgresStore::analyze() { look(postgres::analyze, Values()); }

std::vector<RunRow> PostgresStore::load_all(std::span<const StreamKey> runs) {
  std::vector<IdBits> tenants, ids;
  for (const StreamKey& key : runs) {
    tenants.push_back(key.tenant.bits);
    ids.push_back(key.stream);
  }
  if (ids.empty()) return {};
  return read_runs(look(postgres::load_all, Values().ids(tenants).ids(ids)), true);
}

Taken PostgresStore::take_ready(std::span<const ToolName> tools, std::size_t per_tenant, Duration hold,
                                std::optional<TenantId> only) {
  std::vector<std::string> names;
  for (const ToolName& tool : tools) names.push_back(tool.text);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.empty() || per_tenant == 0) return {};

  std::lock_guard lock(engine_mutex_);
  Taken taken;
  // When the last walk stopped in the middle, this one goes on, and then once more from the beginning.
  for (bool from_start = false; !from_start && taken.steps.empty();) {
    from_start = take_after_.is_nil() || only;
    Values values;
    values.texts(names).i32(static_cast<int>(std::min<std::size_t>(per_tenant, steps_per_walk)));
    values.i64(hold.count()).id(only ? std::optional(only->bits) : std::nullopt).id(take_after_.bits);
    values.i32(tenants_per_walk).i32(steps_per_walk);
    Rows rows =
        engine_link_.read([&](Connection& connection) { return connection.call(postgres::take_ready, values); });
    if (!only) take_after_ = {};
    for (int row = 0; row < rows.size(); ++row)
      if (!rows.is_null(row, 1))
        taken.steps.push_back(read_taken(rows, row));
      else if (rows.is_null(row, 17))
        take_after_.bits = rows.id(row, 0);
      else
        taken.held_back.push_back({TenantId{rows.id(row, 0)}, rows.flag(row, 17)});
  }
  return taken;
}

std::vector<CapUse> PostgresStore::cap_use(TenantId tenant) {
  Rows rows = look(tenant, postgres::cap_use, Values().id(tenant.bits));
  std::vector<CapUse> out;
  for (int row = 0; row < rows.size(); ++row) {
    CapUse use{.workflow = {rows.text(row, 0)}, .caps = {}, .running = rows.u64(row, 2), .may_start_at = {}};
    if (!rows.is_null(row, 1)) use.caps.max_concurrency = rows.i32(row, 1);
    if (!rows.is_null(row, 3)) use.caps.max_runs_per_min = rows.i32(row, 3);
    if (use.caps.max_runs_per_min == 0)
      use.may_start_at = end_of_time;
    else if (use.caps.max_runs_per_min && !rows.is_null(row, 4))
      use.may_start_at = rows.at(row, 4);
    out.push_back(std::move(use));
  }
  return out;
}

std::vector<std::pair<TenantId, std::uint64_t>> PostgresStore::tenant_heads() {
  Rows rows = look(postgres::tenant_heads, {});
  std::vector<std::pair<TenantId, std::uint64_t>> heads;
  for (int row = 0; row < rows.size(); ++row) heads.emplace_back(TenantId{rows.id(row, 0)}, rows.u64(row, 1));
  return heads;
}

Tenant PostgresStore::read_tenant_row(const Rows& rows, int row) {
  TenantId id{rows.id(row, 0)};
  auto tenant = read_tenant(id, rows.bytes(row, 3));
  return tenant ? std::move(*tenant) : fold_tenant(id, history(StreamKey::of(id)).lines);
}

std::optional<std::pair<Tenant, Hash>> PostgresStore::load_tenant(TenantId tenant) {
  Rows rows = look(tenant, postgres::one_tenant, Values().id(tenant.bits));
  if (rows.empty()) return std::nullopt;
  return std::pair(read_tenant_row(rows, 0), rows.hash(0, 2));
}

std::vector<WorkflowRow> PostgresStore::workflows_of(TenantId tenant) {
  Rows rows = look(tenant, postgres::workflows_of, Values().id(tenant.bits));
  std::vector<WorkflowRow> workflows;
  for (int row = 0; row < rows.size(); ++row) workflows.push_back(read_workflow_row(rows, row));
  return workflows;
}

Position PostgresStore::newest_position() { return wander(postgres::newest_position, {}).u64(0, 0); }

JournalEnd PostgresStore::journal_end() {
  Rows rows = wander(postgres::journal_end, {});
  return {.position = rows.u64(0, 0), .is_held_back = rows.u64(0, 1) > rows.u64(0, 0)};
}

Position PostgresStore::last_position() { return wander(postgres::last_position, {}).u64(0, 0); }

std::vector<Tenant> PostgresStore::tenants() {
  Rows rows = look(postgres::all_tenants, {});
  std::vector<Tenant> tenants;
  for (int row = 0; row < rows.size(); ++row) tenants.push_back(read_tenant_row(rows, row));
  return tenants;
}

void PostgresStore::for_each_workflow(const std::function<void(const WorkflowRow&)>& visit) {
  WorkflowRow place;
  while (true) {
    Values values;
    values.id(place.tenant.bits).text(place.name.text).i32(place.version).limit(postgres_page_rows);
    Rows rows = wander(postgres::workflows_after, values);
    for (int row = 0; row < rows.size(); ++row) visit(place = read_workflow_row(rows, row));
    if (static_cast<std::size_t>(rows.size()) < postgres_page_rows) return;
  }
}

void PostgresStore::for_each_frame(const std::function<void(Position, std::string_view parts)>&) {}

void PostgresStore::for_each_ready(const std::function<void(const ReadyStep&)>& visit) {
  auto walk = [&](TenantId tenant, bool fresh) {
    RunId run;
    int step = -1;
    while (true) {
      Values values;
      values.id(tenant.bits).i32(fresh).id(run.bits).i32(step).limit(postgres_page_rows);
      Rows rows = wander(postgres::ready_after, values);
      for (int row = 0; row < rows.size(); ++row) {
        run.bits = rows.id(row, 0);
        step = rows.i32(row, 1);
        visit({tenant,
               {rows.text(row, 3)},
               {rows.text(row, 4)},
               {rows.text(row, 2)},
               run,
               static_cast<StepIndex>(step),
               fresh});
      }
      if (static_cast<std::size_t>(rows.size()) < postgres_page_rows) return;
    }
  };
  for (const auto& [tenant, seq] : tenant_heads())
    for (bool fresh : {false, true}) walk(tenant, fresh);
}

std::optional<KeptFrame> PostgresStore::frame_after(Position position) {
  std::lock_guard lock(frames_mutex_);
  auto next = [&] { return std::ranges::upper_bound(frames_, position, {}, &KeptFrame::position); };
  if (position >= read_after_ && next() != frames_.end()) return *next();

  Rows rows = wander(postgres::events_after, Values().u64(position).limit(event_rows_ahead));
  frames_ = read_frames(rows);
  read_after_ = position;
  if (static_cast<std::size_t>(rows.size()) == event_rows_ahead) {
    // The last one may be cut off. Its transaction is over, so the whole of it is there to be read.
    Position last = frames_.back().position;
    frames_.pop_back();
    if (frames_.empty()) frames_ = read_frames(wander(postgres::events_at, Values().u64(last)));
  }
  return frames_.empty() ? std::nullopt : std::optional(frames_.front());
}

std::optional<Position> PostgresStore::follow(const std::string& follower, Duration hold) {
  auto server = static_cast<int>(server_number());
  Rows rows = wander(postgres::find_follower, Values().text(follower));
  if (rows.empty()) {
    wander(postgres::enter_follower, Values().text(follower));
    rows = wander(postgres::find_follower, Values().text(follower));
  }
  Duration left(rows.i64(0, 2));
  bool is_ours = rows.i32(0, 1) == server;
  if (is_ours && left > hold / 2) return rows.u64(0, 0);
  if (!is_ours && left > Duration(0)) return std::nullopt;
  rows = wander(postgres::hold_follower, Values().text(follower).i32(server).i64(hold.count()));
  return rows.empty() ? std::nullopt : std::optional(rows.u64(0, 0));
}

void PostgresStore::followed(const std::string& follower, Position position) {
  wander(postgres::move_follower, Values().text(follower).u64(position));
}

void PostgresStore::unfollow(const std::string& follower) {
  wander(postgres::release_follower, Values().text(follower).i32(static_cast<int>(server_number())));
}

void PostgresStore::for_each_start(Instant since, const std::function<void(const StartRow&)>& visit) {
  Rows rows = wander(postgres::starts_since, Values().at(since));
  for (int row = 0; row < rows.size(); ++row)
    visit({{rows.id(row, 0)}, {rows.text(row, 1)}, rows.at(row, 2), {rows.id(row, 3)}});
}

std::vector<DueRun> PostgresStore::leased_runs() { return read_due_runs(look(postgres::leased_runs, {})); }

std::vector<DueRun> PostgresStore::leased_runs_of(std::span<const std::uint32_t> servers) {
  std::vector<std::string> workers;
  for (std::uint32_t server : servers) workers.push_back(fmt::format("{}{}", local_worker_prefix, server));
  return read_due_runs(look(postgres::leased_runs_of, Values().texts(workers)));
}

std::vector<DueRun> PostgresStore::due_runs(Instant until, std::size_t limit, std::optional<DueRun> after) {
  DueRun place = after.value_or(DueRun{.tenant = {}, .run = {}, .due_at = {INT64_MIN}});
  Values values;
  values.at(until).at(place.due_at).id(place.tenant.bits).id(place.run.bits).limit(limit);
  values.at(after ? place.due_at - check_ahead_max : place.due_at);
  return read_due_runs(look(postgres::due_runs, values));
}

std::vector<RunRow> PostgresStore::load_from(TenantId tenant, RunId run, std::size_t limit) {
  return read_runs(look(tenant, postgres::load_runs, Values().id(tenant.bits).id(run.bits).limit(limit)), true);
}

WaitingFigures PostgresStore::count_waiting() {
  Rows rows = wander(postgres::count_waiting, {});
  WaitingFigures out{.approvals = rows.u64(0, 0), .receipts_in_doubt = rows.u64(0, 2)};
  if (out.approvals > 0) out.oldest_approval = rows.at(0, 1);
  return out;
}

std::uint64_t PostgresStore::count_requests() { return wander(postgres::count_requests, {}).u64(0, 0); }

std::optional<RunId> PostgresStore::find_request(TenantId tenant, const std::string& request_key) {
  Rows rows = look(tenant, postgres::find_request, Values().id(tenant.bits).bytes(sha256(request_key).view()));
  return rows.empty() ? std::nullopt : std::optional(RunId{rows.id(0, 0)});
}

std::vector<RunRow> PostgresStore::list_runs(TenantId tenant, const RunFilter& filter) {
  auto text = [](const auto& name) { return name ? std::optional(name->text) : std::nullopt; };
  Values values;
  values.id(tenant.bits).i16(filter.status ? std::optional(static_cast<int>(*filter.status)) : std::nullopt);
  values.text_or_null(text(filter.workflow))
      .text_or_null(text(filter.workspace))
      .at(filter.since.value_or(Instant{INT64_MIN}));
  values.id(filter.since ? oldest_id_since(*filter.since) : IdBits{});
  values.id(filter.before ? std::optional(filter.before->bits) : std::nullopt).limit(filter.limit);
  return read_runs(list(tenant, postgres::list_runs, values), false);
}

std::optional<ApprovalRow> PostgresStore::find_approval(TenantId tenant, ApprovalId approval) {
  Rows rows = list(tenant, postgres::find_approval, Values().id(tenant.bits).id(approval.bits));
  return rows.empty() ? std::nullopt : std::optional(read_approval(tenant, rows, 0));
}

std::optional<ReceiptRow> PostgresStore::find_receipt(TenantId tenant, ReceiptId receipt) {
  auto found = read_receipts(tenant, list(tenant, postgres::find_receipt, Values().id(tenant.bits).id(receipt.bits)));
  return found.empty() ? std::nullopt : std::optional(std::move(found[0]));
}

std::vector<ReceiptRow> PostgresStore::find_effects(TenantId tenant, const std::string& key) {
  return read_receipts(
      tenant, look(tenant, postgres::find_effects, Values().id(tenant.bits).bytes(sha256(key).view()).text(key)));
}

std::vector<ReceiptRow> PostgresStore::list_receipts(TenantId tenant, const ReceiptFilter& filter) {
  Values values;
  values.id(tenant.bits).id(filter.before ? filter.before->bits : IdBits{UINT64_MAX, UINT64_MAX});
  if (filter.status == ReceiptStatus::in_doubt)
    return read_receipts(tenant, list(tenant, postgres::list_receipts_in_doubt, values.limit(filter.limit)));
  values.i16(filter.status ? std::optional(static_cast<int>(*filter.status)) : std::nullopt).limit(filter.limit);
  return read_receipts(tenant, list(tenant, postgres::list_receipts, values));
}

std::optional<WorkflowRow> PostgresStore::find_workflow(TenantId tenant, const WorkflowName& name, int version) {
  Rows rows = list(tenant, postgres::find_workflow, Values().id(tenant.bits).text(name.text).i32(version));
  return rows.empty() ? std::nullopt : std::optional(read_workflow_row(rows, 0));
}

std::vector<ApprovalRow> PostgresStore::list_approvals(TenantId tenant, const ApprovalFilter& filter) {
  Instant asked{INT64_MAX};
  IdBits before{UINT64_MAX, UINT64_MAX};
  if (filter.before) {
    auto row = find_approval(tenant, *filter.before);
    if (!row) return {};
    asked = row->requested_at;
    before = row->id.bits;
  }
  Values values;
  values.id(tenant.bits).i16(static_cast<int>(filter.status)).at(asked).id(before).limit(filter.limit);
  Rows rows = list(tenant, postgres::list_approvals, values);
  std::vector<ApprovalRow> approvals;
  for (int row = 0; row < rows.size(); ++row) approvals.push_back(read_approval(tenant, rows, row));
  return approvals;
}

Store::Stream PostgresStore::history(StreamKey key) {
  Values values;
  values.id(key.tenant.bits);
  if (!key.is_tenant()) values.id(key.stream);
  const char* sql = key.is_tenant() ? postgres::tenant_history : postgres::run_history;
  Rows rows = pool_.read([&](Connection& connection) { return connection.ask(key.tenant, sql, values); });
  Stream stream;
  for (int row = 0; row < rows.size(); ++row) {
    stream.last_seq = rows.u64(row, 0);
    stream.head = rows.hash(row, 1);
    if (!rows.is_null(row, 3)) stream.lines += rows.bytes(row, 3);
  }
  return stream;
}

void PostgresStore::for_each_piece_back(
    StreamKey key, const std::function<bool(std::uint64_t first_seq, std::string_view lines)>& visit) {
  constexpr std::size_t pieces_a_look = 16;
  for (std::uint64_t before = INT64_MAX;;) {
    Values values;
    values.id(key.tenant.bits).id(key.stream).u64(before).limit(pieces_a_look);
    Rows rows =
        pool_.read([&](Connection& connection) { return connection.ask(key.tenant, postgres::pieces_before, values); });
    for (int row = 0; row < rows.size(); ++row) {
      before = rows.u64(row, 0);
      if (!visit(before, rows.bytes(row, 1))) return;
    }
    if (static_cast<std::size_t>(rows.size()) < pieces_a_look) return;
  }
}

void PostgresStore::for_each_stream(const std::function<void(StreamKey)>& visit) {
  auto walk = [&](auto next_page) {
    StreamKey place;
    while (true) {
      Rows rows = next_page(place);
      for (int row = 0; row < rows.size(); ++row) visit(place = {{rows.id(row, 0)}, rows.id(row, 1)});
      if (static_cast<std::size_t>(rows.size()) < postgres_page_rows) return;
    }
  };
  walk([&](StreamKey place) {
    return wander(postgres::tenant_streams, Values().id(place.tenant.bits).limit(postgres_page_rows));
  });
  walk([&](StreamKey place) {
    return wander(postgres::run_streams, Values().id(place.tenant.bits).id(place.stream).limit(postgres_page_rows));
  });
}

}  // namespace pawl
