// What workers and time do to a run: create, start, claim, complete, fail, retry, lose a lease, run out of budget.
// People are in decide_people_test.cc; cancel, the deadline, reports and retries of runs in decide_end_test.cc.
#include "core/decide.h"

#include "core/characters.h"
#include "core/run_builder.h"

namespace pawl::tests {
namespace {

using namespace std::chrono_literals;

constexpr Money cents(std::int64_t count) { return {count * 10'000}; }

const RunBuilder two_steps = RunBuilder().step("a").step("b");

// --- create and start ---

TEST(Create, makes_the_steps_that_need_nothing_ready) {
  auto h = RunBuilder().step("a").step("b").step("c").needs({}).create();
  EXPECT_EQ(h.last().names(), (Names{"run.created", "step.unblocked", "step.unblocked"}));
  EXPECT_EQ(h.status(), RunStatus::created);
  EXPECT_EQ(h.step("a").status, StepStatus::ready);
  EXPECT_EQ(h.step("b").status, StepStatus::pending);
  EXPECT_EQ(h.step("c").status, StepStatus::ready);
}

TEST(Create, takes_limits_from_the_workflow_unless_the_request_has_its_own) {
  auto workflow = RunBuilder().step("a").workflow_limits(1h, cents(100));
  auto h = workflow.create();
  EXPECT_EQ(h.run().timeout, std::optional<Duration>(1h));
  EXPECT_EQ(h.run().budget, cents(100));
  auto own = RunBuilder(workflow).run_timeout(5min).budget(7).create();
  EXPECT_EQ(own.run().timeout, std::optional<Duration>(5min));
  EXPECT_EQ(own.run().budget, Money{7});
}

TEST(Create, opens_no_gate_before_the_start) {
  auto h = RunBuilder().gate("g").create();
  EXPECT_EQ(h.last().names(), Names{"run.created"});
  EXPECT_EQ(h.step("g").status, StepStatus::pending);
}

TEST(Create, gives_a_run_that_another_engine_carries_no_steps) {
  auto h = external_run().create();
  EXPECT_EQ(h.last().names(), Names{"run.created"});
  EXPECT_TRUE(h.run().steps.empty());
}

TEST(Start, of_a_run_that_begins_with_a_gate_opens_it_and_waits) {
  auto h = RunBuilder().gate("g").step("a").create();
  h.start();
  EXPECT_EQ(h.last().names(), (Names{"run.started", "step.gate_opened", "approval.requested", "run.paused"}));
  EXPECT_EQ(h.status(), RunStatus::waiting);
  EXPECT_EQ(h.approval().step, h.index("g"));
  EXPECT_EQ(h.approval().expires_at, h.now() + default_approval_expiry);
}

TEST(Start, happens_once_and_only_to_runs_of_this_engine) {
  auto h = one_step.create();
  EXPECT_EQ(h.start().names(), Names{"run.started"});
  EXPECT_EQ(h.start().names(), Names{});
  EXPECT_FALSE(h.last().refused());
  auto external = external_run().create();
  EXPECT_EQ(external.start().names(), Names{});
}

// --- claim ---

TEST(Claim, of_the_first_step_starts_the_run) {
  auto h = one_step.create();
  EXPECT_EQ(h.claim("a", "worker-7").names(), (Names{"run.started", "step.claimed"}));
  EXPECT_EQ(h.status(), RunStatus::running);
  EXPECT_EQ(h.run().started_at, h.now());
  const Step& step = h.step("a");
  EXPECT_EQ(step.status, StepStatus::running);
  EXPECT_EQ(step.attempts, 1);
  EXPECT_EQ(step.lease_token, 1u);
  EXPECT_EQ(step.lease_owner, WorkerName{"worker-7"});
  EXPECT_EQ(step.lease_expires_at, h.now() + default_lease);
}

TEST(Claim, of_the_first_step_also_opens_gates_that_need_nothing) {
  auto h = RunBuilder().step("a").gate("g").needs({}).create();
  EXPECT_EQ(h.claim("a").names(), (Names{"run.started", "step.gate_opened", "approval.requested", "step.claimed"}));
  EXPECT_EQ(h.status(), RunStatus::running);
}

TEST(Claim, is_refused_for_what_is_not_ready) {
  auto h = RunBuilder().step("a").step("b").gate("g").create();
  EXPECT_TRUE(h.claim("b").refused_as(RefusalCode::not_claimable));
  h.claim("a");
  EXPECT_TRUE(h.claim("a", "worker-2").refused_as(RefusalCode::not_claimable)) << "its lease is live";
  EXPECT_TRUE(h.act(ClaimStep{h.id(99), WorkerName{"w"}, false, {}, {}}).refused_as(RefusalCode::not_claimable));
  EXPECT_EQ(h.last().names(), Names{});
  h.complete("a");
  EXPECT_TRUE(h.claim("a").refused_as(RefusalCode::not_claimable));
}

TEST(Claim, never_takes_an_approval) {
  auto h = RunBuilder().gate("g").create();
  EXPECT_TRUE(h.claim("g").refused_as(RefusalCode::not_claimable));
  h.start();
  EXPECT_TRUE(h.claim("g").refused_as(RefusalCode::not_claimable));
}

TEST(Claim, of_a_step_in_an_ended_or_external_run_is_refused) {
  auto ended = one_step.create();
  ended.cancel();
  EXPECT_TRUE(ended.claim("a").refused_as(RefusalCode::not_claimable));
  auto external = external_run().create();
  EXPECT_TRUE(
      external.act(ClaimStep{external.id(0), WorkerName{"w"}, false, {}, {}}).refused_as(RefusalCode::not_claimable));
}

TEST(Reclaim, takes_over_once_the_lease_is_over_and_not_before) {
  auto h = one_step.create();
  h.claim("a", "worker-1");
  h.wait(default_lease - 1ms);
  EXPECT_TRUE(h.claim("a", "worker-2").refused());
  h.wait(1ms);
  EXPECT_EQ(h.claim("a", "worker-2").names(), Names{"step.reclaimed"});
  EXPECT_EQ(h.step("a").lease_token, 2u);
  EXPECT_EQ(h.step("a").attempts, 2);
  EXPECT_EQ(h.step("a").lease_owner, WorkerName{"worker-2"});
}

TEST(Release, makes_the_step_ready_at_once_and_gives_the_attempt_back) {
  auto h = RunBuilder().step("a").attempts(1).create();
  h.claim("a", "worker-1");
  EXPECT_EQ(h.release("a").names(), Names{"step.released"});
  EXPECT_EQ(h.step("a").status, StepStatus::ready);
  EXPECT_EQ(h.step("a").attempts, 0);
  EXPECT_EQ(h.status(), RunStatus::running);
  EXPECT_EQ(h.claim("a", "worker-2").names(), Names{"step.claimed"}) << "the only attempt is still there";
  EXPECT_EQ(h.step("a").lease_token, 2u) << "and the token grows all the same";
  EXPECT_EQ(h.step("a").attempts, 1);
}

TEST(Release, counts_a_write_once_however_often_it_is_begun) {
  auto h = one_step.create();
  for (int i = 0; i < 3; ++i) {
    h.act(ClaimStep{h.id(0), WorkerName{"w"}, true, 1, {}});
    h.release("a");
  }
  EXPECT_EQ(h.run().writes, 1);
}

TEST(Release, by_a_stale_token_changes_nothing) {
  auto h = one_step.create();
  h.claim("a", "worker-1");
  h.wait(default_lease);
  h.claim("a", "worker-2");
  auto before = h.run();
  for (std::uint64_t token : {0u, 1u, 3u}) {
    EXPECT_TRUE(h.act(ReleaseStep{h.id(0), LeaseProof::local(token)}).refused_as(RefusalCode::lease_lost));
    EXPECT_EQ(h.last().names(), Names{});
  }
  EXPECT_TRUE(h.act(ReleaseStep{h.id(99), LeaseProof::local(2)}).refused_as(RefusalCode::lease_lost));
  EXPECT_TRUE(same_fold(before, h.run()));
  h.release("a");
  EXPECT_TRUE(h.act(ReleaseStep{h.id(0), LeaseProof::local(2)}).refused_as(RefusalCode::lease_lost)) << "once";
}

TEST(Reclaim, is_refused_when_no_attempt_is_left_and_time_fails_the_step_instead) {
  auto h = RunBuilder().step("a").attempts(1).create();
  h.claim("a");
  h.wait(default_lease);
  EXPECT_TRUE(h.claim("a", "worker-2").refused_as(RefusalCode::not_claimable));
  h.pass(0s);
  EXPECT_EQ(h.last().names(), (Names{"step.failed_terminal", "run.failed"}));
  EXPECT_EQ(h.last().ending()->error_code, "LEASE_EXPIRED");
  EXPECT_EQ(h.last().ending()->step, StepId{"a"});
  EXPECT_EQ(h.last().ending()->attempt, 1);
}

TEST(Reclaim, leaves_a_lost_lease_alone_until_a_worker_comes) {
  auto h = one_step.create();
  h.claim("a");
  EXPECT_EQ(h.pass(default_lease).names(), Names{});
  EXPECT_EQ(h.step("a").status, StepStatus::running);
}

TEST(Lease, a_stale_token_changes_nothing_ever) {
  auto h = one_step.create();
  h.claim("a", "worker-1");
  h.wait(default_lease);
  h.claim("a", "worker-2");
  auto before = h.run();
  const std::vector<RunCommand> late{CompleteStep{h.id(0), LeaseProof::local(1), "{}", {}},
                                     FailStep{h.id(0), LeaseProof::local(1), "TOOL_FAILED", "x", {}, {}, {}},
                                     AskQuestion{h.id(0), LeaseProof::local(1), "\"?\""},
                                     CompleteStep{h.id(0), LeaseProof::local(3), "{}", {}},
                                     CompleteStep{h.id(99), LeaseProof::local(1), "{}", {}}};
  for (const auto& command : late) {
    EXPECT_TRUE(h.act(command).refused_as(RefusalCode::lease_lost));
    EXPECT_EQ(h.last().names(), Names{});
  }
  EXPECT_TRUE(same_fold(before, h.run()));
}

TEST(Lease, an_expired_one_is_good_until_somebody_takes_it_over) {
  auto h = one_step.create();
  h.claim("a");
  h.wait(default_lease + 1s);
  EXPECT_FALSE(h.complete("a").refused());
  EXPECT_EQ(h.status(), RunStatus::success);
}

TEST(Lease, of_a_canceled_run_is_over) {
  auto h = one_step.create();
  h.claim("a");
  h.cancel();
  EXPECT_TRUE(h.complete("a").refused_as(RefusalCode::lease_lost));
  EXPECT_EQ(h.status(), RunStatus::canceled);
}

// --- what cannot even begin ---

TEST(Claim, whose_input_cannot_be_built_fails_the_step_in_the_same_commit) {
  auto h = two_steps.create();
  h.act(ClaimStep{h.id(0), WorkerName{"w"}, false, {}, "steps.x.output leads nowhere"});
  EXPECT_EQ(h.last().names(),
            (Names{"run.started", "step.claimed", "step.failed_terminal", "step.canceled", "run.failed"}));
  EXPECT_EQ(h.last().ending()->error_code, "EXPRESSION_FAILED");
  EXPECT_EQ(h.last().ending()->attempt, 1);
  EXPECT_EQ(h.step("a").attempts, 1) << "the attempt is accounted for";
  EXPECT_EQ(h.step("b").status, StepStatus::canceled);
}

TEST(Claim, that_fails_at_once_leaves_no_approval_open) {
  auto h = RunBuilder().step("a").gate("g").needs({}).create();
  h.act(ClaimStep{h.id(0), WorkerName{"w"}, false, {}, "leads nowhere"});
  EXPECT_EQ(h.status(), RunStatus::failed);
  EXPECT_EQ(h.approval().status, ApprovalStatus::canceled);
  EXPECT_EQ(h.step("g").status, StepStatus::canceled);
}

TEST(WriteCap, counts_steps_that_may_write_and_denies_the_one_too_many) {
  auto h = RunBuilder().step("a").step("b").step("c").create();
  auto claim = [&](std::string_view id, bool writes) {
    return h.act(ClaimStep{StepId{std::string(id)}, WorkerName{"w"}, writes, 1, {}}).names();
  };
  claim("a", true);
  EXPECT_EQ(h.run().writes, 1);
  h.complete("a");
  EXPECT_EQ(claim("b", false), Names{"step.claimed"}) << "a read is free";
  h.complete("b");
  EXPECT_EQ(claim("c", true), (Names{"step.claimed", "step.failed_terminal", "run.denied"}));
  EXPECT_EQ(h.last().ending()->error_code, "WRITE_CAP_EXCEEDED");
  EXPECT_EQ(h.run().writes, 1) << "what was denied did not write";
}

TEST(WriteCap, a_step_that_is_tried_again_counts_once) {
  auto h = one_step.create();
  h.act(ClaimStep{h.id(0), WorkerName{"w"}, true, 1, {}});
  h.fail("a");
  h.pass(1min);
  EXPECT_EQ(h.act(ClaimStep{h.id(0), WorkerName{"w"}, true, 1, {}}).names(), Names{"step.claimed"});
  EXPECT_EQ(h.run().writes, 1);
}

// --- complete ---

TEST(Complete, unblocks_what_needs_it_and_keeps_output_and_cost) {
  auto h = two_steps.create();
  h.claim("a");
  EXPECT_EQ(h.complete("a", R"({"n":1})", cents(3)).names(), (Names{"step.completed", "step.unblocked"}));
  EXPECT_EQ(h.step("a").output, R"({"n":1})");
  EXPECT_EQ(h.step("a").cost, cents(3));
  EXPECT_EQ(h.run().cost, cents(3));
  EXPECT_EQ(h.step("b").status, StepStatus::ready);
  EXPECT_EQ(h.status(), RunStatus::running);
}

TEST(Complete, of_the_last_step_is_the_runs_success) {
  auto h = one_step.create();
  h.claim("a");
  h.wait(2s);
  EXPECT_EQ(h.complete("a").names(), (Names{"step.completed", "run.succeeded"}));
  EXPECT_EQ(h.status(), RunStatus::success);
  EXPECT_EQ(h.run().finished_at, h.now());
  EXPECT_FALSE(h.run().diagnostic);
}

TEST(Complete, waits_for_all_that_a_step_needs) {
  auto h = RunBuilder().step("a").step("b").needs({}).step("c").needs({"a", "b"}).create();
  h.claim("a");
  h.claim("b");
  EXPECT_EQ(h.complete("b").names(), Names{"step.completed"});
  EXPECT_EQ(h.complete("a").names(), (Names{"step.completed", "step.unblocked"}));
}

TEST(Complete, before_a_gate_opens_it_and_pauses_the_run) {
  auto h = RunBuilder().step("a").gate("g").step("b").create();
  h.claim("a");
  EXPECT_EQ(h.complete("a").names(), (Names{"step.completed", "step.gate_opened", "approval.requested", "run.paused"}));
  EXPECT_EQ(h.status(), RunStatus::waiting);
}

TEST(Complete, opens_a_gate_without_a_pause_while_other_steps_can_move) {
  auto h = RunBuilder().step("a").gate("g").step("b").needs({}).create();
  h.claim("a");
  EXPECT_EQ(h.complete("a").names(), (Names{"step.completed", "step.gate_opened", "approval.requested"}));
  EXPECT_EQ(h.status(), RunStatus::running);
  h.claim("b");
  EXPECT_EQ(h.complete("b").names(), (Names{"step.completed", "run.paused"}));
}

TEST(Budget, may_be_used_up_to_the_last_cent) {
  auto h = RunBuilder().step("a").budget(cents(10).micros).create();
  h.claim("a");
  h.complete("a", "{}", cents(10));
  EXPECT_EQ(h.status(), RunStatus::success);
}

TEST(Budget, passed_by_a_completion_fails_the_run_and_still_records_the_cost) {
  auto h = RunBuilder().step("a").step("b").budget(cents(10).micros).create();
  h.claim("a");
  h.complete("a", "{}", cents(6));
  h.claim("b");
  EXPECT_EQ(h.complete("b", "{}", cents(5)).names(), (Names{"step.failed_terminal", "run.failed"}));
  EXPECT_EQ(h.run().cost, cents(11));
  auto why = h.last().ending();
  EXPECT_EQ(why->error_code, "BUDGET_EXCEEDED");
  EXPECT_EQ(why->category, Category::budget);
  EXPECT_FALSE(why->retryable);
  ASSERT_TRUE(why->cause) << "the step's own";
  EXPECT_FALSE(why->cause->cause) << "which has no cause of its own";
}

TEST(Budget, passed_by_a_failure_ends_its_retries_and_names_that_failure_as_the_cause) {
  auto h = RunBuilder().step("a").budget(cents(10).micros).create();
  h.claim("a");
  EXPECT_EQ(h.fail("a", "TOOL_TIMEOUT", cents(11)).names(), (Names{"step.failed_terminal", "run.failed"}));
  auto why = h.step("a").last_error;
  EXPECT_EQ(why->error_code, "BUDGET_EXCEEDED");
  ASSERT_TRUE(why->cause);
  EXPECT_EQ(why->cause->error_code, "TOOL_TIMEOUT");
}

TEST(Charge, is_recorded_while_the_attempt_goes_on_and_added_to_what_its_end_costs) {
  auto h = one_step.create();
  h.claim("a");
  EXPECT_EQ(h.charge("a", cents(2)).names(), Names{"step.charged"});
  EXPECT_EQ(h.charge("a", cents(3)).names(), Names{"step.charged"});
  EXPECT_EQ(h.step("a").status, StepStatus::running);
  EXPECT_EQ(h.run().cost, cents(5));
  EXPECT_EQ(h.charge("a", {}).names(), Names{}) << "nothing is no news";
  EXPECT_TRUE(h.charge("a", Money{-1}).refused_as(RefusalCode::invalid));
  h.complete("a", "{}", cents(1));
  EXPECT_EQ(h.step("a").cost, cents(6));
  EXPECT_TRUE(h.charge("a", cents(1)).refused_as(RefusalCode::lease_lost));
}

TEST(Charge, stays_when_the_attempt_cannot_report) {
  for (bool canceled : {true, false}) {
    auto h = RunBuilder().step("a").run_timeout(1min).create();
    h.claim("a");
    h.charge("a", cents(4));
    canceled ? h.cancel() : h.pass(2min);
    EXPECT_EQ(h.status(), canceled ? RunStatus::canceled : RunStatus::timeout);
    EXPECT_EQ(h.run().cost, cents(4));
  }
}

TEST(Charge, that_passes_the_budget_ends_the_run_at_once) {
  auto h = RunBuilder().step("a").budget(cents(10).micros).create();
  h.claim("a");
  EXPECT_EQ(h.charge("a", cents(10)).names(), Names{"step.charged"});
  EXPECT_EQ(h.charge("a", cents(1)).names(), (Names{"step.failed_terminal", "run.failed"}));
  EXPECT_EQ(h.run().cost, cents(11));
  EXPECT_EQ(h.last().ending()->error_code, "BUDGET_EXCEEDED");
}

// --- fail and retry ---

TEST(Fail, retryable_backs_off_and_comes_back) {
  auto h = one_step.create();
  h.claim("a");
  EXPECT_EQ(h.fail("a", "TOOL_TIMEOUT", cents(1)).names(), Names{"step.failed_retryable"});
  EXPECT_EQ(h.status(), RunStatus::running) << "backing off is running";
  EXPECT_EQ(h.run().cost, cents(1));
  EXPECT_EQ(h.step("a").last_error->error_code, "TOOL_TIMEOUT");
  EXPECT_EQ(h.step("a").next_eligible_at, h.now() + 4s) << "base 2s * 2^1";
  EXPECT_TRUE(h.claim("a").refused_as(RefusalCode::not_claimable));
  EXPECT_EQ(h.pass(4s - 1ms).names(), Names{});
  EXPECT_EQ(h.pass(1ms).names(), Names{"step.due"});
  EXPECT_EQ(h.claim("a").names(), Names{"step.claimed"});
  EXPECT_EQ(h.step("a").attempts, 2);
}

TEST(Fail, terminal_codes_end_the_run_and_cancel_the_rest) {
  auto h = RunBuilder().step("a").step("b").gate("g").create();
  h.claim("a");
  EXPECT_EQ(h.fail("a", "TOOL_INVALID_ARGUMENTS").names(),
            (Names{"step.failed_terminal", "step.canceled", "step.canceled", "run.failed"}));
  auto why = h.run().diagnostic;
  EXPECT_EQ(why->error_code, "TOOL_INVALID_ARGUMENTS");
  EXPECT_EQ(why->message, "step a: it did not work");
  EXPECT_EQ(why->step, StepId{"a"});
  EXPECT_EQ(why->attempt, 1);
  EXPECT_EQ(why->occurred_at, h.now());
  EXPECT_FALSE(why->likely_cause.empty() || why->suggested_fix.empty());
  ASSERT_TRUE(why->cause);
  EXPECT_EQ(*why->cause, *h.step("a").last_error);
}

TEST(Fail, by_policy_is_a_denial) {
  auto h = one_step.create();
  h.claim("a");
  h.fail("a", "TOOL_DENIED");
  EXPECT_EQ(h.status(), RunStatus::denied);
}

TEST(Fail, the_worker_may_overrule_the_table_of_codes_both_ways) {
  auto fail = [](std::string code, bool retryable) {
    auto h = one_step.create();
    h.claim("a");
    h.act(FailStep{h.id(0), LeaseProof::local(1), std::move(code), "x", retryable, {}, {}});
    return h.step("a").status;
  };
  EXPECT_EQ(fail("TOOL_TIMEOUT", false), StepStatus::failed_terminal);
  EXPECT_EQ(fail("TOOL_INTERNAL_ERROR", true), StepStatus::failed_retryable);
  EXPECT_EQ(fail("MY_OWN_CODE", true), StepStatus::failed_retryable);
}

TEST(Fail, the_last_attempt_is_terminal_whatever_its_code) {
  auto h = RunBuilder().step("a").attempts(2).create();
  h.claim("a");
  h.fail("a");
  h.pass(1min);
  h.claim("a");
  EXPECT_EQ(h.fail("a").names(), (Names{"step.failed_terminal", "run.failed"}));
  EXPECT_TRUE(h.run().diagnostic->retryable) << "as a new run";
}

TEST(Fail, beside_a_running_step_cancels_that_one_too) {
  auto h = RunBuilder().step("a").step("b").needs({}).create();
  h.claim("a");
  h.claim("b");
  h.fail_for_good("a");
  EXPECT_EQ(h.step("b").status, StepStatus::canceled);
  EXPECT_TRUE(h.complete("b").refused_as(RefusalCode::lease_lost));
}

TEST(Fail, with_the_longest_message_keeps_the_runs_message_within_the_limit) {
  const std::string id(name_chars_max, 'a');
  // Characters of three bytes, so that the limit falls into one.
  std::string message;
  while (message.size() + 3 <= diagnostic_message_chars_max) message += "€";
  auto h = RunBuilder().step(id).create();
  h.claim(id);
  const auto ending = h.act(FailStep{h.id(0), LeaseProof::local(1), "TOOL_DENIED", message, {}, {}, {}}).ending();
  ASSERT_TRUE(ending);
  EXPECT_TRUE(ending->message.starts_with("step " + id + ": €"));
  EXPECT_LE(ending->message.size(), diagnostic_message_chars_max);
  EXPECT_GT(ending->message.size(), diagnostic_message_chars_max - 3);
  EXPECT_FALSE(find_invalid_utf8(ending->message));
  EXPECT_EQ(ending->cause->message, message) << "nothing is lost";
}

TEST(Backoff, doubles_up_to_its_maximum) {
  auto h =
      RunBuilder().step("a").retry({.max_attempts = 6, .base = 5s, .max = 60s, .jitter = 0, .schedule = {}}).create();
  for (Duration expected : {10s, 20s, 40s, 60s, 60s}) {
    h.claim("a");
    h.fail("a");
    EXPECT_EQ(h.step("a").next_eligible_at - h.now(), expected);
    h.pass(expected);
  }
}

TEST(Backoff, follows_an_explicit_schedule_and_repeats_its_last_entry) {
  RetryPolicy policy{.max_attempts = 6, .jitter = 0, .schedule = {5s, 30s, 2min}};
  auto h = RunBuilder().step("a").retry(policy).create();
  for (Duration expected : {Duration(5s), Duration(30s), Duration(2min), Duration(2min), Duration(2min)}) {
    h.claim("a");
    h.fail("a");
    EXPECT_EQ(h.step("a").next_eligible_at - h.now(), expected);
    h.pass(expected);
  }
}

TEST(Backoff, is_spread_by_the_draw_and_no_wider_than_the_jitter) {
  auto wait = [](double draw) {
    auto h = RunBuilder().step("a").retry({.base = 5s, .jitter = 0.2, .schedule = {}}).create();
    h.claim("a");
    h.act(FailStep{h.id(0), LeaseProof::local(1), "TOOL_FAILED", "x", {}, {}, {}}, {draw});
    return h.step("a").next_eligible_at - h.now();
  };
  EXPECT_EQ(wait(-1), 8s);
  EXPECT_EQ(wait(0), 10s);
  EXPECT_EQ(wait(1), 12s);
  EXPECT_EQ(wait(50), 12s);
}

TEST(Backoff, waits_as_long_as_the_worker_asks_if_that_is_longer) {
  auto wait = [](Duration retry_after) {
    auto h = one_step.create();
    h.claim("a");
    h.act(FailStep{h.id(0), LeaseProof::local(1), "TOOL_RATE_LIMITED", "x", {}, retry_after, {}});
    return h.step("a").next_eligible_at - h.now();
  };
  EXPECT_EQ(wait(90s), 90s);
  EXPECT_EQ(wait(1s), 4s);
}

TEST(Backoff, never_goes_past_the_deadline_where_the_failure_is_the_timeouts_cause) {
  auto h = RunBuilder().step("a").run_timeout(10s).create();
  h.claim("a");
  h.wait(9s);
  h.fail("a", "TOOL_DEPENDENCY_DOWN");
  EXPECT_EQ(h.step("a").next_eligible_at, h.run().deadline());
  EXPECT_EQ(h.pass(1s).names(), (Names{"step.canceled", "run.timed_out"}));
  EXPECT_EQ(h.run().diagnostic->error_code, "RUN_TIMEOUT");
  ASSERT_TRUE(h.run().diagnostic->cause);
  EXPECT_EQ(h.run().diagnostic->cause->error_code, "TOOL_DEPENDENCY_DOWN");
}

TEST(Backoff, survives_a_clock_that_was_set_back) {
  auto h = one_step.create();
  h.claim("a");
  h.fail("a");
  h.pass(4s);
  h.wait(-1min);
  EXPECT_EQ(h.claim("a").names(), Names{"step.claimed"});
}

TEST(StepTimeout, is_a_failed_attempt_like_any_other) {
  auto h = RunBuilder().step("a").attempts(2).step_timeout(20s).lease(1h).create();
  h.claim("a");
  EXPECT_EQ(h.pass(20s - 1ms).names(), Names{});
  EXPECT_EQ(h.pass(1ms).names(), Names{"step.failed_retryable"});
  EXPECT_EQ(h.step("a").last_error->error_code, "TOOL_TIMEOUT");
  EXPECT_TRUE(h.complete("a").refused_as(RefusalCode::lease_lost)) << "too late";
  h.pass(1min);
  h.claim("a");
  EXPECT_EQ(h.pass(20s).names(), (Names{"step.failed_terminal", "run.failed"}));
}

TEST(TimePasses, moves_everything_that_is_due_in_one_commit) {
  auto h = RunBuilder().step("a").step("b").needs({}).step("c").needs({}).step_timeout(5s).create();
  for (auto id : {"a", "b", "c"}) h.claim(id);
  h.fail("a");
  h.fail("b");
  EXPECT_EQ(h.pass(5s).names(), (Names{"step.due", "step.due", "step.failed_retryable"}));
}

TEST(TimePasses, does_nothing_early_twice_or_after_the_end) {
  auto h = one_step.create();
  EXPECT_EQ(h.pass(24h).names(), Names{}) << "waiting for its turn is not execution";
  h.claim("a");
  h.fail("a");
  EXPECT_EQ(h.pass(1h).names(), Names{"step.due"});
  EXPECT_EQ(h.pass(1h).names(), Names{});
  h.cancel();
  EXPECT_EQ(h.pass(1h).names(), Names{});
}

}  // namespace
}  // namespace pawl::tests
