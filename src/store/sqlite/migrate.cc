#include "store/sqlite/migrate.h"

#include <algorithm>
#include <map>

#include "core/event.h"
#include "store/sqlite/ready_steps.h"
#include "store/sqlite/schema.h"
#include "store/store.h"
#include "store/tenant_state.h"

namespace pawl::sqlite {
namespace {

void move_ready_steps(Connection& connection) {
  if (!has_first_layout(connection)) return;
  connection.execute("ALTER TABLE runs ADD COLUMN ready BLOB");
  std::map<StreamKey, std::vector<ReadyStep>> by_run;
  {
    Statement all(connection, "SELECT tenant, run, step, tool FROM ready ORDER BY number");
    for (auto rows = all.query(); rows.next();) {
      ReadyStep step;
      step.step = static_cast<StepIndex>(rows.i64(2));
      step.tool.text = rows.bytes(3);
      by_run[{TenantId{rows.id(0)}, rows.id(1)}].push_back(std::move(step));
    }
  }
  Statement set(connection, "UPDATE runs SET ready = ?3 WHERE tenant = ?1 AND id = ?2");
  for (const auto& [key, steps] : by_run)
    set.run(IdBytes(key.tenant.bits), IdBytes(key.stream), Blob{write_ready(steps)});
  connection.execute("DROP TABLE ready");
}

// Whether pawl itself executes the run whose newest piece of history this is. Its first event says so.
bool is_native(Connection& connection, std::int64_t newest) {
  Statement find(connection, find_history);
  for (std::optional<std::int64_t> number = newest; number;) {
    auto rows = find.query(*number);
    if (!rows.next()) break;
    if (!rows.is_null(0)) {
      number = rows.i64(0);
      continue;
    }
    std::string_view lines = rows.bytes(2);
    auto event = parse_run_event(lines.substr(0, lines.find('\n')));
    const RunCreated* created = event ? std::get_if<RunCreated>(&event->payload) : nullptr;
    return created && created->provider == Provider::native;
  }
  return false;  // damaged: for pawl verify to say, not for a guess to hide
}

// What phase_of() says of a run, from what its row has. A run of our own that runs with no step ready or running has
// one that waits for its retry.
void note_phases(Connection& connection) {
  Statement errors(connection, "UPDATE runs SET phase = ?1 WHERE status IN (?2, ?3) AND error_code <> ''");
  errors.run(static_cast<int>(RunPhase::error), static_cast<int>(RunStatus::running),
             static_cast<int>(RunStatus::waiting));
  std::vector<StreamKey> backing_off;
  {
    Statement idle(
        connection,
        "SELECT tenant, id, history FROM runs WHERE status = ?1 AND leased = 0 AND ready IS NULL AND phase = ?2");
    for (auto rows = idle.query(static_cast<int>(RunStatus::running), static_cast<int>(RunPhase::plain)); rows.next();)
      if (is_native(connection, rows.i64(2))) backing_off.push_back({TenantId{rows.id(0)}, rows.id(1)});
  }
  Statement set(connection, "UPDATE runs SET phase = ?3 WHERE tenant = ?1 AND id = ?2");
  for (StreamKey key : backing_off)
    set.run(IdBytes(key.tenant.bits), IdBytes(key.stream), static_cast<int>(RunPhase::backing_off));
}

void put(Statement& statement, const BundleRow& row) {
  statement.run(IdBytes(row.tenant.bits), IdBytes(row.stored.run.bits), row.at, row.stored.seq, row.stored.bytes,
                Blob{row.stored.sha256.view()}, std::string_view(row.stored.where));
}

// From what tenants' streams say. Where one is broken, `pawl verify` says so.
void note_bundles(Connection& connection) {
  Statement all(connection, "SELECT tenant, history FROM tenants WHERE history IS NOT NULL");
  Statement find(connection, find_history), put_row(connection, put_bundle);
  for (auto tenants = all.query(); tenants.next();) {
    std::vector<std::int64_t> pieces;  // newest first
    for (std::optional<std::int64_t> number = tenants.i64(1); number;) {
      auto rows = find.query(*number);
      if (!rows.next()) break;
      pieces.push_back(*number);
      number = rows.is_null(0) ? std::nullopt : std::optional(rows.i64(0));
    }
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
      std::vector<BundleRow> stored;
      if (auto rows = find.query(*piece); rows.next()) stored = stored_bundles(TenantId{tenants.id(0)}, rows.bytes(2));
      for (const BundleRow& row : stored) put(put_row, row);
    }
  }
}

// The text of a definition, without blanks and comments, in which those of earlier versions may differ.
std::string essence_of(std::string_view sql) {
  std::string out;
  while (!sql.empty()) {
    if (sql.starts_with("--")) {
      sql.remove_prefix(std::min(sql.find('\n'), sql.size()));
    } else {
      if (sql.front() != ' ' && sql.front() != '\n') out += sql.front();
      sql.remove_prefix(1);
    }
  }
  return out;
}

std::map<std::string, std::string> definitions_in(Connection& connection) {
  std::map<std::string, std::string> out;
  Statement all(connection, "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL");
  for (auto rows = all.query(); rows.next();) out.emplace(rows.bytes(0), essence_of(rows.bytes(1)));
  return out;
}

}  // namespace

std::string find_changed_definition(Connection& connection) {
  Connection own({.path = ":memory:", .vfs = {}});
  migrate(own, 0);
  const auto found = definitions_in(connection);
  for (const auto& [name, definition] : definitions_in(own)) {
    const auto at = found.find(name);
    if (at == found.end() || at->second != definition) return name;
  }
  return {};
}

bool has_first_layout(Connection& connection) {
  return connection.number("SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'ready'") > 0;
}

void migrate(Connection& connection, int version) {
  if (version == schema_version) return;
  Transaction::Statements statements(connection);
  Transaction transaction(statements);
  if (version < 1) connection.execute(create_version_1);
  if (version == 1) move_ready_steps(connection);
  if (version < 2) connection.execute(create_version_2);
  if (version < 3) {
    connection.execute(create_version_3);
    note_phases(connection);
  }
  if (version < 4) connection.execute(create_version_4);
  if (version < 5) connection.execute(create_version_5);
  if (version < 6) {
    connection.execute(create_version_6);
    note_bundles(connection);
  }
  transaction.commit();
}

}  // namespace pawl::sqlite
