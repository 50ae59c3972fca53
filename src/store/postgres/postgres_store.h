// The store for any number of servers: PostgreSQL 13 or later, spoken to with libpq.
//
// Connections: one commits, one reads for the engine, one listens to other servers, a few read for everybody else. Each
// request is a transaction and a round trip of its own, so a transaction pooler may stand between.
//
// While the database is away, commit() and what the engine needs wait for it; lists, which people wait for, give up
// after a few seconds. Errors that no waiting cures are thrown at once.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "store/postgres/committer.h"
#include "store/postgres/database.h"
#include "store/postgres/messenger.h"
#include "store/postgres/pool.h"
#include "store/shared_store.h"

namespace pawl {

struct PostgresOptions {
  std::string url;  // postgres://user@host:5432/database, or any connection string of libpq
  // Told once when the database is lost and once when it is back; from any thread.
  std::function<void(const std::string&)> report;
  Duration open_patience = std::chrono::seconds(10);
  Duration list_patience = std::chrono::seconds(5);
  std::size_t readers = 4;
};

// Of the environment variables that libpq takes passwords and the like from.
inline constexpr std::string_view libpq_variable_prefix = "PG";

class PostgresStore final : public SharedStore {
 public:
  // Brings the tables to this version first, if nobody else has.
  explicit PostgresStore(const PostgresOptions& options);
  // All of it as it is at one moment, beside servers that go on: for one thread, which reads only. It is one
  // transaction, which holds back vacuum and nothing else.
  static std::unique_ptr<PostgresStore> open_view(const std::string& url);
  // What does not fit in tables that no stream tells of: what caps count, and what repeated requests are found by.
  std::vector<std::string> problems();
  // Updates the planner's statistics. Autovacuum does so within minutes; until then, after a bulk load, PostgreSQL
  // reads and sorts whole tables where an index has the answer.
  void analyze();

  // What the one who runs this should know, sentence by sentence; empty when all is well.
  const std::vector<std::string>& warnings() const { return warnings_; }

  std::vector<Lost> commit(std::span<const Frame> frames) override;
  void tidy() override;

  Instant now() override { return database_.now(); }
  std::uint32_t server_number() const override { return committer_.server_number(); }
  bool is_reachable() const override { return database_.is_reachable() && !(messenger_ && messenger_->is_silent()); }
  void stop_waiting() override { database_.stop_waiting(); }

  std::vector<RunRow> load_all(std::span<const StreamKey> runs) override;
  Position newest_position() override;
  JournalEnd journal_end() override;
  std::vector<CapUse> cap_use(TenantId tenant) override;
  std::vector<DueRun> leased_runs_of(std::span<const std::uint32_t> servers) override;
  Taken take_ready(std::span<const ToolName> tools, std::size_t per_tenant, Duration hold,
                   std::optional<TenantId> only) override;
  std::vector<std::pair<TenantId, std::uint64_t>> tenant_heads() override;
  std::optional<std::pair<Tenant, Hash>> load_tenant(TenantId tenant) override;
  std::vector<WorkflowRow> workflows_of(TenantId tenant) override;
  News wait_for_news(Duration at_most) override { return messenger_->wait(at_most); }
  bool reports_all() const override { return messenger_->is_looking(); }
  void tell(const News& news, std::optional<std::uint32_t> server) override { messenger_->tell(news, server); }

  Position last_position() override;
  std::vector<Tenant> tenants() override;
  void for_each_workflow(const std::function<void(const WorkflowRow&)>& visit) override;
  // Nothing: rows are written with their events.
  void for_each_frame(const std::function<void(Position, std::string_view parts)>& visit) override;
  void for_each_ready(const std::function<void(const ReadyStep&)>& visit) override;
  std::optional<KeptFrame> frame_after(Position position) override;
  std::optional<Position> follow(const std::string& follower, Duration hold) override;
  void followed(const std::string& follower, Position position) override;
  void unfollow(const std::string& follower) override;
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
  struct View {};
  PostgresStore(View, const PostgresOptions& options);

  // For the engine: waits. `list`, for people: gives up.
  postgres::Rows look(const char* sql, const postgres::Values& values);
  postgres::Rows look(TenantId tenant, const char* sql, const postgres::Values& values);
  postgres::Rows list(TenantId tenant, const char* sql, const postgres::Values& values);
  postgres::Rows wander(const char* sql, const postgres::Values& values);
  Tenant read_tenant_row(const postgres::Rows& rows, int row);

  PostgresOptions options_;
  postgres::Database database_;
  postgres::Committer committer_;
  std::optional<postgres::Messenger> messenger_;
  std::vector<std::string> warnings_;

  std::mutex engine_mutex_;
  postgres::Link engine_link_;
  TenantId take_after_;  // where the last walk over tenants stopped

  postgres::Pool pool_;

  // Frames that were read ahead: all there are between `read_after_` and the last of them.
  std::mutex frames_mutex_;
  Position read_after_ = 0;
  std::deque<KeptFrame> frames_;
};

}  // namespace pawl
