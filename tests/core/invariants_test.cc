#include "core/invariants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/run_builder.h"

namespace pawl::tests {
namespace {

using Problems = std::vector<std::string>;

RunBuilder three_steps() { return RunBuilder().step("fetch").gate("sign-off").step("assign"); }

// Every step through its whole life and the gate opened, checked where commits end.
TEST(Invariants, hold_after_every_commit_of_a_run_that_succeeds) {
  auto history = three_steps().create();
  EXPECT_EQ(check_run(history.run()), Problems());
  history.claim("fetch");
  EXPECT_EQ(check_run(history.run()), Problems());
  history.fail("fetch");
  EXPECT_EQ(check_run(history.run()), Problems());
  history.pass(std::chrono::minutes(1));
  EXPECT_EQ(check_run(history.run()), Problems());
  history.do_step("fetch");
  EXPECT_EQ(check_run(history.run()), Problems());
  history.approve();
  EXPECT_EQ(check_run(history.run()), Problems());
  history.do_step("assign");
  EXPECT_EQ(history.status(), RunStatus::success);
  EXPECT_EQ(check_run(history.run()), Problems());
}

// Whatever is asked of a run, in whatever order, it is sound when the commit is over.
TEST(Invariants, hold_after_every_commit_of_random_histories) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    std::mt19937 chance(seed);
    auto draw = [&](unsigned below) { return chance() % below; };
    auto history = three_steps().create();
    for (int act = 0; act < 40 && !is_terminal(history.status()); ++act) {
      auto step = static_cast<StepIndex>(draw(3));
      auto proof = LeaseProof::local(history.run().steps[step].lease_token - draw(2));
      switch (draw(10)) {
        case 0:
        case 1:
        case 2:
          history.act(ClaimStep{history.id(step), WorkerName{"w"}, draw(2) == 0, {}, {}});
          break;
        case 3:
        case 4:
          history.act(CompleteStep{history.id(step), proof, "{}", Money{10}});
          break;
        case 5:
          history.act(FailStep{history.id(step), proof, "TOOL_FAILED", "no", {}, {}, Money{5}});
          break;
        case 6:
          history.act(AskQuestion{history.id(step), proof, "\"which?\""});
          break;
        case 7:
          history.act(AnswerQuestion{history.id(step), "1", Actor{"person:ada"}});
          break;
        case 8:
          history.act(ResolveApproval{{}, draw(4) != 0, Actor{"person:ada"}, {}});
          break;
        default:
          history.pass(Duration(draw(30'000)));
      }
      ASSERT_EQ(check_run(history.run()), Problems()) << "seed " << seed << ", after act " << act;
    }
  }
}

void expect_damage(const History& history, std::string_view what, const std::function<void(Run&)>& damage) {
  Run run = history.run();
  damage(run);
  Problems found = check_run(run);
  bool named =
      std::ranges::any_of(found, [&](const std::string& problem) { return problem.find(what) != problem.npos; });
  EXPECT_TRUE(named) << what << "\ninstead: " << testing::PrintToString(found);
}

TEST(Invariants, name_what_is_wrong_with_a_running_run) {
  auto history = three_steps().create();
  history.claim("fetch");
  expect_damage(history, "nobody holds its lease", [](pawl::Run& run) { run.steps[0].lease_owner = {}; });
  expect_damage(history, "more attempts than allowed", [](pawl::Run& run) { run.steps[0].attempts = 1000; });
  expect_damage(history, "an attempt without a lease", [](pawl::Run& run) { run.steps[0].lease_token = 0; });
  expect_damage(history, "before everything it needs succeeded",
                [](pawl::Run& run) { run.steps[2].status = StepStatus::ready; });
  expect_damage(history, "no step of it can move", [](pawl::Run& run) { run.steps[0].status = StepStatus::pending; });
  expect_damage(history, "still pending", [](pawl::Run& run) { run.steps[0].status = StepStatus::pending; });
  expect_damage(history, "a step of it can move", [](pawl::Run& run) { run.status = RunStatus::waiting; });
  expect_damage(history, "a worker executed an approval", [](pawl::Run& run) { run.steps[1].attempts = 1; });
  expect_damage(history, "not the sum", [](pawl::Run& run) { run.cost = {1}; });
  expect_damage(history, "writes", [](pawl::Run& run) { run.writes = 7; });
  expect_damage(history, "every step succeeded", [](pawl::Run& run) { run.status = RunStatus::success; });
  expect_damage(history, "without a diagnostic", [](pawl::Run& run) { run.status = RunStatus::failed; });
  expect_damage(history, "a step has not", [](pawl::Run& run) { run.status = RunStatus::canceled; });
  expect_damage(history, "before the run started", [](pawl::Run& run) { run.status = RunStatus::created; });
}

TEST(Invariants, name_what_is_wrong_with_a_retry) {
  auto history = three_steps().create();
  history.claim("fetch");
  history.fail("fetch");
  expect_damage(history, "a retry that has no time", [](pawl::Run& run) { run.steps[0].next_eligible_at = {}; });
  expect_damage(history, "failed without a diagnostic", [](pawl::Run& run) { run.steps[0].last_error = nullptr; });
  expect_damage(history, "behind the run's deadline", [](pawl::Run& run) { run.timeout = Duration(1); });
}

TEST(Invariants, name_an_effect_with_less_risk_than_its_step) {
  auto history = RunBuilder().step("a").with([](StepDefinition& step) { step.risk = Tier::med; }).create();
  history.claim("a");
  history.propose("a", allowed);
  ASSERT_EQ(check_run(history.run()), Problems());
  expect_damage(history, "less risk than its step", [](pawl::Run& run) {
    auto proposal = std::make_shared<Proposal>(*run.receipts[0].proposal);
    proposal->action.risk = Tier::low;
    run.receipts[0].proposal = std::move(proposal);
  });
}

TEST(Invariants, name_what_is_wrong_with_an_approval) {
  auto history = three_steps().create();
  history.do_step("fetch");
  ASSERT_EQ(history.status(), RunStatus::waiting);
  expect_damage(history, "not exactly one is open", [](pawl::Run& run) { run.approvals.clear(); });
  expect_damage(history, "approved by fewer",
                [](pawl::Run& run) { run.approvals[0].status = ApprovalStatus::approved; });
  expect_damage(history, "the time of its decision",
                [](pawl::Run& run) { run.approvals[0].resolved_at = run.created_at; });
  expect_damage(history, "voted twice", [](pawl::Run& run) {
    run.approvals[0].votes = {{Actor{"person:ada"}, {}, run.created_at}, {Actor{"person:ada"}, {}, run.created_at}};
  });
  expect_damage(history, "after it had expired", [](pawl::Run& run) {
    run.approvals[0].votes = {{Actor{"person:ada"}, {}, run.approvals[0].expires_at}};
  });
  expect_damage(history, "one who asked", [](pawl::Run& run) {
    run.approvals[0].terms.two_person = true;
    run.approvals[0].votes = {{run.created_by, {}, run.created_at}};
  });
  expect_damage(history, "one who asked", [](pawl::Run& run) {
    run.approvals[0].terms.two_person = true;
    run.other_requesters = {Actor{"person:bo"}};
    run.approvals[0].votes = {{Actor{"person:bo"}, {}, run.created_at}};
  });
  expect_damage(history, "named twice", [](pawl::Run& run) { run.other_requesters = {run.created_by}; });
}

TEST(Invariants, name_what_is_wrong_with_an_end) {
  auto history = three_steps().create();
  history.claim("fetch");
  history.fail_for_good("fetch");
  ASSERT_EQ(history.status(), RunStatus::failed);
  EXPECT_EQ(check_run(history.run()), Problems());
  expect_damage(history, "without a diagnostic", [](pawl::Run& run) { run.diagnostic = nullptr; });
  expect_damage(history, "the end has no time", [](pawl::Run& run) { run.finished_at = {}; });
  expect_damage(history, "a step has not", [](pawl::Run& run) { run.steps[2].status = StepStatus::pending; });
  expect_damage(history, "yet has a diagnostic", [](pawl::Run& run) { run.status = RunStatus::canceled; });
}

TEST(Invariants, a_run_without_events_is_none) {
  pawl::Run run;
  EXPECT_EQ(check_run(run), Problems{"the run has no first event"});
}

}  // namespace
}  // namespace pawl::tests
