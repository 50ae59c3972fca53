// Whose reports on a lease count, what the journal says of them, and what an undo may be.
#include "core/lease_proof.h"

#include "core/decide.h"
#include "core/invariants.h"
#include "core/run_builder.h"
#include "core/tenant.h"
#include "core/undo.h"
#include "core/workflow_builder.h"

namespace pawl::tests {
namespace {

using namespace std::chrono_literals;

const KeyId ada_key{{1, 11}};
const KeyId eve{{2, 22}};

Hash digest_of_token(std::string_view token) { return toy_sha256(token, {}); }
LeaseProof shown(KeyId key, std::string_view token) { return LeaseProof::remote({key, digest_of_token(token)}); }

// Claimed by the key through the token; without one, by a worker in this process.
History claimed(const RunBuilder& builder, std::optional<RemoteHolder> holder) {
  History h = builder.create();
  h.act(ClaimStep{
      .step = h.id(0), .worker = {"w"}, .writes = true, .writes_max = {}, .input_error = {}, .holder = holder});
  return h;
}
History claimed_by_ada(const RunBuilder& builder = one_step) {
  return claimed(builder, RemoteHolder{ada_key, digest_of_token("secret")});
}

// Everything that can be said of a lease, by this proof.
std::vector<RunCommand> all_reports(const LeaseProof& proof, ReceiptId receipt) {
  const StepId step = one_step.create().id(0);
  return {
      CompleteStep{step, proof, "{}", {}},
      FailStep{step, proof, "TOOL_FAILED", "x", {}, {}, {}},
      ChargeStep{step, proof, Money{1}},
      ReleaseStep{step, proof},
      AskQuestion{step, proof, "\"?\""},
      ProposeAction{
          .step = step, .proof = proof, .proposal = std::make_shared<const Proposal>(a_proposal()), .verdict = allowed},
      RecordOutcome{.step = step, .proof = proof, .receipt = receipt}};
}

void expect_all_lost(History& h, const LeaseProof& proof, std::string_view why) {
  const ReceiptId receipt = h.run().receipts.empty() ? ReceiptId{} : h.receipt().id;
  const pawl::Run before = h.run();
  for (const RunCommand& command : all_reports(proof, receipt)) {
    EXPECT_TRUE(h.act(command).refused_as(RefusalCode::lease_lost)) << why << ": command " << command.index();
    EXPECT_EQ(h.last().refusal->message, lease_lost_refusal().message) << "the same answer, whatever was wrong";
    EXPECT_EQ(h.last().names(), Names{}) << why;
  }
  EXPECT_TRUE(same_fold(before, h.run())) << why;
}

std::string text_of(const RunEvent& event) {
  std::string out;
  append_event(out, event);
  return out;
}

TEST(LeaseProof, a_foreign_or_stale_one_changes_nothing_and_is_answered_alike) {
  auto h = claimed_by_ada();
  h.act(ProposeAction{.step = h.id(0),
                      .proof = shown(ada_key, "secret"),
                      .proposal = std::make_shared<const Proposal>(a_proposal()),
                      .verdict = allowed});
  ASSERT_EQ(h.run().receipts.size(), 1u);
  expect_all_lost(h, shown(eve, "secret"), "another key with the right token");
  expect_all_lost(h, shown(ada_key, "guess"), "the right key with another token");
  expect_all_lost(h, LeaseProof::local(1), "the number of the claim");
  expect_all_lost(h, LeaseProof::program(1), "the number of the claim, as an agent's");
  h.wait(31s);
  h.act(ClaimStep{.step = h.id(0),
                  .worker = {"w"},
                  .writes = true,
                  .writes_max = {},
                  .input_error = {},
                  .holder = RemoteHolder{ada_key, digest_of_token("another")}});
  expect_all_lost(h, shown(ada_key, "secret"), "the token of the attempt before");
}

TEST(LeaseProof, of_a_remote_worker_does_not_fit_a_lease_in_this_process) {
  auto h = claimed(one_step, std::nullopt);
  expect_all_lost(h, shown(ada_key, "secret"), "a token on an in-process lease");
  expect_all_lost(h, LeaseProof::remote({KeyId{}, Hash{}}), "nothing at all");
}

TEST(LeaseProof, of_a_claim_from_before_tokens_had_digests_is_lost_to_remote_workers) {
  auto claim = parse_run_event(
      R"({"at":1800000000000,"lease_expires_at":1800000030000,"step":"a","token":1,"type":"step.claimed","v":1,"worker":"w"})");
  ASSERT_TRUE(claim) << claim.error();
  auto h = one_step.create();
  h.start();
  h.append({claim->payload});
  EXPECT_EQ(h.step("a").status, StepStatus::running);
  expect_all_lost(h, shown(ada_key, "1"), "the number as it used to be shown");
}

TEST(LeaseProof, a_program_asks_proposes_and_records_and_ends_nothing) {
  auto h = claimed(one_step, std::nullopt);
  const auto program = LeaseProof::program(1);
  for (const RunCommand& command : std::vector<RunCommand>{
           CompleteStep{h.id(0), program, "{}", {}}, FailStep{h.id(0), program, "TOOL_FAILED", "x", {}, {}, {}},
           ChargeStep{h.id(0), program, Money{1}}, ReleaseStep{h.id(0), program}}) {
    EXPECT_TRUE(h.act(command).refused_as(RefusalCode::lease_lost)) << command.index();
    EXPECT_EQ(h.last().names(), Names{});
  }
  EXPECT_EQ(h.act(ProposeAction{.step = h.id(0),
                                .proof = program,
                                .proposal = std::make_shared<const Proposal>(a_proposal()),
                                .verdict = allowed})
                .names(),
            Names{"receipt.intended"});
  EXPECT_EQ(h.act(RecordOutcome{.step = h.id(0), .proof = program, .receipt = h.receipt().id}).names(),
            Names{"receipt.succeeded"});
  EXPECT_EQ(h.act(AskQuestion{h.id(0), program, "\"?\""}).names(), (Names{"step.asked", "run.paused"}));
}

TEST(LeaseProof, a_program_cannot_answer_for_what_its_tool_does_nor_the_tool_for_it) {
  for (bool by_program : {true, false}) {
    auto h = claimed(one_step, std::nullopt);
    const auto proposer = by_program ? LeaseProof::program(1) : LeaseProof::local(1);
    const auto other = by_program ? LeaseProof::local(1) : LeaseProof::program(1);
    ProposeAction propose{.step = h.id(0),
                          .proof = proposer,
                          .proposal = std::make_shared<const Proposal>(a_proposal(an_action(), true)),
                          .verdict = allowed};
    h.act(propose);
    const pawl::Run before = h.run();
    EXPECT_TRUE(h.act(RecordOutcome{.step = h.id(0), .proof = other, .receipt = h.receipt().id})
                    .refused_as(RefusalCode::unknown_receipt));
    propose.proof = other;
    for (std::optional<bool> happened : {std::optional<bool>(), std::optional(true), std::optional(false)}) {
      propose.happened = happened;
      EXPECT_TRUE(h.act(propose).refused_as(RefusalCode::effect_in_progress));
    }
    EXPECT_TRUE(same_fold(before, h.run()));
  }
}

// ---- The journal

TEST(Reporter, is_named_by_every_event_that_follows_from_a_report) {
  struct Row {
    std::optional<RemoteHolder> holder;
    LeaseProof proof;
    std::string by;
  };
  const RemoteHolder of_ada{ada_key, digest_of_token("secret")};
  for (const Row& row : {Row{of_ada, LeaseProof::remote(of_ada), actor_of(ada_key).text},
                         Row{std::nullopt, LeaseProof::local(1), "worker:w"},
                         Row{std::nullopt, LeaseProof::program(1), "lease:" + first_run_id.str() + ":a"}})
    for (std::size_t i = 0; i < all_reports(row.proof, {}).size(); ++i) {
      auto h = claimed(one_step, row.holder);
      const auto proposed = a_proposal();
      if (i == 6)
        h.act(ProposeAction{.step = h.id(0),
                            .proof = row.proof,
                            .proposal = std::make_shared<const Proposal>(proposed),
                            .verdict = allowed});
      h.act(all_reports(row.proof, i == 6 ? h.receipt().id : ReceiptId{})[i]);
      if (h.last().refused()) continue;  // what a program may not say
      EXPECT_TRUE(text_of(h.last().events.front()).contains(R"("by":")" + row.by + "\""))
          << text_of(h.last().events[0]);
    }
}

TEST(Reporter, of_a_denial_an_approval_and_a_look_is_named_too) {
  for (const Verdict& verdict : {denied, ask_first}) {
    auto h = claimed_by_ada();
    h.act(ProposeAction{.step = h.id(0),
                        .proof = shown(ada_key, "secret"),
                        .proposal = std::make_shared<const Proposal>(a_proposal()),
                        .verdict = verdict});
    int named = 0;
    for (const RunEvent& event : h.last().events)
      named += text_of(event).contains(R"("by":")" + actor_of(ada_key).text + "\"");
    EXPECT_EQ(named, 2) << "action.denied and step.failed_terminal, or step.gated and approval.requested";
  }
}

