// What people do to a run: answer questions and decide approvals.
#include "core/decide.h"
#include "core/run_builder.h"

namespace pawl::tests {
namespace {

using namespace std::chrono_literals;

// --- questions ---

TEST(Ask, pauses_the_run_until_the_answer_comes) {
  auto h = one_step.create();
  h.claim("a");
  EXPECT_EQ(h.ask("a", R"("which region?")").names(), (Names{"step.asked", "run.paused"}));
  EXPECT_EQ(h.status(), RunStatus::waiting);
  EXPECT_EQ(h.step("a").question, R"("which region?")");
  EXPECT_TRUE(h.step("a").answer.empty());
  EXPECT_EQ(h.answer("a", R"("eu")").names(), (Names{"step.answered", "run.resumed"}));
  EXPECT_EQ(h.last().find<StepAnswered>()->by, Actor{"person:ada"});
  EXPECT_EQ(h.step("a").status, StepStatus::ready);
  EXPECT_EQ(h.step("a").answer, R"("eu")");
  h.claim("a");
  EXPECT_EQ(h.step("a").answer, R"("eu")") << "for the worker to read";
}

TEST(Ask, does_not_pause_a_run_that_can_go_on_elsewhere) {
  auto h = RunBuilder().step("a").step("b").needs({}).create();
  h.claim("a");
  EXPECT_EQ(h.ask("a").names(), Names{"step.asked"});
  EXPECT_EQ(h.answer("a").names(), Names{"step.answered"});
}

TEST(Ask, gives_the_attempt_back_so_that_even_the_last_one_can_go_on) {
  auto h = RunBuilder().step("a").attempts(1).create();
  h.claim("a");
  h.ask("a");
  h.answer("a");
  EXPECT_EQ(h.claim("a").names(), Names{"step.claimed"});
  EXPECT_EQ(h.step("a").attempts, 1);
  EXPECT_EQ(h.step("a").lease_token, 2u) << "the lease is a new one all the same";
  EXPECT_EQ(h.complete("a").names(), (Names{"step.completed", "run.succeeded"}));
}

TEST(Ask, ends_the_lease) {
  auto h = one_step.create();
  h.claim("a");
  h.ask("a");
  EXPECT_TRUE(h.complete("a").refused_as(RefusalCode::lease_lost));
}

TEST(Answer, that_comes_before_the_question_is_kept_and_used) {
  auto h = one_step.create();
  EXPECT_EQ(h.answer("a", R"("early")").names(), Names{"step.answered"});
  EXPECT_TRUE(h.last().find<StepAnswered>()->early);
  EXPECT_EQ(h.status(), RunStatus::created);
  EXPECT_EQ(h.step("a").status, StepStatus::ready) << "it moves nothing";
  h.claim("a");
  EXPECT_EQ(h.ask("a").names(), (Names{"step.asked", "step.answered"}));
  EXPECT_EQ(h.step("a").status, StepStatus::ready);
  EXPECT_EQ(h.step("a").answer, R"("early")");
  EXPECT_EQ(h.status(), RunStatus::running);
}

TEST(Answer, answers_one_question_and_not_the_next) {
  auto h = one_step.create();
  h.claim("a");
  h.ask("a", R"("first?")");
  h.answer("a", R"("one")");
  h.claim("a");
  EXPECT_EQ(h.ask("a", R"("second?")").names(), (Names{"step.asked", "run.paused"}));
  EXPECT_TRUE(h.step("a").answer.empty());
  h.answer("a", R"("two")");
  EXPECT_EQ(h.step("a").answer, R"("two")");
}

TEST(Answer, that_came_early_answers_one_question_and_not_the_next) {
  auto h = one_step.create();
  h.answer("a");
  h.claim("a");
  h.ask("a");
  h.claim("a");
  EXPECT_EQ(h.ask("a").names(), (Names{"step.asked", "run.paused"}));
}

TEST(Answer, to_nothing_is_refused_and_audited) {
  auto h = RunBuilder().gate("g").step("a").create();
  h.start();
  EXPECT_TRUE(h.answer("g").refused_as(RefusalCode::nothing_waiting)) << "a gate asks for approval, not for an answer";
  EXPECT_EQ(h.last().names(), Names{"transition.refused"});
  EXPECT_TRUE(h.act(AnswerQuestion{h.id(99), "1", asker}).refused_as(RefusalCode::nothing_waiting));
  h.approve();
  h.do_step("a");
  EXPECT_TRUE(h.answer("a").refused_as(RefusalCode::nothing_waiting));
  EXPECT_EQ(h.last().names(), Names{}) << "the stream of an ended run is sealed";
}

TEST(Answer, to_a_timer_is_refused_since_it_never_asks) {
  auto h = RunBuilder().timer("t", "1h").step("a").create();
  h.start();
  EXPECT_TRUE(h.answer("t").refused_as(RefusalCode::nothing_waiting));
  EXPECT_EQ(h.last().names(), Names{"transition.refused"});
}

// --- approvals ---

const RunBuilder gate_then_step = RunBuilder().gate("g").step("a");

History waiting_at(const RunBuilder& builder) {
  return play(builder, [](History& h) { h.start(); });
}

TEST(Approve, of_a_gate_lets_the_run_go_on) {
  auto h = waiting_at(gate_then_step);
  EXPECT_EQ(h.approve("person:ada").names(),
            (Names{"approval.approved", "step.gate_approved", "step.unblocked", "run.resumed"}));
  EXPECT_EQ(h.status(), RunStatus::running);
  EXPECT_EQ(h.step("g").status, StepStatus::succeeded);
  EXPECT_EQ(h.step("g").output, "null");
  EXPECT_EQ(h.step("g").attempts, 0) << "no worker ever had it";
  EXPECT_EQ(h.approval().status, ApprovalStatus::approved);
  EXPECT_EQ(h.approval().resolved_by, Actor{"person:ada"});
  EXPECT_EQ(h.approval().resolved_at, h.now());
}

TEST(Approve, of_the_last_gate_is_the_runs_success) {
  auto h = waiting_at(RunBuilder().gate("g"));
  EXPECT_EQ(h.approve().names(), (Names{"approval.approved", "step.gate_approved", "run.resumed", "run.succeeded"}));
  EXPECT_EQ(h.status(), RunStatus::success);
}

TEST(Approve, of_a_gate_before_another_gate_keeps_the_run_waiting) {
  auto h = waiting_at(RunBuilder().gate("g").gate("h"));
  EXPECT_EQ(h.approve().names(),
            (Names{"approval.approved", "step.gate_approved", "step.gate_opened", "approval.requested"}));
  EXPECT_EQ(h.status(), RunStatus::waiting);
  EXPECT_NE(h.approval(0).id, h.approval(1).id);
}

TEST(Approve, of_an_action_sends_the_step_back_to_a_worker_with_its_attempt) {
  auto h = RunBuilder().step("a").attempts(1).create();
  h.claim("a");
  h.gate_action("a");
  EXPECT_EQ(h.status(), RunStatus::waiting);
  EXPECT_EQ(h.approve().names(), (Names{"approval.approved", "step.action_approved", "run.resumed"}));
  EXPECT_EQ(h.step("a").status, StepStatus::ready);
  EXPECT_EQ(h.claim("a").names(), Names{"step.claimed"});
  EXPECT_EQ(h.step("a").attempts, 1);
}

TEST(Approve, repeated_is_the_same_answer_and_appends_nothing) {
  auto h = waiting_at(gate_then_step);
  h.approve("person:ada");
  for (auto by : {"person:ada", "person:bo"}) {
    EXPECT_EQ(h.approve(by).names(), Names{});
    EXPECT_FALSE(h.last().refused());
  }
  h.do_step("a");
  EXPECT_FALSE(h.approve().refused()) << "also when the run has ended since";
}

TEST(Approve, with_nothing_waiting_is_refused_audited_and_harmless) {
  auto h = one_step.create();
  auto before = h.run();
  EXPECT_TRUE(h.approve().refused_as(RefusalCode::nothing_waiting));
  EXPECT_EQ(h.last().names(), Names{"transition.refused"});
  auto audit = *h.last().find<TransitionRefused>();
  EXPECT_EQ(audit.requested, "approve");
  EXPECT_EQ(audit.state, "created");
  EXPECT_EQ(audit.code, "NOTHING_WAITING");
  before.seq += 1;
  EXPECT_TRUE(same_fold(before, h.run()));
}

TEST(Approve, of_a_gate_that_the_run_has_not_reached_is_refused) {
  auto h = RunBuilder().step("a").gate("g").create();
  EXPECT_TRUE(h.approve().refused_as(RefusalCode::nothing_waiting));
  h.claim("a");
  EXPECT_TRUE(h.reject().refused_as(RefusalCode::nothing_waiting));
  EXPECT_EQ(h.status(), RunStatus::running);
}

TEST(Approve, among_several_must_name_one) {
  auto h = waiting_at(RunBuilder().gate("g").gate("h").needs({}));
  EXPECT_TRUE(h.approve().refused_as(RefusalCode::ambiguous_approval));
  EXPECT_EQ(h.last().names(), Names{"transition.refused"});
  EXPECT_FALSE(h.approve("person:ada", h.approval(1).id).refused());
  EXPECT_EQ(h.step("h").status, StepStatus::succeeded);
  EXPECT_EQ(h.step("g").status, StepStatus::waiting_approval);
  EXPECT_FALSE(h.approve().refused()) << "now only one is open";
  EXPECT_EQ(h.status(), RunStatus::success);
}

TEST(Approve, of_one_that_this_run_does_not_have_is_refused) {
  auto h = waiting_at(gate_then_step);
  EXPECT_TRUE(h.approve("person:ada", ApprovalId{IdBits{1, 2}}).refused_as(RefusalCode::unknown_approval));
  EXPECT_EQ(h.status(), RunStatus::waiting);
}

TEST(Reject, denies_the_run) {
  auto h = waiting_at(gate_then_step);
  EXPECT_EQ(h.reject("person:bo", "too risky").names(),
            (Names{"approval.rejected", "step.refused", "step.canceled", "run.resumed", "run.denied"}));
  EXPECT_EQ(h.status(), RunStatus::denied);
  EXPECT_EQ(h.approval().reason, "too risky");
  EXPECT_EQ(h.run().diagnostic->error_code, "APPROVAL_REJECTED");
  EXPECT_EQ(h.run().diagnostic->message, "step g: rejected by bo: too risky");
  EXPECT_EQ(h.step("g").status, StepStatus::failed_terminal);
}

TEST(Reject, of_one_gate_cancels_the_other_approvals) {
  auto h = waiting_at(RunBuilder().gate("g").gate("h").needs({}));
  h.act(ResolveApproval{h.approval(0).id, false, Actor{"person:ada"}, {}});
  EXPECT_EQ(h.approval(0).status, ApprovalStatus::rejected);
  EXPECT_EQ(h.approval(1).status, ApprovalStatus::canceled);
}

TEST(Reject, beside_a_running_step_ends_that_one_too) {
  auto h = RunBuilder().step("a").gate("g").needs({}).create();
  h.claim("a");
  EXPECT_EQ(h.reject().names(), (Names{"approval.rejected", "step.refused", "step.canceled", "run.denied"}));
  EXPECT_EQ(h.step("a").status, StepStatus::canceled);
}

TEST(Approval, resolves_once_and_the_later_decision_is_refused) {
  auto approved = waiting_at(gate_then_step);
  approved.approve();
  EXPECT_TRUE(approved.reject().refused_as(RefusalCode::already_resolved));
  EXPECT_EQ(approved.last().names(), Names{"transition.refused"});
  EXPECT_EQ(approved.status(), RunStatus::running);

  auto rejected = waiting_at(gate_then_step);
  rejected.reject();
  EXPECT_TRUE(rejected.approve().refused_as(RefusalCode::already_resolved));
  EXPECT_EQ(rejected.last().names(), Names{});
  EXPECT_FALSE(rejected.reject().refused()) << "a repeat";

  auto canceled = waiting_at(gate_then_step);
  canceled.cancel();
  EXPECT_TRUE(canceled.approve().refused_as(RefusalCode::already_resolved));
}

TEST(Approval, expires_and_denies_the_run) {
  auto h = waiting_at(RunBuilder().gate("g").terms({.expires = 4h, .prompt = {}}).step("a"));
  EXPECT_EQ(h.pass(4h - 1ms).names(), Names{});
  EXPECT_EQ(h.pass(1ms).names(),
            (Names{"approval.expired", "step.refused", "step.canceled", "run.resumed", "run.denied"}));
  EXPECT_EQ(h.run().diagnostic->error_code, "APPROVAL_EXPIRED");
  EXPECT_FALSE(h.run().diagnostic->retryable);
}

TEST(Approval, that_has_expired_is_not_approved_even_before_its_timer_fires) {
  auto h = waiting_at(RunBuilder().gate("g").terms({.expires = 4h, .prompt = {}}));
  h.wait(4h);
  EXPECT_TRUE(h.approve().refused_as(RefusalCode::already_resolved));
  EXPECT_EQ(h.approval().status, ApprovalStatus::expired);
  EXPECT_EQ(h.status(), RunStatus::denied);
}

TEST(TwoPerson, takes_two_people_neither_of_them_the_one_who_asked) {
  auto h = waiting_at(RunBuilder().gate("g").terms({.two_person = true, .quorum = 2, .prompt = {}}));
  EXPECT_TRUE(h.approve(asker.text).refused_as(RefusalCode::self_approval));
  EXPECT_EQ(h.last().names(), Names{"transition.refused"});
  EXPECT_EQ(h.approve("person:ada").names(), Names{"approval.voted"});
  EXPECT_EQ(h.status(), RunStatus::waiting);
  EXPECT_EQ(h.approve("person:ada").names(), Names{}) << "twice the same is one";
  EXPECT_FALSE(h.last().refused());
  EXPECT_TRUE(h.approve(asker.text).refused_as(RefusalCode::self_approval));
  h.approve("person:bo");
  EXPECT_EQ(h.status(), RunStatus::success);
  EXPECT_EQ(h.approval().votes.size(), 2u);
}

TEST(TwoPerson, the_one_who_asked_cannot_reject_either_but_can_cancel) {
  auto h = waiting_at(RunBuilder().gate("g").terms({.two_person = true, .quorum = 2, .prompt = {}}));
  EXPECT_TRUE(h.reject(asker.text).refused_as(RefusalCode::self_approval));
  EXPECT_FALSE(h.cancel().refused());
}

// --- who may decide ---

const ApprovalTerms named{.quorum = 1,
                          .expires = 8h,
                          .prompt = {},
                          .approvers = {"ada", "group:finance"},
                          .remind = 1h,
                          .escalate = 4h,
                          .escalate_to = {"group:heads"}};

const Commit& decide_as(History& h, std::string by, std::vector<std::string> groups = {}, bool says_yes = true) {
  return h.act(ResolveApproval{
      .approval = {}, .approve = says_yes, .by = Actor{std::move(by)}, .reason = {}, .groups = std::move(groups)});
}

TEST(Approvers, decide_by_their_name_or_by_a_group_of_theirs_and_nobody_else_does) {
  auto h = waiting_at(RunBuilder().gate("g").terms(named));
  for (bool says_yes : {true, false}) {
    EXPECT_TRUE(decide_as(h, "person:bo", {"heads"}, says_yes).refused_as(RefusalCode::not_an_approver));
    EXPECT_EQ(h.last().names(), Names{"transition.refused"});
    EXPECT_NE(h.last().refusal->message.find("ada, group:finance"), std::string::npos);
    EXPECT_TRUE(decide_as(h, "key:01", {}, says_yes).refused_as(RefusalCode::not_an_approver)) << "a key is no person";
    EXPECT_TRUE(decide_as(h, "ada", {}, says_yes).refused_as(RefusalCode::not_an_approver)) << "nor is its name one";
  }
  auto other = waiting_at(RunBuilder().gate("g").terms(named));
  EXPECT_EQ(decide_as(h, "person:ada").names().front(), "approval.approved");
  EXPECT_EQ(h.approval().votes.at(0).as, "ada");
  EXPECT_EQ(decide_as(other, "person:cy", {"finance"}).names().front(), "approval.approved");
  EXPECT_EQ(other.approval().votes.at(0).as, "group:finance");
  auto third = waiting_at(RunBuilder().gate("g").terms(named));
  EXPECT_EQ(decide_as(third, "person:cy", {"finance"}, false).find<ApprovalMoved>()->as, "group:finance");
  EXPECT_EQ(third.status(), RunStatus::denied);
}

TEST(Approvers, are_reminded_once_and_then_others_may_decide_as_well) {
  auto h = waiting_at(RunBuilder().gate("g").terms(named));
  EXPECT_EQ(next_due(h.run(), h.now()), h.now() + 1h);
  EXPECT_EQ(h.pass(1h).names(), Names{"approval.reminded"});
  EXPECT_EQ(h.last().find<ApprovalReminded>()->to, (Approvers{"ada", "group:finance"}));
  EXPECT_EQ(h.act(TimePasses{}).names(), Names{}) << "once";
  EXPECT_TRUE(decide_as(h, "person:bo", {"heads"}).refused_as(RefusalCode::not_an_approver));
  EXPECT_EQ(next_due(h.run(), h.now()), h.now() + 3h);
  EXPECT_EQ(h.pass(3h).names(), Names{"approval.escalated"});
  EXPECT_EQ(h.last().find<ApprovalReminded>()->to, Approvers{"group:heads"});
  EXPECT_EQ(next_due(h.run(), h.now()), h.now() + 4h) << "then it expires";
  EXPECT_EQ(h.status(), RunStatus::waiting);
  auto expired = h;
  EXPECT_EQ(decide_as(h, "person:bo", {"heads"}).names().front(), "approval.approved");
  EXPECT_EQ(h.approval().votes.at(0).as, "group:heads");
  EXPECT_EQ(expired.pass(4h).names().front(), "approval.expired");
}

TEST(Approvers, of_both_times_at_once_hear_of_both) {
  auto h = waiting_at(RunBuilder().gate("g").terms(named));
  EXPECT_EQ(h.pass(5h).names(), (Names{"approval.escalated", "approval.reminded"}));
  EXPECT_EQ(h.last().find<ApprovalReminded>()->to, Approvers{"group:heads"});
}

TEST(Approvers, an_event_that_lets_somebody_else_approve_does_not_fold) {
  auto h = waiting_at(RunBuilder().gate("g").terms(named));
  const ApprovalId id = h.approval().id;
  auto approved = [&](std::string by, std::string as) {
    pawl::Run run = h.run();
    return evolve_checked(
               run,
               {h.now(), ApprovalMoved{id, ApprovalTrigger::approve, Actor{std::move(by)}, {}, {}, {}, std::move(as)}})
        .has_value();
  };
  EXPECT_TRUE(approved("person:ada", "ada"));
  EXPECT_TRUE(approved("person:cy", "group:finance"));
  EXPECT_FALSE(approved("person:cy", "ada"));
  EXPECT_FALSE(approved("person:cy", "group:heads"));
  EXPECT_FALSE(approved("person:cy", ""));
}

TEST(Quorum, counts_distinct_people_and_one_rejection_is_enough) {
  auto three = RunBuilder().gate("g").terms({.quorum = 3, .prompt = {}});
  auto h = waiting_at(three);
  h.approve("person:ada");
  h.approve("person:bo");
  EXPECT_EQ(h.status(), RunStatus::waiting);
  EXPECT_EQ(h.approve(asker.text).names().front(), "approval.approved") << "without two_person the asker may vote";
  auto other = waiting_at(three);
  other.approve("person:ada");
  other.reject("person:bo");
  EXPECT_EQ(other.status(), RunStatus::denied);
}

}  // namespace
}  // namespace pawl::tests
