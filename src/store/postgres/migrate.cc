#include "store/postgres/migrate.h"

#include <fmt/format.h>

#include "store/postgres/functions.h"
#include "store/postgres/schema.h"
#include "store/store.h"

namespace pawl::postgres {
namespace {

// "pawl": whoever holds it may change the tables.
constexpr const char* migrating_lock = "1885435756";

// 0: there is nothing yet.
int stored_version(Connection& connection) {
  if (connection.call("SELECT to_regclass('pawl.migrations') IS NULL", {}).flag(0, 0)) return 0;
  return connection.call("SELECT coalesce(max(version), 0) FROM pawl.migrations", {}).i32(0, 0);
}

void refuse_newer(int version, const Address& address) {
  if (version > schema_version)
    throw StoreFailure(
        fmt::format("{} was written by a newer pawl: its tables have version {}, and this one knows {}. "
                    "Use that one, or restore a backup from before",
                    address.str(), version, schema_version));
}

// Skips, inside the database, what another server has done while this one waited for the lock.
std::string step(int version, const char* sql) {
  return fmt::format(
      "DO $migration$ BEGIN IF coalesce((SELECT max(version) FROM pawl.migrations), 0) < {0} THEN\n"
      "EXECUTE $script${1}$script$;\n"
      "INSERT INTO pawl.migrations(version) VALUES({0});\nEND IF; END $migration$;\n",
      version, sql);
}

std::string script_from(int version) {
  std::string sql = fmt::format(
      "BEGIN;\n"
      "SELECT pg_advisory_xact_lock({});\n"
      "DO $schema$ BEGIN IF to_regnamespace('pawl') IS NULL THEN CREATE SCHEMA pawl; END IF; END $schema$;\n"
      "CREATE TABLE IF NOT EXISTS pawl.migrations(version integer PRIMARY KEY, at timestamptz NOT NULL DEFAULT "
      "now());\n",
      migrating_lock);
  std::string functions;
  for (const char* part : {drop_functions, create_types, create_set_meter, create_commit, create_take_ready})
    functions += part;
  for (int next = version + 1; next <= schema_version; ++next) {
    std::string whole = migrations[static_cast<std::size_t>(next - 1)];
    if (next == schema_version) whole += functions;
    sql += step(next, whole.c_str());
  }
  return sql + "COMMIT;\n";
}

}  // namespace

void migrate(Connection& connection, const Address& address) {
  int version = stored_version(connection);
  refuse_newer(version, address);
  if (version == schema_version) return;
  try {
    connection.script(script_from(version));
  } catch (const Refused&) {
    connection.script("ROLLBACK");
    throw;
  }
  refuse_newer(stored_version(connection), address);
}

void require_version(Connection& connection, const Address& address) {
  int version = stored_version(connection);
  refuse_newer(version, address);
  if (version == 0) throw StoreFailure(fmt::format("{} has none of pawl's tables", address.str()));
  if (version < schema_version)
    throw StoreFailure(
        fmt::format("{} has the tables of an older pawl: version {}, and this one reads {}. A server of this "
                    "version migrates them when it starts",
                    address.str(), version, schema_version));
}

}  // namespace pawl::postgres
