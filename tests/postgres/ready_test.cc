// The queue that all servers take from.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "postgres/postgres_case.h"

namespace pawl::test {
namespace {

constexpr Duration long_hold = std::chrono::minutes(10);

class PostgresReady : public PostgresCase {
 protected:
  RunFold add(TenantId tenant, std::uint64_t number, std::vector<std::string> tools,
              RunStatus status = RunStatus::running, bool holds = false) {
    RunFold fold = new_run(tenant, number, 1);
    fold.row.status = status;
    fold.holds_ready = holds;
    for (StepIndex step = 0; step < static_cast<StepIndex>(tools.size()); ++step) {
      fold.ready.push_back(ready_step(fold, step));
      fold.ready.back().tool.text = tools[static_cast<std::size_t>(step)];
    }
    EXPECT_TRUE(commit(*store_, fold).empty());
    return fold;
  }
  std::vector<TakenStep> take(std::vector<std::string> tools, std::size_t per_tenant = 100, Duration held = long_hold,
                              std::optional<TenantId> only = {}) {
    std::vector<ToolName> names;
    for (std::string& tool : tools) names.push_back({tool});
    return store_->take_ready(names, per_tenant, held, only).steps;
  }

  // As if the time had passed for steps that somebody has taken.
  void pass(Duration span) {
    Sql(database_).rows(fmt::format("UPDATE pawl.ready SET taken_until = taken_until - {}", span.count()));
  }

  std::unique_ptr<PostgresStore> store_ = database_.open();
};

std::vector<RunId> ids_taken(const std::vector<TakenStep>& steps) {
  std::vector<RunId> ids;
  for (const TakenStep& taken : steps) ids.push_back(taken.step.run);
  return ids;
}

TEST_F(PostgresReady, a_step_comes_with_its_run) {
  RunFold fold = add(acme, 1, {"shell"});
  auto steps = take({"shell"});
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(describe(steps[0].row), describe(fold.row));
  EXPECT_EQ(steps[0].step.tool.text, "shell");
  EXPECT_EQ(steps[0].step.tenant, acme);
  EXPECT_EQ(steps[0].step.workflow.text, "triage");
  EXPECT_EQ(steps[0].step.workspace.text, "default");
  EXPECT_FALSE(steps[0].step.fresh);
}

TEST_F(PostgresReady, only_the_tools_that_are_asked_for) {
  add(acme, 1, {"shell"});
  add(acme, 2, {"http.request"});
  add(acme, 3, {""}, RunStatus::created);
  EXPECT_TRUE(take({"other"}).empty());
  EXPECT_TRUE(take({}).empty());
  EXPECT_EQ(ids_taken(take({"", "http.request", "", "unknown"})), (std::vector{run_id(2), run_id(3)}));
  EXPECT_EQ(ids_taken(take({"shell"})), std::vector{run_id(1)});
}

TEST_F(PostgresReady, those_that_have_started_first_and_the_oldest_run_first) {
  add(acme, 1, {"shell"}, RunStatus::created);
  add(acme, 5, {"http.request", "shell"});
  add(acme, 3, {"shell"});
  add(acme, 2, {"http.request"}, RunStatus::created);
  auto steps = take({"shell", "http.request"});
  EXPECT_EQ(ids_taken(steps), (std::vector{run_id(3), run_id(5), run_id(5), run_id(1), run_id(2)}));
  EXPECT_TRUE(steps[3].step.fresh);
}

TEST_F(PostgresReady, at_most_so_many_of_each_tenant) {
  for (std::uint64_t n = 0; n < 5; ++n) {
    add(acme, n, {"shell", "http.request"});
    add(zeta, n, {"shell"});
  }
  auto steps = take({"shell", "http.request"}, 3);
  EXPECT_EQ(std::ranges::count(steps, acme, [](const TakenStep& taken) { return taken.step.tenant; }), 3);
  EXPECT_EQ(std::ranges::count(steps, zeta, [](const TakenStep& taken) { return taken.step.tenant; }), 3);
  EXPECT_EQ(take({"shell", "http.request"}, 100, long_hold, zeta).size(), 2u);
  EXPECT_EQ(take({"shell", "http.request"}).size(), 7u);
}

TEST_F(PostgresReady, what_is_taken_is_nobodys_else_until_the_hold_is_over) {
  add(acme, 1, {"shell"});
  auto other = database_.open();
  std::vector<ToolName> tools{{"shell"}};
  EXPECT_EQ(take({"shell"}).size(), 1u);
  EXPECT_TRUE(other->take_ready(tools, 10, long_hold, {}).steps.empty());
  pass(long_hold);
  EXPECT_EQ(other->take_ready(tools, 10, long_hold, {}).steps.size(), 1u);
}

TEST_F(PostgresReady, what_the_writer_has_in_its_own_queue_is_left_to_it_for_a_moment) {
  const Instant before = store_->now();
  add(acme, 1, {"shell"}, RunStatus::running, true);
  Sql sql(database_);
  const Instant left_until{std::stoll(sql.one("SELECT taken_until FROM pawl.ready"))};
  EXPECT_GT(left_until, before);
  EXPECT_LE(left_until, store_->now() + std::chrono::seconds(1)) << "a moment";
  // As long as the test takes.
  pass(-hang_limit);
  EXPECT_TRUE(take({"shell"}).empty());
  pass(hang_limit + std::chrono::seconds(1));
  EXPECT_EQ(take({"shell"}).size(), 1u);
}

TEST_F(PostgresReady, a_step_that_is_not_ready_any_more_is_gone) {
  RunFold fold = add(acme, 1, {"shell", "http.request"});
  RunFold next = later(fold, 1, RunStatus::running);
  next.ready = {fold.ready[1]};
  commit(*store_, next);
  auto steps = take({"shell", "http.request"});
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].step.step, 1);
  EXPECT_EQ(steps[0].row.seq, 2u);
}

