// Whose turn it is: fairness, caps, pace.
#include "engine/scheduler.h"

#include <gtest/gtest.h>

namespace pawl::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Instant noon{1'800'000'000'000};
const std::vector<ToolName> work{{"work"}};

TenantId tenant(std::uint64_t number) { return {{1, number}}; }
RunId run(std::uint64_t number) { return {{2, number}}; }

struct Step {
  std::uint64_t of_tenant = 1;
  std::uint64_t of_run = 1;
  std::string workspace = "default";
  std::string workflow = "w";
  std::string tool = "work";
  StepIndex index = 0;
  bool fresh = false;

  operator ReadyStep() const { return {tenant(of_tenant), {workspace}, {workflow}, {tool}, run(of_run), index, fresh}; }
};

// The tenants, or runs, of the next `count` tickets.
std::vector<std::uint64_t> take_tenants(Scheduler& scheduler, int count) {
  std::vector<std::uint64_t> out;
  for (int i = 0; i < count; ++i)
    if (auto ticket = scheduler.take(work, noon)) out.push_back(ticket->tenant.bits.low);
  return out;
}
std::vector<std::uint64_t> take_runs(Scheduler& scheduler, int count, Instant now = noon) {
  std::vector<std::uint64_t> out;
  for (int i = 0; i < count; ++i)
    if (auto ticket = scheduler.take(work, now)) out.push_back(ticket->run.bits.low);
  return out;
}

using Numbers = std::vector<std::uint64_t>;

// ---- Fairness

TEST(Scheduler, gives_out_steps_of_one_tenant_in_the_order_they_came) {
  Scheduler scheduler;
  for (std::uint64_t i = 1; i <= 3; ++i) scheduler.add(Step{.of_run = i});
  EXPECT_EQ(take_runs(scheduler, 5), (Numbers{1, 2, 3}));
}

TEST(Scheduler, gives_tenants_turns_by_their_weights) {
  Scheduler scheduler;
  scheduler.set_limits(tenant(1), {.weight = 3, .caps = {}});
  scheduler.set_limits(tenant(2), {.weight = 1, .caps = {}});
  for (std::uint64_t i = 1; i <= 8; ++i) {
    scheduler.add(Step{.of_tenant = 1, .of_run = i});
    scheduler.add(Step{.of_tenant = 2, .of_run = 100 + i});
  }
  EXPECT_EQ(take_tenants(scheduler, 8), (Numbers{1, 1, 1, 2, 1, 1, 1, 2}));
}

TEST(Scheduler, gives_workspaces_of_a_tenant_turns_by_their_weights) {
  Scheduler scheduler;
  scheduler.set_workspace_weight(tenant(1), {"a"}, 2);
  for (std::uint64_t i = 1; i <= 4; ++i) {
    scheduler.add(Step{.of_run = i, .workspace = "a"});
    scheduler.add(Step{.of_run = 100 + i, .workspace = "b"});
  }
  EXPECT_EQ(take_runs(scheduler, 6), (Numbers{1, 2, 101, 3, 4, 102}));
}

TEST(Scheduler, a_backlog_of_a_million_delays_another_tenant_by_one_turn) {
  Scheduler scheduler;
  for (std::uint64_t i = 1; i <= 1'000'000; ++i) scheduler.add(Step{.of_tenant = 1, .of_run = i, .fresh = true});
  EXPECT_EQ(take_tenants(scheduler, 10), Numbers(10, 1));
  scheduler.add(Step{.of_tenant = 2, .of_run = 7, .fresh = true});
  EXPECT_EQ(take_tenants(scheduler, 2), (Numbers{1, 2}));
}

TEST(Scheduler, a_weight_that_shrinks_shortens_the_turn_that_is_going_on) {
  Scheduler scheduler;
  scheduler.set_limits(tenant(1), {.weight = 100, .caps = {}});
  for (std::uint64_t i = 1; i <= 10; ++i) scheduler.add(Step{.of_tenant = 1, .of_run = i});
  EXPECT_EQ(take_tenants(scheduler, 2), (Numbers{1, 1}));
  scheduler.set_limits(tenant(1), {.weight = 1, .caps = {}});
  scheduler.add(Step{.of_tenant = 2, .of_run = 100});
  EXPECT_EQ(take_tenants(scheduler, 3), (Numbers{1, 2, 1}));
}

