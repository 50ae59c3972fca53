// The engine: leases, time, recovery, the working set.
#include <set>

#include "core/decide.h"
#include "crypto/sha256.h"
#include "engine/test_server.h"

namespace pawl::tests {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* two_at_once =
    "workflow: w\nsteps: [{id: a, tool: work, needs: [], lease: 30s, timeout: 1h}, {id: b, tool: work, needs: [], "
    "lease: 30s, timeout: 1h}]";
constexpr const char* gate_first = "workflow: w\nsteps: [{id: ok, tool: approval, expires: 4h}, {id: a, tool: work}]";

// ---- A run

TEST(Engine, carries_a_run_to_its_end) {
  TestServer server;
  server.publish(two_steps);
  Worker& worker = server.worker("w1", 2);
  RunId run = server.create("w");
  Lease first = worker.take();
  EXPECT_EQ(first.step.text, "a");
  EXPECT_EQ(first.attempt, 1);
  EXPECT_EQ(first.idempotency_key, run.str() + ":a");
  EXPECT_TRUE(server.complete(first).accepted());
  auto last = server.complete(worker.take());
  EXPECT_EQ(last.value().status, RunStatus::success);
}

TEST(Engine, answers_nobody_before_the_commit) {
  TestServer server;
  server.publish(one_step);
  Worker& worker = server.worker("w1", 1);
  Answer<RunAnswer> answer;
  server.engine().request(server.request("w"), answer.reply());
  Turn turn = server.take();
  server.commit(turn);
  EXPECT_FALSE(answer.came());
  EXPECT_TRUE(worker.leases.empty());
  turn.release();
  EXPECT_TRUE(answer.accepted());
  EXPECT_EQ(worker.leases.size(), 1u);
}

TEST(Engine, decides_the_next_turn_while_the_last_is_not_committed) {
  TestServer server;
  server.publish(one_step);
  Answer<RunAnswer> created, canceled;
  server.engine().request(server.request("w"), created.reply());
  Turn first = server.take();
  RunId run = [&] {
    RunId id;
    for_each_part(first.frame.parts, [&](const StreamPart& part) { id.bits = part.key.stream; });
    return id;
  }();
  server.engine().request(RunRequest{server.tenant, run, CancelRun{Actor{"person:asker"}, {}}}, canceled.reply());
  Turn second = server.take();
  server.commit(first);
  server.commit(second);
  first.release();
  second.release();
  EXPECT_EQ(created.value().status, RunStatus::created);
  EXPECT_EQ(canceled.value().status, RunStatus::canceled);
}

TEST(Engine, passes_an_output_on_to_the_next_step) {
  TestServer server;
  server.publish(
      "workflow: w\nsteps: [{id: a, tool: work}, {id: b, tool: work, with: {from: '${{ steps.a.output.n }}'}}]");
  Worker& worker = server.worker("w1", 2);
  server.create("w");
  server.complete(worker.take(), R"({"n":42})");
  EXPECT_EQ(worker.take().input, R"({"from":42})");
}

TEST(Engine, an_expression_that_leads_nowhere_fails_the_run_and_uses_no_slot) {
  TestServer server;
  server.publish("workflow: w\nsteps: [{id: a, tool: work, with: {from: '${{ input.missing }}'}}]");
  server.publish("workflow: fine\nsteps: [{id: a, tool: work}]");
  Worker& worker = server.worker("w1", 1);
  RunId run = server.create("w");
  EXPECT_EQ(server.inspect(run).diagnostic->error_code, "EXPRESSION_FAILED");
  server.create("fine");
  EXPECT_EQ(worker.leases.size(), 1u);
}

TEST(Engine, knows_no_run_of_another_tenant) {
  TestServer server;
  server.publish(one_step);
  RunId run = server.create("w");
  TenantId other = server.make_tenant("other");
  Answer<RunAnswer> theirs, nobodys;
  server.engine().request(RunRequest{other, run, CancelRun{Actor{"person:eve"}, {}}}, theirs.reply());
  server.engine().request(RunRequest{other, RunId{{9, 9}}, CancelRun{Actor{"person:eve"}, {}}}, nobodys.reply());
  server.turn();
  EXPECT_TRUE(theirs.refused_as(RefusalCode::not_found));
  EXPECT_EQ((*theirs.slot)->error().message, (*nobodys.slot)->error().message);
  EXPECT_EQ(server.status(run), RunStatus::created);
}

// ---- Workflows

TEST(Publish, the_same_content_is_the_same_version) {
  TestServer server;
  EXPECT_EQ(server.publish(one_step).version, 1);
  WorkflowRef again = server.publish(one_step);
  EXPECT_EQ(again.version, 1);
  EXPECT_FALSE(again.is_new);
  EXPECT_EQ(server.publish(two_steps).version, 2);
  server.restart();
  EXPECT_FALSE(server.publish(two_steps).is_new);
  EXPECT_EQ(server.publish(one_step).version, 3);
}

TEST(Publish, a_run_keeps_the_version_it_began_with) {
  TestServer server;
  server.publish(one_step);
  RunId run = server.create("w");
  server.publish(two_steps);
  server.restart();
  Worker& worker = server.worker("w1", 1);
  server.turn();
  EXPECT_EQ(server.complete(worker.take()).value().status, RunStatus::success);
  EXPECT_EQ(server.inspect(run).steps.size(), 1u);
}

TEST(Publish, a_definition_that_does_not_validate_is_refused) {
  TestServer server;
  Answer<WorkflowRef> answer;
  server.engine().request(
      PublishWorkflow{server.tenant, "workflow: w\nsteps: [{id: a, tool: unheard-of}]", "w.yaml", Actor{"admin"}},
      answer.reply());
  server.turn();
  EXPECT_TRUE(answer.refused_as(RefusalCode::invalid));
  EXPECT_NE((*answer.slot)->error().message.find("w.yaml:2"), std::string::npos);
}

TEST(Publish, reading_a_definition_first_says_the_same_as_publishing_it) {
  TestServer server;
  const Tenant& tenant = *server.engine().find_tenant(server.tenant);
  for (const char* source : {one_step, "workflow: other\nsteps: [{id: a, tool: work}]",
                             "workflow: w\nsteps: [{id: a, tool: unheard-of}]", "workflow: [", "steps: 1"}) {
    auto read = server.engine().read_definition(tenant, {"w"}, source);
    Answer<WorkflowRef> answer;
    server.engine().request(PublishWorkflow{server.tenant, source, "w", Actor{"admin"}, WorkflowName{"w"}},
                            answer.reply());
    server.turn();
    EXPECT_EQ(read.has_value(), answer.accepted()) << source;
    if (!read) {
      EXPECT_EQ(read.error(), (*answer.slot)->error().message);
      continue;
    }
    Answer<WorkflowRef> again;
    server.engine().request(PublishWorkflow{.tenant = server.tenant,
                                            .by = Actor{"admin"},
                                            .workflow = std::make_shared<const Workflow>(std::move(*read))},
                            again.reply());
    server.turn();
    EXPECT_FALSE(again.value().is_new);
    EXPECT_EQ(again.value().version, answer.value().version);
  }
}

// ---- Policies

TEST(PublishPolicy, the_same_content_is_the_same_version) {
  TestServer server;
  EXPECT_EQ(server.engine().find_tenant(server.tenant)->policy.version, 0);
  PolicyRef first = server.publish_policy(allow_all);
  EXPECT_EQ(first.version, 1);
  EXPECT_TRUE(first.is_new);
  PolicyRef again = server.publish_policy(allow_all);
  EXPECT_EQ(again.version, 1);
  EXPECT_EQ(again.digest, first.digest);
  EXPECT_FALSE(again.is_new);
  server.restart();
  EXPECT_FALSE(server.publish_policy(allow_all).is_new);
  EXPECT_EQ(server.publish_policy(deny_all).version, 2);
  EXPECT_EQ(server.publish_policy(allow_all).version, 3);
  server.restart();
  EXPECT_EQ(server.engine().find_tenant(server.tenant)->policy, (Tenant::Policy{3, first.digest, allow_all}));
}

TEST(PublishPolicy, a_tenant_that_is_not_there_has_none) {
  TestServer server;
  Answer<PolicyRef> answer;
  server.engine().request(PublishPolicy{TenantId{}, PolicySource::read(allow_all, "p").value(), Actor{"a"}},
                          answer.reply());
  server.turn();
  EXPECT_TRUE(answer.refused_as(RefusalCode::not_found));
}

// ---- Gates

TEST(Gate, a_run_that_begins_with_one_starts_without_a_worker) {
  TestServer server;
  server.publish(gate_first);
  RunId run = server.create("w");
  EXPECT_EQ(server.status(run), RunStatus::waiting);
  EXPECT_EQ(server.approve(run, "person:ada").value().status, RunStatus::running);
}

TEST(Gate, starts_are_paced_across_a_restart) {
  TestServer server;
  server.limit({.max_concurrency = {}, .max_runs_per_min = 1, .max_writes_per_run = {}});
  server.publish(gate_first);
  RunId first = server.create("w");
  RunId second = server.create("w");
  server.restart();
  server.turn();
  EXPECT_EQ(server.status(first), RunStatus::waiting);
  EXPECT_EQ(server.status(second), RunStatus::created);
  server.wait(seconds(60));
  server.turn();
  EXPECT_EQ(server.status(second), RunStatus::waiting);
}

TEST(Gate, is_listed_after_a_restart_that_found_it_only_in_the_journal) {
  TestServer server;
  server.publish("workflow: w\nsteps: [{id: ok, tool: approval, needs: []}, {id: a, tool: work, needs: []}]");
  server.worker("remote", 1);
  RunId run = server.create("w");  // `a` runs, so the run is not folded
  ASSERT_TRUE(server.store().list_approvals(server.tenant, {.status = ApprovalStatus::requested, .limit = 10}).empty());
  server.restart();
  server.turn();
  auto listed = server.store().list_approvals(server.tenant, {.status = ApprovalStatus::requested, .limit = 10});
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].run, run);
  EXPECT_EQ(server.store().load(server.tenant, run)->updated_at, server.now());
}

