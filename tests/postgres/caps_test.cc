// Caps hold across servers: the database counts.
#include "postgres/postgres_case.h"

namespace pawl::test {
namespace {

class PostgresCaps : public PostgresCase {
 protected:
  // The tenant's next configuration.
  void set_caps(TenantId id, std::optional<int> max_concurrency, std::optional<int> max_runs_per_min = {}) {
    Tenant& tenant = tenants_[id];
    tenant.id = id;
    tenant.name = id.str();
    tenant.limits = Caps{max_concurrency, max_runs_per_min, {}};
    ++tenant.seq;
    Frame frame;
    frame.tenants = {tenant_fold(tenant, tenant.seq)};
    ASSERT_TRUE(commit(*store_, frame).empty());
  }
  void publish(int version, Caps caps) {
    Frame frame;
    frame.workflows = {{acme, {"triage"}, version, "d", "s", caps}};
    ASSERT_TRUE(commit(*store_, frame).empty());
  }
  std::string running(TenantId tenant, const std::string& workflow = "") {
    auto rows =
        Sql(database_).rows("SELECT running FROM pawl.meters WHERE workflow = '" + workflow +
                            "' AND tenant = (SELECT tenant FROM pawl.tenants WHERE name = '" + tenant.str() + "')");
    return rows.empty() ? "none" : rows[0];
  }

