// Opening: migrations, refusals, what errors say; and the clock.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

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
      "DROP TABLE pawl.receipts, pawl.effects, pawl.followers, pawl.bundles; "
      "DROP FUNCTION pawl.take_ready, pawl.note_bundles");
  auto store = database_.open();
  EXPECT_EQ(sql.number("SELECT count(*) FROM pawl.migrations"), postgres::schema_version);
  EXPECT_EQ(sql.one("SELECT 'fillfactor=45' = ANY(reloptions) FROM pg_class WHERE oid = 'pawl.runs'::regclass"), "t");
  EXPECT_TRUE(commit(*store, later(fold, 1, RunStatus::running)).empty());
  EXPECT_TRUE(store->take_ready({{ToolName{"any"}}}, 1, Duration(1), {}).steps.empty());
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
  options.open_patience = 2 * hang_limit;
  auto begin = std::chrono::steady_clock::now();
  auto failure = failure_of([&] { PostgresStore store(options); });
  EXPECT_NE(failure.find("nobody_of_this_name"), std::string::npos) << failure;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, hang_limit);
}

// A host that is gone says nothing: a socket whose queue is full lets nobody in and turns nobody away.
class SilentHost {
 public:
  SilentHost() {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof place;
    auto* address = reinterpret_cast<sockaddr*>(&place);
    int listening = make();
    EXPECT_EQ(::bind(listening, address, size), 0);
    EXPECT_EQ(::listen(listening, 0), 0);
    ::getsockname(listening, address, &size);
    port = ntohs(place.sin_port);
    for (int n = 0; n < 4; ++n) ::connect(make(), address, size);
  }
  SilentHost(const SilentHost&) = delete;
  SilentHost& operator=(const SilentHost&) = delete;
  ~SilentHost() {
    for (int socket : sockets_) ::close(socket);
  }
  int port = 0;

 private:
  int make() { return sockets_.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }
  std::vector<int> sockets_;
};

TEST_F(PostgresOpen, a_host_that_keeps_silent_is_passed_over_for_the_next) {
  SilentHost silent;
  std::string url = fmt::format("postgres://pawl@127.0.0.1:{},127.0.0.1:{}/{}?target_session_attrs=read-write",
                                silent.port, Sql(database_).one("SHOW port"), database_.name());
  PostgresOptions options;
  options.url = url;
  options.open_patience = hang_limit;
  PostgresStore store(options);
  EXPECT_TRUE(commit(store, new_run(tenant_id(1), 1)).empty());
}

TEST_F(PostgresOpen, hosts_and_ports_must_fit) {
  EXPECT_NE(failure_with("postgres://pawl@/x?host=a,b,c&port=1,2").find("number of ports"), std::string::npos);
}

TEST_F(PostgresOpen, a_view_is_one_moment_and_needs_the_tables) {
  auto refused = failure_of([&] { PostgresStore::open_view(database_.url()); });
  EXPECT_NE(refused.find("none of pawl's tables"), std::string::npos) << refused;
  EXPECT_EQ(Sql(database_).one("SELECT to_regnamespace('pawl') IS NULL"), "t");
  auto store = database_.open();
  commit(*store, new_run(tenant_id(1), 1));
  auto view = PostgresStore::open_view(database_.url());
  EXPECT_TRUE(view->load(tenant_id(1), run_id(1)));
  commit(*store, new_run(tenant_id(1), 2));
  EXPECT_FALSE(view->load(tenant_id(1), run_id(2)));
  EXPECT_EQ(view->list_runs(tenant_id(1), {.limit = 10}).size(), 1u);
  EXPECT_EQ(Sql(database_).number("SELECT count(*) FROM pawl.servers"), 1) << "who only reads is no server";
  // A new connection would see another moment.
  Sql(database_).rows(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'pawl' AND datname = current_database()");
  auto lost = failure_of([&] { view->list_runs(tenant_id(1), {.limit = 10}); });
  EXPECT_NE(lost.find("start again"), std::string::npos) << lost;
}

TEST_F(PostgresOpen, the_clock_is_the_databases_and_never_goes_back) {
  auto store = database_.open();
  Sql sql(database_);
  Instant last;
  auto database_now = [&] {
    return Instant{std::stoll(sql.one("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"))};
  };
  constexpr auto tolerance = std::chrono::minutes(1);
  for (int n = 0; n < 20; ++n) {
    Instant before = database_now();
    Instant now = store->now();
    EXPECT_GE(now, last);
    EXPECT_GE(now + tolerance, before);
    EXPECT_LE(now, database_now() + tolerance);
    last = now;
    if (n == 10) store->wait_for_news(Duration(1));
  }
}

}  // namespace
}  // namespace pawl::test
