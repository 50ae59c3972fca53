// The default store: one file, SQLite in WAL mode, in a folder that one process writes.
//
//   <folder>/pawl.db      the database, with its -wal and -shm beside it; whole from the moment it is there
//   <folder>/pawl.db.new  one that is being made, or was when its maker died
//   <folder>/lock         held by the writing process; its pid is the content
//
// Three connections: the writer's, used by commit() and tidy(); the reader's, behind a mutex; and the checkpointer's,
// which moves the log into the database while commits go on. Any number of other processes may look through
// open_reader() meanwhile. A commit is one transaction and one sync of the log.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "store/sqlite/checkpointer.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/folder_lock.h"
#include "store/sqlite/reader.h"
#include "store/sqlite/writer.h"
#include "store/store.h"

namespace pawl {

struct SqliteOptions {
  std::filesystem::path folder;
  // A VFS of this name instead of the operating system's; the folder is then a name in it, and is not locked.
  std::string vfs;
  // One connection that owns the file: no shared memory is needed, so a VFS without any will do. No other readers.
  bool single_connection = false;
  int page_bytes = 8192;  // of a new database
  int writer_cache_bytes = 16 << 20;
  int reader_cache_bytes = 4 << 20;
  int wal_bytes_max = 32 << 20;
  int wal_bytes_idle = 4 << 20;
  // Folded frames that are kept for those who follow the journal and were away for a moment.
  std::size_t frame_bytes_kept = 8 << 20;
  // The same for those who follow it across restarts (Store::follow) and have not seen them: what is more is dropped,
  // and who comes for it finds it gone. A folder that no server runs on any more grows by no more than this.
  std::size_t followed_bytes_max = 64 << 20;
};

class SqliteStore final : public Store {
 public:
  explicit SqliteStore(const SqliteOptions& options);
  // Looks on beside a live writer, or after one that died; commit() and tidy() are refused.
  static std::unique_ptr<SqliteStore> open_reader(const std::filesystem::path& folder);
  // A reader that stays at one moment, that of its first look, whatever is committed meanwhile: for those who compare
  // tables with each other. The writer's log cannot start over while it lives.
  static std::unique_ptr<SqliteStore> open_view(const std::filesystem::path& folder);
  ~SqliteStore() override;

  // The whole database at one moment, into a file that must not be there yet. Of a store that open_reader() gave;
  // the writer goes on meanwhile, and its log grows until this is done.
  void copy_to(const std::filesystem::path& file);

  // What does not fit in tables that no stream tells of. For one who looks at a store that stands still.
  std::vector<std::string> problems();

  std::vector<Lost> commit(std::span<const Frame> frames) override;
  void tidy() override;

  Position last_position() override;
  std::vector<Tenant> tenants() override;
  void for_each_workflow(const std::function<void(const WorkflowRow&)>& visit) override;
  void for_each_frame(const std::function<void(Position, std::string_view parts)>& visit) override;
  void for_each_ready(const std::function<void(const ReadyStep&)>& visit) override;
  std::optional<KeptFrame> frame_after(Position position) override;
  std::optional<Position> follow(const std::string& follower, Duration hold) override;
  void followed(const std::string& follower, Position position) override;
  void for_each_start(Instant since, const std::function<void(const StartRow&)>& visit) override;
  std::vector<DueRun> leased_runs() override;
  std::vector<DueRun> due_runs(Instant until, std::size_t limit, std::optional<DueRun> after) override;

  std::vector<RunRow> load_from(TenantId tenant, RunId run, std::size_t limit) override;
  std::optional<RunId> find_request(TenantId tenant, const std::string& request_key) override;
  WaitingFigures count_waiting() override;
  std::uint64_t count_requests() override;
  std::vector<RunRow> list_runs(TenantId tenant, const RunFilter& filter) override;
  std::optional<ApprovalRow> find_approval(TenantId tenant, ApprovalId approval) override;
  std::optional<WorkflowRow> find_workflow(TenantId tenant, const WorkflowName& name, int version) override;
  std::optional<ReceiptRow> find_receipt(TenantId tenant, ReceiptId receipt) override;
  std::vector<ReceiptRow> find_effects(TenantId tenant, const std::string& key) override;
  std::vector<ReceiptRow> list_receipts(TenantId tenant, const ReceiptFilter& filter) override;
  std::vector<ApprovalRow> list_approvals(TenantId tenant, const ApprovalFilter& filter) override;
  std::optional<BundleRow> find_bundle(TenantId tenant, RunId run) override;
  void for_each_bundle(TenantId tenant, const std::function<void(const BundleRow&)>& visit) override;
  Stream history(StreamKey key) override;
  void for_each_piece_back(StreamKey key,
                           const std::function<bool(std::uint64_t first_seq, std::string_view lines)>& visit) override;
  void for_each_stream(const std::function<void(StreamKey)>& visit) override;

 private:
  struct ReadOnly {};
  SqliteStore(ReadOnly, const std::filesystem::path& folder);

  // Runs `look(reader)` under the lock, seeing every commit that has returned.
  template <class Look>
  auto read(Look look);
  // Runs `write()`; when it throws, the store is finished.
  template <class Write>
  void change(Write write);
  void begin_checkpoint();
  void go_on_with_checkpoint();
  void finish_checkpoint();
  void release_view();
  void refuse_if_failed() const;

  // From the outside in: what is declared last is closed first.
  std::optional<sqlite::FolderLock> lock_;
  std::optional<sqlite::Connection> writing_;
  std::optional<sqlite::Connection> reading_;
  std::optional<sqlite::Writer> writer_;
  std::optional<sqlite::Checkpointer> checkpointer_;

  std::mutex reader_mutex_;  // guards reader_ and the connection it uses
  std::optional<sqlite::Reader> reader_;
  bool one_connection_ = false;  // reader and writer share it
  bool shares_views_ = false;    // this process does all commits, so it knows when a view is stale (a view: never)
  std::atomic<std::uint64_t> commits_ = 0;
  std::atomic<bool> failed_ = false;
};

}  // namespace pawl
