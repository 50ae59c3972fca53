#include "store/sqlite/sqlite_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "store/sqlite/log_check.h"
#include "store/sqlite/migrate.h"

namespace pawl {
namespace {

using sqlite::Connection;

// Rows that one look takes out before it lets the others in.
constexpr std::size_t sqlite_page_rows = 500;

void execute_number(Connection& connection, std::string_view pragma, long long value) {
  connection.execute(fmt::format("PRAGMA {} = {}", pragma, value).c_str());
}

int checked_version(Connection& connection) {
  auto application = connection.number("PRAGMA application_id");
  auto version = static_cast<int>(connection.number("PRAGMA user_version"));
  bool fresh = application == 0 && version == 0 && connection.number("SELECT count(*) FROM sqlite_schema") == 0;
  if (!fresh && application != sqlite::application_id)
    throw StoreFailure(fmt::format("{} is not a pawl database. Choose another data folder.", connection.path()));
  if (version > sqlite::schema_version)
    throw StoreFailure(
        fmt::format("{} was written by a newer pawl (schema {}, this one knows {}). Upgrade pawl to open it.",
                    connection.path(), version, sqlite::schema_version));
  // A trigger would change what is written, and a view what is read.
  if (auto name = connection.text("SELECT name FROM sqlite_schema WHERE type NOT IN ('table', 'index')"); !name.empty())
    throw StoreFailure(fmt::format("{}: another program added {} to the database. {}", connection.path(), name,
                                   sqlite::advice(SQLITE_CORRUPT)));
  return version;
}

void check_definitions(Connection& connection) {
  if (auto name = sqlite::find_changed_definition(connection); !name.empty())
    throw StoreFailure(fmt::format("{}: {} is missing, or is not defined as pawl defines it. {}", connection.path(),
                                   name, sqlite::advice(SQLITE_CORRUPT)));
}

void set_up_writer(Connection& connection, const SqliteOptions& options) {
  execute_number(connection, "page_size", options.page_bytes);
  execute_number(connection, "cache_size", -options.writer_cache_bytes / 1024);
  if (connection.text("PRAGMA journal_mode = WAL") != "wal")
    throw StoreFailure(
        fmt::format("{} cannot be opened with a write-ahead log; is the folder on a network file "
                    "system?",
                    connection.path()));
  // Debian's SQLite overwrites deleted content with zeros, which would write every pruned frame a second time.
  connection.execute(
      "PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA temp_store = MEMORY;"
      "PRAGMA foreign_keys = OFF; PRAGMA secure_delete = OFF");
  // A log that a long look by another process made grow shrinks again; otherwise its space is reused.
  execute_number(connection, "journal_size_limit", 2LL * options.wal_bytes_max);
}

void set_up_reader(Connection& connection, int cache_bytes) {
  execute_number(connection, "cache_size", -cache_bytes / 1024);
  connection.execute("PRAGMA temp_store = MEMORY; PRAGMA query_only = ON");
}

std::string database_in(const std::filesystem::path& folder, bool real) {
  return ((real ? std::filesystem::absolute(folder) : folder) / "pawl.db").string();
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// Makes the database under another name and renames it when it is whole, so that nobody ever sees half of one. The
// folder is locked; what a process that died here left behind is made anew.
void make_database(const std::string& path, const SqliteOptions& options) try {
  // A new database beside an old log would take the log for its own.
  if (exists(path + "-wal"))
    throw StoreFailure(
        fmt::format("{0}-wal is there but {0} is not. Put the database back, or remove its log to begin anew.", path));
  std::string making = path + ".new";
  for (const char* part : {"", "-journal", "-wal", "-shm"}) std::filesystem::remove(making + part);
  // SQLite gives the files that it adds to a database the mode of that one.
  int file = ::open(making.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0) ::close(file);
  {
    Connection connection(sqlite::OpenOptions{.path = making, .vfs = {}});
    execute_number(connection, "page_size", options.page_bytes);
    // Before there is a log, so that the one file holds all of it, synced, when the transaction is over.
    sqlite::migrate(connection, 0);
    set_up_writer(connection, options);
  }
  std::filesystem::rename(making, path);
} catch (const std::filesystem::filesystem_error& error) {
  throw StoreFailure(error.what());
}

}  // namespace

SqliteStore::SqliteStore(const SqliteOptions& options)
    : one_connection_(options.single_connection), shares_views_(!options.single_connection) {
  bool real = options.vfs.empty();
  if (real) {
    sqlite::make_folder(options.folder);
    lock_.emplace(options.folder);
  }
  std::string path = database_in(options.folder, real);
  if (real) {
    if (!exists(path)) make_database(path, options);
    // At every start: the process that made the database may have died before it came to this, and a power failure
    // must not take back the name of what holds commits.
    sqlite::sync_folder(options.folder);
  }
  if (real)
    if (auto damage = sqlite::damage_in_log(path))
      throw StoreFailure(fmt::format("{}. Opening it would drop that commit and all later ones without a word. {}",
                                     *damage, sqlite::advice(SQLITE_CORRUPT)));
  sqlite::rewrite_log({.path = path, .vfs = options.vfs});
  writing_.emplace(sqlite::OpenOptions{.path = path, .vfs = options.vfs});
  // Before the first look: a log without shared memory can only be read by its sole owner.
  if (options.single_connection) writing_->execute("PRAGMA locking_mode = EXCLUSIVE");
  int version = checked_version(*writing_);
  set_up_writer(*writing_, options);
  sqlite::migrate(*writing_, version);
  check_definitions(*writing_);
  // What a dead process left in its log is moved into the database: the start after this one need not read it again.
  writing_->checkpoint(SQLITE_CHECKPOINT_TRUNCATE);

  auto page_bytes = static_cast<int>(writing_->number("PRAGMA page_size"));
  writer_.emplace(*writing_, sqlite::WriterLimits{.wal_pages_max = options.wal_bytes_max / page_bytes,
                                                  .wal_pages_idle = options.wal_bytes_idle / page_bytes,
                                                  .frame_bytes_kept = options.frame_bytes_kept,
                                                  .followed_bytes_max = options.followed_bytes_max});
  if (!one_connection_) {
    checkpointer_.emplace(sqlite::OpenOptions{.path = path, .vfs = options.vfs});
    reading_.emplace(sqlite::OpenOptions{.path = path, .vfs = options.vfs, .read_only = true});
    set_up_reader(*reading_, options.reader_cache_bytes);
  }
  reader_.emplace(one_connection_ ? *writing_ : *reading_, sqlite::schema_version);
}

SqliteStore::SqliteStore(ReadOnly, const std::filesystem::path& folder) {
  std::string path = database_in(folder, true);
  // Looking needs the log's shared memory, which needs a file beside the database. Where none can be made and no
  // log is left, the database alone is all there is, and nobody writes it.
  bool sealed = ::access(folder.c_str(), W_OK) != 0 && ::access((path + "-wal").c_str(), F_OK) != 0;
  reading_.emplace(sqlite::OpenOptions{.path = path, .vfs = {}, .read_only = true, .immutable = sealed});
  // The writer, or the next one, moves the log; a visitor leaves it as it is.
  reading_->abandon();
  int version = checked_version(*reading_);
  if (version < sqlite::schema_version_readable || sqlite::has_first_layout(*reading_))
    throw StoreFailure(
        fmt::format("{} was written by an older pawl and has to be migrated before one can look at it. Start pawl "
                    "serve on it once.",
                    path));
  if (version == sqlite::schema_version) check_definitions(*reading_);
  set_up_reader(*reading_, SqliteOptions{}.reader_cache_bytes);
  reader_.emplace(*reading_, version);
}

std::unique_ptr<SqliteStore> SqliteStore::open_reader(const std::filesystem::path& folder) {
  return std::unique_ptr<SqliteStore>(new SqliteStore(ReadOnly{}, folder));
}

void SqliteStore::copy_to(const std::filesystem::path& file) {
  std::lock_guard lock(reader_mutex_);
  reading_->copy_to(file.string());
}

std::unique_ptr<SqliteStore> SqliteStore::open_view(const std::filesystem::path& folder) {
  auto store = open_reader(folder);
  store->shares_views_ = true;
  return store;
}

SqliteStore::~SqliteStore() {
  if (failed_ && writing_) writing_->abandon();
}

void SqliteStore::refuse_if_failed() const {
  if (failed_)
    throw StoreFailure("the store failed before and does nothing more: stop this process and start it again");
}

template <class Look>
auto SqliteStore::read(Look look) {
  std::lock_guard lock(reader_mutex_);
  refuse_if_failed();
  if (shares_views_) reader_->freshen(commits_.load(std::memory_order_acquire));
  return look(*reader_);
}

template <class Write>
void SqliteStore::change(Write write) {
  if (!writer_) throw StoreFailure("this store was opened for reading only");
  refuse_if_failed();
  std::unique_lock lock(reader_mutex_, std::defer_lock);
  if (one_connection_) lock.lock();
  try {
    write();
  } catch (...) {
    failed_ = true;
    throw;
  }
}

std::vector<Lost> SqliteStore::commit(std::span<const Frame> frames) {
  change([&] {
    writer_->commit(frames);
    commits_.fetch_add(1, std::memory_order_release);
    go_on_with_checkpoint();
  });
  return {};
}

void SqliteStore::tidy() {
  change([&] {
    if (writer_->prune()) commits_.fetch_add(1, std::memory_order_release);
    if (writer_->wants_checkpoint_when_idle()) begin_checkpoint();
  });
}

void SqliteStore::begin_checkpoint() {
  if (!checkpointer_) return finish_checkpoint();
  release_view();
  if (checkpointer_->request()) writer_->checkpoint_begins();
}

void SqliteStore::go_on_with_checkpoint() {
  if (checkpointer_)
    if (auto done = checkpointer_->take_result()) writer_->checkpoint_ended(*done);
  if (!writer_->wants_checkpoint() || (checkpointer_ && checkpointer_->is_busy())) return;
  if (writer_->may_finish_checkpoint())
    finish_checkpoint();
  else
    begin_checkpoint();
}

void SqliteStore::finish_checkpoint() {
  release_view();
  writer_->checkpoint();
  // A view that was opened meanwhile would keep the log from starting over; one that is opened now will not.
  release_view();
}

void SqliteStore::release_view() {
  if (one_connection_) return;
  std::lock_guard lock(reader_mutex_);
  reader_->release();
}

Position SqliteStore::last_position() {
  return read([](auto& reader) { return reader.last_position(); });
}

std::vector<Tenant> SqliteStore::tenants() {
  return read([](auto& reader) { return reader.tenants(); });
}

void SqliteStore::for_each_workflow(const std::function<void(const WorkflowRow&)>& visit) {
  WorkflowRow place;
  while (true) {
    auto rows = read([&](auto& reader) { return reader.workflows_after(place, sqlite_page_rows); });
    for (const WorkflowRow& row : rows) visit(row);
    if (rows.size() < sqlite_page_rows) return;
    place = std::move(rows.back());
  }
}

void SqliteStore::for_each_frame(const std::function<void(Position, std::string_view parts)>& visit) {
  Position expected = read([](auto& reader) { return reader.first_unfolded(); });
  while (auto frame = read([&](auto& reader) { return reader.frame_from(expected); })) {
    if (frame->position != expected)
      throw StoreFailure(fmt::format("the journal has no frame {}: the database is damaged", expected));
    try {
      for_each_part(frame->parts, [](const StreamPart&) {});
    } catch (const StoreFailure& failure) {
      throw StoreFailure(fmt::format("frame {}: {}", frame->position, failure.what()));
    }
    visit(frame->position, frame->parts);
    ++expected;
  }
}

void SqliteStore::for_each_ready(const std::function<void(const ReadyStep&)>& visit) {
  auto walk = [&](TenantId tenant, RunStatus status) {
    RunId place;
    while (true) {
      auto page = read([&](auto& reader) { return reader.ready_after(tenant, status, place, sqlite_page_rows); });
      for (const ReadyStep& step : page.steps) visit(step);
      if (page.runs < sqlite_page_rows) return;
      place = page.last;
    }
  };
  for (const Tenant& tenant : tenants())
    for (RunStatus status : {RunStatus::running, RunStatus::created}) walk(tenant.id, status);
}

std::optional<KeptFrame> SqliteStore::frame_after(Position position) {
  return read([&](auto& reader) { return reader.frame_from(position + 1); });
}

std::optional<Position> SqliteStore::follow(const std::string& follower, Duration) {
  if (!writer_) throw StoreFailure("this store was opened for reading only");
  return writer_->followers().enter(follower, [&] {
    auto oldest = frame_after(0);
    return oldest ? oldest->position - 1 : last_position();
  });
}

void SqliteStore::followed(const std::string& follower, Position position) {
  if (!writer_) throw StoreFailure("this store was opened for reading only");
  writer_->followers().move(follower, position);
}

void SqliteStore::for_each_start(Instant since, const std::function<void(const StartRow&)>& visit) {
  sqlite::Reader::StartPlace place{since, -1, -1};
  while (true) {
    auto starts = read([&](auto& reader) { return reader.starts_after(place, sqlite_page_rows); });
    for (const auto& placed : starts) visit(placed.start);
    if (starts.size() < sqlite_page_rows) return;
    place = starts.back().place;
  }
}

std::vector<DueRun> SqliteStore::leased_runs() {
  return read([](auto& reader) { return reader.leased_runs(); });
}

std::vector<DueRun> SqliteStore::due_runs(Instant until, std::size_t limit, std::optional<DueRun> after) {
  return read([&](auto& reader) { return reader.due_runs(until, limit, after); });
}

std::vector<RunRow> SqliteStore::load_from(TenantId tenant, RunId run, std::size_t limit) {
  return read([&](auto& reader) { return reader.load_from(tenant, run, limit); });
}

std::optional<RunId> SqliteStore::find_request(TenantId tenant, const std::string& request_key) {
  return read([&](auto& reader) { return reader.find_request(tenant, request_key); });
}

WaitingFigures SqliteStore::count_waiting() {
  return read([](auto& reader) { return reader.count_waiting(); });
}

std::uint64_t SqliteStore::count_requests() {
  return read([](auto& reader) { return reader.count_requests(); });
}

std::vector<std::string> SqliteStore::problems() {
  return read([](auto& reader) { return reader.problems(); });
}

std::vector<RunRow> SqliteStore::list_runs(TenantId tenant, const RunFilter& filter) {
  return read([&](auto& reader) { return reader.list_runs(tenant, filter); });
}

std::optional<ApprovalRow> SqliteStore::find_approval(TenantId tenant, ApprovalId approval) {
  return read([&](auto& reader) { return reader.find_approval(tenant, approval); });
}

std::optional<WorkflowRow> SqliteStore::find_workflow(TenantId tenant, const WorkflowName& name, int version) {
  return read([&](auto& reader) { return reader.find_workflow(tenant, name, version); });
}

std::optional<ReceiptRow> SqliteStore::find_receipt(TenantId tenant, ReceiptId receipt) {
  return read([&](auto& reader) { return reader.find_receipt(tenant, receipt); });
}

std::vector<ReceiptRow> SqliteStore::find_effects(TenantId tenant, const std::string& key) {
  return read([&](auto& reader) { return reader.find_effects(tenant, key); });
}

std::vector<ReceiptRow> SqliteStore::list_receipts(TenantId tenant, const ReceiptFilter& filter) {
  return read([&](auto& reader) { return reader.list_receipts(tenant, filter); });
}

std::vector<ApprovalRow> SqliteStore::list_approvals(TenantId tenant, const ApprovalFilter& filter) {
  return read([&](auto& reader) { return reader.list_approvals(tenant, filter); });
}

std::optional<BundleRow> SqliteStore::find_bundle(TenantId tenant, RunId run) {
  auto rows = read([&](auto& reader) { return reader.bundles_from(tenant, run, 1); });
  return !rows.empty() && rows[0].stored.run == run ? std::optional(std::move(rows[0])) : std::nullopt;
}

void SqliteStore::for_each_bundle(TenantId tenant, const std::function<void(const BundleRow&)>& visit) {
  for (RunId place;;) {
    auto rows = read([&](auto& reader) { return reader.bundles_from(tenant, place, sqlite_page_rows); });
    for (const BundleRow& row : rows) visit(row);
    if (rows.size() < sqlite_page_rows) return;
    place = rows.back().stored.run;
    ++place.bits.low;
  }
}

Store::Stream SqliteStore::history(StreamKey key) {
  return read([&](auto& reader) { return reader.history(key); });
}

void SqliteStore::for_each_piece_back(
    StreamKey key, const std::function<bool(std::uint64_t first_seq, std::string_view lines)>& visit) {
  read([&](auto& reader) { reader.for_each_piece_back(key, visit); });
}

void SqliteStore::for_each_stream(const std::function<void(StreamKey)>& visit) {
  auto walk = [&](auto next_page) {
    StreamKey place;
    while (true) {
      auto keys = read([&](auto& reader) { return next_page(reader, place); });
      for (StreamKey key : keys) visit(key);
      if (keys.size() < sqlite_page_rows) return;
      place = keys.back();
    }
  };
  walk([](auto& reader, StreamKey place) { return reader.tenant_streams_after(place.tenant, sqlite_page_rows); });
  walk([](auto& reader, StreamKey place) { return reader.run_streams_after(place, sqlite_page_rows); });
}

}  // namespace pawl
