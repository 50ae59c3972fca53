// The engine: leases, time, recovery, the working set.
#include "core/decide.h"
#include "engine/house.h"

namespace pawl::tests {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* one_step = "workflow: w\nsteps: [{id: a, tool: work, lease: 30s, timeout: 1h}]";
constexpr const char* two_steps = "workflow: w\nsteps: [{id: a, tool: work}, {id: b, tool: work}]";
constexpr const char* two_at_once =
    "workflow: w\nsteps: [{id: a, tool: work, needs: [], lease: 30s, timeout: 1h}, {id: b, tool: work, needs: [], "
    "lease: 30s, timeout: 1h}]";
constexpr const char* gate_first = "workflow: w\nsteps: [{id: ok, tool: approval, expires: 4h}, {id: a, tool: work}]";

// ---- A run

TEST(Engine, carries_a_run_to_its_end) {
  House house;
  house.publish(two_steps);
  Worker& worker = house.worker("w1", 2);
  RunId run = house.create("w");
  Lease first = worker.take();
  EXPECT_EQ(first.step.text, "a");
  EXPECT_EQ(first.attempt, 1);
  EXPECT_EQ(first.idempotency_key, run.str() + ":a");
  EXPECT_TRUE(house.complete(first).accepted());
  auto last = house.complete(worker.take());
  EXPECT_EQ(last.value().status, RunStatus::success);
}

TEST(Engine, answers_nobody_before_the_commit) {
  House house;
  house.publish(one_step);
  Worker& worker = house.worker("w1", 1);
  Answer<RunAnswer> answer;
  house.engine().create_run(house.request("w"), answer.reply());
  Turn turn = house.take();
  house.commit(turn);
  EXPECT_FALSE(answer.came());
  EXPECT_TRUE(worker.leases.empty());
  turn.release();
  EXPECT_TRUE(answer.accepted());
  EXPECT_EQ(worker.leases.size(), 1u);
}

TEST(Engine, decides_the_next_turn_while_the_last_is_not_committed) {
  House house;
  house.publish(one_step);
  Answer<RunAnswer> created, canceled;
  house.engine().create_run(house.request("w"), created.reply());
  Turn first = house.take();
  RunId run = [&] {
    RunId id;
    for_each_part(first.frame.parts, [&](const StreamPart& part) { id.bits = part.key.stream; });
    return id;
  }();
  house.engine().command(house.tenant, run, CancelRun{Actor{"person:asker"}, {}}, canceled.reply());
  Turn second = house.take();
  house.commit(first);
  house.commit(second);
  first.release();
  second.release();
  EXPECT_EQ(created.value().status, RunStatus::created);
  EXPECT_EQ(canceled.value().status, RunStatus::canceled);
}

TEST(Engine, passes_an_output_on_to_the_next_step) {
  House house;
  house.publish(
      "workflow: w\nsteps: [{id: a, tool: work}, {id: b, tool: work, with: {from: '${{ steps.a.output.n }}'}}]");
  Worker& worker = house.worker("w1", 2);
  house.create("w");
  house.complete(worker.take(), R"({"n":42})");
  EXPECT_EQ(worker.take().input, R"({"from":42})");
}

TEST(Engine, an_expression_that_leads_nowhere_fails_the_run_and_uses_no_slot) {
  House house;
  house.publish("workflow: w\nsteps: [{id: a, tool: work, with: {from: '${{ input.missing }}'}}]");
  house.publish("workflow: fine\nsteps: [{id: a, tool: work}]");
  Worker& worker = house.worker("w1", 1);
  RunId run = house.create("w");
  EXPECT_EQ(house.inspect(run).diagnostic->error_code, "EXPRESSION_FAILED");
  house.create("fine");
  EXPECT_EQ(worker.leases.size(), 1u);
}

TEST(Engine, knows_no_run_of_another_tenant) {
  House house;
  house.publish(one_step);
  RunId run = house.create("w");
  TenantId other = house.make_tenant("other");
  Answer<RunAnswer> theirs, nobodys;
  house.engine().command(other, run, CancelRun{Actor{"person:eve"}, {}}, theirs.reply());
  house.engine().command(other, RunId{{9, 9}}, CancelRun{Actor{"person:eve"}, {}}, nobodys.reply());
  house.turn();
  EXPECT_TRUE(theirs.refused_as(RefusalCode::not_found));
  EXPECT_EQ((*theirs.slot)->error().message, (*nobodys.slot)->error().message);
  EXPECT_EQ(house.status(run), RunStatus::created);
}

// ---- Workflows

TEST(Publish, the_same_content_is_the_same_version) {
  House house;
  EXPECT_EQ(house.publish(one_step).version, 1);
  WorkflowRef again = house.publish(one_step);
  EXPECT_EQ(again.version, 1);
  EXPECT_FALSE(again.is_new);
  EXPECT_EQ(house.publish(two_steps).version, 2);
  house.restart();
  EXPECT_FALSE(house.publish(two_steps).is_new);
  EXPECT_EQ(house.publish(one_step).version, 3);
}

TEST(Publish, a_run_keeps_the_version_it_began_with) {
  House house;
  house.publish(one_step);
  RunId run = house.create("w");
  house.publish(two_steps);
  house.restart();
  Worker& worker = house.worker("w1", 1);
  house.turn();
  EXPECT_EQ(house.complete(worker.take()).value().status, RunStatus::success);
  EXPECT_EQ(house.inspect(run).steps.size(), 1u);
}

TEST(Publish, a_definition_that_does_not_validate_is_refused) {
  House house;
  Answer<WorkflowRef> answer;
  house.engine().publish(house.tenant, "workflow: w\nsteps: [{id: a, tool: unheard-of}]", "w.yaml", Actor{"admin"},
                         answer.reply());
  house.turn();
  EXPECT_TRUE(answer.refused_as(RefusalCode::invalid));
  EXPECT_NE((*answer.slot)->error().message.find("w.yaml:2"), std::string::npos);
}

// ---- Policies

constexpr const char* allow_all = "policy: p\nrules: [{id: all, effect: allow}]";
constexpr const char* deny_all = "policy: p\nrules: [{id: all, effect: deny}]";

TEST(PublishPolicy, the_same_content_is_the_same_version) {
  House house;
  EXPECT_EQ(house.engine().find_tenant(house.tenant)->policy.version, 0);
  PolicyRef first = house.publish_policy(allow_all);
  EXPECT_EQ(first.version, 1);
  EXPECT_TRUE(first.is_new);
  PolicyRef again = house.publish_policy(allow_all);
  EXPECT_EQ(again.version, 1);
  EXPECT_EQ(again.digest, first.digest);
  EXPECT_FALSE(again.is_new);
  house.restart();
  EXPECT_FALSE(house.publish_policy(allow_all).is_new);
  EXPECT_EQ(house.publish_policy(deny_all).version, 2);
  EXPECT_EQ(house.publish_policy(allow_all).version, 3);
  house.restart();
  EXPECT_EQ(house.engine().find_tenant(house.tenant)->policy, (Tenant::Policy{3, first.digest, allow_all}));
}

TEST(PublishPolicy, a_tenant_that_is_not_there_has_none) {
  House house;
  Answer<PolicyRef> answer;
  house.engine().publish_policy(TenantId{}, PolicySource::read(allow_all, "p").value(), Actor{"a"}, answer.reply());
  house.turn();
  EXPECT_TRUE(answer.refused_as(RefusalCode::not_found));
}

// ---- Gates

TEST(Gate, a_run_that_begins_with_one_starts_without_a_worker) {
  House house;
  house.publish(gate_first);
  RunId run = house.create("w");
  EXPECT_EQ(house.status(run), RunStatus::waiting);
  EXPECT_EQ(house.approve(run, "person:ada").value().status, RunStatus::running);
}

TEST(Gate, starts_are_paced_across_a_restart) {
  House house;
  house.limit({.max_concurrency = {}, .max_runs_per_min = 1, .max_writes_per_run = {}});
  house.publish(gate_first);
  RunId first = house.create("w");
  RunId second = house.create("w");
  house.restart();
  house.turn();
  EXPECT_EQ(house.status(first), RunStatus::waiting);
  EXPECT_EQ(house.status(second), RunStatus::created);
  house.wait(seconds(60));
  house.turn();
  EXPECT_EQ(house.status(second), RunStatus::waiting);
}

TEST(Gate, is_listed_after_a_restart_that_found_it_only_in_the_journal) {
  House house;
  house.publish("workflow: w\nsteps: [{id: ok, tool: approval, needs: []}, {id: a, tool: work, needs: []}]");
  house.worker("remote", 1);
  RunId run = house.create("w");  // `a` runs, so the run is not folded
  ASSERT_TRUE(house.store().list_approvals(house.tenant, {.status = ApprovalStatus::requested, .limit = 10}).empty());
  house.restart();
  house.turn();
  auto listed = house.store().list_approvals(house.tenant, {.status = ApprovalStatus::requested, .limit = 10});
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].run, run);
  EXPECT_EQ(house.store().load(house.tenant, run)->updated_at, house.now());
}