TEST(Claim, is_journaled_with_the_digest_of_its_token_and_its_key_and_never_the_token) {
  auto h = claimed_by_ada();
  const StepClaimed* claim = h.last().find<StepClaimed>();
  ASSERT_TRUE(claim);
  EXPECT_EQ(claim->holder, (RemoteHolder{ada_key, digest_of_token("secret")}));
  for (const RunEvent& event : h.last().events) {
    const std::string text = text_of(event);
    EXPECT_FALSE(text.contains("secret")) << text;
    auto parsed = parse_run_event(text);
    ASSERT_TRUE(parsed) << parsed.error();
    EXPECT_EQ(text_of(*parsed), text);
  }
  EXPECT_TRUE(same_fold(h.refolded(), h.run()));
}

// ---- Risk

TEST(Risk, is_at_least_what_the_workflow_and_the_policy_say) {
  for (Tier of_step : {Tier::low, Tier::med, Tier::high})
    for (Tier of_policy : {Tier::low, Tier::med, Tier::high})
      for (Tier stated : {Tier::low, Tier::med, Tier::high}) {
        auto h = claimed_by_ada(RunBuilder().step("a").with([&](StepDefinition& step) { step.risk = of_step; }));
        Action action = an_action();
        action.risk = stated;
        Verdict verdict = allowed;
        verdict.risk = of_policy;
        h.act(ProposeAction{.step = h.id(0),
                            .proof = shown(ada_key, "secret"),
                            .proposal = std::make_shared<const Proposal>(a_proposal(action)),
                            .verdict = verdict});
        EXPECT_EQ(h.last().refused(), stated < std::max(of_step, of_policy));
        EXPECT_EQ(h.run().receipts.empty(), h.last().refused());
      }
}

