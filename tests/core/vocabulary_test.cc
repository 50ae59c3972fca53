// Every row of both projection tables, on runs that decide and evolve brought there.
#include "core/vocabulary.h"

#include "core/run_builder.h"

namespace pawl::tests {
namespace {

using enum Vocabulary;
using namespace std::chrono_literals;

struct RunRow {
  std::string name;
  RunBuilder builder;
  Play acts;
  std::string_view stored, state_machine, runtime, sub_state;
};

const RunBuilder one_gate = RunBuilder().gate("g");

void fail_once(History& h) {
  h.claim("a");
  h.fail("a");
}

// clang-format off
const std::vector<RunRow> run_rows{
    {"created", one_step, [](History&) {},
     "created", "PENDING", "queued", ""},
    {"running", one_step, [](History& h) { h.claim("a"); },
     "running", "RUNNING", "running", "running"},
    {"backing off", one_step, fail_once,
     "running", "RUNNING", "failed_retryable", "backing-off"},
    {"ready again after its back-off", one_step, [](History& h) { fail_once(h); h.pass(1min); },
     "running", "RUNNING", "running", "running"},
    {"backing off beside an open gate", RunBuilder().step("a").gate("g").needs({}), fail_once,
     "running", "RUNNING", "failed_retryable", "backing-off"},
    {"one step backs off, another is ready", RunBuilder().step("a").step("b").needs({}), fail_once,
     "running", "RUNNING", "running", "running"},
    {"waiting for an approval", one_gate, [](History& h) { h.start(); },
     "waiting", "WAITING_APPROVAL", "waiting_approval", "waiting"},
    {"waiting for an answer", one_step, [](History& h) { h.claim("a"); h.ask("a"); },
     "waiting", "WAITING_APPROVAL", "waiting_approval", "waiting"},
    {"running with an error elsewhere", external_run(), [](History& h) { h.report(RunTrigger::start, some_diagnostic()); },
     "running", "RUNNING", "running", "error"},
    {"paused by an error elsewhere", external_run(),
     [](History& h) { h.report(RunTrigger::start); h.report(RunTrigger::pause, some_diagnostic()); },
     "waiting", "WAITING_APPROVAL", "waiting_approval", "error"},
    {"resumed after an error elsewhere", external_run(),
     [](History& h) {
       h.report(RunTrigger::start);
       h.report(RunTrigger::pause, some_diagnostic());
       h.report(RunTrigger::resume);
     },
     "running", "RUNNING", "running", "running"},
    {"success", one_step, [](History& h) { h.do_step("a"); },
     "success", "SUCCEEDED", "succeeded", "succeeded"},
    {"failed", one_step, [](History& h) { h.claim("a"); h.fail_for_good("a"); },
     "failed", "FAILED", "failed_terminal", "failed"},
    {"denied", one_gate, [](History& h) { h.start(); h.reject(); },
     "denied", "FAILED", "failed_terminal", "failed"},
    {"timeout", RunBuilder().step("a").run_timeout(5s), [](History& h) { h.claim("a"); h.pass(5s); },
     "timeout", "FAILED", "failed_terminal", "failed"},
    {"on a timer", RunBuilder().timer("a", "5s"), [](History& h) { h.start(); },
     "waiting", "RUNNING", "running", "waiting"},
    {"canceled", one_step, [](History& h) { h.cancel(); },
     "canceled", "CANCELED", "canceled", "failed"},
};
// clang-format on

TEST(Vocabulary, every_run_has_the_words_of_its_row) {
  for (const auto& row : run_rows) {
    SCOPED_TRACE(row.name);
    auto history = play(row.builder, row.acts);
    EXPECT_EQ(run_word(contract_v1, history.run()), row.stored);
    EXPECT_EQ(run_word(state_machine, history.run()), row.state_machine);
    EXPECT_EQ(run_word(runtime, history.run()), row.runtime);
    EXPECT_EQ(sub_state(history.run()), row.sub_state);
  }
}

TEST(Vocabulary, the_rows_above_are_all_that_the_table_has) {
  for (const auto& projection : run_projections) {
    bool shown = false;
    for (const auto& row : run_rows) {
      auto run = play(row.builder, row.acts).run();
      shown = shown || (run.status == projection.stored && phase_of(run) == projection.phase);
    }
    EXPECT_TRUE(shown) << to_string(projection.stored) << ", " << to_string(projection.phase);
  }
}

struct StepRow {
  StepStatus stored;
  std::string_view contract_v1, state_machine, runtime;
};

constexpr std::array step_rows{
    StepRow{StepStatus::pending, "pending", "PENDING", "ready"},
    StepRow{StepStatus::ready, "ready", "PENDING", "ready"},
    StepRow{StepStatus::running, "running", "RUNNING", "running"},
    StepRow{StepStatus::waiting_approval, "waiting_approval", "WAITING_APPROVAL", "waiting_approval"},
    StepRow{StepStatus::waiting_input, "waiting_input", "WAITING_APPROVAL", "waiting_approval"},
    StepRow{StepStatus::failed_retryable, "failed_retryable", "PENDING", "failed_retryable"},
    StepRow{StepStatus::succeeded, "succeeded", "SUCCEEDED", "succeeded"},
    StepRow{StepStatus::failed_terminal, "failed_terminal", "FAILED", "failed_terminal"},
    StepRow{StepStatus::canceled, "canceled", "CANCELED", "canceled"},
    StepRow{StepStatus::waiting_event, "waiting_event", "RUNNING", "running"},
};
static_assert(step_rows.size() == enum_count<StepStatus>);

TEST(Vocabulary, every_step_status_has_the_words_of_its_row) {
  for (const auto& row : step_rows) {
    EXPECT_EQ(step_word(contract_v1, row.stored), row.contract_v1);
    EXPECT_EQ(step_word(state_machine, row.stored), row.state_machine);
    EXPECT_EQ(step_word(runtime, row.stored), row.runtime);
  }
}

TEST(Vocabulary, names_can_be_read_back) {
  for (auto name : {"contract-v1", "state-machine", "runtime"})
    EXPECT_EQ(to_string(*parse_enum<Vocabulary>(name)), name);
  EXPECT_FALSE(parse_enum<Vocabulary>("klingon"));
}

}  // namespace
}  // namespace pawl::tests
