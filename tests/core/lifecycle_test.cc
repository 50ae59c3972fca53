// Every (state, trigger) pair of all four tables, legal or not. What the tables say, next() must say; and what next()
// refuses, evolve_checked must refuse too, without leaving a trace, on a run that real events brought into that state.
#include "core/lifecycle.h"

#include <map>
#include <tuple>

#include "core/receipt_lifecycle.h"
#include "core/run_builder.h"

namespace pawl::tests {
namespace {

using namespace std::chrono_literals;

// The tables once more, as words and in another shape, so that a slip in one of the two shows.
using Table = std::map<std::pair<std::string_view, std::string_view>, std::string_view>;

const Table run_words{
    {{"created", "start"}, "running"},    {{"running", "pause"}, "waiting"},   {{"waiting", "resume"}, "running"},
    {{"running", "succeed"}, "success"},  {{"running", "fail"}, "failed"},     {{"running", "deny"}, "denied"},
    {{"running", "time_out"}, "timeout"}, {{"running", "cancel"}, "canceled"}, {{"waiting", "cancel"}, "canceled"},
};

const Table step_words{
    {{"pending", "unblock"}, "ready"},
    {{"pending", "open_gate"}, "waiting_approval"},
    {{"pending", "open_wait"}, "waiting_event"},
    {{"pending", "fail_terminal"}, "failed_terminal"},
    {{"waiting_event", "arrive"}, "succeeded"},
    {{"waiting_event", "cancel"}, "canceled"},
    {{"ready", "claim"}, "running"},
    {{"running", "reclaim"}, "running"},
    {{"running", "release"}, "ready"},
    {{"running", "complete"}, "succeeded"},
    {{"running", "gate"}, "waiting_approval"},
    {{"running", "ask"}, "waiting_input"},
    {{"running", "fail_retryable"}, "failed_retryable"},
    {{"running", "fail_terminal"}, "failed_terminal"},
    {{"failed_retryable", "due"}, "ready"},
    {{"waiting_approval", "approve_action"}, "ready"},
    {{"waiting_approval", "approve_gate"}, "succeeded"},
    {{"waiting_approval", "refuse"}, "failed_terminal"},
    {{"waiting_input", "answer"}, "ready"},
    {{"pending", "cancel"}, "canceled"},
    {{"ready", "cancel"}, "canceled"},
    {{"running", "cancel"}, "canceled"},
    {{"waiting_approval", "cancel"}, "canceled"},
    {{"waiting_input", "cancel"}, "canceled"},
    {{"failed_retryable", "cancel"}, "canceled"},
};

const Table approval_words{
    {{"requested", "approve"}, "approved"},
    {{"requested", "reject"}, "rejected"},
    {{"requested", "expire"}, "expired"},
    {{"requested", "cancel"}, "canceled"},
};

const Table receipt_words{
    {{"intended", "succeed"}, "succeeded"}, {{"intended", "fail"}, "failed"}, {{"intended", "doubt"}, "in_doubt"},
    {{"in_doubt", "succeed"}, "succeeded"}, {{"in_doubt", "fail"}, "failed"}, {{"succeeded", "reverse"}, "reversed"},
};

template <class Enum>
std::vector<Enum> all_of() {
  std::vector<Enum> out;
  for (std::size_t i = 0; i < enum_count<Enum>; ++i) out.push_back(static_cast<Enum>(i));
  return out;
}

template <class State, class Trigger, std::size_t N>
void expect_table(const Lifecycle<State, Trigger, N>& table, const Table& words) {
  EXPECT_EQ(table.size(), words.size());
  for (State from : all_of<State>())
    for (Trigger trigger : all_of<Trigger>()) {
      auto to = next(table, from, trigger);
      auto expected = words.find({to_string(from), to_string(trigger)});
      EXPECT_EQ(to.has_value(), expected != words.end()) << to_string(from) << ", " << to_string(trigger);
      if (to && expected != words.end()) {
        EXPECT_EQ(to_string(*to), expected->second);
      }
    }
}

TEST(Lifecycle, the_run_has_exactly_the_transitions_of_contract_v1) { expect_table(run_table, run_words); }
TEST(Lifecycle, the_step_has_exactly_its_transitions) { expect_table(step_table, step_words); }
TEST(Lifecycle, the_approval_resolves_once) { expect_table(approval_table, approval_words); }
TEST(Lifecycle, the_receipt_has_exactly_its_transitions) { expect_table(receipt_table, receipt_words); }

TEST(Lifecycle, terminal_is_what_nothing_leads_out_of) {
  for (auto status : all_of<RunStatus>())
    EXPECT_EQ(is_terminal(status),
              status != RunStatus::created && status != RunStatus::running && status != RunStatus::waiting);
  EXPECT_TRUE(is_terminal(StepStatus::succeeded) && is_terminal(StepStatus::failed_terminal) &&
              is_terminal(StepStatus::canceled));
  EXPECT_FALSE(is_terminal(StepStatus::failed_retryable));
  EXPECT_FALSE(is_terminal(ApprovalStatus::requested));
  EXPECT_FALSE(is_terminal(ReceiptStatus::succeeded)) << "it can be reversed";
}

// Folds the event into a copy; checks that it is accepted iff `legal`, and that a refused one changes nothing.
Run fold_checked(const Run& before, const RunEvent& event, bool legal) {
  Run after = before;
  auto folded = evolve_checked(after, event);
  EXPECT_EQ(folded.has_value(), legal) << (folded ? "accepted" : folded.error());
  if (!folded) {
    EXPECT_TRUE(same_fold(before, after)) << "a refused event left a trace: " << folded.error();
    EXPECT_FALSE(folded.error().empty());
  } else {
    EXPECT_EQ(after.seq, before.seq + 1);
  }
  return after;
}

// --- runs ---

// Two steps and a gate beside them, so that a run can be driven anywhere.
const RunBuilder usual = RunBuilder().step("a").step("b").gate("g").run_timeout(1h);

const std::map<RunStatus, Play> into_run_status{
    {RunStatus::created, [](History&) {}},
    {RunStatus::running, [](History& h) { h.claim("a"); }},
    {RunStatus::waiting,
     [](History& h) {
       h.claim("a");
       h.ask("a");
     }},
    {RunStatus::success,
     [](History& h) {
       h.do_step("a");
       h.do_step("b");
       h.approve();
     }},
    {RunStatus::failed,
     [](History& h) {
       h.claim("a");
       h.fail_for_good("a");
     }},
    {RunStatus::denied,
     [](History& h) {
       h.do_step("a");
       h.do_step("b");
       h.reject();
     }},
    {RunStatus::timeout,
     [](History& h) {
       h.claim("a");
       h.pass(1h);
     }},
    {RunStatus::canceled, [](History& h) { h.cancel(); }},
};

TEST(Lifecycle, evolve_moves_a_run_only_along_its_table) {
  for (RunStatus from : all_of<RunStatus>()) {
    auto history = play(usual, into_run_status.at(from));
    ASSERT_EQ(history.status(), from);
    for (RunTrigger trigger : all_of<RunTrigger>()) {
      SCOPED_TRACE(std::string(to_string(from)) + ", " + std::string(to_string(trigger)));
      auto to = next(run_table, from, trigger);
      auto diagnostic = to && ended_badly(*to) ? some_diagnostic() : nullptr;
      auto after = fold_checked(history.run(), {history.now(), RunMoved{trigger, {}, {}, diagnostic}}, to.has_value());
      EXPECT_EQ(after.status, to.value_or(from));
    }
  }
}

TEST(Lifecycle, no_run_ends_badly_without_a_diagnostic) {
  auto history = play(usual, into_run_status.at(RunStatus::running));
  for (auto trigger : {RunTrigger::fail, RunTrigger::deny, RunTrigger::time_out})
    fold_checked(history.run(), {history.now(), RunMoved{trigger, {}, {}, nullptr}}, false);
}

// --- steps ---

// What brings step "s" into each status. A step that failed for good or was canceled takes the run with it in the same
// commit, so those two are seen in its middle, where only the step's own table stands in the way.
struct StepScene {
  RunBuilder builder;
  Play acts;
};

const RunBuilder working = RunBuilder().step("first").step("s").step("last");

void reach(History& h) { h.do_step("first"); }
void reach_and_claim(History& h) {
  reach(h);
  h.claim("s");
}

const std::map<StepStatus, std::vector<StepScene>> into_step_status{
    {StepStatus::pending, {{working, [](History&) {}}}},
    {StepStatus::ready, {{working, reach}}},
    {StepStatus::running, {{working, reach_and_claim}}},
    {StepStatus::waiting_approval,
     {{working,
       [](History& h) {
         reach_and_claim(h);
         h.gate_action("s");
       }},
      {RunBuilder().step("first").gate("s").step("last"), reach}}},
    {StepStatus::waiting_input,
     {{working,
       [](History& h) {
         reach_and_claim(h);
         h.ask("s");
       }}}},
    {StepStatus::failed_retryable,
     {{working,
       [](History& h) {
         reach_and_claim(h);
         h.fail("s");
         h.wait(1h);  // so that only the table decides whether it is due
       }}}},
    {StepStatus::waiting_event,
     {{RunBuilder().step("first").timer("s", "1h").step("last"),
       [](History& h) {
         reach(h);
         h.wait(1h);  // so that only the table decides whether it is due
       }}}},
    {StepStatus::succeeded,
     {{working,
       [](History& h) {
         reach_and_claim(h);
         h.complete("s");
       }}}},
    {StepStatus::failed_terminal,
     {{working,
       [](History& h) {
         reach_and_claim(h);
         h.act_until(FailStep{StepId{"s"}, LeaseProof::local(h.step("s").lease_token), "TOOL_DENIED", "no", {}, {}, {}},
                     "step.failed_terminal");
       }}}},
    {StepStatus::canceled,
     {{working,
       [](History& h) {
         reach_and_claim(h);
         h.act_until(CancelRun{}, "step.canceled");
       }}}},
};

// The event that carries this trigger, with everything in it that such an event needs to be believed.
RunPayload step_event(const History& h, StepTrigger trigger) {
  StepId id{"s"};
  switch (trigger) {
    case StepTrigger::unblock:
    case StepTrigger::open_gate:
    case StepTrigger::gate:
    case StepTrigger::due:
    case StepTrigger::approve_action:
    case StepTrigger::approve_gate:
    case StepTrigger::cancel:
      return StepMoved{id, trigger};
    case StepTrigger::open_wait:
      return StepWaitOpened{id, h.now() + 1h};
    case StepTrigger::arrive:
      return StepArrived{id, "{}"};
    case StepTrigger::release:
      return StepReleased{id};
    case StepTrigger::claim:
    case StepTrigger::reclaim:
      return StepClaimed{id, trigger, WorkerName{"w"}, h.step("s").lease_token + 1, h.now() + 30s, false};
    case StepTrigger::complete:
      return StepCompleted{id, "{}", {}};
    case StepTrigger::fail_retryable:
    case StepTrigger::fail_terminal:
    case StepTrigger::refuse:
      return StepFailed{id, trigger, some_diagnostic(), {}, {}};
    case StepTrigger::ask:
      return StepAsked{id, "\"?\""};
    case StepTrigger::answer:
      return StepAnswered{id, "\"!\"", {}, false};
  }
  invariant(false, "unreachable");
  return StepMoved{};
}

TEST(Lifecycle, evolve_moves_a_step_only_along_its_table) {
  for (StepStatus from : all_of<StepStatus>())
    for (const auto& scene : into_step_status.at(from)) {
      auto history = play(scene.builder, scene.acts);
      ASSERT_EQ(history.step("s").status, from);
      for (StepTrigger trigger : all_of<StepTrigger>()) {
        SCOPED_TRACE(std::string(to_string(from)) + ", " + std::string(to_string(trigger)));
        auto to = next(step_table, from, trigger);
        auto after = fold_checked(history.run(), {history.now(), step_event(history, trigger)}, to.has_value());
        EXPECT_EQ(after.steps[history.index("s")].status, to.value_or(from));
      }
    }
}

TEST(Lifecycle, a_step_event_cannot_smuggle_a_trigger_of_another_kind) {
  auto history = play(working, reach_and_claim);
  StepId id{"s"};
  auto& run = history.run();
  auto token = history.step("s").lease_token + 1;
  for (StepTrigger trigger : all_of<StepTrigger>()) {
    SCOPED_TRACE(to_string(trigger));
    bool claims = trigger == StepTrigger::reclaim;
    fold_checked(run, {history.now(), StepClaimed{id, trigger, WorkerName{"w"}, token, {}, false}}, claims);
    bool fails = trigger == StepTrigger::fail_retryable || trigger == StepTrigger::fail_terminal;
    fold_checked(run, {history.now(), StepFailed{id, trigger, some_diagnostic(), {}, {}}}, fails);
    bool plain = trigger == StepTrigger::gate || trigger == StepTrigger::cancel;
    fold_checked(run, {history.now(), StepMoved{id, trigger}}, plain);
  }
}

TEST(Lifecycle, a_claim_that_breaks_a_rule_is_refused_without_a_trace) {
  auto claim = [](const History& h, std::string id, std::uint64_t token) {
    auto trigger = h.step(id).status == StepStatus::running ? StepTrigger::reclaim : StepTrigger::claim;
    return RunEvent{h.now(), StepClaimed{StepId{id}, trigger, WorkerName{"w"}, token, h.now() + 30s, true}};
  };
  auto running = play(working, reach_and_claim);
  fold_checked(running.run(), claim(running, "s", running.step("s").lease_token), false);  // a token that does not grow

  auto last_attempt = play(RunBuilder().step("s").attempts(1), [](History& h) { h.claim("s"); });
  fold_checked(last_attempt.run(), claim(last_attempt, "s", 2), false);

  // A gate, and a step that is ready although what it needs has not succeeded: only a forged stream has those.
  auto forged = [](const RunBuilder& builder) {
    auto history = builder.create();
    history.append({StepMoved{StepId{"s"}, StepTrigger::unblock}});
    return history;
  };
  auto gate = forged(RunBuilder().step("first").gate("s"));
  fold_checked(gate.run(), claim(gate, "s", 1), false);
  auto early = forged(working);
  fold_checked(early.run(), claim(early, "s", 1), false);
}

TEST(Lifecycle, a_retry_before_its_time_is_refused) {
  auto history = play(RunBuilder().step("s"), [](History& h) {
    h.claim("s");
    h.fail("s");
  });
  fold_checked(history.run(), {history.now(), StepMoved{StepId{"s"}, StepTrigger::due}}, false);
  fold_checked(history.run(), {history.step("s").next_eligible_at, StepMoved{StepId{"s"}, StepTrigger::due}}, true);
}

TEST(Lifecycle, a_step_that_does_not_exist_moves_nowhere) {
  auto history = play(working, reach);
  for (StepTrigger trigger : {StepTrigger::unblock, StepTrigger::cancel})
    fold_checked(history.run(), {history.now(), StepMoved{StepId{"nobody"}, trigger}}, false);
  fold_checked(history.run(), {history.now(), StepAnswered{StepId{"nobody"}, "1", {}, true}}, false);
  fold_checked(history.run(), {history.now(), ApprovalRequested{{}, StepId{"nobody"}, {}, {}}}, false);
}

TEST(Lifecycle, an_early_answer_meets_neither_an_open_question_nor_a_finished_step) {
  auto early = [](const Play& acts, bool legal) {
    auto history = play(working, acts);
    fold_checked(history.run(), {history.now(), StepAnswered{StepId{"s"}, "1", {}, true}}, legal);
  };
  early(reach, true);
  for (StepStatus status : {StepStatus::waiting_input, StepStatus::succeeded, StepStatus::failed_terminal})
    early(into_step_status.at(status).front().acts, false);
}

// --- approvals ---

const RunBuilder gate_first = RunBuilder().gate("g").step("after");

const std::map<ApprovalStatus, Play> into_approval_status{
    {ApprovalStatus::requested, [](History& h) { h.start(); }},
    {ApprovalStatus::approved,
     [](History& h) {
       h.start();
       h.approve();
     }},
    {ApprovalStatus::rejected,
     [](History& h) {
       h.start();
       h.act_until(ResolveApproval{{}, false, Actor{"person:ada"}, {}}, "approval.rejected");
     }},
    {ApprovalStatus::expired,
     [](History& h) {
       h.start();
       h.wait(default_approval_expiry);
       h.act_until(TimePasses{}, "approval.expired");
     }},
    {ApprovalStatus::canceled,
     [](History& h) {
       h.start();
       h.act_until(CancelRun{}, "approval.canceled");
     }},
};

TEST(Lifecycle, evolve_moves_an_approval_only_along_its_table) {
  for (ApprovalStatus from : all_of<ApprovalStatus>()) {
    auto history = play(gate_first, into_approval_status.at(from));
    ASSERT_EQ(history.approval().status, from);
    for (ApprovalTrigger trigger : all_of<ApprovalTrigger>()) {
      SCOPED_TRACE(std::string(to_string(from)) + ", " + std::string(to_string(trigger)));
      auto to = next(approval_table, from, trigger);
      ApprovalMoved moved{history.approval().id, trigger, Actor{"person:bo"}, {}};
      auto after = fold_checked(history.run(), {history.now(), moved}, to.has_value());
      EXPECT_EQ(after.approvals.front().status, to.value_or(from));
    }
  }
}

TEST(Lifecycle, an_approval_that_breaks_a_rule_is_refused_without_a_trace) {
  auto history = play(RunBuilder().gate("g").terms({.tier = Tier::high, .two_person = true, .quorum = 2, .prompt = {}}),
                      [](History& h) { h.start(); });
  ApprovalId id = history.approval().id;
  auto approved_by = [&](Actor by) { return ApprovalMoved{id, ApprovalTrigger::approve, std::move(by), {}}; };
  fold_checked(history.run(), {history.now(), approved_by(Actor{"person:ada"})}, false);  // one of two
  fold_checked(history.run(), {history.now(), ApprovalVoted{id, asker}}, false);          // the one who asked
  history.approve("person:ada");
  fold_checked(history.run(), {history.now(), approved_by(Actor{"person:ada"})}, false);  // the same person again
  fold_checked(history.run(), {history.now(), ApprovalVoted{id, Actor{"person:ada"}}}, false);
  fold_checked(history.run(), {history.now(), approved_by(asker)}, false);
  fold_checked(history.run(), {history.approval().expires_at, approved_by(Actor{"person:bo"})}, false);  // too late
  fold_checked(history.run(), {history.now(), ApprovalVoted{{}, Actor{"person:bo"}}}, false);  // no such approval
  fold_checked(history.run(), {history.now(), approved_by(Actor{"person:bo"})}, true);
}

// --- streams ---

TEST(Lifecycle, a_stream_begins_with_its_creation_and_has_only_one) {
  auto history = usual.create();
  pawl::Run blank;
  blank.workflow = &history.workflow();
  fold_checked(blank, {history.now(), RunMoved{RunTrigger::start, {}, {}, {}}}, false);
  fold_checked(history.run(), history.commits().front().events.front(), false);
}

TEST(Lifecycle, nothing_follows_the_end_not_even_an_audit) {
  for (RunStatus status : all_of<RunStatus>()) {
    auto history = play(usual, into_run_status.at(status));
    TransitionRefused audit{"approve", "any", "NOTHING_WAITING", asker};
    fold_checked(history.run(), {history.now(), audit}, !is_terminal(status));
  }
}

// --- streams ---

TEST(Lifecycle, a_stream_folds_to_the_run_that_wrote_it_and_says_where_it_is_damaged) {
  History history = usual.create();
  history.do_step("a");
  history.do_step("b");
  history.approve();
  std::string lines;
  for (const Commit& commit : history.commits())
    for (const RunEvent& event : commit.events) {
      append_event(lines, event);
      lines += '\n';
    }
  auto fold = [&](std::string_view text) {
    return fold_lines(history.run().tenant, history.run().id, history.workflow(), text);
  };
  auto whole = fold(lines);
  ASSERT_TRUE(whole) << whole.error();
  EXPECT_TRUE(same_fold(*whole, history.run()));
  EXPECT_EQ(fold("")->seq, 0u);

  std::size_t second = lines.find('\n') + 1;
  EXPECT_EQ(fold(lines.substr(0, second))->seq, 1u);
  for (const std::string& damaged : {lines.substr(0, second) + "nonsense\n", lines.substr(0, second) + lines}) {
    auto folded = fold(damaged);
    ASSERT_FALSE(folded);
    EXPECT_NE(folded.error().find("at event 2"), std::string::npos) << folded.error();
  }
  EXPECT_FALSE(fold(lines.substr(0, lines.size() - 1))) << "its last line has no end";
}

}  // namespace
}  // namespace pawl::tests