TEST(Scheduler, many_newcomers_wait_for_one_round_only) {
  Scheduler scheduler;
  for (std::uint64_t i = 1; i <= 1000; ++i) scheduler.add(Step{.of_tenant = 1, .of_run = i});
  for (std::uint64_t other = 2; other <= 50; ++other) scheduler.add(Step{.of_tenant = other, .of_run = 2000 + other});
  Numbers first = take_tenants(scheduler, 50);
  for (std::uint64_t other = 1; other <= 50; ++other) EXPECT_EQ(std::ranges::count(first, other), 1) << other;
}

TEST(Scheduler, finishes_what_was_begun_before_it_begins_more) {
  Scheduler scheduler;
  scheduler.add(Step{.of_run = 1, .fresh = true});
  scheduler.add(Step{.of_run = 2, .fresh = false});
  EXPECT_EQ(take_runs(scheduler, 2), (Numbers{2, 1}));
}

TEST(Scheduler, gives_a_worker_only_what_it_can_do) {
  Scheduler scheduler;
  scheduler.add(Step{.of_run = 1, .tool = "other"});
  EXPECT_FALSE(scheduler.take(work, noon));
  scheduler.add(Step{.of_run = 2});
  EXPECT_EQ(take_runs(scheduler, 2), (Numbers{2}));
}

// ---- Concurrency

TEST(MaxConcurrency, holds_a_tenant_back_until_one_of_its_leases_ends) {
  Scheduler scheduler;
  scheduler.set_limits(tenant(1),
                       {.weight = 1, .caps = {.max_concurrency = 2, .max_runs_per_min = {}, .max_writes_per_run = {}}});
  for (std::uint64_t i = 1; i <= 4; ++i) scheduler.add(Step{.of_run = i});
  EXPECT_EQ(take_runs(scheduler, 4), (Numbers{1, 2}));
  scheduler.lease_ended(scheduler.number_of(tenant(1), {"w"}));
  EXPECT_EQ(take_runs(scheduler, 4), (Numbers{3}));
  EXPECT_EQ(scheduler.running(tenant(1)), 2u);
}

TEST(MaxConcurrency, of_one_tenant_does_not_hold_another_back) {
  Scheduler scheduler;
  scheduler.set_limits(tenant(1),
                       {.weight = 1, .caps = {.max_concurrency = 1, .max_runs_per_min = {}, .max_writes_per_run = {}}});
  for (std::uint64_t i = 1; i <= 3; ++i) scheduler.add(Step{.of_tenant = 1, .of_run = i});
  for (std::uint64_t i = 1; i <= 3; ++i) scheduler.add(Step{.of_tenant = 2, .of_run = 100 + i});
  EXPECT_EQ(take_tenants(scheduler, 6), (Numbers{1, 2, 2, 2}));
}

TEST(MaxConcurrency, of_a_workflow_holds_only_that_workflow_back) {
  Scheduler scheduler;
  scheduler.set_workflow_caps(tenant(1), {"narrow"},
                              {.max_concurrency = 1, .max_runs_per_min = {}, .max_writes_per_run = {}});
  scheduler.add(Step{.of_run = 1, .workflow = "narrow"});
  scheduler.add(Step{.of_run = 2, .workflow = "narrow"});
  scheduler.add(Step{.of_run = 3, .workflow = "wide"});
  EXPECT_EQ(take_runs(scheduler, 3), (Numbers{1, 3}));
  scheduler.lease_ended(scheduler.number_of(tenant(1), {"narrow"}));
  EXPECT_EQ(take_runs(scheduler, 3), (Numbers{2}));
}