// ---- Leases

TEST(Lease, of_an_in_process_worker_that_died_with_the_process_is_given_out_again_at_once) {
  TestServer server;
  server.publish(one_step);
  server.worker("local/1", 1);
  RunId run = server.create("w");
  server.restart();
  Worker& next = server.worker("local/1", 1);
  server.turn();
  ASSERT_EQ(next.leases.size(), 1u);
  EXPECT_EQ(next.leases[0].run, run);
  EXPECT_EQ(next.leases[0].token, 2u);
}

TEST(Lease, of_a_remote_worker_outlives_the_process) {
  TestServer server;
  server.publish(one_step);
  Worker& remote = server.worker("remote", 1);
  RunId run = server.create("w");
  Lease lease = remote.take();
  server.wait(minutes(5));
  server.restart();
  Worker& other = server.worker("other", 1);
  server.turn();
  EXPECT_TRUE(other.leases.empty());
  EXPECT_TRUE(server.complete(lease).accepted());
  EXPECT_EQ(server.status(run), RunStatus::success);
}

TEST(Lease, that_runs_out_goes_to_another_worker_and_the_first_is_told) {
  TestServer server;
  server.publish(one_step);
  Worker& first = server.worker("first", 1);
  RunId run = server.create("w");
  Lease lost = first.take();
  Worker& second = server.worker("second", 1);
  server.wait(seconds(30));
  server.turn();
  EXPECT_EQ(second.take().token, 2u);
  EXPECT_EQ(first.revoked, (std::vector<std::pair<RunId, std::uint64_t>>{{run, 1}}));
  EXPECT_TRUE(server.complete(lost).refused_as(RefusalCode::lease_lost));
}