  std::map<TenantId, Tenant> tenants_;
  std::unique_ptr<PostgresStore> store_ = database_.open();
};

RunFold with_leases(RunFold fold, int leases) {
  fold.leases = leases;
  fold.row.leased = leases > 0;
  return fold;
}

// One event later, with so many leases.
RunFold moved(const RunFold& before, int leases) { return with_leases(later(before, 1, RunStatus::running), leases); }

std::vector<RunFold> new_runs(TenantId tenant, std::uint64_t first, int count) {
  std::vector<RunFold> runs;
  for (int n = 0; n < count; ++n) runs.push_back(new_run(tenant, first + static_cast<std::uint64_t>(n), 1));
  return runs;
}

std::vector<RunFold> all_moved(const std::vector<RunFold>& before, int leases) {
  std::vector<RunFold> runs;
  for (const RunFold& run : before) runs.push_back(moved(run, leases));
  return runs;
}

bool all_capped(const std::vector<Lost>& lost) {
  return std::ranges::all_of(lost, [](const Lost& one) { return one.capped; });
}

TEST_F(PostgresCaps, no_more_leases_than_the_tenant_may_have_and_the_oldest_first) {
  set_caps(acme, 3);
  auto runs = new_runs(acme, 1, 5), foreign = new_runs(zeta, 1, 5);
  commit(*store_, frame_of(runs));
  commit(*store_, frame_of(foreign));
  Frame frame = frame_of(all_moved(runs, 1));
  for (RunFold& fold : frame.runs) fold.incarnation = 4;
  for (const RunFold& fold : all_moved(foreign, 1)) frame.runs.push_back(fold);
  auto lost = commit(*store_, frame);
  EXPECT_EQ(ids_of(lost), (std::vector{run_id(4), run_id(5)}));
  EXPECT_TRUE(all_capped(lost));
  EXPECT_EQ(lost[0].incarnation, 4u);
  EXPECT_EQ(running(acme), "3");
  EXPECT_EQ(store_->load(acme, run_id(4))->seq, 1u);
  EXPECT_EQ(store_->load(zeta, run_id(5))->seq, 2u);
}

TEST_F(PostgresCaps, what_is_given_back_in_a_commit_can_be_taken_in_it) {
  set_caps(acme, 2);
  auto runs = new_runs(acme, 1, 4);
  commit(*store_, frame_of(runs));
  RunFold third = moved(runs[2], 1), fourth = moved(runs[3], 1);
  EXPECT_TRUE(commit(*store_, frame_of({third, fourth})).empty());
  EXPECT_EQ(commit(*store_, moved(runs[0], 1)).size(), 1u);
  EXPECT_TRUE(commit(*store_, frame_of({moved(runs[0], 1), moved(third, 0)})).empty());
  EXPECT_EQ(running(acme), "2");
}

TEST_F(PostgresCaps, what_is_lost_gives_nothing_back) {
  set_caps(acme, 1);
  auto runs = new_runs(acme, 1, 2);
  commit(*store_, frame_of(runs));
  RunFold claimed = moved(runs[0], 1);
  EXPECT_TRUE(commit(*store_, claimed).empty());
  RunFold stale = moved(claimed, 0);
  stale.follows = head_after(claimed.history.key, 1);
  auto lost = commit(*store_, frame_of({stale, moved(runs[1], 1)}));
  ASSERT_EQ(lost.size(), 2u);
  EXPECT_EQ(running(acme), "1");
}

TEST_F(PostgresCaps, a_run_that_keeps_its_leases_is_never_in_the_way) {
  set_caps(acme, 1);
  RunFold run = new_run(acme, 1, 1);
  commit(*store_, run);
  RunFold claimed = moved(run, 1);
  commit(*store_, claimed);
  set_caps(acme, 0);
  EXPECT_TRUE(commit(*store_, moved(claimed, 1)).empty());
}

TEST_F(PostgresCaps, a_cap_that_is_new_counts_what_is_running) {
  set_caps(acme, {});
  auto runs = new_runs(acme, 1, 3);
  commit(*store_, frame_of(runs));
  auto claimed = all_moved(runs, 2);
  EXPECT_TRUE(commit(*store_, frame_of(claimed)).empty());
  EXPECT_EQ(running(acme), "none");
  set_caps(acme, 7);
  EXPECT_EQ(running(acme), "6");
  EXPECT_TRUE(commit(*store_, moved(claimed[0], 3)).empty());
  EXPECT_EQ(commit(*store_, moved(claimed[1], 3)).size(), 1u);
  set_caps(acme, {});
  EXPECT_EQ(running(acme), "none");
  EXPECT_TRUE(commit(*store_, moved(claimed[1], 3)).empty());
}

TEST_F(PostgresCaps, a_cap_that_is_new_counts_what_is_being_committed) {
  set_caps(acme, {});
  RunFold run = new_run(acme, 1, 1);
  commit(*store_, run);
  Sql sql(database_), blocker(database_);
  auto waiting = [&] {
    return sql.number(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'");
  };
  blocker.rows("BEGIN");
  blocker.rows("SELECT FROM pawl.runs FOR UPDATE");
  auto other = database_.open();
  std::thread claiming([&] { EXPECT_TRUE(commit(*other, moved(run, 1)).empty()); });
  EXPECT_TRUE(eventually([&] { return waiting() == 1; }));
  std::thread capping([&] { set_caps(acme, 5); });
  EXPECT_TRUE(eventually([&] { return waiting() == 2; }));
  blocker.rows("COMMIT");
  claiming.join();
  capping.join();
  EXPECT_EQ(running(acme), "1");
}

TEST_F(PostgresCaps, a_workflows_cap_is_that_of_its_latest_version) {
  set_caps(acme, {});
  publish(1, {.max_concurrency = 5});
  publish(2, {.max_concurrency = 1});
  publish(1, {.max_concurrency = 5});
  auto runs = new_runs(acme, 1, 2);
  RunFold elsewhere = new_run(acme, 9, 1);
  elsewhere.row.workflow.text = "other";
  commit(*store_, frame_of({runs[0], runs[1], elsewhere}));
  auto lost = commit(*store_, frame_of({moved(runs[0], 1), moved(runs[1], 1), moved(elsewhere, 1)}));
  EXPECT_EQ(ids_of(lost), std::vector{run_id(2)});
  EXPECT_EQ(running(acme, "triage"), "1");
  publish(3, {});
  EXPECT_TRUE(commit(*store_, moved(runs[1], 1)).empty());
}

TEST_F(PostgresCaps, tenant_and_workflow_both_have_a_say) {
  set_caps(acme, 3);
  publish(1, {.max_concurrency = 2});
  auto runs = new_runs(acme, 1, 3), others = new_runs(acme, 11, 3);
  for (RunFold& run : others) run.row.workflow.text = "other";
  commit(*store_, frame_of(runs));
  commit(*store_, frame_of(others));
  auto lost = commit(*store_, frame_of([&] {
    auto moves = all_moved(runs, 1);
    for (RunFold& run : all_moved(others, 1)) moves.push_back(run);
    return moves;
  }()));
  EXPECT_EQ(ids_of(lost), (std::vector{run_id(3), run_id(12), run_id(13)}));
  EXPECT_EQ(running(acme), "3");
  EXPECT_EQ(running(acme, "triage"), "2");
}

TEST_F(PostgresCaps, a_new_run_may_begin_with_a_lease_if_there_is_room) {
  set_caps(acme, 1);
  EXPECT_EQ(ids_of(commit(*store_, frame_of({with_leases(new_run(acme, 1), 1), with_leases(new_run(acme, 2), 1)}))),
            std::vector{run_id(2)});
  EXPECT_FALSE(store_->load(acme, run_id(2)));
}

// Starts of `runs`, at the same moment.
Frame starts_of(const std::vector<RunFold>& runs, Instant at) {
  Frame frame;
  for (const RunFold& run : runs) {
    frame.runs.push_back(later(run, 1, RunStatus::running));
    frame.starts.push_back({run.row.tenant, run.row.workflow, at, run.row.id});
  }
  return frame;
}

TEST_F(PostgresCaps, starts_are_paced_by_the_databases_clock) {
  set_caps(acme, {}, 3);
  auto first = new_runs(acme, 1, 2), second = new_runs(acme, 11, 3);
  commit(*store_, frame_of(first));
  commit(*store_, frame_of(second));
  // These were a minute ago.
  EXPECT_TRUE(commit(*store_, starts_of(first, store_->now() - std::chrono::seconds(61))).empty());
  auto lost = commit(*store_, starts_of(second, store_->now()));
  EXPECT_TRUE(lost.empty());
  auto third = new_runs(acme, 21, 1);
  commit(*store_, frame_of(third));
  lost = commit(*store_, starts_of(third, store_->now()));
  EXPECT_EQ(ids_of(lost), std::vector{run_id(21)});
  EXPECT_TRUE(all_capped(lost));
  EXPECT_EQ(Sql(database_).number("SELECT count(*) FROM pawl.starts"), 5);
}

TEST_F(PostgresCaps, starts_beyond_the_pace_are_left_out_one_by_one) {
  set_caps(acme, {}, 3);
  auto runs = new_runs(acme, 1, 5);
  commit(*store_, frame_of(runs));
  EXPECT_EQ(ids_of(commit(*store_, starts_of(runs, store_->now()))), (std::vector{run_id(4), run_id(5)}));
  EXPECT_EQ(store_->load(acme, run_id(5))->seq, 1u);
}

}  // namespace
}  // namespace pawl::test
