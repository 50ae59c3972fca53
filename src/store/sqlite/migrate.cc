#include "store/sqlite/migrate.h"

#include <map>

#include "core/event.h"
#include "store/sqlite/ready_steps.h"
#include "store/sqlite/schema.h"
#include "store/store.h"

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

}  // namespace

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
  transaction.commit();
}

}  // namespace pawl::sqlite