TEST(Lease, of_an_in_process_worker_that_is_alive_does_not_run_out) {
  TestServer server;
  server.publish(one_step);
  Worker& local = server.worker("local/1", 1);
  server.create("w");
  Worker& other = server.worker("other", 1);
  for (int i = 0; i < 10; ++i) {
    server.wait(minutes(5));
    server.turn();
  }
  EXPECT_TRUE(other.leases.empty());
  EXPECT_TRUE(server.complete(local.take()).accepted());
}

TEST(Lease, that_is_given_back_is_granted_again_at_once_and_costs_no_attempt) {
  TestServer server;
  server.publish("workflow: w\nretry: {max_attempts: 1}\nsteps: [{id: a, tool: work}]");
  Worker& first = server.worker("first", 1);
  RunId run = server.create("w");
  Lease lease = first.take();
  EXPECT_TRUE(server.report(lease, Released{}).accepted());
  EXPECT_EQ(server.inspect(run).steps[0].status, StepStatus::ready);
  EXPECT_TRUE(first.revoked.empty()) << "it knows";
  EXPECT_FALSE(server.report(lease, Released{}).accepted()) << "once";
  EXPECT_FALSE(server.complete(lease).accepted());
  Worker& second = server.worker("second", 1);
  server.turn();
  Lease again = second.take();
  EXPECT_EQ(again.attempt, 1);
  EXPECT_GT(again.token, lease.token);
  EXPECT_TRUE(server.complete(again).accepted());
  EXPECT_EQ(server.status(run), RunStatus::success);
}

