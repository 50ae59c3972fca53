// The gate: what becomes of an action that a worker proposes, and of its receipt.
#include "core/decide.h"
#include "core/invariants.h"
#include "core/run_builder.h"
#include "core/snapshot.h"
#include "core/tenant.h"

namespace pawl::tests {
namespace {

using namespace std::chrono_literals;

History running(const RunBuilder& builder = one_step) {
  History h = builder.create();
  h.claim("a");
  return h;
}

void expect_sound(const History& h) {
  EXPECT_EQ(check_run(h.run()), std::vector<std::string>{});
  EXPECT_TRUE(same_fold(h.refolded(), h.run()));
  auto read = read_snapshot(write_snapshot(h.run()), h.workflow());
  ASSERT_TRUE(read);
  EXPECT_TRUE(same_fold(*read, h.run()));
  for (const Commit& commit : h.commits())
    for (const RunEvent& event : commit.events) {
      std::string text;
      append_event(text, event);
      auto value = parse_json(text);
      ASSERT_TRUE(value) << text;
      EXPECT_EQ(canonical(*value), text);
      auto parsed = parse_run_event(text);
      ASSERT_TRUE(parsed) << text << ": " << parsed.error();
      std::string again;
      append_event(again, *parsed);
      EXPECT_EQ(again, text);
    }
}

// --- what the policy says ---

TEST(Propose, what_is_allowed_is_intended_before_anything_happens) {
  auto h = running();
  EXPECT_EQ(h.propose("a", allowed).names(), Names{"receipt.intended"});
  EXPECT_EQ(h.receipt().status, ReceiptStatus::intended);
  EXPECT_EQ(h.receipt().policy_reason.rule, "fine");
  EXPECT_EQ(h.outcome("a").names(), Names{"receipt.succeeded"});
  EXPECT_EQ(h.complete("a").names(), (Names{"step.completed", "run.succeeded"}));
  EXPECT_EQ(h.receipt().response, R"({"status":200})");
  expect_sound(h);
}

TEST(Propose, what_is_denied_ends_the_run_and_has_no_receipt) {
  auto h = running();
  EXPECT_EQ(h.propose("a", denied).names(), (Names{"action.denied", "step.failed_terminal", "run.denied"}));
  EXPECT_EQ(h.last().ending()->error_code, "POLICY_DENIED");
  EXPECT_EQ(h.status(), RunStatus::denied);
  EXPECT_TRUE(h.run().receipts.empty());
  expect_sound(h);
}

TEST(Propose, what_needs_approval_waits_for_it_and_is_proposed_again) {
  auto h = running();
  EXPECT_EQ(h.propose("a", ask_first).names(), (Names{"step.gated", "approval.requested", "run.paused"}));
  EXPECT_EQ(h.approval().proposal->action, an_action());
  EXPECT_TRUE(h.propose("a", ask_first).refused_as(RefusalCode::lease_lost)) << "the lease is over";
  EXPECT_EQ(h.approve().names(), (Names{"approval.approved", "step.action_approved", "run.resumed"}));
  h.claim("a");
  EXPECT_EQ(h.propose("a", ask_first).names(), Names{"receipt.intended"});
  EXPECT_EQ(h.receipt().approval, h.approval().id);
  h.outcome("a");
  h.complete("a");
  EXPECT_EQ(h.status(), RunStatus::success);
  expect_sound(h);
}

TEST(Propose, a_rejected_action_never_happens) {
  auto h = running();
  h.propose("a", ask_first);
  h.reject();
  EXPECT_EQ(h.status(), RunStatus::denied);
  EXPECT_TRUE(h.run().receipts.empty());
  expect_sound(h);
}

TEST(Propose, an_expired_approval_never_executes) {
  auto h = running();
  h.propose("a", {.effect = Effect::needs_approval, .policy_version = 1, .terms = {.expires = 1h}});
  h.pass(1h);
  EXPECT_EQ(h.status(), RunStatus::denied);
  EXPECT_EQ(h.run().diagnostic->error_code, "APPROVAL_EXPIRED");
  expect_sound(h);
}

// --- exactly this action, under exactly this policy ---

TEST(Propose, each_field_changed_after_the_approval_is_no_approved_action) {
  std::vector<std::pair<const char*, std::function<void(Action&)>>> changes{
      {"connector", [](Action& a) { a.connector = "other"; }},
      {"operation", [](Action& a) { a.operation = "ticket.delete"; }},
      {"target", [](Action& a) { a.target = "desk/ticket/2"; }},
      {"fields", [](Action& a) { a.fields = R"({"group":"root"})"; }},
      {"risk", [](Action& a) { a.risk = Tier::low; }},
  };
  for (auto& [field, change] : changes) {
    auto h = running();
    h.propose("a", ask_first);
    h.approve();
    h.claim("a");
    Action other = an_action();
    change(other);
    EXPECT_EQ(h.propose("a", ask_first, a_proposal(other)).names(),
              (Names{"action.denied", "step.failed_terminal", "run.denied"}))
        << field;
    EXPECT_EQ(h.last().ending()->error_code, "ACTION_CHANGED") << field;
    EXPECT_TRUE(h.run().receipts.empty()) << field;
    expect_sound(h);
  }
  auto h = running();
  h.propose("a", ask_first);
  h.approve();
  h.claim("a");
  Action other = an_action();
  other.idempotency_key = "another";
  h.propose("a", ask_first, a_proposal(other));
  EXPECT_TRUE(h.run().receipts.empty()) << "an action of its own, which nobody has approved";
  EXPECT_EQ(h.step("a").status, StepStatus::waiting_approval);
  expect_sound(h);
}

TEST(Propose, an_approval_under_another_policy_counts_for_nothing) {
  auto h = running();
  h.propose("a", ask_first);
  h.approve();
  h.claim("a");
  Verdict later = ask_first;
  later.policy_version = 2;
  h.propose("a", later);
  EXPECT_EQ(h.step("a").status, StepStatus::waiting_approval) << "asked again";
  EXPECT_EQ(h.run().approvals.size(), 2u);
  expect_sound(h);
}

TEST(Propose, parallel_branches_are_approved_separately) {
  auto h = RunBuilder().step("a").step("b").needs({}).create();
  h.claim("a");
  h.claim("b");
  Action other = an_action();
  other.idempotency_key = "b";
  h.propose("a", ask_first);
  h.propose("b", ask_first, a_proposal(other));
  h.approve("person:ada", h.approval(0).id);
  EXPECT_EQ(h.step("a").status, StepStatus::ready);
  EXPECT_EQ(h.step("b").status, StepStatus::waiting_approval);
  h.claim("a");
  EXPECT_EQ(h.propose("a", ask_first).names(), Names{"receipt.intended"});
  expect_sound(h);
}

// --- once under one key ---

TEST(Propose, the_same_worker_asking_again_gets_the_same_receipt) {
  auto h = running();
  h.propose("a", allowed);
  EXPECT_EQ(h.propose("a", allowed).names(), Names{});
  EXPECT_EQ(h.run().receipts.size(), 1u);
}

TEST(Propose, a_succeeded_receipt_answers_for_a_repeat) {
  auto h = running();
  h.propose("a", allowed);
  h.outcome("a");
  h.fail("a");
  h.pass(1h);
  h.claim("a");
  EXPECT_EQ(h.propose("a", denied).names(), Names{}) << "it has happened, whatever the policy says by now";
  EXPECT_EQ(h.run().receipts.size(), 1u);
  h.complete("a");
  expect_sound(h);
}

TEST(Propose, a_failed_receipt_frees_the_key) {
  auto h = running();
  h.propose("a", allowed);
  h.outcome("a", false);
  h.fail("a");
  h.pass(1h);
  h.claim("a");
  EXPECT_EQ(h.propose("a", allowed).names(), Names{"receipt.intended"});
  EXPECT_EQ(h.run().writes, 1) << "the same effect, tried again, counts once";
  h.outcome("a", true, 1);
  h.complete("a");
  expect_sound(h);
}

TEST(Propose, the_same_key_with_another_digest_is_refused) {
  auto h = running();
  h.propose("a", allowed);
  Action other = an_action();
  other.fields = R"({"group":"other"})";
  EXPECT_TRUE(h.propose("a", allowed, a_proposal(other)).refused_as(RefusalCode::idempotency_conflict));
  h.outcome("a");
  EXPECT_TRUE(h.propose("a", allowed, a_proposal(other)).refused_as(RefusalCode::idempotency_conflict));
  EXPECT_EQ(h.run().receipts.size(), 1u);
}

ProposeAction::Holder held(ReceiptStatus status, const Proposal& proposal = a_proposal()) {
  Receipt receipt{.id = {{7, 7}}, .status = status, .proposal = std::make_shared<const Proposal>(proposal)};
  return {RunId{{1, 2}}, receipt, ToolName{"noop"}};
}

ProposeAction proposed_by(const LeaseProof& proof, std::optional<ProposeAction::Holder> holder = {}) {
  return {.step = {"a"},
          .proof = proof,
          .proposal = std::make_shared<const Proposal>(a_proposal()),
          .verdict = allowed,
          .holder = std::move(holder)};
}

TEST(Propose, another_runs_success_answers_for_this_one) {
  auto h = running();
  EXPECT_EQ(h.propose("a", allowed, a_proposal(), held(ReceiptStatus::succeeded)).names(), Names{"action.found"});
  EXPECT_TRUE(h.run().receipts.empty());
  h.complete("a");
  expect_sound(h);
}

TEST(Propose, another_runs_effect_under_way_or_in_doubt_keeps_this_one_from_it) {
  for (auto status : {ReceiptStatus::intended, ReceiptStatus::in_doubt}) {
    auto h = running();
    EXPECT_TRUE(h.propose("a", allowed, a_proposal(), held(status)).refused_as(RefusalCode::effect_in_progress));
    EXPECT_TRUE(h.run().receipts.empty());
  }
  auto h = running();
  Action other = an_action();
  other.target = "elsewhere";
  EXPECT_TRUE(h.propose("a", allowed, a_proposal(), held(ReceiptStatus::succeeded, a_proposal(other)))
                  .refused_as(RefusalCode::idempotency_conflict));
}

TEST(Propose, nothing_is_allowed_on_a_lease_that_has_run_out) {
  auto h = running();
  h.wait(h.run().definition(0).lease - 1ms);
  EXPECT_EQ(h.propose("a", allowed).names(), Names{"receipt.intended"});
  auto late = running();
  late.wait(late.run().definition(0).lease);
  EXPECT_TRUE(late.propose("a", allowed).refused_as(RefusalCode::lease_lost)) << "though nobody has taken the step yet";
  EXPECT_TRUE(late.run().receipts.empty());
  EXPECT_EQ(late.complete("a").names(), (Names{"step.completed", "run.succeeded"})) << "what it has done is taken";
}

TEST(Propose, a_key_that_begins_with_a_runs_id_is_that_runs_own) {
  auto h = running();
  Action action = an_action();
  action.idempotency_key = h.run().id.str() + ":a";
  EXPECT_EQ(owner_of_key(action.idempotency_key), h.run().id);
  EXPECT_EQ(h.propose("a", allowed, a_proposal(action)).names(), Names{"receipt.intended"});
  auto other = running();
  action.idempotency_key = RunId{{1, 2}}.str() + ":a";
  EXPECT_TRUE(other.propose("a", allowed, a_proposal(action)).refused_as(RefusalCode::idempotency_conflict));
  for (const char* key : {"", ":", "run_", "sn:incident:1", "run_01mcc5rnpne00aar2xh4raz69f"})
    EXPECT_EQ(owner_of_key(key), std::nullopt) << key;
}

TEST(Propose, the_cap_counts_effects) {
  auto h = RunBuilder().step("a").step("b").create();
  h.writes_max = 2;
  h.claim("a");
  for (const char* key : {"one", "two"}) {
    Action action = an_action();
    action.idempotency_key = key;
    EXPECT_EQ(h.propose("a", allowed, a_proposal(action)).names(), Names{"receipt.intended"});
    h.outcome("a", true, h.run().receipts.size() - 1);
  }
  h.complete("a");
  EXPECT_EQ(h.run().writes, 2);
  h.claim("b");
  Action third = an_action();
  third.idempotency_key = "three";
  h.propose("b", allowed, a_proposal(third));
  EXPECT_EQ(h.status(), RunStatus::denied);
  EXPECT_EQ(h.run().diagnostic->error_code, "WRITE_CAP_EXCEEDED");
  EXPECT_EQ(h.run().receipts.size(), 2u);
  expect_sound(h);
}

// --- doubt ---

// Every way in which a worker can be lost between intent and outcome.
const std::vector<std::pair<const char*, Play>> losses{
    {"its lease runs out and another takes over",
     [](History& h) {
       h.wait(31s);
       h.claim("a", "worker-2");
     }},
    {"it fails without a word", [](History& h) { h.fail("a"); }},
    {"it lets go", [](History& h) { h.release("a"); }},
    {"it asks instead", [](History& h) { h.ask("a"); }},
    {"the step's time is up", [](History& h) { h.pass(11min); }},
    {"the run is canceled", [](History& h) { h.cancel(); }},
};

TEST(Doubt, is_what_every_loss_between_intent_and_outcome_leaves) {
  for (auto& [name, lose] : losses) {
    auto h = running(RunBuilder().step("a").attempts(2));
    h.propose("a", allowed);
    lose(h);
    EXPECT_EQ(h.receipt().status, ReceiptStatus::in_doubt) << name;
    expect_sound(h);
  }
}

TEST(Doubt, is_not_left_by_the_session_of_an_agent_whose_end_is_known) {
  const std::vector<std::pair<const char*, Play>> ends{
      {"the run is canceled", [](History& h) { h.cancel(); }},
      {"the run's time is up", [](History& h) { h.pass(21min); }},
      {"the step's time is up", [](History& h) { h.pass(11min); }},
      {"the worker says that the step's time is up", [](History& h) { h.fail("a", "TOOL_TIMEOUT"); }}};
  Action session = an_action(), effect = an_action();
  session.connector = "agent";
  effect.idempotency_key = "desk:2";
  for (auto& [name, end] : ends) {
    auto h = running(RunBuilder().step("a").attempts(2).run_timeout(20min));
    h.propose("a", allowed, a_proposal(session, true));
    const LeaseProof program = LeaseProof::program(h.step("a").lease_token);
    h.act(ProposeAction{.step = StepId{"a"},
                        .proof = program,
                        .proposal = std::make_shared<const Proposal>(a_proposal(effect, true)),
                        .verdict = allowed,
                        .writes_max = h.writes_max,
                        .holder = {}});
    end(h);
    EXPECT_EQ(h.receipt(0).status, ReceiptStatus::failed) << name;
    EXPECT_EQ(h.receipt(0).error_code, "AGENT_INTERRUPTED") << name;
    EXPECT_EQ(h.receipt(1).status, ReceiptStatus::in_doubt) << name;
    expect_sound(h);
  }
}

TEST(Doubt, is_left_by_the_session_of_an_agent_whose_server_is_lost) {
  Action session = an_action();
  session.connector = "agent";
  auto h = running(RunBuilder().step("a").attempts(2));
  h.propose("a", allowed, a_proposal(session, true));
  h.wait(31s);
  h.claim("a", "worker-2");
  EXPECT_EQ(h.receipt().status, ReceiptStatus::in_doubt);
  expect_sound(h);
}

TEST(Doubt, an_idempotent_connector_calls_again_under_the_same_receipt) {
  auto h = running();
  h.propose("a", allowed, a_proposal(an_action(), true));
  h.wait(31s);
  h.claim("a", "worker-2");
  EXPECT_EQ(h.propose("a", allowed, a_proposal(an_action(), true)).names(), Names{"receipt.repeated"});
  EXPECT_EQ(h.receipt().calls, 2);
  EXPECT_TRUE(h.complete("a").refused_as(RefusalCode::outcome_missing));
  EXPECT_EQ(h.outcome("a").names(), Names{"receipt.succeeded"});
  h.complete("a");
  expect_sound(h);
}

TEST(Doubt, a_call_again_needs_its_allow_again) {
  auto h = running();
  h.propose("a", allowed, a_proposal(an_action(), true));
  h.wait(31s);
  h.claim("a", "worker-2");
  h.propose("a", denied, a_proposal(an_action(), true));
  EXPECT_EQ(h.status(), RunStatus::denied);
  EXPECT_EQ(h.receipt().status, ReceiptStatus::in_doubt);
  EXPECT_EQ(h.receipt().calls, 1);
  expect_sound(h);
}

TEST(Doubt, a_repeat_that_fails_says_nothing_of_the_call_before_it) {
  auto h = running(RunBuilder().step("a").attempts(5));
  h.propose("a", allowed, a_proposal(an_action(), true));
  h.wait(31s);
  h.claim("a", "worker-2");
  h.propose("a", allowed, a_proposal(an_action(), true));
  EXPECT_EQ(h.outcome("a", false).names(), Names{});
  EXPECT_FALSE(h.last().refused());
  EXPECT_EQ(h.receipt().status, ReceiptStatus::in_doubt) << "the key is not free";
  EXPECT_TRUE(h.complete("a").refused_as(RefusalCode::outcome_missing));
  h.fail("a");
  h.pass(1h);
  h.claim("a");
  EXPECT_EQ(h.propose("a", allowed, a_proposal(an_action(), true)).names(), Names{"receipt.repeated"});
  EXPECT_EQ(h.outcome("a").names(), Names{"receipt.succeeded"});
  h.complete("a");
  expect_sound(h);
}

// --- whose receipt it is ---

TEST(ForeignReceipt, one_that_a_step_of_another_tool_made_answers_for_nothing) {
  for (auto status : {ReceiptStatus::succeeded, ReceiptStatus::intended, ReceiptStatus::in_doubt}) {
    auto h = running();
    auto holder = held(status);
    holder.tool = ToolName{"agent.command"};
    EXPECT_TRUE(h.propose("a", allowed, a_proposal(), holder).refused_as(RefusalCode::idempotency_conflict));
    EXPECT_NE(h.last().refusal->message.find("a step of agent.command"), std::string::npos);
    EXPECT_EQ(h.last().names(), Names{});
  }
}

TEST(ForeignReceipt, an_agents_answers_for_an_agent_only) {
  for (bool by_program : {true, false}) {
    auto h = running();
    auto holder = held(ReceiptStatus::succeeded);
    holder.receipt.by_program = by_program;
    EXPECT_EQ(h.act(proposed_by(by_program ? LeaseProof::local(1) : LeaseProof::program(1), holder)).names(), Names{});
    EXPECT_TRUE(h.last().refused_as(RefusalCode::idempotency_conflict));
    h.act(proposed_by(by_program ? LeaseProof::program(1) : LeaseProof::local(1), holder));
    EXPECT_EQ(h.last().names(), Names{"action.found"});
  }
}

TEST(ForeignReceipt, a_remote_workers_word_does_not_answer_for_a_tool_of_the_server) {
  const RemoteHolder remote{KeyId{{1, 11}}, toy_sha256("secret", {})};
  for (bool resolved : {false, true}) {
    auto holder = held(ReceiptStatus::succeeded);
    holder.receipt.is_reported = true;
    (resolved ? holder.receipt.resolved_by : holder.receipt.proposed_by) = actor_of(remote.key);
    auto h = running();
    EXPECT_TRUE(h.act(proposed_by(LeaseProof::local(1), holder)).refused_as(RefusalCode::idempotency_conflict));
    EXPECT_EQ(h.last().names(), Names{});
    History at_worker = one_step.create();
    at_worker.act(ClaimStep{.step = at_worker.id(0),
                            .worker = {"w"},
                            .writes = true,
                            .writes_max = {},
                            .input_error = {},
                            .holder = remote});
    EXPECT_EQ(at_worker.act(proposed_by(LeaseProof::remote(remote), holder)).names(), Names{"action.found"});
  }
}

TEST(ForeignReceipt, a_later_step_of_the_run_is_not_answered_by_another_tool_either) {
  for (const char* tool : {"noop", "other"}) {
    auto h =
        running(RunBuilder().step("a").step("b").with([tool](StepDefinition& step) { step.tool = ToolName{tool}; }));
    h.propose("a", allowed);
    h.outcome("a");
    h.complete("a");
    h.claim("b");
    h.propose("b", allowed);
    if (std::string_view(tool) == "noop") {
      EXPECT_EQ(h.last().names(), Names{"action.found"});
    } else {
      EXPECT_TRUE(h.last().refused_as(RefusalCode::idempotency_conflict));
      EXPECT_EQ(h.last().names(), Names{});
    }
    expect_sound(h);
  }
}

TEST(ForeignReceipt, what_an_agent_said_happened_does_not_answer_for_its_steps_tool) {
  auto h = running();
  h.act(proposed_by(LeaseProof::program(1)));
  h.act(RecordOutcome{.step = h.id(0), .proof = LeaseProof::program(1), .receipt = h.receipt().id});
  EXPECT_TRUE(h.propose("a", allowed).refused_as(RefusalCode::idempotency_conflict));
  EXPECT_EQ(h.act(proposed_by(LeaseProof::program(1))).names(), Names{}) << "its own repeat is answered";
  EXPECT_FALSE(h.last().refused());
}

// --- two steps under one key ---

const RunBuilder two_patient_steps = RunBuilder().step("a").attempts(5).step("b").needs({}).attempts(5);

TEST(SharedKey, a_step_is_not_given_the_open_call_of_another) {
  for (bool idempotent : {false, true}) {
    auto h = running(two_patient_steps);
    h.claim("b");
    h.propose("a", allowed, a_proposal(an_action(), idempotent));
    EXPECT_TRUE(
        h.propose("b", allowed, a_proposal(an_action(), idempotent)).refused_as(RefusalCode::effect_in_progress));
    EXPECT_EQ(h.run().receipts.size(), 1u);
    h.outcome("a");
    EXPECT_EQ(h.propose("b", allowed, a_proposal(an_action(), idempotent)).names(), Names{"action.found"});
    expect_sound(h);
  }
}

TEST(SharedKey, a_doubt_is_left_to_the_step_that_has_it) {
  for (bool idempotent : {false, true}) {
    auto h = running(two_patient_steps);
    h.claim("b");
    h.propose("a", allowed, a_proposal(an_action(), idempotent));
    h.fail("a");
    ASSERT_EQ(h.receipt().status, ReceiptStatus::in_doubt);
    EXPECT_TRUE(
        h.propose("b", allowed, a_proposal(an_action(), idempotent)).refused_as(RefusalCode::effect_in_progress));
    EXPECT_EQ(h.last().names(), Names{});
    expect_sound(h);
  }
}

TEST(SharedKey, a_doubt_that_a_finished_step_left_is_asked_about_and_settled_once) {
  for (bool by_settling : {false, true}) {
    auto h = RunBuilder().step("a").attempts(5).step("b").needs({}).step("c").needs({}).create();
    h.claim("a");
    h.propose("a", allowed, a_proposal(an_action(), true));
    h.fail("a");
    h.pass(1h);
    h.claim("a");
    h.complete("a");  // it did not propose again
    for (const char* step : {"b", "c"}) {
      h.claim(step);
      EXPECT_TRUE(h.propose(step, allowed, a_proposal(an_action(), true)).refused_as(RefusalCode::effect_in_doubt));
      EXPECT_EQ(h.step(step).status, StepStatus::waiting_input);
    }
    if (by_settling) {
      h.act(SettleReceipt{h.receipt().id, true, Actor{"person:ada"}});
    } else {
      h.answer("b", R"({"happened":true})");
      EXPECT_EQ(h.answer("c", R"({"happened":true})").names(), (Names{"step.answered"})) << "settled already";
    }
    EXPECT_EQ(h.receipt().status, ReceiptStatus::succeeded);
    for (const char* step : {"b", "c"}) EXPECT_EQ(h.step(step).status, StepStatus::ready);
    expect_sound(h);
  }
}

TEST(Doubt, for_any_other_a_person_is_asked_and_what_they_say_holds) {
  for (bool happened : {true, false}) {
    auto h = running();
    h.propose("a", allowed);
    h.wait(31s);
    h.claim("a", "worker-2");
    EXPECT_TRUE(h.propose("a", allowed).refused_as(RefusalCode::effect_in_doubt));
    EXPECT_EQ(h.last().names(), (Names{"step.asked", "run.paused"}));
    EXPECT_EQ(h.step("a").status, StepStatus::waiting_input);
    EXPECT_TRUE(h.answer("a", R"("perhaps")").refused_as(RefusalCode::invalid));
    EXPECT_EQ(h.answer("a", happened ? R"({"happened":true})" : R"({"happened":false})").names(),
              (Names{happened ? "receipt.succeeded" : "receipt.failed", "step.answered", "run.resumed"}));
    EXPECT_EQ(h.receipt().resolved_by, Actor{"person:ada"});
    h.claim("a");
    EXPECT_EQ(h.propose("a", allowed).names(), happened ? Names{} : Names{"receipt.intended"});
    if (!happened) h.outcome("a", true, 1);
    h.complete("a");
    EXPECT_EQ(h.status(), RunStatus::success);
    expect_sound(h);
  }
}

TEST(Doubt, is_explained_by_what_the_attempt_reported) {
  for (bool was_lost : {true, false}) {
    auto h = running(RunBuilder().step("a").attempts(5));
    h.propose("a", allowed);
    if (was_lost) {
      h.wait(31s);
    } else {
      h.fail("a");
      h.pass(1h);
    }
    h.claim("a", "worker-2");
    h.propose("a", allowed);
    ASSERT_EQ(h.step("a").status, StepStatus::waiting_input);
    const std::string reason = was_lost ? "its worker was lost before it could say" : h.step("a").last_error->message;
    EXPECT_TRUE(h.step("a").question.contains("its outcome is not known: " + reason + ".")) << h.step("a").question;
    EXPECT_FALSE(h.step("a").question.contains("{\"happened\"")) << "people say it in their own way";
  }
}

TEST(Doubt, may_be_settled_after_the_run_is_over_and_nothing_else_changes_then) {
  auto h = running();
  h.propose("a", allowed);
  h.cancel();
  ASSERT_EQ(h.receipt().status, ReceiptStatus::in_doubt);
  SettleReceipt settle{h.receipt().id, true, Actor{"person:ada"}};
  EXPECT_EQ(h.act(settle).names(), Names{"receipt.succeeded"});
  EXPECT_EQ(h.act(settle).names(), Names{}) << "a repeat";
  settle.happened = false;
  EXPECT_TRUE(h.act(settle).refused_as(RefusalCode::already_resolved));
  EXPECT_EQ(h.status(), RunStatus::canceled);
  expect_sound(h);
}

TEST(Doubt, a_connector_that_can_look_settles_it_by_itself) {
  for (bool happened : {true, false}) {
    auto h = running();
    h.propose("a", allowed);
    h.wait(31s);
    h.claim("a", "worker-2");
    ProposeAction looked{.step = h.id(0),
                         .proof = LeaseProof::local(h.step("a").lease_token),
                         .proposal = std::make_shared<const Proposal>(a_proposal()),
                         .verdict = allowed,
                         .happened = happened};
    EXPECT_EQ(h.act(looked).names(),
              happened ? Names{"receipt.succeeded"} : (Names{"receipt.failed", "receipt.intended"}));
    if (!happened) h.outcome("a", true, 1);
    h.complete("a");
    expect_sound(h);
  }
}

// --- outcomes ---

TEST(Outcome, is_recorded_once_and_by_the_one_who_may_call) {
  auto h = running();
  h.propose("a", allowed);
  std::uint64_t token = h.step("a").lease_token;
  h.outcome("a");
  EXPECT_EQ(h.outcome("a").names(), Names{}) << "a repeat";
  EXPECT_TRUE(h.outcome("a", false).refused_as(RefusalCode::already_resolved));
  h.fail("a");
  h.pass(1h);
  h.claim("a");
  EXPECT_TRUE(h.act(RecordOutcome{.step = h.id(0), .proof = LeaseProof::local(token), .receipt = h.receipt().id})
                  .refused_as(RefusalCode::lease_lost));
  EXPECT_TRUE(
      h.act(RecordOutcome{.step = h.id(0), .proof = LeaseProof::local(h.step("a").lease_token), .receipt = {{9, 9}}})
          .refused_as(RefusalCode::unknown_receipt));
}

TEST(Outcome, said_again_after_it_was_undone_is_a_repeat) {
  auto h = running();
  h.propose("a", allowed);
  h.outcome("a");
  h.act(ReverseReceipt{h.receipt().id, ReceiptId{{5, 5}}});
  EXPECT_EQ(h.outcome("a").names(), Names{});
  EXPECT_FALSE(h.last().refused()) << "the worker had not heard that it was recorded, and must be able to go on";
  EXPECT_TRUE(h.outcome("a", false).refused_as(RefusalCode::already_resolved));
  h.complete("a");
  expect_sound(h);
}

TEST(Outcome, must_be_said_before_the_step_completes) {
  auto h = running();
  h.propose("a", allowed);
  EXPECT_TRUE(h.complete("a").refused_as(RefusalCode::outcome_missing));
  h.outcome("a");
  EXPECT_FALSE(h.complete("a").refused());
}

// --- undone ---

TEST(Reverse, moves_what_succeeded_once_also_after_the_end) {
  auto h = running();
  h.propose("a", allowed);
  h.outcome("a");
  h.complete("a");
  ReverseReceipt reverse{h.receipt().id, ReceiptId{{5, 5}}};
  EXPECT_EQ(h.act(reverse).names(), Names{"receipt.reversed"});
  EXPECT_EQ(h.act(reverse).names(), Names{}) << "a repeat";
  EXPECT_TRUE(h.act(ReverseReceipt{h.receipt().id, ReceiptId{{6, 6}}}).refused_as(RefusalCode::already_resolved));
  EXPECT_EQ(h.receipt().reversed_by, (ReceiptId{{5, 5}}));
  expect_sound(h);
}

// --- two people ---

TEST(TwoPerson, the_identity_matrix) {
  struct Row {
    const char* name;
    bool is_person, has_asked;
    std::optional<RefusalCode> refused;
  };
  for (const Row& row : {Row{"somebody else", true, false, std::nullopt},
                         Row{"the one who asked, by another identity", true, true, RefusalCode::self_approval},
                         Row{"a key that is nobody's", false, false, RefusalCode::not_a_person},
                         Row{"a key that the one who asked made", false, true, RefusalCode::self_approval}})
    for (bool approves : {true, false}) {
      auto h = running();
      h.propose("a",
                {.effect = Effect::needs_approval, .policy_version = 1, .terms = {.two_person = true, .quorum = 2}});
      h.act(ResolveApproval{
          .approve = approves, .by = {"person:eve"}, .is_person = row.is_person, .has_asked = row.has_asked});
      EXPECT_EQ(h.last().refusal ? std::optional(h.last().refusal->code) : std::nullopt, row.refused) << row.name;
      expect_sound(h);
    }
}

TEST(Action, of_an_older_spelling_can_be_read_and_not_proposed) {
  for (const char* name : {"GitHub", "git hub", "github ", "git\nhub", "g\xc3\xafthub", "_github"}) {
    Action action{.connector = name, .operation = "labels", .target = "t", .idempotency_key = "k"};
    const auto read = read_action(*parse_json(print_action(action)));
    ASSERT_TRUE(read.has_value()) << read.error();
    EXPECT_EQ(*read, action);
    EXPECT_FALSE(check_action(action).has_value()) << name;
    std::swap(action.connector, action.operation);
    EXPECT_FALSE(check_action(action).has_value()) << name;
  }
  EXPECT_TRUE(check_action({.connector = "my-erp_2", .operation = "a.b", .target = "T", .idempotency_key = "k"}));
}

}  // namespace
}  // namespace pawl::tests