// ---- Leases

TEST(Lease, of_an_in_process_worker_that_died_with_the_process_is_given_out_again_at_once) {
  House house;
  house.publish(one_step);
  house.worker("local/1", 1);
  RunId run = house.create("w");
  house.restart();
  Worker& next = house.worker("local/1", 1);
  house.turn();
  ASSERT_EQ(next.leases.size(), 1u);
  EXPECT_EQ(next.leases[0].run, run);
  EXPECT_EQ(next.leases[0].token, 2u);
}

TEST(Lease, of_a_remote_worker_outlives_the_process) {
  House house;
  house.publish(one_step);
  Worker& remote = house.worker("remote", 1);
  RunId run = house.create("w");
  Lease lease = remote.take();
  house.wait(minutes(5));
  house.restart();
  Worker& other = house.worker("other", 1);
  house.turn();
  EXPECT_TRUE(other.leases.empty());
  EXPECT_TRUE(house.complete(lease).accepted());
  EXPECT_EQ(house.status(run), RunStatus::success);
}

TEST(Lease, that_runs_out_goes_to_another_worker_and_the_first_is_told) {
  House house;
  house.publish(one_step);
  Worker& first = house.worker("first", 1);
  RunId run = house.create("w");
  Lease lost = first.take();
  Worker& second = house.worker("second", 1);
  house.wait(seconds(30));
  house.turn();
  EXPECT_EQ(second.take().token, 2u);
  EXPECT_EQ(first.revoked, (std::vector<std::pair<RunId, std::uint64_t>>{{run, 1}}));
  EXPECT_TRUE(house.complete(lost).refused_as(RefusalCode::lease_lost));
}