TEST(Lease, that_ran_out_can_still_be_given_back_until_another_worker_has_it) {
  TestServer server;
  server.publish(one_step);
  Worker& first = server.worker("first", 1);
  server.create("w");
  Lease lease = first.take();
  server.wait(minutes(10));
  server.turn();
  EXPECT_TRUE(server.report(lease, Released{}).accepted());
  Worker& second = server.worker("second", 5);
  server.turn();
  EXPECT_EQ(second.leases.size(), 1u) << "one, though it was queued twice";
}

TEST(WindDown, hands_nothing_out_any_more_and_lets_leases_end) {
  TestServer server;
  server.publish(one_step);
  Worker& worker = server.worker("local/1", 2);
  RunId run = server.create("w");
  Lease lease = worker.take();
  std::vector<std::size_t> polled;
  auto poll = [&] {
    Poll wanted;
    wanted.tenant = server.tenant;
    wanted.worker.text = "remote";
    wanted.tools = {{"work"}};
    wanted.wait = minutes(1);
    wanted.reply = [&](std::vector<pawl::Lease> leases) { polled.push_back(leases.size()); };
    server.engine().poll(std::move(wanted));
  };
  poll();
  server.turn();
  EXPECT_TRUE(polled.empty());
  server.engine().wind_down();
  server.turn();
  EXPECT_EQ(polled.size(), 1u) << "the one that waited is answered";
  server.create("w");
  poll();
  server.turn();
  EXPECT_EQ(polled, (std::vector<std::size_t>{0, 0}));
  EXPECT_TRUE(worker.leases.empty());
  EXPECT_TRUE(server.complete(lease).accepted());
  EXPECT_EQ(server.status(run), RunStatus::success);
}

TEST(Lease, that_is_lost_is_told_to_whoever_wants_to_know) {
  TestServer server;
  server.publish(one_step);
  std::vector<std::string> lost;
  server.engine().on_lease_lost(
      [&](const pawl::Run& run, StepIndex step) { lost.push_back(run.steps[step].lease_owner.text); });
  server.worker("first", 1);
  server.create("w");
  server.wait(minutes(10));
  server.turn();
  server.turn();
  EXPECT_EQ(lost, std::vector<std::string>{"first"});
}

TEST(Lease, longer_than_the_timer_horizon_is_reclaimed_even_when_the_clock_jumps_over_its_end) {
  TestServer server(
      EngineLimits{.working_set_bytes_max = 1 << 20, .unfolded_bytes_max = 1 << 20, .timer_horizon = seconds(1)});
  server.publish(one_step);
  server.worker("first", 1);
  server.create("w");
  server.wait(minutes(10));
  Worker& second = server.worker("second", 1);
  server.turn();
  EXPECT_EQ(second.leases.size(), 1u);
}

TEST(Lease, that_ends_in_the_turn_that_would_grant_it_is_never_granted) {
  TestServer server;
  // `b` cannot even begin, which ends the run that `a` was just claimed in.
  server.publish(
      "workflow: w\nsteps: [{id: a, tool: work, needs: []}, {id: b, tool: work, needs: [], with: {from: '${{ input.x "
      "}}'}}]");
  server.publish("workflow: fine\nsteps: [{id: a, tool: work}]");
  Worker& worker = server.worker("w1", 2);
  server.create("w");
  EXPECT_TRUE(worker.leases.empty());
  EXPECT_TRUE(worker.revoked.empty());
  server.create("fine");
  server.create("fine");
  EXPECT_EQ(worker.leases.size(), 2u) << "its slot is free again";
}

