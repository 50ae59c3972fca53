// Timers of the engine, and the loss of the server that executes a step.
#include <gtest/gtest.h>

#include "core/invariants.h"
#include "core/run_builder.h"
#include "core/snapshot.h"
#include "core/vocabulary.h"

namespace pawl::tests {
namespace {

using namespace std::chrono_literals;

History started(const RunBuilder& builder) {
  History history = builder.create();
  if (history.status() == RunStatus::created) history.start();
  return history;
}

void expect_invariants(const History& history) { EXPECT_EQ(check_run(history.run()), std::vector<std::string>{}); }

TEST(Timer, needs_no_worker_and_holds_the_run_in_waiting) {
  History history = started(RunBuilder().timer("cool-off", "3d"));
  EXPECT_EQ(history.last().names(), (Names{"run.started", "step.wait_opened", "run.paused"}));
  EXPECT_EQ(history.status(), RunStatus::waiting);
  EXPECT_EQ(history.step("cool-off").due_at, history.now() + 72h);
  EXPECT_EQ(next_due(history.run(), history.now()), history.now() + 72h);
  EXPECT_TRUE(history.claim("cool-off").refused_as(RefusalCode::not_claimable));
  EXPECT_EQ(history.step("cool-off").attempts, 0);
  expect_invariants(history);
}

TEST(Timer, fires_once_when_it_is_due_and_not_before) {
  History history = started(RunBuilder().timer("cool-off", "3d"));
  EXPECT_TRUE(history.pass(72h - 1ms).events.empty());
  EXPECT_EQ(history.pass(1ms).names(), (Names{"step.arrived", "run.resumed", "run.succeeded"}));
  EXPECT_TRUE(history.pass(72h).events.empty());
  expect_invariants(history);
}

TEST(Timer, lets_the_next_step_go_on_late_rather_than_never) {
  History history = started(RunBuilder().timer("cool-off", "3d").step("b"));
  EXPECT_EQ(history.pass(1000h).names(), (Names{"step.arrived", "step.unblocked", "run.resumed"}));
  history.do_step("b");
  EXPECT_EQ(history.status(), RunStatus::success);
}

TEST(Timer, is_started_when_what_it_needs_is_done) {
  History history = started(RunBuilder().step("a").timer("cool-off", "3d"));
  history.claim("a");
  history.wait(5min);
  EXPECT_EQ(history.complete("a").names(), (Names{"step.completed", "step.wait_opened", "run.paused"}));
  EXPECT_EQ(history.step("cool-off").due_at, history.now() + 72h);
}

TEST(Timer, may_be_set_by_the_output_that_ends_the_step_before) {
  History history = started(RunBuilder().step("a").timer("cool-off", "${{ steps.a.output.pause }}"));
  history.claim("a");
  history.complete("a", R"({"pause": "90s"})");
  EXPECT_EQ(history.step("cool-off").due_at, history.now() + 90s);
}

TEST(Timer, waits_until_a_moment_which_may_have_passed) {
  auto until = [](const std::string& text) {
    return RunBuilder().timer("t", "").with([&](StepDefinition& step) { step.wait = {WaitTerms::Kind::moment, text}; });
  };
  History later = started(until(print_time(first_moment + 5min)));
  EXPECT_EQ(later.step("t").due_at, first_moment + 5min);
  History past = started(until("2001-01-01T00:00:00Z"));
  EXPECT_EQ(past.pass(0ms).names(), (Names{"step.arrived", "run.resumed", "run.succeeded"}));
}

TEST(Timer, whose_time_cannot_be_evaluated_fails_the_run) {
  for (const char* text : {"${{ input.nothing }}", "${{ input.number }}", "soon"}) {
    History history = started(RunBuilder().input(R"({"number": 3})").timer("t", text).step("b"));
    EXPECT_EQ(history.status(), RunStatus::failed) << text;
    EXPECT_EQ(history.run().diagnostic->error_code, "EXPRESSION_FAILED") << text;
    expect_invariants(history);
  }
}

TEST(Timer, that_fails_as_the_run_starts_leaves_nothing_to_claim) {
  History history = RunBuilder().step("a").timer("t", "soon").needs({}).create();
  history.claim("a");
  EXPECT_EQ(history.status(), RunStatus::failed);
  EXPECT_EQ(history.step("a").status, StepStatus::canceled);
  expect_invariants(history);
}

TEST(Timer, ends_with_its_run) {
  History canceled = started(RunBuilder().timer("cool-off", "3d"));
  canceled.cancel();
  EXPECT_EQ(canceled.step("cool-off").status, StepStatus::canceled);
  expect_invariants(canceled);
  History late = started(RunBuilder().timer("cool-off", "3d").run_timeout(1h));
  EXPECT_EQ(late.pass(1h).ending()->error_code, "RUN_TIMEOUT");
  expect_invariants(late);
}

TEST(Timer, survives_a_snapshot) {
  History history = started(RunBuilder().timer("cool-off", "3d"));
  auto copy = read_snapshot(write_snapshot(history.run()), history.workflow());
  ASSERT_TRUE(copy.has_value());
  EXPECT_TRUE(same_fold(*copy, history.run()));
  EXPECT_EQ(next_due(*copy, history.now()), first_moment + 72h);
}

TEST(Timer, shows_as_running_where_waiting_means_people) {
  History history = started(RunBuilder().timer("cool-off", "3d").needs({}).gate("ok").needs({}));
  EXPECT_EQ(run_word(Vocabulary::state_machine, history.run()), "WAITING_APPROVAL");
  history.approve();
  EXPECT_EQ(run_word(Vocabulary::state_machine, history.run()), "RUNNING");
  EXPECT_EQ(run_word(Vocabulary::runtime, history.run()), "running");
  EXPECT_EQ(run_word(Vocabulary::contract_v1, history.run()), "waiting");
  EXPECT_EQ(sub_state(history.run()), "waiting");
}

TEST(Timer, that_an_earlier_version_gave_to_a_worker_goes_on_there) {
  RunBuilder builder = RunBuilder().step("a").with([](StepDefinition& step) {
    step.tool = sleep_tool;
    step.wait = {WaitTerms::Kind::span, "90s"};
  });
  History history = started(builder);
  EXPECT_EQ(history.step("a").status, StepStatus::waiting_event);
  pawl::Run older;
  older.workflow = &history.workflow();
  older.tenant = history.run().tenant;
  older.id = history.run().id;
  evolve(older, history.commits().front().events.front());
  for (RunPayload payload :
       {RunPayload(StepMoved{{"a"}, StepTrigger::unblock}),
        RunPayload(RunMoved{.trigger = RunTrigger::start, .by = {}, .reason = {}, .diagnostic = {}}),
        RunPayload(StepClaimed{{"a"}, StepTrigger::claim, {"local/1"}, 1, first_moment + 30s})})
    evolve(older, {first_moment, std::move(payload)});
  EXPECT_EQ(older.steps[0].status, StepStatus::running);
  EXPECT_EQ(check_run(older), std::vector<std::string>{});
}

// ---- The loss of a server

// Its in-process worker took the step, and then the process died: nobody extends the lease.
const Commit& lose_server(History& history) {
  history.claim("a", "local/1");
  return history.pass(history.workflow().steps[0].lease);
}

TEST(LostServer, costs_no_attempt) {
  History history = started(one_step);
  const int most = history.workflow().steps[0].retry.max_attempts;
  ASSERT_LT(most, server_losses_max);
  for (int i = 1; i < server_losses_max; ++i) {
    EXPECT_EQ(lose_server(history).names(), Names{"step.released"}) << i;
    EXPECT_EQ(history.step("a").attempts, 0);
    EXPECT_EQ(history.step("a").server_losses, i);
    expect_invariants(history);
  }
  history.do_step("a");
  EXPECT_EQ(history.status(), RunStatus::success);
}

TEST(LostServer, ends_the_step_that_keeps_killing_it) {
  History history = started(one_step);
  for (int i = 1; i < server_losses_max; ++i) lose_server(history);
  EXPECT_EQ(lose_server(history).ending()->error_code, "SERVER_LOST");
  EXPECT_EQ(history.status(), RunStatus::failed);
  EXPECT_FALSE(history.run().diagnostic->retryable);
}

TEST(LostServer, is_not_taken_for_a_time_out_of_the_step) {
  History history = started(RunBuilder().step("a").attempts(1).step_timeout(5s));
  history.claim("a", "local/1");
  EXPECT_EQ(history.pass(1h).names(), Names{"step.released"});
}

TEST(LostServer, leaves_the_calls_of_its_steps_in_doubt) {
  History history = started(one_step);
  history.claim("a", "local/1");
  history.propose("a", allowed);
  EXPECT_EQ(history.pass(1h).names(), (Names{"receipt.doubted", "step.released"}));
}

TEST(LostServer, is_no_excuse_for_a_remote_worker) {
  History history = started(RunBuilder().step("a").attempts(1));
  history.claim("a", "worker-1");
  EXPECT_EQ(history.pass(30s).ending()->error_code, "LEASE_EXPIRED");
}

TEST(WithdrawnLease, counts_no_attempt_and_names_the_cause) {
  History history = started(one_step);
  history.claim("a", "local/1");
  const Commit& commit = history.act(WithdrawLease{history.id(0), ReleaseCause::suspended});
  ASSERT_NE(commit.find<StepReleased>(), nullptr);
  EXPECT_EQ(commit.find<StepReleased>()->cause, ReleaseCause::suspended);
  EXPECT_TRUE(commit.find<StepReleased>()->by.empty());
  EXPECT_EQ(history.step("a").attempts, 0);
  EXPECT_TRUE(history.act(WithdrawLease{history.id(0), ReleaseCause::suspended}).events.empty());
}

// ---- Requests that do not fit

TEST(RefusedRequest, of_an_expired_approval_is_recorded_before_the_run_ends) {
  History history = started(RunBuilder().gate("ok").terms({.expires = 1h}));
  history.wait(2h);
  const Commit& commit = history.approve();
  EXPECT_TRUE(commit.refused_as(RefusalCode::already_resolved));
  ASSERT_NE(commit.find<TransitionRefused>(), nullptr);
  EXPECT_EQ(commit.find<TransitionRefused>()->requested, "approve");
  EXPECT_EQ(commit.find<TransitionRefused>()->by, Actor{"person:ada"});
  EXPECT_EQ(commit.ending()->error_code, "APPROVAL_EXPIRED");
  EXPECT_FALSE(commit.ending()->retryable);
}

TEST(RefusedRequest, to_report_on_a_run_of_pawls_own_is_recorded) {
  History history = started(one_step);
  const Commit& commit = history.report(RunTrigger::succeed);
  EXPECT_TRUE(commit.refused_as(RefusalCode::not_external));
  ASSERT_NE(commit.find<TransitionRefused>(), nullptr);
  EXPECT_EQ(commit.find<TransitionRefused>()->requested, "succeed");
}

}  // namespace
}  // namespace pawl::tests