TEST(Lease, of_an_in_process_worker_that_is_alive_does_not_run_out) {
  House house;
  house.publish(one_step);
  Worker& local = house.worker("local/1", 1);
  house.create("w");
  Worker& other = house.worker("other", 1);
  for (int i = 0; i < 10; ++i) {
    house.wait(minutes(5));
    house.turn();
  }
  EXPECT_TRUE(other.leases.empty());
  EXPECT_TRUE(house.complete(local.take()).accepted());
}

TEST(Lease, that_is_given_back_is_granted_again_at_once_and_costs_no_attempt) {
  House house;
  house.publish("workflow: w\nretry: {max_attempts: 1}\nsteps: [{id: a, tool: work}]");
  Worker& first = house.worker("first", 1);
  RunId run = house.create("w");
  Lease lease = first.take();
  EXPECT_TRUE(house.report(lease, Released{}).accepted());
  EXPECT_EQ(house.inspect(run).steps[0].status, StepStatus::ready);
  EXPECT_TRUE(first.revoked.empty()) << "it knows";
  EXPECT_FALSE(house.report(lease, Released{}).accepted()) << "once";
  EXPECT_FALSE(house.complete(lease).accepted());
  Worker& second = house.worker("second", 1);
  house.turn();
  Lease again = second.take();
  EXPECT_EQ(again.attempt, 1);
  EXPECT_GT(again.token, lease.token);
  EXPECT_TRUE(house.complete(again).accepted());
  EXPECT_EQ(house.status(run), RunStatus::success);
}

