// Opening: migrations, refusals, what errors say; and the clock.
#include <fmt/format.h>

#include <thread>

#include "postgres/postgres_case.h"
#include "store/postgres/schema.h"

namespace pawl::test {
namespace {

class PostgresOpen : public PostgresCase {
 protected:
  std::string failure_with(const std::string& url) {
    PostgresOptions options;
    options.url = url;
    options.open_patience = std::chrono::milliseconds(300);
    return failure_of([&] { PostgresStore store(options); });
  }
};

TEST_F(PostgresOpen, servers_that_start_at_once_make_the_tables_once) {
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&] {
      auto store = database_.open();
      EXPECT_EQ(store->last_position(), 0u);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Sql(database_).number("SELECT count(*) FROM pawl.migrations"), postgres::schema_version);
  EXPECT_EQ(Sql(database_).number("SELECT count(*) FROM pawl.servers"), 4);
}

TEST_F(PostgresOpen, a_database_of_the_first_version_goes_on) {
  RunFold fold = new_run(tenant_id(1), 1, 1);
  EXPECT_TRUE(commit(*database_.open(), fold).empty());
  Sql sql(database_);
  sql.rows(
      "DELETE FROM pawl.migrations WHERE version > 1; ALTER TABLE pawl.runs SET (fillfactor = 60); "
      "DROP FUNCTION pawl.take_ready");
  auto store = database_.open();
  EXPECT_EQ(sql.number("SELECT count(*) FROM pawl.migrations"), postgres::schema_version);
  EXPECT_EQ(sql.one("SELECT 'fillfactor=45' = ANY(reloptions) FROM pg_class WHERE oid = 'pawl.runs'::regclass"), "t");
  EXPECT_TRUE(commit(*store, later(fold, 1, RunStatus::running)).empty());
  EXPECT_TRUE(store->take_ready({{ToolName{"any"}}}, 1, Duration(1), {}).empty());
}

TEST_F(PostgresOpen, a_newer_database_is_refused) {
  database_.open();
  Sql(database_).rows("INSERT INTO pawl.migrations(version) VALUES(77)");
  auto failure = failure_with(database_.url());
  EXPECT_NE(failure.find("newer pawl"), std::string::npos) << failure;
  EXPECT_NE(failure.find("77"), std::string::npos) << failure;
}

TEST_F(PostgresOpen, a_role_that_owns_no_table_opens_what_is_there) {
  database_.open();
  Sql(database_).rows(fmt::format("REVOKE CREATE ON DATABASE {} FROM pawl; ALTER DATABASE {} OWNER TO postgres",
                                  database_.name(), database_.name()));
  EXPECT_EQ(failure_with(database_.url()), "");
}

TEST_F(PostgresOpen, a_migration_that_fails_leaves_nothing) {
  Sql(database_).rows("CREATE SCHEMA pawl AUTHORIZATION pawl; CREATE TABLE pawl.runs(i int)");
  EXPECT_NE(failure_with(database_.url()).find("runs"), std::string::npos);
  EXPECT_EQ(Sql(database_).number("SELECT count(*) FROM pg_class WHERE relnamespace = 'pawl'::regnamespace"), 1);
  Sql(database_).rows("DROP TABLE pawl.runs");
  EXPECT_EQ(failure_with(database_.url()), "");
}

TEST_F(PostgresOpen, an_error_names_host_and_database_and_never_the_password) {
  for (std::string url : {"postgres://pawl:secret@127.0.0.1:1/nowhere", "postgres://pawl:secret@127.0.0.1:x/nowhere",
                          "postgres://pawl:secret@[::1", "host=127.0.0.1 port=1 dbname=nowhere password=secret"}) {
    auto failure = failure_with(url);
    EXPECT_FALSE(failure.empty());
    EXPECT_EQ(failure.find("secret"), std::string::npos) << failure;
  }
  auto failure = failure_with("postgres://pawl:secret@127.0.0.1:1/nowhere");
  EXPECT_NE(failure.find("nowhere at 127.0.0.1:1"), std::string::npos) << failure;
}

TEST_F(PostgresOpen, what_no_waiting_cures_is_said_at_once) {
  PostgresOptions options;
  options.url = database_.url("nobody_of_this_name");
  auto begin = std::chrono::steady_clock::now();
  auto failure = failure_of([&] { PostgresStore store(options); });
  EXPECT_NE(failure.find("nobody_of_this_name"), std::string::npos) << failure;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST_F(PostgresOpen, the_clock_is_the_databases_and_never_goes_back) {
  auto store = database_.open();
  Sql sql(database_);
  Instant last;
  for (int n = 0; n < 20; ++n) {
    std::int64_t before = std::stoll(sql.one("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"));
    Instant now = store->now();
    EXPECT_GE(now, last);
    EXPECT_LT(std::abs(now.ms - before), 1000);
    last = now;
    if (n == 10) store->wait_for_news(Duration(1));
  }
}

}  // namespace
}  // namespace pawl::test