TEST(MaxConcurrency, that_is_raised_lets_those_who_waited_go) {
  Scheduler scheduler;
  Caps one{.max_concurrency = 1, .max_runs_per_min = {}, .max_writes_per_run = {}};
  scheduler.set_workflow_caps(tenant(1), {"w"}, one);
  for (std::uint64_t i = 1; i <= 4; ++i) scheduler.add(Step{.of_run = i});
  EXPECT_EQ(take_runs(scheduler, 4), (Numbers{1}));
  scheduler.set_workflow_caps(tenant(1), {"w"}, {});
  EXPECT_EQ(take_runs(scheduler, 4), (Numbers{2, 3, 4}));
}

TEST(MaxConcurrency, counts_leases_that_a_restart_found) {
  Scheduler scheduler;
  scheduler.set_limits(tenant(1),
                       {.weight = 1, .caps = {.max_concurrency = 1, .max_runs_per_min = {}, .max_writes_per_run = {}}});
  scheduler.lease_restored(scheduler.number_of(tenant(1), {"w"}));
  scheduler.add(Step{.of_run = 1});
  EXPECT_FALSE(scheduler.take(work, noon));
  scheduler.lease_ended(scheduler.number_of(tenant(1), {"w"}));
  EXPECT_TRUE(scheduler.take(work, noon));
}

TEST(MaxConcurrency, a_step_whose_tool_has_no_worker_does_not_hold_its_workflow) {
  Scheduler scheduler;
  scheduler.set_workflow_caps(tenant(1), {"w"},
                              {.max_concurrency = 1, .max_runs_per_min = {}, .max_writes_per_run = {}});
  scheduler.add(Step{.of_run = 1});
  scheduler.add(Step{.of_run = 2, .tool = "offline"});
  scheduler.add(Step{.of_run = 3});
  std::vector<ToolName> all{{"offline"}, {"work"}};
  ASSERT_TRUE(scheduler.take(work, noon));
  EXPECT_FALSE(scheduler.take(all, noon)) << "both others stand aside now";
  scheduler.lease_ended(scheduler.number_of(tenant(1), {"w"}));
  EXPECT_EQ(take_runs(scheduler, 2), (Numbers{3}));
}

TEST(MaxConcurrency, a_start_that_must_wait_does_not_hold_a_step_that_need_not) {
  Scheduler scheduler;
  scheduler.set_limits(tenant(1),
                       {.weight = 1, .caps = {.max_concurrency = {}, .max_runs_per_min = 1, .max_writes_per_run = {}}});
  scheduler.set_workflow_caps(tenant(1), {"w"},
                              {.max_concurrency = 1, .max_runs_per_min = {}, .max_writes_per_run = {}});
  scheduler.add(Step{.of_run = 1, .fresh = true});
  ASSERT_EQ(take_runs(scheduler, 1), (Numbers{1}));
  scheduler.add(Step{.of_run = 2, .fresh = true});
  scheduler.add(Step{.of_run = 1, .index = 1});
  EXPECT_TRUE(take_runs(scheduler, 2).empty());
  scheduler.lease_ended(scheduler.number_of(tenant(1), {"w"}));
  EXPECT_EQ(take_runs(scheduler, 2), (Numbers{1})) << "its second step";
}

TEST(HeldBack, is_counted_by_cap_and_what_waits_is_queued) {
  Scheduler scheduler;
  scheduler.set_limits(tenant(1), {.weight = 1, .caps = {.max_concurrency = 1}});
  scheduler.set_workflow_caps(tenant(2), {"w"}, {.max_runs_per_min = 1});
  for (std::uint64_t i = 1; i <= 3; ++i) scheduler.add(Step{.of_tenant = 1, .of_run = i});
  for (std::uint64_t i = 1; i <= 3; ++i) scheduler.add(Step{.of_tenant = 2, .of_run = 100 + i, .fresh = true});
  EXPECT_EQ(take_tenants(scheduler, 6), (Numbers{1, 2}));
  EXPECT_EQ(scheduler.queued(tenant(1)), 2u);
  EXPECT_EQ(scheduler.queued(tenant(2)), 2u);
  EXPECT_EQ(scheduler.queued(tenant(1)) + scheduler.queued(tenant(2)), scheduler.size());
  EXPECT_GE(scheduler.held_back(tenant(1)).max_concurrency, 1u);
  EXPECT_EQ(scheduler.held_back(tenant(1)).max_runs_per_min, 0u);
  EXPECT_EQ(scheduler.held_back(tenant(2)).max_concurrency, 0u);
  EXPECT_GE(scheduler.held_back(tenant(2)).max_runs_per_min, 1u);
  EXPECT_EQ(scheduler.held_back(tenant(3)), HeldBack{});
  EXPECT_EQ(scheduler.held_back().size(), 2u);
}