TEST(Lease, that_ran_out_can_still_be_given_back_until_another_worker_has_it) {
  House house;
  house.publish(one_step);
  Worker& first = house.worker("first", 1);
  house.create("w");
  Lease lease = first.take();
  house.wait(minutes(10));
  house.turn();
  EXPECT_TRUE(house.report(lease, Released{}).accepted());
  Worker& second = house.worker("second", 5);
  house.turn();
  EXPECT_EQ(second.leases.size(), 1u) << "one, though it was queued twice";
}

TEST(WindDown, hands_nothing_out_any_more_and_lets_leases_end) {
  House house;
  house.publish(one_step);
  Worker& worker = house.worker("local/1", 2);
  RunId run = house.create("w");
  Lease lease = worker.take();
  std::vector<std::size_t> polled;
  auto poll = [&] {
    Engine::Poll wanted;
    wanted.tenant = house.tenant;
    wanted.worker.text = "remote";
    wanted.tools = {{"work"}};
    wanted.wait = minutes(1);
    wanted.reply = [&](std::vector<pawl::Lease> leases) { polled.push_back(leases.size()); };
    house.engine().poll(std::move(wanted));
  };
  poll();
  house.turn();
  EXPECT_TRUE(polled.empty());
  house.engine().wind_down();
  house.turn();
  EXPECT_EQ(polled.size(), 1u) << "the one that waited is answered";
  house.create("w");
  poll();
  house.turn();
  EXPECT_EQ(polled, (std::vector<std::size_t>{0, 0}));
  EXPECT_TRUE(worker.leases.empty());
  EXPECT_TRUE(house.complete(lease).accepted());
  EXPECT_EQ(house.status(run), RunStatus::success);
}

TEST(Lease, that_is_lost_is_told_to_whoever_wants_to_know) {
  House house;
  house.publish(one_step);
  std::vector<std::string> lost;
  house.engine().on_lease_lost(
      [&](const pawl::Run& run, StepIndex step) { lost.push_back(run.steps[step].lease_owner.text); });
  house.worker("first", 1);
  house.create("w");
  house.wait(minutes(10));
  house.turn();
  house.turn();
  EXPECT_EQ(lost, std::vector<std::string>{"first"});
}

TEST(Lease, longer_than_the_timer_horizon_is_reclaimed_even_when_the_clock_jumps_over_its_end) {
  House house(EngineLimits{.runs_resident_max = 100, .unfolded_bytes_max = 1 << 20, .timer_horizon = seconds(1)});
  house.publish(one_step);
  house.worker("first", 1);
  house.create("w");
  house.wait(minutes(10));
  Worker& second = house.worker("second", 1);
  house.turn();
  EXPECT_EQ(second.leases.size(), 1u);
}

TEST(Lease, that_ends_in_the_turn_that_would_grant_it_is_never_granted) {
  House house;
  // `b` cannot even begin, which ends the run that `a` was just claimed in.
  house.publish(
      "workflow: w\nsteps: [{id: a, tool: work, needs: []}, {id: b, tool: work, needs: [], with: {from: '${{ input.x "
      "}}'}}]");
  house.publish("workflow: fine\nsteps: [{id: a, tool: work}]");
  Worker& worker = house.worker("w1", 2);
  house.create("w");
  EXPECT_TRUE(worker.leases.empty());
  EXPECT_TRUE(worker.revoked.empty());
  house.create("fine");
  house.create("fine");
  EXPECT_EQ(worker.leases.size(), 2u) << "its slot is free again";
}

TEST(Heartbeat, extends_a_lease) {
  House house;
  house.publish(one_step);
  Worker& first = house.worker("first", 1);
  house.create("w");
  Lease lease = first.take();
  Worker& second = house.worker("second", 1);
  for (int i = 0; i < 5; ++i) {
    house.wait(seconds(20));
    EXPECT_TRUE(house.heartbeat(lease));
    house.turn();
  }
  EXPECT_TRUE(second.leases.empty());
  house.wait(seconds(30));
  house.turn();
  EXPECT_EQ(second.leases.size(), 1u);
  EXPECT_FALSE(house.heartbeat(lease));
}