TEST(Risk, that_another_policy_gives_does_not_make_another_effect_of_it) {
  Action raised = an_action();
  raised.risk = Tier::high;
  Verdict later = allowed;
  later.policy_version = 2;
  // Done under the lower risk: it answers.
  auto h = claimed(one_step, std::nullopt);
  h.propose("a", allowed);
  h.outcome("a");
  EXPECT_EQ(h.propose("a", later, a_proposal(raised)).names(), Names{});
  EXPECT_FALSE(h.last().refused());
  EXPECT_TRUE(h.propose("a", allowed, a_proposal(raised)).refused_as(RefusalCode::idempotency_conflict))
      << "under the same policy it is the worker that changes its mind";
  // In doubt: called again, and the journal says as what.
  auto doubted = claimed(one_step, std::nullopt);
  doubted.propose("a", allowed, a_proposal(an_action(), true));
  doubted.wait(31s);
  doubted.claim("a");
  EXPECT_EQ(doubted.propose("a", later, a_proposal(raised, true)).names(), Names{"receipt.repeated"});
  EXPECT_EQ(doubted.receipt().proposal->action.risk, Tier::high);
  EXPECT_EQ(doubted.receipt().proposal->digest, a_proposal(raised).digest);
  EXPECT_TRUE(same_fold(doubted.refolded(), doubted.run()));
  const std::string text = text_of(doubted.last().events.front());
  EXPECT_EQ(text_of(parse_run_event(text).value()), text);
  // Under way: what was allowed is exactly that.
  EXPECT_TRUE(
      doubted.propose("a", allowed, a_proposal(an_action(), true)).refused_as(RefusalCode::idempotency_conflict));
}

// ---- Undo

const std::string hostile_fields = R"({"args":["sh","-c","curl ${{ secrets.KEY }}"],"n":"$${{ input.x }}"})";

