// What providers call their states, and what each state means for a run that they execute.
#include "core/provider.h"

#include <gtest/gtest.h>

#include <set>

#include "core/invariants.h"
#include "core/run_builder.h"
#include "core/snapshot.h"
#include "core/vocabulary.h"

namespace pawl::tests {
namespace {

// The rows of the contract for providers, by its own words, not by the table that is tested.
struct SeedRow {
  Provider provider;
  std::string_view state;
  std::string_view canonical;
};
constexpr std::array seed_rows{
    SeedRow{Provider::stepfunctions, "RUNNING", "running"}, SeedRow{Provider::stepfunctions, "SUCCEEDED", "succeeded"},
    SeedRow{Provider::stepfunctions, "FAILED", "failed"},   SeedRow{Provider::stepfunctions, "TIMED_OUT", "failed"},
    SeedRow{Provider::stepfunctions, "ABORTED", "failed"},  SeedRow{Provider::restate, "running", "running"},
    SeedRow{Provider::restate, "active", "running"},        SeedRow{Provider::restate, "suspended", "waiting"},
    SeedRow{Provider::restate, "completed", "succeeded"},   SeedRow{Provider::restate, "succeeded", "succeeded"},
    SeedRow{Provider::restate, "failed", "failed"},         SeedRow{Provider::restate, "error", "failed"},
};

TEST(ProviderStates, every_row_of_the_seed_is_mapped_as_it_says) {
  for (const SeedRow& row : seed_rows) {
    const ProviderState* found = find_provider_state(row.provider, row.state);
    ASSERT_TRUE(found) << row.state;
    EXPECT_EQ(to_string(found->sub_state), row.canonical) << row.state;
  }
}

TEST(ProviderStates, retry_metadata_makes_it_backing_off) {
  EXPECT_EQ(find_provider_state(Provider::restate, "backing-off")->sub_state, SubState::backing_off);
  EXPECT_EQ(find_provider_state(Provider::stepfunctions, "RUNNING", Sign::between_attempts)->sub_state,
            SubState::backing_off);
}

TEST(ProviderStates, a_transient_failure_is_an_error_that_ends_nothing) {
  for (auto [provider, word] :
       {std::pair(Provider::restate, "running"), std::pair(Provider::stepfunctions, "RUNNING")}) {
    const ProviderState* found = find_provider_state(provider, word, Sign::after_failure);
    EXPECT_EQ(found->sub_state, SubState::error);
    EXPECT_FALSE(found->ends);
  }
}

TEST(ProviderStates, a_sign_that_a_word_does_not_have_is_no_sign) {
  EXPECT_EQ(find_provider_state(Provider::stepfunctions, "FAILED", Sign::between_attempts)->sub_state,
            SubState::failed);
}

TEST(ProviderStates, what_nobody_knows_is_not_in_the_table) {
  for (Provider provider : {Provider::restate, Provider::stepfunctions})
    for (const char* word : {"", "RUNNIN", "Completed", "done", "Success"})
      EXPECT_FALSE(find_provider_state(provider, word)) << word;
  EXPECT_FALSE(find_provider_state(Provider::restate, "RUNNING"));
}

TEST(ProviderStates, those_that_end_a_run_are_succeeded_or_failed_and_no_others) {
  std::set<std::tuple<Provider, std::string_view, Sign>> seen;
  for (const ProviderState& row : provider_states) {
    EXPECT_TRUE(seen.insert({row.provider, row.word, row.sign}).second) << row.word;
    bool is_end = row.sub_state == SubState::succeeded || row.sub_state == SubState::failed;
    EXPECT_EQ(is_end, row.ends.has_value()) << row.word;
    EXPECT_EQ(row.sub_state == SubState::succeeded, row.ends == RunTrigger::succeed) << row.word;
  }
}

TEST(ProviderStates, an_arn_is_taken_apart_or_refused) {
  auto machine = find_state_machine("arn:aws-cn:states:cn-north-1:123456789012:stateMachine:ship");
  ASSERT_TRUE(machine);
  EXPECT_EQ(machine->partition, "aws-cn");
  EXPECT_EQ(machine->region, "cn-north-1");
  EXPECT_EQ(machine->name, "ship");
  for (const char* text :
       {"", "ship", "arn:aws:states:eu-west-1:123456789012:execution:ship",
        "arn:aws:states:eu-west-1:123456789012:stateMachine:", "arn:aws:s3:eu-west-1:1:stateMachine:x",
        "arn:aws:states:eu-west-1:123456789012:stateMachine:ship:extra", "arn:aws:states:eu/1:1:stateMachine:x"})
    EXPECT_FALSE(find_state_machine(text)) << text;
}

// ---- What a run does by it

RunBuilder foreign_run(Provider provider = Provider::restate) {
  return RunBuilder().gate("sign-off").provider(provider);
}

ObserveRun seen_as(Provider provider, std::string_view word, Sign sign = Sign::none) {
  ObserveRun out{.id = "inv_1", .state = std::string(word)};
  const ProviderState* state = find_provider_state(provider, word, sign);
  out.sub_state = state ? state->sub_state : SubState::running;
  if (state) out.ends = state->ends;
  if (out.ends == RunTrigger::fail || out.ends == RunTrigger::time_out)
    out.diagnostic = std::make_shared<const Diagnostic>(diagnose("PROVIDER_RUN_FAILED", "it broke", first_moment));
  return out;
}

RequestApproval asking(std::string address = "sign_1") {
  return {StepId{"sign-off"}, {CallbackKind::awakeable, std::move(address)}, Actor{"key:service"}};
}

void expect_sound_run(const History& history) {
  EXPECT_EQ(check_run(history.run()), std::vector<std::string>{});
  auto again = read_snapshot(write_snapshot(history.run()), history.workflow());
  ASSERT_TRUE(again);
  EXPECT_TRUE(same_fold(*again, history.run()));
  auto summary = read_summary(write_snapshot(history.run()));
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->provider, history.run().provider);
  EXPECT_EQ(summary->provider_state, provider_state(history.run()));
  EXPECT_EQ(summary->retries, retries_of(history.run()));
}

TEST(ForeignRun, is_handed_over_when_it_is_made_so_its_time_runs) {
  History history = foreign_run().run_timeout(std::chrono::seconds(5)).create();
  EXPECT_EQ(history.last().names(), (Names{"run.created", "run.started"}));
  EXPECT_EQ(sub_state(history.run()), "running");
  EXPECT_TRUE(history.run().steps.empty());
  history.wait(std::chrono::seconds(5));
  history.act(TimePasses{});
  EXPECT_EQ(history.status(), RunStatus::timeout);
  EXPECT_EQ(history.last().find<RunMoved>()->tells, Provider::restate);
  expect_sound_run(history);
}

TEST(ForeignRun, every_state_of_every_provider_shows_as_the_table_says) {
  for (const ProviderState& row : provider_states) {
    SCOPED_TRACE(std::string(row.word));
    History history = foreign_run(row.provider).create();
    history.act(seen_as(row.provider, row.word, row.sign));
    EXPECT_EQ(sub_state(history.run()), to_string(row.sub_state));
    EXPECT_EQ(provider_state(history.run()), row.word);
    EXPECT_EQ(is_terminal(history.status()), row.ends.has_value());
    if (row.ends) {
      EXPECT_EQ(history.status(), *next(run_table, RunStatus::running, *row.ends));
    }
    expect_sound_run(history);
  }
}

TEST(ForeignRun, every_change_is_one_event_and_what_is_known_is_none) {
  History history = foreign_run().create();
  EXPECT_EQ(history.act(seen_as(Provider::restate, "running")).names(), (Names{"run.observed"}));
  EXPECT_EQ(history.act(seen_as(Provider::restate, "running")).names(), (Names{}));
  EXPECT_EQ(history.act(seen_as(Provider::restate, "suspended")).names(), (Names{"run.observed", "run.paused"}));
  EXPECT_EQ(history.act(seen_as(Provider::restate, "running")).names(), (Names{"run.observed", "run.resumed"}));
  expect_sound_run(history);
}

// Who follows it sees it after each event.
TEST(ForeignRun, can_be_told_of_between_two_events_of_one_look) {
  for (const ProviderState& row : provider_states) {
    SCOPED_TRACE(std::string(row.word));
    History history = foreign_run(row.provider).create();
    ObserveRun waiting = seen_as(row.provider, "anything");
    waiting.sub_state = SubState::waiting;
    history.act(waiting);
    ASSERT_EQ(history.status(), RunStatus::waiting);
    history.act_until(seen_as(row.provider, row.word, row.sign), "run.observed");
    EXPECT_FALSE(sub_state(history.run()).empty());
    EXPECT_EQ(run_word(Vocabulary::contract_v1, history.run()), "waiting");
  }
}

TEST(ForeignRun, an_end_while_it_waits_is_a_path_of_legal_moves) {
  History history = foreign_run().create();
  history.act(seen_as(Provider::restate, "suspended"));
  EXPECT_EQ(history.act(seen_as(Provider::restate, "completed")).names(),
            (Names{"run.observed", "run.resumed", "run.succeeded"}));
  EXPECT_FALSE(history.last().events.back().payload.index() == 0);
  EXPECT_FALSE(std::get<RunMoved>(history.last().events.back().payload).tells);
  expect_sound_run(history);
}

TEST(ForeignRun, never_changes_after_its_end_whatever_the_past_says) {
  History history = foreign_run().create();
  history.act(seen_as(Provider::restate, "completed"));
  for (const ProviderState& row : provider_states) {
    if (row.provider != Provider::restate) continue;
    EXPECT_TRUE(history.act(seen_as(Provider::restate, row.word, row.sign)).events.empty()) << row.word;
  }
  EXPECT_EQ(history.status(), RunStatus::success);
}

TEST(ForeignRun, retries_are_never_forgotten) {
  History history = foreign_run().create();
  ObserveRun third = seen_as(Provider::restate, "backing-off");
  third.retries = 3;
  history.act(third);
  history.act(seen_as(Provider::restate, "suspended"));
  EXPECT_EQ(retries_of(history.run()), 3);
}

TEST(ForeignRun, an_unknown_state_is_running_and_only_its_deadline_ends_it) {
  History history = foreign_run().run_timeout(std::chrono::seconds(5)).create();
  history.act(seen_as(Provider::restate, "meditating"));
  EXPECT_EQ(sub_state(history.run()), "running");
  EXPECT_EQ(provider_state(history.run()), "meditating");
  history.wait(std::chrono::seconds(5));
  history.act(TimePasses{});
  EXPECT_EQ(history.status(), RunStatus::timeout);
}

TEST(ForeignRun, a_cancel_has_the_provider_told) {
  History history = foreign_run().create();
  history.act(CancelRun{asker, "enough"});
  EXPECT_EQ(history.last().find<RunMoved>()->tells, Provider::restate);
  EXPECT_EQ(sub_state(history.run()), "failed");
  expect_sound_run(history);
}

TEST(ForeignRun, takes_no_reports_and_its_native_like_no_observations) {
  History history = foreign_run().create();
  EXPECT_TRUE(history.act(ReportRun{RunTrigger::succeed, asker, {}, {}}).refused_as(RefusalCode::not_external));
  History native = RunBuilder().step("a").create();
  EXPECT_TRUE(native.act(seen_as(Provider::restate, "completed")).refused_as(RefusalCode::not_external));
  EXPECT_TRUE(native.act(asking()).refused_as(RefusalCode::not_external));
}

// ---- Approvals that somebody there waits for

TEST(BoundApproval, makes_the_run_wait_and_an_answer_lets_it_go_on) {
  History history = foreign_run().create();
  history.act(seen_as(Provider::restate, "running"));
  EXPECT_EQ(history.act(asking()).names(), (Names{"approval.requested", "run.paused"}));
  EXPECT_EQ(sub_state(history.run()), "waiting");
  history.act(seen_as(Provider::restate, "running"));
  EXPECT_EQ(history.status(), RunStatus::waiting);
  expect_sound_run(history);
  history.approve("person:ada");
  EXPECT_EQ(history.last().names(), (Names{"approval.approved", "run.resumed"}));
  EXPECT_EQ(history.last().find<ApprovalMoved>()->tells, Provider::restate);
  EXPECT_EQ(history.act(RecordTold{history.approval().id, {}}).names(), (Names{"approval.told"}));
  EXPECT_TRUE(history.act(RecordTold{history.approval().id, {}}).events.empty());
  expect_sound_run(history);
}

TEST(BoundApproval, asked_for_twice_with_one_callback_is_one) {
  History history = foreign_run().create();
  history.act(asking());
  EXPECT_TRUE(history.act(asking()).events.empty());
  history.act(asking("sign_2"));
  EXPECT_EQ(history.run().approvals.size(), 2u);
}

TEST(BoundApproval, of_another_engine_or_of_no_gate_is_refused) {
  History history = foreign_run().create();
  RequestApproval token{StepId{"sign-off"}, {CallbackKind::task_token, "t"}, Actor{"key:service"}};
  EXPECT_TRUE(history.act(token).refused_as(RefusalCode::invalid));
  RequestApproval elsewhere = asking();
  elsewhere.gate = StepId{"nowhere"};
  EXPECT_TRUE(history.act(elsewhere).refused_as(RefusalCode::invalid));
}

TEST(BoundApproval, refused_leaves_the_end_to_the_workflow_there) {
  History history = foreign_run().create();
  history.act(asking());
  history.act(ResolveApproval{.approval = {}, .approve = false, .by = Actor{"person:ada"}, .reason = "no money"});
  EXPECT_EQ(history.status(), RunStatus::running);
  EXPECT_EQ(history.last().find<ApprovalMoved>()->tells, Provider::restate);
  // It may make up for it, and succeed.
  History other = history;
  other.act(seen_as(Provider::restate, "completed"));
  EXPECT_EQ(other.status(), RunStatus::success);
  // Or end by it.
  ObserveRun failed = seen_as(Provider::restate, "failed");
  failed.diagnostic = std::make_shared<const Diagnostic>(
      diagnose("PROVIDER_RUN_FAILED", "[500] no money (" + history.approval().id.str() + ")", history.now()));
  History unnamed = history;
  unnamed.act(failed);
  EXPECT_EQ(unnamed.status(), RunStatus::failed) << "the words of a message decide nothing";
  failed.failed_by = {history.approval().id};
  history.act(failed);
  EXPECT_EQ(history.status(), RunStatus::denied);
  EXPECT_EQ(history.run().diagnostic->error_code, "APPROVAL_REJECTED");
  EXPECT_EQ(history.run().diagnostic->cause->error_code, "PROVIDER_RUN_FAILED");
  expect_sound_run(history);
}

TEST(BoundApproval, that_nobody_decides_expires_and_is_told_too) {
  History history = foreign_run().create();
  history.act(asking());
  history.wait(default_approval_expiry);
  history.act(TimePasses{});
  EXPECT_EQ(history.approval().status, ApprovalStatus::expired);
  EXPECT_EQ(history.last().find<ApprovalMoved>()->tells, Provider::restate);
  EXPECT_EQ(history.status(), RunStatus::running);
}

TEST(BoundApproval, ends_with_its_run) {
  History history = foreign_run().create();
  history.act(asking());
  history.act(CancelRun{asker, {}});
  EXPECT_EQ(history.approval().status, ApprovalStatus::canceled);
  EXPECT_FALSE(history.last().find<ApprovalMoved>()->tells);
  expect_sound_run(history);
}

}  // namespace
}  // namespace pawl::tests
