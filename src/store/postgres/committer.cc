#include "store/postgres/committer.h"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace pawl::postgres {
namespace {

constexpr auto tidy_every = std::chrono::seconds(10);
constexpr auto tidy_every_idle = std::chrono::seconds(60);
// A ready step that its writer has in its own queue is left to it for so long.
constexpr Duration hold = std::chrono::milliseconds(500);
constexpr const char* fenced_state = "PAWL1";

constexpr const char* enter_server =
    "INSERT INTO pawl.servers(started_at, seen_at) VALUES(pawl.now_ms(), pawl.now_ms()) RETURNING number, epoch";
constexpr const char* move_epoch =
    "UPDATE pawl.servers SET epoch = epoch + 1, seen_at = pawl.now_ms() WHERE number = $1 RETURNING epoch, commits, "
    "lost";
constexpr const char* commit_all = "SELECT pawl.commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
constexpr const char* record_types =
    "SELECT typname::text, oid::bigint, typarray::bigint FROM pg_catalog.pg_type "
    "WHERE typnamespace = 'pawl'::regnamespace AND typname ~ '_(write|key)$'";

// A server that was away for longer starts anew.
constexpr const char* prune_servers =
    "DELETE FROM pawl.servers WHERE number IN (SELECT number FROM pawl.servers "
    "WHERE seen_at < pawl.now_ms() - 30::bigint * 24 * 3600 * 1000 AND number <> $1 FOR UPDATE SKIP LOCKED)";
constexpr const char* prune_starts =
    "DELETE FROM pawl.starts WHERE (tenant, at, number) IN (SELECT tenant, at, number FROM pawl.starts "
    "WHERE at < (SELECT max(at) FROM pawl.starts) - 60000 LIMIT 2000 FOR UPDATE SKIP LOCKED)";
// Runs that have waited for a worker since the moment they were to be looked at.
constexpr const char* forget_checks =
    "UPDATE pawl.runs SET check_at = NULL WHERE (tenant, id) IN (SELECT tenant, id FROM pawl.runs "
    "WHERE check_at < pawl.now_ms() AND due_at IS NULL ORDER BY check_at LIMIT 1000 FOR UPDATE SKIP LOCKED)";
constexpr int forget_at_once = 1000, forget_turns_max = 20;

RecordTypes read_types(Connection& connection) {
  RecordTypes types;
  const std::array<std::pair<std::string_view, RecordTypes::Type*>, 9> known{{{"run_write", &types.run},
                                                                              {"ready_write", &types.ready},
                                                                              {"request_write", &types.request},
                                                                              {"approval_write", &types.approval},
                                                                              {"receipt_write", &types.receipt},
                                                                              {"start_write", &types.start},
                                                                              {"tenant_write", &types.tenant},
                                                                              {"workflow_write", &types.workflow},
                                                                              {"meter_key", &types.meter}}};
  Rows rows = connection.call(record_types, {});
  for (int row = 0; row < rows.size(); ++row)
    for (auto [name, type] : known)
      if (rows.bytes(row, 0) == name) *type = {static_cast<Oid>(rows.i64(row, 1)), static_cast<Oid>(rows.i64(row, 2))};
  return types;
}

}  // namespace

void Committer::begin(Deadline deadline) {
  Rows rows = link_.read([&](Connection& connection) { return connection.call(enter_server, {}); }, deadline);
  number_ = rows.i32(0, 0);
  epoch_ = rows.u64(0, 1);
  types_ = link_.read([](Connection& connection) { return read_types(connection); }, deadline);
}

void Committer::claim(Connection& connection) {
  Rows rows = connection.call(move_epoch, Values().i32(number_));
  if (rows.empty())
    throw StoreFailure(fmt::format("{} does not know this server any more. Was it restored from a backup? Start again",
                                   database_.address.str()));
  epoch_ = rows.u64(0, 0);
  auto done = rows.u64(0, 1);
  if (done == commits_)
    outcome_ = rows.numbers(0, 2);
  else if (done + 1 != commits_ || !in_doubt_)
    throw StoreFailure(
        fmt::format("{} has lost commits that were acknowledged: it knows of {} of this server's {}. Was a "
                    "standby that lagged behind promoted? Start again, and see what is missing",
                    database_.address.str(), done, commits_));
  types_ = read_types(connection);
}

std::vector<Lost> Committer::commit(std::span<const Frame> frames) {
  Batch batch(frames);
  if (batch.empty()) return batch.lost({});
  for (int tries = 0;; ++tries) {
    std::string reason;
    try {
      Connection& connection = link_.connection({}, [&](Connection& fresh) { claim(fresh); });
      if (!in_doubt_) {
        ++commits_;
        in_doubt_ = true;
        outcome_.reset();
      }
      if (!outcome_) {
        Values values;
        values.i32(number_).u64(epoch_).u64(commits_);
        batch.append_to(values, types_, hold);
        outcome_ = connection.call(commit_all, values).numbers(0, 0);
      }
      in_doubt_ = false;
      database_.note_reached();
      return batch.lost(*outcome_);
    } catch (const ConnectionLost& lost) {
      reason = lost.what();
      link_.drop();
      if (tries == 0) continue;
      database_.note_lost(reason);
    } catch (const Refused& refused) {
      reason = refused.what();
      if (refused.state() == fenced_state)
        link_.drop();  // this one's own, made elsewhere by a pooler; the next claim tells
      else if (!link_.after(refused))
        Link::throw_failure(refused);
      if (refused.state().starts_with("40") && tries < 3) continue;
    }
    database_.wait_before_retry(tries, {}, reason);
  }
}

void Committer::tidy() {
  auto now = std::chrono::steady_clock::now();
  if (now < next_tidy_ || !database_.is_reachable() || !link_.is_open()) return;
  next_tidy_ = now + (std::exchange(commits_tidied_, commits_) == commits_ ? tidy_every_idle : tidy_every);
  try {
    Connection& connection = link_.connection();
    connection.call(prune_servers, Values().i32(number_));
    connection.ask_all(prune_starts, {});
    for (int turn = 0; turn < forget_turns_max; ++turn)
      if (connection.ask_all(forget_checks, {}).changed() < forget_at_once) break;
  } catch (const ConnectionLost&) {
    link_.drop();  // the next commit tells
  } catch (const Refused& refused) {
    if (!link_.after(refused)) Link::throw_failure(refused);
  }
}

}  // namespace pawl::postgres
