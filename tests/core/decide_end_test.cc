// How runs end from outside: cancel, the deadline, reports of other orchestrators; and how an ended run is retried.
#include "core/decide.h"
#include "core/invariants.h"
#include "core/run_builder.h"
#include "core/snapshot.h"

namespace pawl::tests {
namespace {

using namespace std::chrono_literals;

// --- cancel ---

TEST(Cancel, of_a_created_run_goes_through_running_in_one_commit) {
  auto h = RunBuilder().step("a").step("b").create();
  EXPECT_EQ(h.cancel().names(), (Names{"step.canceled", "step.canceled", "run.started", "run.canceled"}));
  EXPECT_EQ(h.status(), RunStatus::canceled);
  EXPECT_EQ(h.last().find<RunMoved>()->trigger, RunTrigger::start);
  EXPECT_FALSE(h.run().diagnostic) << "canceled is no failure";
}

TEST(Cancel, keeps_who_and_why) {
  auto h = external_run().create();
  h.report(RunTrigger::start);
  h.cancel();
  EXPECT_EQ(h.last().find<RunMoved>()->by, Actor{"person:ada"});
  EXPECT_EQ(h.last().find<RunMoved>()->reason, "no longer needed");
}

struct CancelRow {
  std::string name;
  RunBuilder builder;
  Play acts;
  Names events;
};

// clang-format off
const std::vector<CancelRow> cancel_rows{
    {"a ready step", RunBuilder().step("a"), [](History& h) { h.start(); },
     {"step.canceled", "run.canceled"}},
    {"a running step", RunBuilder().step("a"), [](History& h) { h.claim("a"); },
     {"step.canceled", "run.canceled"}},
    {"a step that backs off", RunBuilder().step("a"), [](History& h) { h.claim("a"); h.fail("a"); },
     {"step.canceled", "run.canceled"}},
    {"an open question", RunBuilder().step("a"), [](History& h) { h.claim("a"); h.ask("a"); },
     {"step.canceled", "run.canceled"}},
    {"an open gate", RunBuilder().gate("g"), [](History& h) { h.start(); },
     {"approval.canceled", "step.canceled", "run.canceled"}},
    {"an action that waits", RunBuilder().step("a"), [](History& h) { h.claim("a"); h.gate_action("a"); },
     {"approval.canceled", "step.canceled", "run.canceled"}},
    {"a step that succeeded", RunBuilder().step("a").step("b"), [](History& h) { h.do_step("a"); },
     {"step.canceled", "run.canceled"}},
    {"a run without steps", external_run(), [](History& h) { h.report(RunTrigger::start); h.report(RunTrigger::pause); },
     {"run.canceled"}},
};
// clang-format on

TEST(Cancel, ends_everything_unfinished_in_the_same_commit) {
  for (const auto& row : cancel_rows) {
    SCOPED_TRACE(row.name);
    auto h = play(row.builder, row.acts);
    EXPECT_EQ(h.cancel().names(), row.events);
    EXPECT_EQ(h.status(), RunStatus::canceled);
    for (const auto& step : h.run().steps) EXPECT_TRUE(is_terminal(step.status));
    for (const auto& approval : h.run().approvals) EXPECT_EQ(approval.status, ApprovalStatus::canceled);
    EXPECT_EQ(h.cancel().names(), Names{}) << "a repeat is the same answer";
    EXPECT_FALSE(h.last().refused());
  }
}

TEST(Cancel, of_a_run_that_ended_otherwise_is_refused) {
  auto succeeded = RunBuilder().step("a").create();
  succeeded.do_step("a");
  EXPECT_TRUE(succeeded.cancel().refused_as(RefusalCode::run_ended));
  EXPECT_EQ(succeeded.status(), RunStatus::success) << "one terminal state, and both callers see it";
  auto failed = RunBuilder().step("a").create();
  failed.claim("a");
  failed.fail_for_good("a");
  EXPECT_TRUE(failed.cancel().refused_as(RefusalCode::run_ended));
  EXPECT_EQ(failed.last().names(), Names{});
}

// --- the deadline ---

TEST(Deadline, is_counted_from_the_start) {
  auto h = RunBuilder().step("a").run_timeout(10s).create();
  EXPECT_EQ(h.pass(1h).names(), Names{});
  h.claim("a");
  EXPECT_EQ(h.pass(10s - 1ms).names(), Names{});
  EXPECT_EQ(h.pass(1ms).names(), (Names{"step.canceled", "run.timed_out"}));
  EXPECT_EQ(h.status(), RunStatus::timeout);
  EXPECT_EQ(h.run().diagnostic->error_code, "RUN_TIMEOUT");
  EXPECT_FALSE(h.run().diagnostic->cause) << "nothing had failed";
}

TEST(Deadline, while_waiting_goes_through_running_in_one_commit) {
  auto h = RunBuilder().gate("g").step("a").run_timeout(10s).create();
  h.start();
  EXPECT_EQ(h.pass(10s).names(),
            (Names{"approval.canceled", "step.canceled", "step.canceled", "run.resumed", "run.timed_out"}));
  EXPECT_EQ(h.approval().status, ApprovalStatus::canceled);
}

TEST(Deadline, comes_before_whatever_else_is_due) {
  auto h = RunBuilder().step("a").step_timeout(10s).attempts(1).run_timeout(10s).create();
  h.claim("a");
  h.pass(10s);
  EXPECT_EQ(h.status(), RunStatus::timeout);
}

TEST(Deadline, holds_for_runs_that_others_carry) {
  auto h = external_run().run_timeout(10s).create();
  h.report(RunTrigger::start);
  h.report(RunTrigger::pause);
  EXPECT_EQ(h.pass(10s).names(), (Names{"run.resumed", "run.timed_out"}));
}

// --- reports ---

TEST(Report, of_a_legal_transition_is_taken_over) {
  auto h = external_run().create();
  EXPECT_EQ(h.report(RunTrigger::start).names(), Names{"run.started"});
  EXPECT_EQ(h.report(RunTrigger::pause).names(), Names{"run.paused"});
  EXPECT_EQ(h.report(RunTrigger::resume).names(), Names{"run.resumed"});
  EXPECT_EQ(h.report(RunTrigger::succeed).names(), Names{"run.succeeded"});
  EXPECT_EQ(h.last().find<RunMoved>()->by, Actor{"key:orchestrator"});
}

TEST(Report, of_a_bad_end_brings_its_diagnostic) {
  for (auto trigger : {RunTrigger::fail, RunTrigger::deny, RunTrigger::time_out}) {
    auto h = external_run().create();
    h.report(RunTrigger::start);
    auto why = some_diagnostic("TOOL_DEPENDENCY_DOWN");
    EXPECT_FALSE(h.report(trigger, why).refused());
    EXPECT_EQ(*h.run().diagnostic, *why);
  }
}

TEST(Report, of_a_bad_end_without_a_diagnostic_is_itself_a_failure) {
  auto h = external_run().create();
  h.report(RunTrigger::start);
  EXPECT_TRUE(h.report(RunTrigger::deny).refused_as(RefusalCode::invalid_transition));
  EXPECT_EQ(h.last().names(), (Names{"transition.refused", "run.failed"}));
  EXPECT_EQ(h.run().diagnostic->error_code, "INVALID_STATE_TRANSITION");
}

TEST(Report, a_diagnostic_does_not_outlive_what_it_was_about) {
  auto h = external_run().create();
  h.report(RunTrigger::start);
  h.report(RunTrigger::pause, some_diagnostic());
  EXPECT_TRUE(h.run().diagnostic);
  h.report(RunTrigger::resume);
  EXPECT_FALSE(h.run().diagnostic);
  h.report(RunTrigger::succeed, some_diagnostic());
  EXPECT_FALSE(h.run().diagnostic) << "a success has nothing to diagnose";
}

TEST(Report, of_an_undefined_transition_is_rejected_audited_and_fails_the_run) {
  const std::vector<std::pair<std::vector<RunTrigger>, RunTrigger>> rows{
      {{}, RunTrigger::succeed},
      {{}, RunTrigger::resume},
      {{}, RunTrigger::cancel},
      {{RunTrigger::start}, RunTrigger::start},
      {{RunTrigger::start}, RunTrigger::resume},
      {{RunTrigger::start, RunTrigger::pause}, RunTrigger::succeed},
      {{RunTrigger::start, RunTrigger::pause}, RunTrigger::pause},
  };
  for (const auto& [legal, illegal] : rows) {
    auto h = external_run().create();
    for (auto trigger : legal) h.report(trigger);
    auto state = std::string(to_string(h.status()));
    SCOPED_TRACE(state + ", " + std::string(to_string(illegal)));
    EXPECT_TRUE(h.report(illegal).refused_as(RefusalCode::invalid_transition));
    EXPECT_EQ(h.last().names().front(), "transition.refused");
    EXPECT_EQ(h.last().find<TransitionRefused>()->state, state);
    EXPECT_EQ(h.last().find<TransitionRefused>()->requested, to_string(illegal));
    EXPECT_EQ(h.status(), RunStatus::failed);
    EXPECT_EQ(h.run().diagnostic->error_code, "INVALID_STATE_TRANSITION");
    EXPECT_FALSE(h.run().diagnostic->retryable);
  }
}

TEST(Report, after_the_end_changes_nothing) {
  auto h = external_run().create();
  h.report(RunTrigger::start);
  h.report(RunTrigger::succeed);
  for (std::size_t i = 0; i < enum_count<RunTrigger>; ++i) {
    EXPECT_TRUE(h.report(static_cast<RunTrigger>(i), some_diagnostic()).refused_as(RefusalCode::run_ended));
    EXPECT_EQ(h.last().names(), Names{});
  }
  EXPECT_EQ(h.status(), RunStatus::success);
}

TEST(Report, about_a_run_of_this_engine_is_nobodys_business) {
  auto h = RunBuilder().step("a").create();
  EXPECT_TRUE(h.report(RunTrigger::start).refused_as(RefusalCode::not_external));
  EXPECT_EQ(h.status(), RunStatus::created);
}

// --- retry ---

TEST(Retry, is_a_new_run_that_names_its_predecessor) {
  auto h = RunBuilder().step("a").input(R"({"n":1})").budget(5).run_timeout(1h).create();
  h.claim("a");
  h.fail_for_good("a");
  RunId new_id{IdBits{7, 8}};
  auto command = retry_of(h.run(), new_id, Actor{"person:bo"});
  ASSERT_TRUE(command);
  EXPECT_EQ(command->id, new_id);
  EXPECT_EQ(command->workflow, &h.workflow());
  EXPECT_EQ(command->trigger_type, "retry");
  History again(std::make_shared<const Workflow>(h.workflow()), *command);
  EXPECT_EQ(again.status(), RunStatus::created);
  EXPECT_EQ(again.run().retry_of, h.run().id);
  EXPECT_EQ(again.run().input, R"({"n":1})");
  EXPECT_EQ(again.run().created_by, Actor{"person:bo"});
  EXPECT_EQ(again.run().budget, h.run().budget);
  EXPECT_EQ(again.run().timeout, h.run().timeout);
  EXPECT_EQ(again.run().cost, Money{});
  EXPECT_EQ(h.status(), RunStatus::failed) << "the old run stays as it ended";
}

TEST(Retry, keeps_everybody_who_asked_for_the_run_before) {
  const Actor bo{"person:bo"}, cy{"key:cy"};
  auto gated = [] { return RunBuilder().step("a").gate("ok").terms({.two_person = true, .quorum = 2, .prompt = {}}); };
  auto h = gated().create();
  h.cancel();
  RunId second{IdBits{7, 8}}, third{IdBits{7, 9}};
  History again(std::make_shared<const Workflow>(h.workflow()), retry_of(h.run(), second, bo).value());
  EXPECT_EQ(requesters_of(again.run()), (std::vector<Actor>{bo, asker}));
  again.cancel();
  History last(std::make_shared<const Workflow>(h.workflow()), retry_of(again.run(), third, cy).value());
  EXPECT_EQ(requesters_of(last.run()), (std::vector<Actor>{cy, bo, asker}));
  EXPECT_EQ(read_snapshot(write_snapshot(last.run()), last.workflow())->other_requesters, last.run().other_requesters);
  EXPECT_EQ(check_run(last.run()), std::vector<std::string>());
  last.do_step("a");
  for (const Actor& each : {asker, bo})
    EXPECT_TRUE(last.approve(each.text).refused_as(RefusalCode::self_approval)) << each.text;
  EXPECT_FALSE(last.approve("person:dee").refused());
  // Who asks again is named once.
  auto mine = retry_of(again.run(), third, asker);
  EXPECT_EQ(mine->other_requesters, std::vector<Actor>{bo});
}

TEST(Retry, is_refused_when_too_many_have_asked) {
  auto h = RunBuilder().step("a").create();
  h.cancel();
  pawl::Run run = h.run();
  for (std::size_t i = 1; i < requesters_max; ++i) run.other_requesters.push_back({"key:" + std::to_string(i)});
  EXPECT_TRUE(retry_of(run, {}, asker)) << "one of those who have asked";
  EXPECT_EQ(retry_of(run, {}, Actor{"person:bo"}).error().code, RefusalCode::invalid);
}

TEST(Retry, a_journal_cannot_name_requesters_twice_or_let_them_vote) {
  auto h = RunBuilder().step("a").create();
  auto create = [&](std::vector<Actor> others) {
    pawl::Run run;
    run.workflow = &h.workflow();
    RunCreated event{.workflow = h.workflow().name, .by = asker, .other_requesters = std::move(others)};
    return evolve_checked(run, {first_moment, std::move(event)}).has_value();
  };
  const Actor bo{"person:bo"};
  EXPECT_TRUE(create({bo}));
  EXPECT_FALSE(create({bo, bo}));
  EXPECT_FALSE(create({asker}));
  EXPECT_FALSE(create({Actor{}}));
  EXPECT_FALSE(create(std::vector<Actor>(requesters_max, bo)));
}

TEST(Retry, is_for_runs_that_ended_without_success) {
  auto open = RunBuilder().step("a").create();
  EXPECT_EQ(retry_of(open.run(), {}, asker).error().code, RefusalCode::run_not_ended);
  open.claim("a");
  EXPECT_EQ(retry_of(open.run(), {}, asker).error().code, RefusalCode::run_not_ended);
  auto canceled = open;
  canceled.cancel();
  EXPECT_TRUE(retry_of(canceled.run(), {}, asker));
  open.complete("a");
  EXPECT_EQ(retry_of(open.run(), {}, asker).error().code, RefusalCode::run_ended);
}

}  // namespace
}  // namespace pawl::tests