TEST(Heartbeat, extends_a_lease) {
  TestServer server;
  server.publish(one_step);
  Worker& first = server.worker("first", 1);
  server.create("w");
  Lease lease = first.take();
  Worker& second = server.worker("second", 1);
  for (int i = 0; i < 5; ++i) {
    server.wait(seconds(20));
    EXPECT_TRUE(server.heartbeat(lease));
    server.turn();
  }
  EXPECT_TRUE(second.leases.empty());
  server.wait(seconds(30));
  server.turn();
  EXPECT_EQ(second.leases.size(), 1u);
  EXPECT_FALSE(server.heartbeat(lease));
}

TEST(Heartbeat, that_comes_after_the_step_was_queued_again_changes_nothing) {
  TestServer server;
  server.publish(one_step);
  Worker& first = server.worker("first", 1);
  server.create("w");
  Lease lease = first.take();
  server.wait(seconds(30));
  server.turn();
  EXPECT_FALSE(server.heartbeat(lease));
  Worker& second = server.worker("second", 1);
  server.turn();
  EXPECT_EQ(second.leases.size(), 1u);
}

TEST(Heartbeat, that_comes_after_the_lease_ran_out_and_before_the_sweep_changes_nothing) {
  TestServer server;
  server.publish(one_step);
  Worker& first = server.worker("first", 1);
  server.create("w");
  Lease lease = first.take();
  server.wait(seconds(30));
  EXPECT_FALSE(server.heartbeat(lease));
  Worker& second = server.worker("second", 1);
  server.turn();
  EXPECT_EQ(second.leases.size(), 1u);
}

TEST(Heartbeat, for_a_run_that_another_engine_carries_is_refused) {
  TestServer server;
  server.publish(one_step);
  NewRun request = server.request("w");
  request.provider = Provider::external;
  RunId run = server.create(request);
  Answer<Instant> answer;
  server.engine().request(Heartbeat{server.tenant, run, StepId{"a"}, LeaseProof::local(0)}, answer.reply());
  EXPECT_TRUE(answer.refused_as(RefusalCode::lease_lost));
}

// ---- Polls

// What polls of "work" were answered with.
struct Polled {
  TestServer& server;
  std::vector<std::size_t> leases;  // in each answer
  std::function<bool()> is_wanted{};

  void poll(Duration wait) {
    server.engine().poll({.tenant = server.tenant,
                          .key = {{1, 1}},
                          .worker = {"remote"},
                          .tools = {{"work"}},
                          .max = 10,
                          .wait = wait,
                          .is_wanted = is_wanted,
                          .reply = [this](std::vector<Lease> granted) { leases.push_back(granted.size()); }});
    server.turn();
  }
};

TEST(Poll, without_a_wait_takes_what_is_there_or_nothing) {
  TestServer server;
  server.publish(one_step);
  Polled polled{server, {}};
  polled.poll(Duration(0));
  server.create("w");
  server.create("w");
  polled.poll(Duration(0));
  EXPECT_EQ(polled.leases, (std::vector<std::size_t>{0, 2}));
}

// ---- Tokens

// The lease that a key takes of "work".
Lease take_remotely(TestServer& server, KeyId key) {
  std::vector<Lease> taken;
  server.engine().poll({.tenant = server.tenant,
                        .key = key,
                        .worker = {"remote"},
                        .tools = {{"work"}},
                        .max = 1,
                        .wait = Duration(0),
                        .is_wanted = {},
                        .reply = [&](std::vector<Lease> granted) { taken = std::move(granted); }});
  server.turn();
  if (taken.empty()) throw std::runtime_error("nothing was granted");
  return taken.front();
}

TEST(LeaseToken, is_the_preimage_of_what_the_journal_holds_and_different_every_time) {
  TestServer server;
  server.publish(one_step);
  std::set<std::string> tokens;
  for (int i = 0; i < 600; ++i) {  // more than are drawn at once
    server.create("w");
    Lease lease = take_remotely(server, KeyId{{1, 1}});
    EXPECT_EQ(lease.remote_token.size(), 32u);
    EXPECT_EQ(server.inspect(lease.run).steps[0].lease_holder, (RemoteHolder{{{1, 1}}, sha256(lease.remote_token)}));
    EXPECT_TRUE(tokens.insert(lease.remote_token).second);
  }
}