// ---- Pace

TEST(MaxRunsPerMin, paces_starts_and_loses_none) {
  Scheduler scheduler;
  scheduler.set_limits(tenant(1),
                       {.weight = 1, .caps = {.max_concurrency = {}, .max_runs_per_min = 2, .max_writes_per_run = {}}});
  for (std::uint64_t i = 1; i <= 5; ++i) scheduler.add(Step{.of_run = i, .fresh = true});
  EXPECT_EQ(take_runs(scheduler, 5, noon), (Numbers{1, 2}));
  EXPECT_EQ(scheduler.next_start_at(), noon + seconds(60));
  EXPECT_TRUE(take_runs(scheduler, 5, noon + milliseconds(59'999)).empty());
  EXPECT_EQ(take_runs(scheduler, 5, noon + seconds(60)), (Numbers{3, 4}));
  EXPECT_EQ(take_runs(scheduler, 5, noon + seconds(120)), (Numbers{5}));
}

TEST(MaxRunsPerMin, does_not_pace_steps_of_runs_that_have_started) {
  Scheduler scheduler;
  scheduler.set_limits(tenant(1),
                       {.weight = 1, .caps = {.max_concurrency = {}, .max_runs_per_min = 1, .max_writes_per_run = {}}});
  scheduler.add(Step{.of_run = 1, .fresh = true});
  scheduler.add(Step{.of_run = 2, .fresh = true});
  EXPECT_EQ(take_runs(scheduler, 2), (Numbers{1}));
  scheduler.add(Step{.of_run = 1, .index = 1});
  EXPECT_EQ(take_runs(scheduler, 2), (Numbers{1}));
}

TEST(MaxRunsPerMin, of_a_workflow_paces_runs_that_start_at_a_gate) {
  Scheduler scheduler;
  scheduler.set_workflow_caps(tenant(1), {"w"},
                              {.max_concurrency = {}, .max_runs_per_min = 1, .max_writes_per_run = {}});
  for (std::uint64_t i = 1; i <= 3; ++i) scheduler.add(Step{.of_run = i, .tool = "", .fresh = true});
  std::vector<ToolName> no_worker{ToolName{}};
  for (int minute = 0; minute < 3; ++minute) {
    Instant now = noon + seconds(60 * minute);
    EXPECT_TRUE(scheduler.take(no_worker, now)) << minute;
    EXPECT_FALSE(scheduler.take(no_worker, now)) << minute;
  }
}

TEST(MaxRunsPerMin, counts_starts_that_a_restart_found) {
  Scheduler scheduler;
  scheduler.set_limits(tenant(1),
                       {.weight = 1, .caps = {.max_concurrency = {}, .max_runs_per_min = 1, .max_writes_per_run = {}}});
  scheduler.start_restored(tenant(1), {"w"}, noon - seconds(20));
  scheduler.add(Step{.of_run = 1, .fresh = true});
  EXPECT_TRUE(take_runs(scheduler, 1, noon).empty());
  EXPECT_EQ(take_runs(scheduler, 1, noon + seconds(40)), (Numbers{1}));
}

// ---- Tickets that mean nothing

TEST(PutBack, gives_back_the_lease_and_the_start) {
  Scheduler scheduler;
  Caps caps{.max_concurrency = 1, .max_runs_per_min = 1, .max_writes_per_run = {}};
  scheduler.set_limits(tenant(1), {.weight = 1, .caps = caps});
  scheduler.set_workflow_caps(tenant(1), {"w"}, caps);
  scheduler.add(Step{.of_run = 1, .fresh = true});
  scheduler.add(Step{.of_run = 2, .fresh = true});
  auto canceled = scheduler.take(work, noon);
  ASSERT_TRUE(canceled);
  scheduler.put_back(*canceled);
  EXPECT_EQ(scheduler.running(tenant(1)), 0u);
  EXPECT_EQ(take_runs(scheduler, 2), (Numbers{2}));
}

TEST(PutBack, lets_through_what_stood_aside_for_it) {
  Scheduler scheduler;
  scheduler.set_workflow_caps(tenant(1), {"w"},
                              {.max_concurrency = {}, .max_runs_per_min = 1, .max_writes_per_run = {}});
  for (std::uint64_t i = 1; i <= 3; ++i) scheduler.add(Step{.of_run = i, .tool = "", .fresh = true});
  std::vector<ToolName> no_worker{ToolName{}};
  ASSERT_TRUE(scheduler.take(no_worker, noon));
  EXPECT_FALSE(scheduler.take(no_worker, noon));
  auto canceled = scheduler.take(no_worker, noon + seconds(60));
  ASSERT_TRUE(canceled);
  scheduler.put_back(*canceled);
  auto next = scheduler.take(no_worker, noon + seconds(60));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->run, run(3));
}

TEST(NotAStart, leaves_the_lease_and_gives_back_the_start) {
  Scheduler scheduler;
  scheduler.set_limits(tenant(1),
                       {.weight = 1, .caps = {.max_concurrency = {}, .max_runs_per_min = 1, .max_writes_per_run = {}}});
  scheduler.add(Step{.of_run = 1, .fresh = true});
  scheduler.add(Step{.of_run = 2, .fresh = true});
  auto ticket = scheduler.take(work, noon);
  ASSERT_TRUE(ticket);
  scheduler.not_a_start(*ticket);
  EXPECT_EQ(scheduler.running(tenant(1)), 1u);
  EXPECT_EQ(take_runs(scheduler, 2), (Numbers{2}));
}

TEST(Scheduler, says_what_caps_leave) {
  Scheduler scheduler;
  scheduler.number_of(tenant(1), {"free"});
  EXPECT_TRUE(scheduler.cap_use(tenant(1), noon).empty());
  scheduler.set_workflow_caps(tenant(1), {"w"}, {.max_concurrency = 1, .max_runs_per_min = 1});
  scheduler.set_limits(tenant(1), {.weight = 1, .caps = {.max_runs_per_min = 2}});
  for (std::uint64_t i = 1; i <= 2; ++i) scheduler.add(Step{.of_run = i, .fresh = true});
  auto expect = [&](Instant now, std::uint64_t running, Instant tenants_start, Instant workflows_start) {
    auto use = scheduler.cap_use(tenant(1), now);
    ASSERT_EQ(use.size(), 2u);
    EXPECT_TRUE(use[0].workflow.empty());
    EXPECT_EQ(use[1].workflow, WorkflowName{"w"});
    for (const CapUse& each : use) EXPECT_EQ(each.running, running);
    EXPECT_EQ(use[0].may_start_at, tenants_start);
    EXPECT_EQ(use[1].may_start_at, workflows_start);
  };
  expect(noon, 0, {}, {});
  EXPECT_EQ(take_runs(scheduler, 2), (Numbers{1}));
  expect(noon + seconds(1), 1, {}, noon + seconds(60));
  scheduler.set_limits(tenant(1), {.weight = 1, .caps = {.max_runs_per_min = 0}});
  expect(noon + seconds(1), 1, end_of_time, noon + seconds(60));
  expect(noon + seconds(60), 1, end_of_time, {});
  EXPECT_TRUE(scheduler.cap_use(tenant(2), noon).empty());
}

}  // namespace
}  // namespace pawl::tests
