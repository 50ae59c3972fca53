#include "postgres/postgres_case.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>

namespace pawl::test {
namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  if (value) return value;
  fmt::print(stderr, "{} is not set: start this through tests/postgres/cluster\n", name);
  std::exit(1);
}

std::string url_at(const std::string& port, const std::string& database, const std::string& user) {
  return fmt::format("postgres://{}@/{}?host={}&port={}", user, database, setting("PAWL_PG_HOST"), port);
}

std::string admin_url() { return url_at(setting("PAWL_PG_PORT"), "postgres", "postgres"); }

}  // namespace

TestDatabase::TestDatabase() {
  static int count = 0;
  name_ = fmt::format("test_{}_{}", ::getpid(), ++count);
  Sql(admin_url()).rows(fmt::format("CREATE DATABASE {} OWNER pawl", name_));
}

TestDatabase::~TestDatabase() {
  try {
    Sql(admin_url()).rows(fmt::format("DROP DATABASE {} WITH (FORCE)", name_));
  } catch (const std::runtime_error& error) {
    ADD_FAILURE() << error.what();
  }
}

std::string TestDatabase::url(const std::string& user) const { return url_at(setting("PAWL_PG_PORT"), name_, user); }

std::string TestDatabase::pooled_url() const { return url_at(setting("PAWL_PG_POOLER_PORT"), name_, "pawl"); }

PostgresOptions TestDatabase::options() const {
  PostgresOptions options;
  options.url = url();
  return options;
}

Sql::Sql(const TestDatabase& database, const std::string& user) : Sql(database.url(user)) {}

Sql::Sql(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
  if (PQstatus(connection_.get()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(connection_.get()));
}

std::vector<std::string> Sql::rows(const std::string& sql) {
  std::unique_ptr<PGresult, decltype(&PQclear)> result(PQexec(connection_.get(), sql.c_str()), &PQclear);
  auto status = PQresultStatus(result.get());
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
    throw std::runtime_error(sql + ": " + PQerrorMessage(connection_.get()));
  std::vector<std::string> rows;
  for (int row = 0; row < PQntuples(result.get()); ++row) {
    std::string& text = rows.emplace_back();
    for (int column = 0; column < PQnfields(result.get()); ++column)
      text += (column ? " " : "") + std::string(PQgetvalue(result.get(), row, column));
  }
  return rows;
}

std::string Sql::one(const std::string& sql) {
  auto found = rows(sql);
  if (found.size() != 1) throw std::runtime_error(fmt::format("{}: {} rows", sql, found.size()));
  return found[0];
}

void control_server(const std::string& what) {
  if (std::system((setting("PAWL_PG_CONTROL") + " " + what).c_str()) != 0)
    throw std::runtime_error("the server could not be controlled: " + what);
}

Frame frame_of(std::vector<RunFold> runs) {
  Frame frame;
  frame.runs = std::move(runs);
  return frame;
}

std::vector<RunId> ids_of(const std::vector<Lost>& lost) {
  std::vector<RunId> ids;
  for (const Lost& one : lost) ids.push_back({one.key.stream});
  return ids;
}

}  // namespace pawl::test