TEST(LeaseToken, is_good_for_its_key_only_and_survives_a_restart) {
  TestServer server;
  server.publish(one_step);
  RunId run = server.create("w");
  const Lease lease = take_remotely(server, KeyId{{1, 1}});
  for (bool restarted : {false, true}) {
    if (restarted) server.restart();
    Lease stolen = lease;
    stolen.holder->key = KeyId{{2, 2}};
    Lease guessed = lease;
    guessed.holder->token_digest = sha256("1");
    Lease local = lease;
    local.holder.reset();
    for (const Lease& wrong : {stolen, guessed, local}) {
      EXPECT_TRUE(server.complete(wrong).refused_as(RefusalCode::lease_lost));
      EXPECT_FALSE(server.heartbeat(wrong));
    }
    EXPECT_TRUE(server.heartbeat(lease));
    EXPECT_EQ(server.status(run), RunStatus::running);
  }
  EXPECT_TRUE(server.complete(lease).accepted());
  EXPECT_EQ(server.status(run), RunStatus::success);
}

TEST(LeaseToken, of_a_worker_in_this_process_is_none) {
  TestServer server;
  server.publish(one_step);
  Worker& worker = server.worker("local/1", 1);
  RunId run = server.create("w");
  server.turn();
  const Lease lease = worker.take();
  EXPECT_TRUE(lease.remote_token.empty());
  Lease outside = lease;
  outside.holder = RemoteHolder{{{1, 1}}, sha256("1")};
  EXPECT_TRUE(server.complete(outside).refused_as(RefusalCode::lease_lost));
  EXPECT_FALSE(server.heartbeat(outside));
  StepReport by_agent{lease.tenant, run, lease.step, LeaseProof::program(lease.token), Completed{}};
  Answer<RunAnswer> answer;
  server.engine().request(ReportStep{by_agent}, answer.reply());
  server.turn();
  EXPECT_TRUE(answer.refused_as(RefusalCode::lease_lost));
  EXPECT_FALSE(server.heartbeat(lease, LeaseProof::program(lease.token)));
  EXPECT_TRUE(server.complete(lease).accepted());
}

TEST(Poll, waits_and_is_given_what_comes) {
  TestServer server;
  server.publish(one_step);
  Polled polled{server, {}};
  polled.poll(seconds(20));
  server.wait(seconds(19));
  server.turn();
  EXPECT_TRUE(polled.leases.empty());
  server.create("w");
  EXPECT_EQ(polled.leases, std::vector<std::size_t>{1});
  server.wait(seconds(2));
  server.turn();
  EXPECT_EQ(polled.leases.size(), 1u) << "it was answered already";
}

TEST(Poll, ends_with_nothing_each_in_its_own_time) {
  TestServer server;
  Polled polled{server, {}};
  polled.poll(seconds(20));
  polled.poll(seconds(10));
  EXPECT_EQ(server.engine().next_wakeup(), server.now() + seconds(10));
  server.wait(seconds(10));
  server.turn();
  EXPECT_EQ(polled.leases.size(), 1u);
  EXPECT_EQ(server.engine().next_wakeup(), server.now() + seconds(10));
  server.wait(seconds(10));
  server.turn();
  EXPECT_EQ(polled.leases.size(), 2u);
}

TEST(Poll, is_dropped_within_a_second_when_its_client_is_gone) {
  TestServer server;
  bool is_there = true;
  Polled polled{server, {}, [&] { return is_there; }};
  polled.poll(seconds(20));
  is_there = false;
  EXPECT_LE(server.engine().next_wakeup(), server.now() + seconds(1));
  server.wait(seconds(1));
  server.turn();
  EXPECT_EQ(server.engine().stats().polls_waiting, 0u);
  EXPECT_EQ(polled.leases.size(), 0u);
}

TEST(RemoveWorker, ends_its_leases_at_once_even_when_a_namesake_follows) {
  TestServer server;
  server.publish(one_step);
  Worker& old = server.worker("local/1", 1);
  server.create("w");
  server.engine().remove_worker(old.name);
  Worker& young = server.worker("local/1", 1);
  server.turn();
  ASSERT_EQ(young.leases.size(), 1u);
  EXPECT_EQ(young.leases[0].token, 2u);
}

TEST(Cancel, reaches_the_workers_that_run_its_steps) {
  TestServer server;
  server.publish(two_at_once);
  Worker& worker = server.worker("w1", 2);
  RunId run = server.create("w");
  EXPECT_EQ(worker.leases.size(), 2u);
  server.cancel(run);
  EXPECT_EQ(worker.revoked.size(), 2u);
}

// ---- Caps