// A run of one step with this tool whose effect was recorded, with an undo, through this proof.
History undoable(const std::string& tool, const LeaseProof& proof, Tier of_step = Tier::low, Tier of_effect = Tier::low,
                 Tier of_undo = Tier::low) {
  auto builder = RunBuilder().step("a").with([&](StepDefinition& step) {
    step.tool.text = tool;
    step.risk = of_step;
    step.timeout = 42s;
    step.lease = 17s;
  });
  const bool is_remote = proof.bearer() == LeaseProof::Bearer::remote;
  auto h = claimed(builder, is_remote ? std::optional(proof.holder()) : std::nullopt);
  Action action = an_action();
  action.risk = std::max(of_step, of_effect);
  h.act(ProposeAction{.step = h.id(0),
                      .proof = proof,
                      .proposal = std::make_shared<const Proposal>(a_proposal(action)),
                      .verdict = allowed});
  h.act(RecordOutcome{.step = h.id(0),
                      .proof = proof,
                      .receipt = h.receipt().id,
                      .undo = std::make_shared<const Action>(Action{.connector = "shell",
                                                                    .operation = "run",
                                                                    .target = "/",
                                                                    .fields = hostile_fields,
                                                                    .risk = of_undo,
                                                                    .idempotency_key = "k"})});
  return h;
}

std::expected<UndoPlan, Refusal> plan(const History& h) { return plan_undo(h.run(), {}, test_tools(), toy_sha256); }

StepDefinition undo_step_of(const History& h) {
  auto planned = plan(h);
  EXPECT_TRUE(planned) << planned.error().message;
  auto workflow = read_workflow(read_yaml(planned->source).value(), nullptr);
  EXPECT_TRUE(workflow);
  return workflow->steps.at(0);
}

TEST(Undo, that_a_worker_or_an_agent_gave_never_reaches_a_tool_of_this_server) {
  auto agents = undoable("shell", LeaseProof::program(1));
  ASSERT_TRUE(agents.receipt().undo);
  EXPECT_EQ(agents.receipt().undo->source, UndoSource::agent);
  auto refused = plan(agents);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, RefusalCode::not_reversible);
  EXPECT_TRUE(refused.error().message.contains("an agent said how")) << refused.error().message;
  // A worker that was leased a tool of the server's name, on a server that has no such tool by then.
  auto workers = undoable("shell", shown(ada_key, "secret"));
  EXPECT_EQ(workers.receipt().undo->source, UndoSource::worker);
  EXPECT_FALSE(plan(workers));
  // Recorded by an older pawl.
  auto old = undoable("shell", LeaseProof::local(1));
  pawl::Run run = old.run();
  run.receipts[0].undo = std::make_shared<const Undo>(run.receipts[0].undo->action, UndoSource::unknown);
  EXPECT_FALSE(plan_undo(run, {}, test_tools(), toy_sha256));
}

TEST(Undo, that_a_tool_of_this_server_gave_is_its_template) {
  auto h = undoable("shell", LeaseProof::local(1));
  EXPECT_EQ(h.receipt().undo->source, UndoSource::tool);
  EXPECT_TRUE(undo_step_of(h).keeps_expressions);
}

TEST(Undo, that_a_worker_gave_is_data_whatever_it_looks_like) {
  auto h = undoable("warehouse.return", shown(ada_key, "secret"));
  const StepDefinition step = undo_step_of(h);
  EXPECT_EQ(step.tool.text, "warehouse.return") << "the tool that the worker was leased for, whatever it names";
  EXPECT_FALSE(step.keeps_expressions);
  auto undoing = std::make_shared<Workflow>();
  undoing->steps.push_back(step);
  pawl::Run run;
  run.workflow = undoing.get();
  run.steps.resize(1);
  auto input = render_input(run, 0);
  ASSERT_TRUE(input) << input.error();
  EXPECT_EQ(*input, canonical(parse_json(hostile_fields).value())) << "the worker is given what it said, byte for byte";
}

TEST(Undo, keeps_the_limits_of_its_step_and_is_as_risky_as_the_riskiest_word_on_it) {
  for (Tier of_step : {Tier::low, Tier::med, Tier::high})
    for (Tier of_effect : {Tier::low, Tier::high})
      for (Tier of_undo : {Tier::low, Tier::med}) {
        const StepDefinition step =
            undo_step_of(undoable("warehouse.return", shown(ada_key, "secret"), of_step, of_effect, of_undo));
        EXPECT_EQ(step.risk, std::max({of_step, of_effect, of_undo}));
        EXPECT_EQ(step.timeout, 42s);
        EXPECT_EQ(step.lease, 17s);
      }
}

}  // namespace
}  // namespace pawl::tests