TEST(Heartbeat, that_comes_after_the_step_was_queued_again_changes_nothing) {
  House house;
  house.publish(one_step);
  Worker& first = house.worker("first", 1);
  house.create("w");
  Lease lease = first.take();
  house.wait(seconds(30));
  house.turn();
  EXPECT_FALSE(house.heartbeat(lease));
  Worker& second = house.worker("second", 1);
  house.turn();
  EXPECT_EQ(second.leases.size(), 1u);
}

TEST(Heartbeat, for_a_run_that_another_engine_carries_is_refused) {
  House house;
  house.publish(one_step);
  NewRun request = house.request("w");
  request.provider = Provider::external;
  RunId run = house.create(request);
  EXPECT_FALSE(house.engine().heartbeat(house.tenant, run, StepId{"a"}, 0));
}

// ---- Polls

// What polls of "work" were answered with.
struct Polled {
  House& house;
  std::vector<std::size_t> leases;  // in each answer

  void poll(Duration wait) {
    house.engine().poll({.tenant = house.tenant,
                         .worker = {"remote"},
                         .tools = {{"work"}},
                         .max = 10,
                         .wait = wait,
                         .is_wanted = {},
                         .reply = [this](std::vector<Lease> granted) { leases.push_back(granted.size()); }});
    house.turn();
  }
};

TEST(Poll, without_a_wait_takes_what_is_there_or_nothing) {
  House house;
  house.publish(one_step);
  Polled polled{house, {}};
  polled.poll(Duration(0));
  house.create("w");
  house.create("w");
  polled.poll(Duration(0));
  EXPECT_EQ(polled.leases, (std::vector<std::size_t>{0, 2}));
}

TEST(Poll, waits_and_is_given_what_comes) {
  House house;
  house.publish(one_step);
  Polled polled{house, {}};
  polled.poll(seconds(20));
  house.wait(seconds(19));
  house.turn();
  EXPECT_TRUE(polled.leases.empty());
  house.create("w");
  EXPECT_EQ(polled.leases, std::vector<std::size_t>{1});
  house.wait(seconds(2));
  house.turn();
  EXPECT_EQ(polled.leases.size(), 1u) << "it was answered already";
}

TEST(Poll, ends_with_nothing_each_in_its_own_time) {
  House house;
  Polled polled{house, {}};
  polled.poll(seconds(20));
  polled.poll(seconds(10));
  EXPECT_EQ(house.engine().next_wakeup(), house.now() + seconds(10));
  house.wait(seconds(10));
  house.turn();
  EXPECT_EQ(polled.leases.size(), 1u);
  EXPECT_EQ(house.engine().next_wakeup(), house.now() + seconds(10));
  house.wait(seconds(10));
  house.turn();
  EXPECT_EQ(polled.leases.size(), 2u);
}

TEST(RemoveWorker, ends_its_leases_at_once_even_when_a_namesake_follows) {
  House house;
  house.publish(one_step);
  Worker& old = house.worker("local/1", 1);
  house.create("w");
  house.engine().remove_worker(old.name);
  Worker& young = house.worker("local/1", 1);
  house.turn();
  ASSERT_EQ(young.leases.size(), 1u);
  EXPECT_EQ(young.leases[0].token, 2u);
}

TEST(Cancel, reaches_the_workers_that_run_its_steps) {
  House house;
  house.publish(two_at_once);
  Worker& worker = house.worker("w1", 2);
  RunId run = house.create("w");
  EXPECT_EQ(worker.leases.size(), 2u);
  house.cancel(run);
  EXPECT_EQ(worker.revoked.size(), 2u);
}

// ---- Caps

