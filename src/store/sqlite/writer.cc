#include "store/sqlite/writer.h"

#include <algorithm>

#include "core/invariant.h"
#include "store/sqlite/ready_steps.h"
#include "store/tenant_state.h"

namespace pawl::sqlite {
namespace {

// A commit drops at most this many frames for each one that it adds, so that a backlog of folded frames shrinks
// without any single commit paying for all of it.
constexpr std::size_t pruned_per_frame_max = 4;
constexpr std::size_t pruned_when_idle_max = 64;
constexpr int starts_pruned_max = 2000;
constexpr Duration starts_kept = std::chrono::seconds(60);

std::optional<std::int64_t> stored_due(Instant due_at) {
  return due_at == end_of_time ? std::nullopt : std::optional(due_at.ms);
}

// What follows the run's id in a key that is its own.
std::optional<std::string_view> own_key(const ReceiptRow& row) {
  if (owner_of_key(row.key) != row.run) return std::nullopt;
  return std::string_view(row.key).substr(row.key.find(':'));
}

[[noreturn]] void fail_as_changed(const std::string& stream) {
  throw StoreFailure(stream +
                     ": the end of its history is not where this process left it. Another program has changed "
                     "the database; run `pawl verify` and restore a backup.");
}

}  // namespace

Writer::Writer(Connection& connection, WriterLimits limits)
    : connection_(connection),
      limits_(limits),
      next_checkpoint_pages_(limits.wal_pages_max),
      followers_(connection),
      transaction_(connection),
      insert_frame_(connection, sqlite::insert_frame),
      prune_frames_(connection, sqlite::prune_frames),
      insert_history_(connection, sqlite::insert_history),
      append_history_(connection, sqlite::append_history),
      find_run_stream_(connection, sqlite::find_run_stream),
      find_tenant_stream_(connection, sqlite::find_tenant_stream),
      insert_run_(connection, sqlite::insert_run),
      update_run_(connection, sqlite::update_run),
      insert_request_(connection, sqlite::insert_request),
      put_approval_(connection, sqlite::put_approval),
      put_receipt_(connection, sqlite::put_receipt),
      put_bundle_(connection, sqlite::put_bundle),
      put_tenant_(connection, sqlite::put_tenant),
      put_workflow_(connection, sqlite::put_workflow),
      insert_start_(connection, sqlite::insert_start),
      prune_starts_(connection, sqlite::prune_starts) {
  auto note_pages = [](void* writer, sqlite3*, const char*, int pages) {
    static_cast<Writer*>(writer)->note_wal_pages(pages);
    return SQLITE_OK;
  };
  sqlite3_wal_hook(connection.handle(), note_pages, this);

  Statement last(connection, sqlite::last_frame);
  if (auto row = last.query(); row.next()) {
    last_position_ = row.u64(0);
    folded_before_ = row.u64(1);
  }
  first_position_ = static_cast<Position>(connection.number(sqlite::first_frame));
  Statement sizes(connection, sqlite::frame_sizes);
  for (auto rows = sizes.query(); rows.next();) note_frame(static_cast<std::size_t>(rows.i64(0)));
  newest_start_.ms = connection.number(sqlite::newest_start);
}

void Writer::commit(std::span<const Frame> frames) {
  if (frames.empty()) return;
  Transaction transaction(transaction_);
  for (const Frame& frame : frames) write_frame(frame);
  followers_.write();
  prune_frames(pruned_per_frame_max * frames.size());
  transaction.commit();
}

bool Writer::prune() {
  bool may_prune =
      first_position_ < std::min(folded_before_, last_position_) && may_drop_oldest(limits_.frame_bytes_kept);
  if (!may_prune && !followers_.has_news()) return false;
  Position before = first_position_;
  Transaction transaction(transaction_);
  bool wrote = followers_.write();
  prune_frames(pruned_when_idle_max);
  transaction.commit();
  return wrote || first_position_ != before;
}

bool Writer::may_drop_oldest(std::size_t kept_max) const {
  std::size_t left = frame_bytes_in_all_ - frame_bytes_.front();
  return left >= kept_max && (first_position_ <= followers_.slowest() || left >= limits_.followed_bytes_max);
}

void Writer::checkpoint() {
  auto done = connection_.checkpoint(SQLITE_CHECKPOINT_PASSIVE);
  wal_pages_ = done.wal_pages;
  wal_pages_done_ = done.done_pages;
  // A reader that keeps an old state keeps the log from starting over. Trying again at every commit would cost a
  // sync of the database each time, so until it has started over, the next try waits for as much again.
  next_checkpoint_pages_ = done.wal_pages + limits_.wal_pages_max;
}

void Writer::checkpoint_ended(const Connection::Checkpoint& done) {
  if (!started_over_) wal_pages_done_ = std::max(wal_pages_done_, done.done_pages);
}

void Writer::note_wal_pages(int pages) {
  bool started_over = pages < wal_pages_;
  if (started_over) {
    started_over_ = true;
    wal_pages_done_ = 0;
    next_checkpoint_pages_ = limits_.wal_pages_max;
  }
  wal_pages_ = pages;
}

void Writer::write_frame(const Frame& frame) {
  invariant(frame.position == last_position_ + 1, "frames are committed in order, without gaps");
  folded_before_ = std::max(folded_before_, frame.folded_before);
  insert_frame_.run(frame.position, folded_before_, Blob{frame.parts});
  note_frame(frame.parts.size());
  if (first_position_ == 0) first_position_ = frame.position;
  last_position_ = frame.position;

  for (const RunFold& run : frame.runs) fold(run);
  for (const TenantFold& tenant : frame.tenants) fold(tenant);
  for (const WorkflowRow& row : frame.workflows)
    put_workflow_.run(IdBytes(row.tenant.bits), std::string_view(row.name.text), row.version,
                      std::string_view(row.digest), std::string_view(row.source));
  if (!frame.starts.empty()) put_starts(frame);
}

void Writer::fold(const RunFold& fold) {
  const RunRow& row = fold.row;
  IdBytes tenant(row.tenant.bits), id(row.id.bits);
  invariant(fold.history.lines.empty() || (fold.history.last_seq == row.seq && fold.history.head == row.head),
            "a run's row and its history end with the same event");
  invariant(fold.ready.empty() || row.status == RunStatus::created || row.status == RunStatus::running,
            "only a run that is queued or running has ready steps");

  std::int64_t history = append_history(fold);
  std::string ready = write_ready(fold.ready);
  std::optional<Blob> stored_ready;
  if (!ready.empty()) stored_ready = Blob{ready};
  auto phase = static_cast<int>(row.phase.value_or(RunPhase::plain));
  if (fold.is_new)
    insert_run_.run(tenant, id, static_cast<int>(row.status), stored_due(row.due_at), row.leased ? 1 : 0,
                    row.created_at, row.updated_at, row.version, std::string_view(row.workflow.text),
                    std::string_view(row.workspace.text), std::string_view(row.error_code), row.seq, history,
                    Blob{row.head.view()}, Blob{row.snapshot}, stored_ready, phase);
  else
    update_run_.run(tenant, id, static_cast<int>(row.status), stored_due(row.due_at), row.leased ? 1 : 0,
                    row.updated_at, std::string_view(row.error_code), row.seq, history, Blob{row.head.view()},
                    Blob{row.snapshot}, stored_ready, phase);
  for (const std::string& key : fold.request_keys) insert_request_.run(tenant, std::string_view(key), id);
  for (const ApprovalRow& approval : fold.approvals) put(approval);
  for (const ReceiptRow& receipt : fold.receipts) put(receipt);
}

void Writer::fold(const TenantFold& fold) {
  IdBytes tenant(fold.tenant.id.bits);
  std::uint64_t stored_seq = 0;
  std::optional<std::int64_t> newest;
  Hash head = fold.history.head;
  {
    auto rows = find_tenant_stream_.query(tenant);
    if (rows.next()) {
      stored_seq = rows.u64(0);
      if (!rows.is_null(1)) newest = rows.i64(1);
      if (fold.history.lines.empty()) head = rows.hash(2);
    }
  }
  std::uint64_t seq = fold.history.lines.empty() ? stored_seq : fold.history.last_seq;
  if (!fold.history.lines.empty()) {
    if (fold.history.first_seq != stored_seq + 1) fail_as_changed(fold.tenant.id.str());
    insert_history_.run(newest, fold.history.first_seq, Blob{fold.history.lines});
    newest = connection_.last_number();
    for (const BundleRow& row : stored_bundles(fold.tenant.id, fold.history.lines)) put(row);
  }
  std::string state = write_tenant(fold.tenant);
  put_tenant_.run(tenant, seq, newest, Blob{head.view()}, Blob{state});
}

std::int64_t Writer::append_history(const RunFold& fold) {
  IdBytes tenant(fold.row.tenant.bits), id(fold.row.id.bits);
  const History& history = fold.history;
  if (history.lines.empty()) {
    auto rows = find_run_stream_.query(tenant, id);
    invariant(!fold.is_new, "a stream begins with an event");
    if (!rows.next()) fail_as_changed(fold.row.id.str());
    return rows.i64(1);
  }
  if (fold.is_new) {
    invariant(history.first_seq == 1, "a stream's history has no gaps");
    insert_history_.run(std::nullopt, history.first_seq, Blob{history.lines});
  } else {
    append_history_.run(tenant, id, history.first_seq, Blob{history.lines});
    if (connection_.changes() != 1) fail_as_changed(fold.row.id.str());
  }
  return connection_.last_number();
}

void Writer::put(const ApprovalRow& row) {
  put_approval_.run(IdBytes(row.tenant.bits), IdBytes(row.id.bits), IdBytes(row.run.bits),
                    std::string_view(row.step.text), static_cast<int>(row.status), static_cast<int>(row.tier),
                    row.requested_at, row.expires_at);
}

void Writer::put(const ReceiptRow& row) {
  IdBytes tenant(row.tenant.bits), id(row.id.bits), run(row.run.bits);
  auto status = static_cast<int>(row.status);
  if (auto own = own_key(row))
    put_receipt_.run(tenant, id, run, status, Blob{*own});
  else
    put_receipt_.run(tenant, id, run, status, std::string_view(row.key));
}

void Writer::put(const BundleRow& row) {
  const BundleStored& stored = row.stored;
  put_bundle_.run(IdBytes(row.tenant.bits), IdBytes(stored.run.bits), row.at, stored.seq, stored.bytes,
                  Blob{stored.sha256.view()}, std::string_view(stored.where));
}

void Writer::put_starts(const Frame& frame) {
  int ordinal = 0;
  for (const StartRow& start : frame.starts) {
    insert_start_.run(start.at, frame.position, ordinal++, IdBytes(start.tenant.bits),
                      std::string_view(start.workflow.text));
    newest_start_ = std::max(newest_start_, start.at);
  }
  prune_starts_.run(newest_start_ - starts_kept, starts_pruned_max);
}

// The newest frame stays even when it is folded: it says where the journal is.
void Writer::prune_frames(std::size_t count_max) {
  Position end = std::min({folded_before_, last_position_, first_position_ + count_max});
  Position before = first_position_;
  while (first_position_ < end && may_drop_oldest(limits_.frame_bytes_kept)) {
    frame_bytes_in_all_ -= frame_bytes_.front();
    frame_bytes_.pop_front();
    ++first_position_;
  }
  if (first_position_ != before) prune_frames_.run(first_position_);
}

void Writer::note_frame(std::size_t bytes) {
  frame_bytes_.push_back(bytes);
  frame_bytes_in_all_ += bytes;
}

}  // namespace pawl::sqlite
