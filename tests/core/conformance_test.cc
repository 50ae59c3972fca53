// Every row of the three documents, exhibited by a history that decide and evolve made, seen in the document's words.
// conformance_random_test.cc turns it round: whatever happens, nothing but these rows is seen.
#include <algorithm>

#include "core/documents.h"
#include "core/run_builder.h"

namespace pawl::tests {
namespace {

using namespace std::chrono_literals;

struct Exhibit {
  std::string name;  // the document's own trigger
  std::string_view from, to;
  RunBuilder builder;
  Play acts;
  std::string event;      // that the commit holds
  std::string step = {};  // whose row it is; empty for the run's
};

const RunBuilder one = RunBuilder().step("s");
const RunBuilder two = RunBuilder().step("s").step("last");
const RunBuilder gate_last = RunBuilder().step("s").gate("g");
const RunBuilder gate_between = RunBuilder().step("s").gate("g").step("last");

void claim(History& h) { h.claim("s"); }
void done(History& h) { h.do_step("s"); }
void failed_once(History& h) {
  h.claim("s");
  h.fail("s");
}
void gated(History& h) {
  h.claim("s");
  h.gate_action("s");
}

Play then(Play first, Play second) {
  return [=](History& h) {
    first(h);
    second(h);
  };
}
const Play cancel = [](History& h) { h.cancel(); };
const Play approve = [](History& h) { h.approve(); };
const Play reject = [](History& h) { h.reject(); };
const Play fail_for_good = [](History& h) { h.fail_for_good("s"); };
const Play nothing = [](History&) {};

// Some commit of the history shows `from`, then `to`, and holds the event.
bool shows(const Exhibit& exhibit, Vocabulary vocabulary) {
  History history = play(exhibit.builder, exhibit.acts);
  pawl::Run run;
  run.workflow = &history.workflow();
  run.id = history.run().id;
  auto word = [&]() -> std::string_view {
    auto words = seen(run, vocabulary);
    if (exhibit.step.empty()) return words.run;
    return words.steps.empty() ? "" : words.steps[history.index(exhibit.step)];
  };
  for (const auto& commit : history.commits()) {
    auto before = word();
    for (const auto& event : commit.events) evolve(run, event);
    auto names = commit.names();
    bool has_event = std::find(names.begin(), names.end(), exhibit.event) != names.end();
    if (before == exhibit.from && word() == exhibit.to && has_event) return true;
  }
  return false;
}

void expect_exhibited(const Document& document, const std::vector<Exhibit>& exhibits) {
  for (const auto& exhibit : exhibits) {
    SCOPED_TRACE(exhibit.name);
    EXPECT_TRUE(shows(exhibit, document.vocabulary)) << exhibit.from << " -> " << exhibit.to;
    EXPECT_TRUE(has_edge(exhibit.step.empty() ? document.run : document.step, exhibit.from, exhibit.to));
  }
  auto expect_all = [&](std::span<const Edge> edges, bool of_run) {
    for (const auto& edge : edges)
      EXPECT_TRUE(std::any_of(exhibits.begin(), exhibits.end(),
                              [&](const Exhibit& exhibit) {
                                return exhibit.step.empty() == of_run && exhibit.from == edge.from &&
                                       exhibit.to == edge.to;
                              }))
          << "no exhibit of " << edge.from << " -> " << edge.to << (of_run ? " (run)" : " (step)");
  };
  expect_all(document.run, true);
  expect_all(document.step, false);
}

// clang-format off
const std::vector<Exhibit> state_machine_exhibits{
    // run
    {"worker claims first runnable step", "PENDING", "RUNNING", one, claim, "step.claimed"},
    {"approval gate reached", "RUNNING", "WAITING_APPROVAL", gate_between, done, "step.gate_opened"},
    {"approve resumes the workflow", "WAITING_APPROVAL", "RUNNING", gate_between, then(done, approve), "approval.approved"},
    {"all steps are SUCCEEDED", "RUNNING", "SUCCEEDED", one, done, "step.completed"},
    {"approval completes last pending gate", "WAITING_APPROVAL", "SUCCEEDED", gate_last, then(done, approve), "approval.approved"},
    {"step exhausts retries", "RUNNING", "FAILED", RunBuilder().step("s").attempts(1), failed_once, "step.failed_terminal"},
    {"terminal failure", "RUNNING", "FAILED", one, then(claim, fail_for_good), "step.failed_terminal"},
    // The document means a failure after the approval; approving and failing are two commits here, RUNNING in between.
    // What goes from WAITING_APPROVAL to FAILED at once is the approval's own failure.
    {"failure instead of approval", "WAITING_APPROVAL", "FAILED", gate_between, then(done, reject), "approval.rejected"},
    {"cancel a pending run", "PENDING", "CANCELED", one, cancel, "run.canceled"},
    {"cancel a running run", "RUNNING", "CANCELED", one, then(claim, cancel), "run.canceled"},
    {"cancel a waiting run", "WAITING_APPROVAL", "CANCELED", gate_last, then(done, cancel), "run.canceled"},
    // step
    {"worker claim", "PENDING", "RUNNING", one, claim, "step.claimed", "s"},
    {"executor success", "RUNNING", "SUCCEEDED", one, done, "step.completed", "s"},
    {"retryable failure and attempts remaining", "RUNNING", "PENDING", one, failed_once, "step.failed_retryable", "s"},
    {"a worker that stops gives it back", "RUNNING", "PENDING", one, then(claim, [](History& h) { h.release("s"); }), "step.released", "s"},
    {"attempts exhausted", "RUNNING", "FAILED", RunBuilder().step("s").attempts(1), failed_once, "step.failed_terminal", "s"},
    {"tool stage completed, approval step opened", "PENDING", "WAITING_APPROVAL", gate_last, done, "step.gate_opened", "g"},
    {"approve endpoint", "WAITING_APPROVAL", "SUCCEEDED", gate_last, then(done, approve), "step.gate_approved", "g"},
    {"cancel a pending step", "PENDING", "CANCELED", two, then(claim, cancel), "step.canceled", "last"},
    {"cancel a running step", "RUNNING", "CANCELED", one, then(claim, cancel), "step.canceled", "s"},
    {"cancel a waiting step", "WAITING_APPROVAL", "CANCELED", gate_last, then(done, cancel), "step.canceled", "g"},
    {"cancel a step that backs off", "PENDING", "CANCELED", one, then(failed_once, cancel), "step.canceled", "s"},
    {"claim reclaim logic", "RUNNING", "RUNNING", one, then(claim, [](History& h) { h.wait(1h); h.claim("s", "worker-2"); }), "step.reclaimed", "s"},
};

const std::vector<Exhibit> runtime_exhibits{
    // run, diagram 2.1
    {"scheduled", "queued", "running", one, claim, "step.claimed"},
    {"approval required", "running", "waiting_approval", one, gated, "approval.requested"},
    {"approved", "waiting_approval", "running", one, then(gated, approve), "approval.approved"},
    {"rejected", "waiting_approval", "failed_terminal", one, then(gated, reject), "approval.rejected"},
    {"expired", "waiting_approval", "failed_terminal", one, then(gated, [](History& h) { h.pass(default_approval_expiry); }), "approval.expired"},
    {"all steps succeeded", "running", "succeeded", one, done, "run.succeeded"},
    {"transient failure, retries remaining", "running", "failed_retryable", one, failed_once, "step.failed_retryable"},
    {"terminal failure", "running", "failed_terminal", one, then(claim, fail_for_good), "run.failed"},
    {"policy deny", "running", "failed_terminal", one, then(claim, [](History& h) { h.fail("s", "TOOL_DENIED"); }), "run.denied"},
    {"cancel while queued", "queued", "canceled", one, cancel, "run.canceled"},
    {"cancel while running", "running", "canceled", one, then(claim, cancel), "run.canceled"},
    {"next attempt due", "failed_retryable", "running", one, then(failed_once, [](History& h) { h.pass(1min); }), "step.due"},
    {"SLA passes during back-off", "failed_retryable", "failed_terminal", RunBuilder(one).run_timeout(1s), then(failed_once, [](History& h) { h.pass(1s); }), "run.timed_out"},
    {"cancel while backing off", "failed_retryable", "canceled", one, then(failed_once, cancel), "run.canceled"},
    {"cancel while waiting", "waiting_approval", "canceled", one, then(gated, cancel), "approval.canceled"},
    // step, diagram 2.2
    {"leased by worker", "ready", "running", one, claim, "step.claimed", "s"},
    {"succeeded", "running", "succeeded", one, done, "step.completed", "s"},
    {"governance gate", "running", "waiting_approval", one, gated, "step.gated", "s"},
    {"approval granted, re-scheduled", "waiting_approval", "ready", one, then(gated, approve), "step.action_approved", "s"},
    {"rejected", "waiting_approval", "failed_terminal", one, then(gated, reject), "step.refused", "s"},
    {"expired", "waiting_approval", "failed_terminal", one, then(gated, [](History& h) { h.pass(default_approval_expiry); }), "step.refused", "s"},
    {"transient error", "running", "failed_retryable", one, failed_once, "step.failed_retryable", "s"},
    {"terminal error", "running", "failed_terminal", one, then(claim, fail_for_good), "step.failed_terminal", "s"},
    {"policy deny", "running", "failed_terminal", one, then(claim, [](History& h) { h.fail("s", "TOOL_DENIED"); }), "step.failed_terminal", "s"},
    {"cancel a ready step", "ready", "canceled", one, cancel, "step.canceled", "s"},
    {"cancel a running step", "running", "canceled", one, then(claim, cancel), "step.canceled", "s"},
    {"a worker that stops gives it back", "running", "ready", one, then(claim, [](History& h) { h.release("s"); }), "step.released", "s"},
    {"next attempt due", "failed_retryable", "ready", one, then(failed_once, [](History& h) { h.pass(1min); }), "step.due", "s"},
    {"cancel a step that backs off", "failed_retryable", "canceled", one, then(failed_once, cancel), "step.canceled", "s"},
    {"cancel a waiting step", "waiting_approval", "canceled", one, then(gated, cancel), "step.canceled", "s"},
};

void report(History& h, std::vector<RunTrigger> triggers) { for (auto trigger : triggers) h.report(trigger, some_diagnostic()); }

const std::vector<Exhibit> contract_v1_exhibits{
    {"execution starts", "created", "running", one, claim, "run.started"},
    {"awaiting an external dependency", "running", "waiting", gate_last, done, "run.paused"},
    {"it came", "waiting", "running", gate_between, then(done, approve), "run.resumed"},
    {"completed successfully", "running", "success", one, done, "run.succeeded"},
    {"runtime failure", "running", "failed", one, then(claim, fail_for_good), "run.failed"},
    {"prevented by policy", "running", "denied", one, then(claim, [](History& h) { h.fail("s", "TOOL_DENIED"); }), "run.denied"},
    {"exceeded allowed time", "running", "timeout", RunBuilder(one).run_timeout(1s), then(claim, [](History& h) { h.pass(1s); }), "run.timed_out"},
    {"stopped while running", "running", "canceled", one, then(claim, cancel), "run.canceled"},
    {"stopped while waiting", "waiting", "canceled", gate_last, then(done, cancel), "run.canceled"},
    // the same nine, reported by another orchestrator
    {"reported start", "created", "running", external_run(), [](History& h) { report(h, {RunTrigger::start}); }, "run.started"},
    {"reported pause", "running", "waiting", external_run(), [](History& h) { report(h, {RunTrigger::start, RunTrigger::pause}); }, "run.paused"},
    {"reported resume", "waiting", "running", external_run(), [](History& h) { report(h, {RunTrigger::start, RunTrigger::pause, RunTrigger::resume}); }, "run.resumed"},
    {"reported success", "running", "success", external_run(), [](History& h) { report(h, {RunTrigger::start, RunTrigger::succeed}); }, "run.succeeded"},
    {"reported failure", "running", "failed", external_run(), [](History& h) { report(h, {RunTrigger::start, RunTrigger::fail}); }, "run.failed"},
    {"reported denial", "running", "denied", external_run(), [](History& h) { report(h, {RunTrigger::start, RunTrigger::deny}); }, "run.denied"},
    {"reported time-out", "running", "timeout", external_run(), [](History& h) { report(h, {RunTrigger::start, RunTrigger::time_out}); }, "run.timed_out"},
    {"reported cancel", "running", "canceled", external_run(), [](History& h) { report(h, {RunTrigger::start, RunTrigger::cancel}); }, "run.canceled"},
    {"reported cancel of a wait", "waiting", "canceled", external_run(), [](History& h) { report(h, {RunTrigger::start, RunTrigger::pause, RunTrigger::cancel}); }, "run.canceled"},
};
// clang-format on

TEST(StateMachineDocument, every_row_is_exhibited) { expect_exhibited(state_machine_words, state_machine_exhibits); }
TEST(RuntimeDocument, every_row_is_exhibited) { expect_exhibited(runtime_words, runtime_exhibits); }
TEST(ContractV1, every_row_is_exhibited) { expect_exhibited(contract_v1_words, contract_v1_exhibits); }

// --- the state machine document's invariants and edge cases ---

TEST(StateMachineDocument, approves_only_from_waiting_and_harmlessly_otherwise) {
  auto h = gate_between.create();
  EXPECT_TRUE(h.approve().refused());
  EXPECT_EQ(run_word(Vocabulary::state_machine, h.run()), "PENDING");
  h.do_step("s");
  h.approve();
  auto before = h.run();
  EXPECT_FALSE(h.approve().refused()) << "idempotent";
  EXPECT_TRUE(same_fold(before, h.run()));
}

TEST(StateMachineDocument, the_worker_never_executes_an_approval) {
  auto h = play(gate_last, done);
  EXPECT_TRUE(h.claim("g").refused_as(RefusalCode::not_claimable));
}

TEST(StateMachineDocument, a_step_is_claimed_only_after_all_earlier_ones_succeeded) {
  auto h = RunBuilder().step("1").step("2").step("3").create();
  for (auto id : {"1", "2", "3"}) {
    for (std::string_view later : {"1", "2", "3"}) {
      EXPECT_TRUE(later <= id || h.claim(later).refused_as(RefusalCode::not_claimable));
    }
    h.do_step(id);
  }
  EXPECT_EQ(run_word(Vocabulary::state_machine, h.run()), "SUCCEEDED");
}

TEST(StateMachineDocument, a_retry_waits_base_times_two_to_the_attempts) {
  auto h =
      RunBuilder().step("s").retry({.max_attempts = 4, .base = 2s, .max = 1h, .jitter = 0, .schedule = {}}).create();
  for (int attempts = 1; attempts < 4; ++attempts) {
    failed_once(h);
    EXPECT_EQ(h.step("s").attempts, attempts);
    EXPECT_EQ(h.step("s").next_eligible_at - h.now(), 2s * (1 << attempts));
    h.pass(1h);
  }
  failed_once(h);
  EXPECT_EQ(step_word(Vocabulary::state_machine, h.step("s").status), "FAILED");
  EXPECT_EQ(run_word(Vocabulary::state_machine, h.run()), "FAILED");
}

// --- the runtime document's rules ---

TEST(RuntimeDocument, a_run_is_succeeded_iff_every_step_is) {
  auto h = two.create();
  h.do_step("s");
  EXPECT_NE(run_word(Vocabulary::runtime, h.run()), "succeeded");
  h.do_step("last");
  EXPECT_EQ(run_word(Vocabulary::runtime, h.run()), "succeeded");
}

TEST(RuntimeDocument, a_lease_is_given_only_for_a_ready_step_without_a_live_lease) {
  auto h = two.create();
  EXPECT_TRUE(h.claim("last").refused()) << "not ready";
  h.claim("s", "worker-1");
  EXPECT_EQ(h.step("s").lease_owner, WorkerName{"worker-1"});
  EXPECT_EQ(h.step("s").lease_expires_at, h.now() + default_lease);
  EXPECT_TRUE(h.claim("s", "worker-2").refused()) << "another worker owns it";
  h.wait(default_lease);
  EXPECT_FALSE(h.claim("s", "worker-2").refused()) << "the lease is over: the same step is seen again";
  EXPECT_TRUE(h.act(CompleteStep{h.id(0), LeaseProof::local(1), "{}", {}}).refused_as(RefusalCode::lease_lost))
      << "and not executed twice";
}

TEST(RuntimeDocument, a_heartbeat_keeps_the_lease) {
  auto h = play(one, claim);
  auto beating = h.run();
  beating.steps[0].lease_expires_at = h.now() + 10min;
  Decision later = decide(beating, ClaimStep{h.id(0), WorkerName{"worker-2"}, false, {}, {}}, h.now() + 5min, {});
  EXPECT_TRUE(later.refusal);
}

struct Failure {
  std::string code;
  std::string_view step;
};

TEST(RuntimeDocument, retryable_and_terminal_are_told_apart) {
  const std::vector<Failure> rows{
      {"TOOL_TIMEOUT", "failed_retryable"},           // network time-outs
      {"TOOL_DEPENDENCY_DOWN", "failed_retryable"},   // 5xx
      {"TOOL_RATE_LIMITED", "failed_retryable"},      // rate limits
      {"TOOL_INVALID_ARGUMENTS", "failed_terminal"},  // 4xx with an invalid payload
      {"TOOL_DENIED", "failed_terminal"},             // policy denies
      {"APPROVAL_REJECTED", "failed_terminal"},       // approval rejected
  };
  for (const auto& row : rows) {
    auto h = play(one, claim);
    h.fail("s", row.code);
    EXPECT_EQ(step_word(Vocabulary::runtime, h.step("s").status), row.step) << row.code;
  }
}

TEST(RuntimeDocument, backs_off_by_schedule_with_jitter_capped_by_the_sla_and_keeps_what_it_must) {
  RetryPolicy policy{.max_attempts = 9, .jitter = 0.1, .schedule = {5s, 30s, 2min, 10min}};
  auto h = RunBuilder().step("s").retry(policy).run_timeout(15min).create();
  int attempt = 0;
  for (Duration expected : {Duration(5s), Duration(30s), Duration(2min), Duration(10min)}) {
    h.claim("s");
    h.act(FailStep{h.id(0), LeaseProof::local(h.step("s").lease_token), "TOOL_TIMEOUT", "slow", {}, {}, {}}, {1.0});
    EXPECT_EQ(h.step("s").next_eligible_at, h.now() + expected + expected / 10);
    EXPECT_EQ(h.step("s").attempts, ++attempt);
    EXPECT_EQ(h.step("s").last_error->error_code, "TOOL_TIMEOUT");
    h.pass(expected + expected / 10);
  }
  failed_once(h);
  EXPECT_EQ(h.step("s").next_eligible_at, h.run().deadline()) << "the SLA comes first";
}

struct ApprovalRow {
  std::string name;
  Play acts;
  ApprovalStatus status;
};

TEST(RuntimeDocument, an_approval_is_requested_then_resolves_into_each_of_its_words) {
  const std::vector<ApprovalRow> rows{
      {"requested", nothing, ApprovalStatus::requested},
      {"approved", approve, ApprovalStatus::approved},
      {"rejected", reject, ApprovalStatus::rejected},
      {"expired", [](History& h) { h.pass(default_approval_expiry); }, ApprovalStatus::expired},
      {"canceled", cancel, ApprovalStatus::canceled},
  };
  for (const auto& row : rows) {
    auto h = play(one, then(gated, row.acts));
    EXPECT_EQ(h.approval().status, row.status);
    EXPECT_EQ(to_string(h.approval().status), row.name);
  }
}

TEST(RuntimeDocument, a_two_person_gate_needs_two) {
  auto h = play(one, claim);
  h.gate_action("s", {.tier = Tier::high, .two_person = true, .quorum = 2, .prompt = {}});
  h.approve("person:ada");
  EXPECT_EQ(step_word(Vocabulary::runtime, h.step("s").status), "waiting_approval");
  h.approve("person:bo");
  EXPECT_EQ(step_word(Vocabulary::runtime, h.step("s").status), "ready");
}

// --- contract v1's rules ---

// A run that reports brought into each status.
History reported_into(RunStatus status) {
  using enum RunTrigger;
  static const std::vector<std::vector<RunTrigger>> ways{
      {}, {start}, {start, pause}, {start, succeed}, {start, fail}, {start, deny}, {start, time_out}, {start, cancel}};
  auto h = external_run().create();
  report(h, ways[static_cast<std::size_t>(status)]);
  return h;
}

TEST(ContractV1, has_the_statuses_and_terminal_statuses_that_it_lists) {
  EXPECT_EQ(enum_count<RunStatus>, contract_v1_document::statuses.size());
  for (std::size_t i = 0; i < enum_count<RunStatus>; ++i) {
    auto status = static_cast<RunStatus>(i);
    EXPECT_EQ(to_string(status), contract_v1_document::statuses[i]);
    auto& terminal = contract_v1_document::terminal;
    EXPECT_EQ(is_terminal(status), std::find(terminal.begin(), terminal.end(), to_string(status)) != terminal.end());
  }
}

// Where a trigger leads, whatever it leads from.
RunStatus target(RunTrigger trigger) {
  for (const auto& row : run_table)
    if (row.trigger == trigger) return row.to;
  return RunStatus::created;
}

TEST(ContractV1, every_other_transition_is_rejected_audited_and_fails_the_run) {
  for (std::size_t from = 0; from < enum_count<RunStatus>; ++from)
    for (std::size_t i = 0; i < enum_count<RunTrigger>; ++i) {
      auto trigger = static_cast<RunTrigger>(i);
      auto h = reported_into(static_cast<RunStatus>(from));
      auto before = h.status();
      ASSERT_EQ(static_cast<std::size_t>(before), from);
      bool written = has_edge(contract_v1_words.run, to_string(before), to_string(target(trigger)));
      // Two verbs lead to running; only the one that fits its state is the contract's transition.
      written = written && (trigger != RunTrigger::start || before == RunStatus::created) &&
                (trigger != RunTrigger::resume || before == RunStatus::waiting);
      SCOPED_TRACE(std::string(to_string(before)) + ", " + std::string(to_string(trigger)));
      h.report(trigger, some_diagnostic());
      EXPECT_EQ(h.last().refused(), !written);
      if (written) {
        EXPECT_EQ(h.status(), target(trigger));
      } else if (is_terminal(before)) {
        EXPECT_EQ(h.status(), before) << "terminal is for ever";
        EXPECT_TRUE(h.last().events.empty());
      } else {
        EXPECT_EQ(h.last().names().front(), "transition.refused");
        EXPECT_EQ(h.status(), RunStatus::failed);
        EXPECT_EQ(h.run().diagnostic->error_code, "INVALID_STATE_TRANSITION");
      }
    }
}

TEST(ContractV1, a_retry_is_a_new_run) {
  for (auto status : {RunStatus::failed, RunStatus::timeout, RunStatus::denied}) {
    auto h = reported_into(status);
    for (auto trigger : {RunTrigger::start, RunTrigger::resume}) EXPECT_TRUE(h.report(trigger).refused());
    EXPECT_EQ(h.status(), status);
    RunId new_id{IdBits{5, 6}};
    auto again = retry_of(h.run(), new_id, asker);
    ASSERT_TRUE(again);
    EXPECT_NE(again->id, h.run().id);
    EXPECT_EQ(again->retry_of, h.run().id);
  }
}

TEST(ContractV1, orchestrators_find_error_code_and_retryable_on_every_bad_end) {
  for (const auto& exhibit : contract_v1_exhibits) {
    auto h = play(exhibit.builder, exhibit.acts);
    EXPECT_EQ(ended_badly(h.status()), h.run().diagnostic != nullptr && is_terminal(h.status())) << exhibit.name;
    if (!ended_badly(h.status())) continue;
    const Diagnostic& why = *h.run().diagnostic;
    EXPECT_FALSE(why.error_code.empty() || why.message.empty() || why.likely_cause.empty() ||
                 why.suggested_fix.empty());
  }
}

TEST(ContractV1, every_transition_is_exactly_one_event) {
  for (const auto& exhibit : contract_v1_exhibits) {
    auto h = play(exhibit.builder, exhibit.acts);
    auto status = RunStatus::created;
    for (const auto& commit : h.commits())
      for (const auto& event : commit.events)
        if (const auto* moved = std::get_if<RunMoved>(&event.payload)) {
          auto to = target(moved->trigger);
          EXPECT_TRUE(has_edge(contract_v1_words.run, to_string(status), to_string(to))) << exhibit.name;
          status = to;
        }
    EXPECT_EQ(status, h.status()) << exhibit.name;
  }
}

}  // namespace
}  // namespace pawl::tests