TEST(Caps, max_writes_per_run_denies_the_run) {
  House house;
  house.limit({.max_concurrency = {}, .max_runs_per_min = {}, .max_writes_per_run = 1});
  house.publish("workflow: w\nsteps: [{id: a, tool: write}, {id: b, tool: write}]");
  Worker& worker = house.worker("w1", 2);
  RunId run = house.create("w");
  house.complete(worker.take());
  EXPECT_EQ(house.status(run), RunStatus::denied);
  EXPECT_EQ(house.inspect(run).diagnostic->error_code, "WRITE_CAP_EXCEEDED");
}

TEST(Caps, max_concurrency_holds_across_a_restart) {
  House house;
  house.limit({.max_concurrency = 1, .max_runs_per_min = {}, .max_writes_per_run = {}});
  house.publish(one_step);
  Worker& remote = house.worker("remote", 1);
  house.create("w");
  house.create("w");
  Lease lease = remote.take();
  house.restart();
  Worker& other = house.worker("other", 5);
  house.turn();
  EXPECT_TRUE(other.leases.empty());
  house.complete(lease);
  EXPECT_EQ(other.leases.size(), 1u);
}

// ---- Time

TEST(Time, a_retry_waits_for_its_moment_through_a_restart) {
  House house;
  house.publish("workflow: w\nsteps: [{id: a, tool: work, retry: {max_attempts: 2, schedule: [10m], jitter: 0}}]");
  Worker& worker = house.worker("w1", 1);
  RunId run = house.create("w");
  house.fail(worker.take(), true);
  house.restart();
  Worker& next = house.worker("w1", 1);
  house.wait(minutes(10) - Duration(1));
  house.turn();
  EXPECT_TRUE(next.leases.empty());
  house.wait(Duration(1));
  house.turn();
  EXPECT_EQ(next.take().attempt, 2);
  EXPECT_EQ(house.status(run), RunStatus::running);
}

TEST(Time, a_run_that_left_memory_is_fetched_when_its_approval_expires) {
  House house(EngineLimits{.runs_resident_max = 0, .unfolded_bytes_max = 0, .timer_horizon = seconds(60)});
  house.publish(gate_first);
  RunId run = house.create("w");
  house.turn();
  EXPECT_EQ(house.engine().stats().runs_resident, 0u);
  house.wait(hours(4) - Duration(1));
  house.turn();
  EXPECT_EQ(house.status(run), RunStatus::waiting);
  house.wait(Duration(1));
  house.turn();
  EXPECT_EQ(house.status(run), RunStatus::denied);
}

TEST(Time, says_when_it_wants_to_be_woken) {
  House house;
  house.publish("workflow: w\nsteps: [{id: a, tool: work, lease: 5s}]");
  house.worker("w1", 1);
  house.create("w");
  EXPECT_EQ(house.engine().next_wakeup(), house.now() + seconds(5));
}

// ---- The working set

TEST(WorkingSet, what_waits_or_has_ended_leaves_memory) {
  House house;
  house.publish(gate_first);
  for (int i = 0; i < 20; ++i) house.create("w");
  house.turn();
  EXPECT_EQ(house.engine().stats().runs_resident, 0u);
}

TEST(WorkingSet, looking_at_runs_leaves_none_behind) {
  House house;
  house.publish(gate_first);
  std::vector<RunId> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(house.create("w"));
  for (RunId run : runs) EXPECT_EQ(house.status(run), RunStatus::waiting);
  house.create("w");
  house.turn();
  EXPECT_EQ(house.engine().stats().runs_resident, 0u);
}

TEST(WorkingSet, runs_beyond_the_limit_wait_in_the_tables_and_come_back_for_their_turn) {
  House house(EngineLimits{.runs_resident_max = 2, .unfolded_bytes_max = 0, .timer_horizon = seconds(60)});
  house.publish(one_step);
  std::vector<RunId> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(house.create("w"));
  EXPECT_LE(house.engine().stats().runs_resident, 3u);
  Worker& worker = house.worker("w1", 20);
  house.turn();
  ASSERT_EQ(worker.leases.size(), 20u);
  while (!worker.leases.empty()) house.complete(worker.take());
  for (RunId run : runs) EXPECT_EQ(house.status(run), RunStatus::success);
}

