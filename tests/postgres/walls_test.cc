// The wall between tenants that stands in the database itself.
#include <fmt/format.h>

#include "postgres/postgres_case.h"

namespace pawl::test {
namespace {

class PostgresWalls : public PostgresCase {
 protected:
  // Rows of both tenants in every table.
  void SetUp() override {
    Frame frame;
    for (std::uint64_t n : {1, 2}) {
      TenantId tenant = tenant_id(n);
      frame.tenants.push_back(tenant_fold(tenant_named(tenant, tenant.str(), 1), 1));
      std::string& lines = frame.tenants.back().history.lines;
      lines.clear();
      append_event(lines, TenantEvent{run_time(1), Actor{"engine"}, BundleStored{run_id(n), 1, {}, 1, "/b.zip"}});
      lines += '\n';
      frame.workflows.push_back({tenant, {"triage"}, 1, "d", "s"});
      RunFold run = new_run(tenant, n);
      run.ready = {ready_step(run, 0)};
      run.approvals = {approval(run, 1)};
      run.request_keys = {"key"};
      run.receipts = {{tenant, ReceiptId{run.row.id.bits}, run.row.id, ReceiptStatus::succeeded, "effect"}};
      frame.runs.push_back(run);
      frame.starts.push_back({tenant, {"triage"}, run_time(1), run.row.id});
    }
    ASSERT_TRUE(commit(*store_, frame).empty());
  }
  std::vector<std::string> tables() {
    return Sql(database_).rows(
        "SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' "
        "WHERE c.relnamespace = 'pawl'::regnamespace AND c.relkind = 'r' ORDER BY 1");
  }

  std::unique_ptr<PostgresStore> store_ = database_.open();
};

TEST_F(PostgresWalls, every_table_with_a_tenant_shows_the_one_that_is_named_and_no_other) {
  Sql as_pawl(database_, "pawl"), as_admin(database_);
  auto ids = as_admin.rows("SELECT tenant FROM pawl.tenants ORDER BY 1");
  ASSERT_EQ(ids.size(), 2u);
  auto count = [](Sql& sql, const std::string& table, const std::string& where = "true") {
    return sql.number(fmt::format("SELECT count(*) FROM pawl.{} WHERE {}", table, where));
  };
  ASSERT_GE(tables().size(), 9u);
  for (const std::string& table : tables()) {
    SCOPED_TRACE(table);
    ASSERT_EQ(count(as_admin, table), 2 * count(as_admin, table, fmt::format("tenant = '{}'", ids[0])));
    ASSERT_GT(count(as_admin, table), 0) << "nothing in there: this tests nothing";
    as_pawl.rows("RESET pawl.tenant");
    EXPECT_EQ(count(as_pawl, table), 0) << "a forgotten setting shows something";
    for (const std::string& id : ids) {
      as_pawl.rows(fmt::format("SELECT set_config('pawl.tenant', '{}', false)", id));
      EXPECT_EQ(count(as_pawl, table), count(as_admin, table) / 2);
      EXPECT_EQ(count(as_pawl, table, fmt::format("tenant <> '{}'", id)), 0);
      EXPECT_EQ(as_pawl.rows(fmt::format("DELETE FROM pawl.{} WHERE tenant <> '{}' RETURNING 1", table, id)).size(),
                0u);
      EXPECT_THROW(as_pawl.rows(fmt::format("UPDATE pawl.{} SET tenant = '{}'", table, id == ids[0] ? ids[1] : ids[0])),
                   std::runtime_error);
    }
    as_pawl.rows("SELECT set_config('pawl.tenant', '*', false)");
    EXPECT_EQ(count(as_pawl, table), count(as_admin, table));
    // What a session without the setting, or one that a pooler has used before, has.
    as_pawl.rows("SELECT set_config('pawl.tenant', '', false)");
    EXPECT_EQ(count(as_pawl, table), 0);
  }
}

TEST_F(PostgresWalls, no_setting_is_left_behind_for_the_next_user_of_a_session) {
  postgres::Address address(database_.url());
  std::atomic<bool> given_up = false;
  postgres::Connection connection(address, given_up);
  auto seen = [&] { return connection.call("SELECT count(*) FROM pawl.runs", {}).i64(0, 0); };
  EXPECT_EQ(connection.ask_all("SELECT count(*) FROM pawl.runs", {}).i64(0, 0), 2);
  EXPECT_EQ(seen(), 0);
  EXPECT_EQ(connection.ask(tenant_id(1), "SELECT count(*) FROM pawl.runs", {}).i64(0, 0), 1);
  EXPECT_EQ(seen(), 0);
  connection.call("SELECT * FROM pawl.take_ready('{tool-0}', 1, 1, NULL, gen_random_uuid(), 1, 1)", {});
  EXPECT_EQ(seen(), 0);
  EXPECT_THROW(connection.ask_all("SELECT 1 / 0", {}), postgres::Refused);
  EXPECT_EQ(seen(), 0);
}

TEST_F(PostgresWalls, a_role_that_no_wall_stops_is_warned_about) {
  EXPECT_TRUE(store_->warnings().empty());
  PostgresOptions options = database_.options();
  options.url = database_.url("postgres");
  PostgresStore as_superuser(options);
  ASSERT_EQ(as_superuser.warnings().size(), 1u);
  EXPECT_NE(as_superuser.warnings()[0].find("superuser"), std::string::npos);
}

}  // namespace
}  // namespace pawl::test