TEST_F(PostgresReady, a_run_that_has_started_is_not_fresh_any_more) {
  RunFold fold = add(acme, 1, {"shell", "shell"}, RunStatus::created);
  RunFold next = later(fold, 1, RunStatus::running);
  next.ready = {ready_step(next, 1)};
  next.ready[0].tool.text = "shell";
  commit(*store_, next);
  auto steps = take({"shell"});
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_FALSE(steps[0].step.fresh);
}

TEST_F(PostgresReady, no_more_than_caps_leave_room_for) {
  Frame frame;
  Tenant tenant = tenant_named(acme, "acme", 1);  // max_concurrency 5
  tenant.limits[Limit::max_runs_per_min] = 2;
  frame.tenants = {tenant_fold(tenant, 1)};
  frame.workflows = {{acme, {"slow"}, 1, "d", "s", {.max_concurrency = 1}},
                     {acme, {"paced"}, 1, "d", "s", {.max_runs_per_min = 0}}};
  RunFold busy = new_run(acme, 5000, 1);
  busy.leases = 1;
  frame.runs = {busy};
  commit(*store_, frame);
  // Two thousand of a workflow that may have one: the others are found behind them.
  Frame queue;
  for (std::uint64_t n = 0; n < 2000; ++n) {
    RunFold fold = new_run(acme, n, 1);
    fold.row.workflow.text = "slow";
    fold.ready = {ready_step(fold, 0)};
    queue.runs.push_back(fold);
  }
  for (std::uint64_t n = 3000; n < 3003; ++n) {
    RunFold paced = new_run(acme, n, 1), fresh = new_run(acme, n + 10, 1);
    paced.row.workflow.text = "paced";
    paced.row.status = fresh.row.status = RunStatus::created;
    paced.ready = {ready_step(paced, 0)};
    fresh.ready = {ready_step(fresh, 0)};
    queue.runs.push_back(paced);
    queue.runs.push_back(fresh);
  }
  RunFold running = new_run(acme, 4000, 1);
  running.ready = {ready_step(running, 0)};
  queue.runs.push_back(running);
  EXPECT_TRUE(commit(*store_, queue).empty());
  EXPECT_EQ(ids_taken(take({"tool-0"})), (std::vector{run_id(0), run_id(4000), run_id(3010), run_id(3011)}));
}

TEST_F(PostgresReady, every_tenant_has_its_turn_when_there_are_more_than_one_walk_visits) {
  Frame frame;
  for (std::uint64_t n = 0; n < 600; ++n) {
    RunFold fold = new_run(tenant_id(n), 1, 1);
    fold.ready = {ready_step(fold, 0)};
    frame.runs.push_back(fold);
  }
  EXPECT_TRUE(commit(*store_, frame).empty());
  std::set<TenantId> seen;
  for (int walk = 0; walk < 5; ++walk)
    for (const TakenStep& taken : take({"tool-0"})) EXPECT_TRUE(seen.insert(taken.step.tenant).second);
  EXPECT_EQ(seen.size(), 600u);
}

TEST_F(PostgresReady, a_run_that_waits_for_a_worker_is_looked_at_once_and_no_more) {
  Sql sql(database_);
  auto checked = [&] { return sql.one("SELECT coalesce(check_at, 0) FROM pawl.runs"); };
  RunFold fold = add(acme, 1, {});
  RunFold leased = later(fold, 1, RunStatus::running);
  leased.row.due_at = {1000};
  EXPECT_TRUE(commit(*store_, leased).empty());
  EXPECT_EQ(checked(), "1000");

  RunFold waiting = later(leased, 1, RunStatus::running);
  waiting.row.due_at = end_of_time;
  EXPECT_TRUE(commit(*store_, waiting).empty());
  EXPECT_EQ(checked(), "1000") << "an index is left alone while steps follow each other";
  EXPECT_TRUE(store_->due_runs({2000}, 10, {}).empty());

  store_->tidy();
  EXPECT_EQ(checked(), "0");
  RunFold again = later(waiting, 1, RunStatus::running);
  again.row.due_at = {3000};
  EXPECT_TRUE(commit(*store_, again).empty());
  EXPECT_EQ(store_->due_runs({4000}, 10, {}).size(), 1u);
}

}  // namespace
}  // namespace pawl::test