TEST(FoldAll, makes_the_tables_tell_everything) {
  House house;
  house.publish(one_step);
  RunId run = house.create("w");
  EXPECT_FALSE(house.store().load(house.tenant, run));
  house.fold_all();
  auto row = house.store().load(house.tenant, run);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->status, RunStatus::created);
  EXPECT_EQ(row->seq, house.inspect(run).seq);
  int ready = 0;
  house.store().for_each_ready([&](const ReadyStep& step) { ready += step.run == run; });
  EXPECT_EQ(ready, 1);
}

TEST(FoldAll, folds_what_changes_in_the_same_turn_too) {
  House house;
  house.publish(one_step);
  RunId run = house.create("w");
  Answer<RunAnswer> answer;
  house.engine().answer(house.tenant, run, StepId{"a"}, "1", Actor{"person:ada"}, answer.reply());
  house.fold_all();
  EXPECT_EQ(house.store().load(house.tenant, run)->seq, answer.value().seq);
}

// ---- Recovery

TEST(Recovery, what_was_committed_and_not_folded_is_there) {
  House house;
  house.publish(two_steps);
  Worker& worker = house.worker("remote", 1);
  RunId run = house.create("w");
  house.complete(worker.take(), "7");
  auto before = house.inspect(run);
  house.restart();
  EXPECT_TRUE(same_fold(before, house.inspect(run)));
}

TEST(Recovery, what_was_not_committed_never_was) {
  House house;
  house.publish(one_step);
  RunId run = house.create("w");
  house.engine().command(house.tenant, run, CancelRun{Actor{"person:asker"}, {}}, {});
  Turn lost = house.take();
  house.restart();
  EXPECT_EQ(house.status(run), RunStatus::created);
}

TEST(Recovery, queues_keep_their_order) {
  House house;
  house.publish(one_step);
  std::vector<RunId> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(house.create("w"));
  house.fold_all();
  for (int i = 0; i < 20; ++i) runs.push_back(house.create("w"));
  house.restart();
  Worker& worker = house.worker("w1", 40);
  house.turn();
  ASSERT_EQ(worker.leases.size(), 40u);
  for (std::size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(worker.leases[i].run, runs[i]) << i;
}

// ---- Ended runs

TEST(Retry, is_a_new_run_that_names_the_old_one) {
  House house;
  house.publish(one_step);
  RunId run = house.create("w");
  Answer<RunAnswer> early, late;
  house.engine().retry(house.tenant, run, Actor{"person:ada"}, early.reply());
  house.turn();
  EXPECT_TRUE(early.refused_as(RefusalCode::run_not_ended));
  house.cancel(run);
  house.engine().retry(house.tenant, run, Actor{"person:ada"}, late.reply());
  house.turn();
  ASSERT_TRUE(late.accepted());
  EXPECT_NE(late.value().run, run);
  EXPECT_EQ(house.inspect(late.value().run).retry_of, run);
  EXPECT_EQ(house.status(run), RunStatus::canceled);
}

TEST(Audit, of_a_request_that_met_an_ended_run_lies_in_the_tenants_stream) {
  House house;
  house.publish(one_step);
  RunId run = house.create("w");
  house.cancel(run);
  auto seq = house.inspect(run).seq;
  EXPECT_TRUE(house.approve(run, "person:ada").refused_as(RefusalCode::nothing_waiting));
  EXPECT_EQ(house.inspect(run).seq, seq) << "its own stream is sealed";
  auto audit = house.store().history(StreamKey::of(house.tenant)).lines;
  EXPECT_NE(audit.find("\"requested\":\"approve\",\"run\":\"" + run.str()), std::string::npos) << audit;
  EXPECT_NE(audit.find("person:ada"), std::string::npos);
}

TEST(Tenant, created_twice_under_one_name_is_one_tenant) {
  House house;
  EXPECT_EQ(house.make_tenant("default"), house.tenant);
  house.restart();
  EXPECT_EQ(house.make_tenant("default"), house.tenant);
}

}  // namespace
}  // namespace pawl::tests