TEST(Caps, max_writes_per_run_denies_the_run) {
  TestServer server;
  server.limit({.max_concurrency = {}, .max_runs_per_min = {}, .max_writes_per_run = 1});
  server.publish("workflow: w\nsteps: [{id: a, tool: write}, {id: b, tool: write}]");
  Worker& worker = server.worker("w1", 2);
  RunId run = server.create("w");
  server.complete(worker.take());
  EXPECT_EQ(server.status(run), RunStatus::denied);
  EXPECT_EQ(server.inspect(run).diagnostic->error_code, "WRITE_CAP_EXCEEDED");
}

TEST(Caps, max_concurrency_holds_across_a_restart) {
  TestServer server;
  server.limit({.max_concurrency = 1, .max_runs_per_min = {}, .max_writes_per_run = {}});
  server.publish(one_step);
  Worker& remote = server.worker("remote", 1);
  server.create("w");
  server.create("w");
  Lease lease = remote.take();
  server.restart();
  Worker& other = server.worker("other", 5);
  server.turn();
  EXPECT_TRUE(other.leases.empty());
  server.complete(lease);
  EXPECT_EQ(other.leases.size(), 1u);
}

// ---- Time

TEST(Time, a_retry_waits_for_its_moment_through_a_restart) {
  TestServer server;
  server.publish("workflow: w\nsteps: [{id: a, tool: work, retry: {max_attempts: 2, schedule: [10m], jitter: 0}}]");
  Worker& worker = server.worker("w1", 1);
  RunId run = server.create("w");
  server.fail(worker.take(), true);
  server.restart();
  Worker& next = server.worker("w1", 1);
  server.wait(minutes(10) - Duration(1));
  server.turn();
  EXPECT_TRUE(next.leases.empty());
  server.wait(Duration(1));
  server.turn();
  EXPECT_EQ(next.take().attempt, 2);
  EXPECT_EQ(server.status(run), RunStatus::running);
}

TEST(Time, a_run_that_left_memory_is_fetched_when_its_approval_expires) {
  TestServer server(EngineLimits{.working_set_bytes_max = 0, .unfolded_bytes_max = 0, .timer_horizon = seconds(60)});
  server.publish(gate_first);
  RunId run = server.create("w");
  server.turn();
  EXPECT_EQ(server.engine().stats().runs_resident, 0u);
  server.wait(hours(4) - Duration(1));
  server.turn();
  EXPECT_EQ(server.status(run), RunStatus::waiting);
  server.wait(Duration(1));
  server.turn();
  EXPECT_EQ(server.status(run), RunStatus::denied);
}

TEST(Time, says_when_it_wants_to_be_woken) {
  TestServer server;
  server.publish("workflow: w\nsteps: [{id: a, tool: work, lease: 5s}]");
  server.worker("w1", 1);
  server.create("w");
  EXPECT_EQ(server.engine().next_wakeup(), server.now() + seconds(5));
}

// ---- The working set

TEST(WorkingSet, what_waits_or_has_ended_leaves_memory) {
  TestServer server;
  server.publish(gate_first);
  for (int i = 0; i < 20; ++i) server.create("w");
  server.turn();
  EXPECT_EQ(server.engine().stats().runs_resident, 0u);
}

TEST(WorkingSet, looking_at_runs_leaves_none_behind) {
  TestServer server;
  server.publish(gate_first);
  std::vector<RunId> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(server.create("w"));
  for (RunId run : runs) EXPECT_EQ(server.status(run), RunStatus::waiting);
  server.create("w");
  server.turn();
  EXPECT_EQ(server.engine().stats().runs_resident, 0u);
}

TEST(WorkingSet, runs_beyond_the_limit_wait_in_the_tables_and_come_back_for_their_turn) {
  TestServer server(
      EngineLimits{.working_set_bytes_max = 2'000, .unfolded_bytes_max = 0, .timer_horizon = seconds(60)});
  server.publish(one_step);
  std::vector<RunId> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(server.create("w"));
  EXPECT_LE(server.engine().stats().runs_resident, 3u);
  Worker& worker = server.worker("w1", 20);
  server.turn();
  ASSERT_EQ(worker.leases.size(), 20u);
  while (!worker.leases.empty()) server.complete(worker.take());
  for (RunId run : runs) EXPECT_EQ(server.status(run), RunStatus::success);
}

TEST(FoldAll, makes_the_tables_tell_everything) {
  TestServer server;
  server.publish(one_step);
  RunId run = server.create("w");
  EXPECT_FALSE(server.store().load(server.tenant, run));
  server.fold_all();
  auto row = server.store().load(server.tenant, run);
  ASSERT_TRUE(row);
  EXPECT_EQ(row->status, RunStatus::created);
  EXPECT_EQ(row->seq, server.inspect(run).seq);
  int ready = 0;
  server.store().for_each_ready([&](const ReadyStep& step) { ready += step.run == run; });
  EXPECT_EQ(ready, 1);
}

TEST(FoldAll, folds_what_changes_in_the_same_turn_too) {
  TestServer server;
  server.publish(one_step);
  RunId run = server.create("w");
  Answer<RunAnswer> answer;
  server.engine().request(RunRequest{server.tenant, run, AnswerQuestion{StepId{"a"}, "1", Actor{"person:ada"}}},
                          answer.reply());
  server.fold_all();
  EXPECT_EQ(server.store().load(server.tenant, run)->seq, answer.value().seq);
}

// ---- Recovery

TEST(Recovery, what_was_committed_and_not_folded_is_there) {
  TestServer server;
  server.publish(two_steps);
  Worker& worker = server.worker("remote", 1);
  RunId run = server.create("w");
  server.complete(worker.take(), "7");
  auto before = server.inspect(run);
  server.restart();
  EXPECT_TRUE(same_fold(before, server.inspect(run)));
}

TEST(Recovery, what_was_not_committed_never_was) {
  TestServer server;
  server.publish(one_step);
  RunId run = server.create("w");
  server.engine().request(RunRequest{server.tenant, run, CancelRun{Actor{"person:asker"}, {}}});
  Turn lost = server.take();
  server.restart();
  EXPECT_EQ(server.status(run), RunStatus::created);
}

TEST(Recovery, queues_keep_their_order) {
  TestServer server;
  server.publish(one_step);
  std::vector<RunId> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(server.create("w"));
  server.fold_all();
  for (int i = 0; i < 20; ++i) runs.push_back(server.create("w"));
  server.restart();
  Worker& worker = server.worker("w1", 40);
  server.turn();
  ASSERT_EQ(worker.leases.size(), 40u);
  for (std::size_t i = 0; i < runs.size(); ++i) EXPECT_EQ(worker.leases[i].run, runs[i]) << i;
}

// ---- Ended runs

TEST(Retry, is_a_new_run_that_names_the_old_one) {
  TestServer server;
  server.publish(one_step);
  RunId run = server.create("w");
  Answer<RunAnswer> early, late;
  server.engine().request(RetryRun{server.tenant, run, Actor{"person:ada"}}, early.reply());
  server.turn();
  EXPECT_TRUE(early.refused_as(RefusalCode::run_not_ended));
  server.cancel(run);
  server.engine().request(RetryRun{server.tenant, run, Actor{"person:ada"}}, late.reply());
  server.turn();
  ASSERT_TRUE(late.accepted());
  EXPECT_NE(late.value().run, run);
  EXPECT_EQ(server.inspect(late.value().run).retry_of, run);
  EXPECT_EQ(server.status(run), RunStatus::canceled);
}

TEST(Audit, of_a_request_that_met_an_ended_run_lies_in_the_tenants_stream) {
  TestServer server;
  server.publish(one_step);
  RunId run = server.create("w");
  server.cancel(run);
  auto seq = server.inspect(run).seq;
  EXPECT_TRUE(server.approve(run, "person:ada").refused_as(RefusalCode::nothing_waiting));
  EXPECT_EQ(server.inspect(run).seq, seq) << "its own stream is sealed";
  auto audit = server.store().history(StreamKey::of(server.tenant)).lines;
  EXPECT_NE(audit.find("\"requested\":\"approve\",\"run\":\"" + run.str()), std::string::npos) << audit;
  EXPECT_NE(audit.find("person:ada"), std::string::npos);
}

TEST(Tenant, created_twice_under_one_name_is_one_tenant) {
  TestServer server;
  EXPECT_EQ(server.make_tenant("default"), server.tenant);
  server.restart();
  EXPECT_EQ(server.make_tenant("default"), server.tenant);
}

}  // namespace
}  // namespace pawl::tests
