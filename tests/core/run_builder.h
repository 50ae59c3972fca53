// Makes a workflow in code and drives a run of it, as the engine would: every act is decide, then evolve, and is kept
// as one commit.
//
//   auto history = RunBuilder().step("fetch").gate("sign-off").step("assign").create();
//   history.claim("fetch");
//   history.complete("fetch");
//   history.approve("person:ada");
//   EXPECT_EQ(history.run().status, RunStatus::running);
//   EXPECT_EQ(history.last().names(), (Names{"approval.approved", "step.gate_approved", ...}));
//
// Time stands still until wait() or pass() moves it. Jitter is nought unless act() is given another draw.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/decide.h"
#include "core/invariant.h"

namespace pawl::tests {

inline constexpr Instant first_moment{1'800'000'000'000};
inline const RunId first_run_id{IdBits{0x0192'0000'0000'7000, 0x8000'0000'0000'0001}};
inline const Actor asker{"person:asker"};  // who creates runs here

using Names = std::vector<std::string>;

// What one act brought about: all of it became durable together, or nothing did.
struct Commit {
  Instant at;
  std::vector<RunEvent> events;
  std::optional<Refusal> refusal;

  bool refused() const { return refusal.has_value(); }
  bool refused_as(RefusalCode code) const { return refusal && refusal->code == code; }

  // The events' types, in order: the shape of a commit at a glance.
  Names names() const {
    Names out;
    for (const auto& event : events) out.emplace_back(type_of(event.payload));
    return out;
  }

  // The first event of this kind; nullptr when there is none.
  template <class Payload>
  const Payload* find() const {
    for (const auto& event : events)
      if (const auto* payload = std::get_if<Payload>(&event.payload)) return payload;
    return nullptr;
  }

  // The diagnostic that the run ended with in this commit; nullptr when it did not.
  std::shared_ptr<const Diagnostic> ending() const {
    for (const auto& event : events)
      if (const auto* moved = std::get_if<RunMoved>(&event.payload); moved && moved->diagnostic)
        return moved->diagnostic;
    return nullptr;
  }
};

// Enough to tell actions apart; the real one lives outside of core.
inline Hash toy_sha256(std::string_view a, std::string_view b) {
  Hash out;
  std::uint64_t state = 14695981039346656037u;
  for (std::string_view text : {a, b})
    for (char c : text) state = (state ^ static_cast<unsigned char>(c)) * 1099511628211u;
  for (std::size_t i = 0; i < 8; ++i) out.bytes[i] = static_cast<std::uint8_t>(state >> (8 * i));
  return out;
}

inline Action an_action() {
  return {.connector = "desk",
          .operation = "ticket.update",
          .target = "desk/ticket/1",
          .fields = R"({"group":"network"})",
          .risk = Tier::med,
          .idempotency_key = "desk:1:network"};
}
inline Proposal a_proposal(const Action& action = an_action(), bool idempotent = false) {
  return {.action = action, .digest = digest_of(toy_sha256, action), .idempotent = idempotent};
}
inline const Verdict allowed{.effect = Effect::allow, .policy_version = 1, .rule = "fine"};
inline const Verdict denied{.effect = Effect::deny, .policy_version = 1, .rule = "never", .reason = "not by machines"};
inline const Verdict ask_first{.effect = Effect::needs_approval, .policy_version = 1, .rule = "ask"};

class History {
 public:
  History(std::shared_ptr<const Workflow> workflow, CreateRun command) : workflow_(std::move(workflow)) {
    command.workflow = workflow_.get();
    run_ = blank(command.tenant, command.id);
    Decision decision = decide(command, now_);
    apply(std::move(decision));
  }

  const Run& run() const { return run_; }
  RunStatus status() const { return run_.status; }
  const Workflow& workflow() const { return *workflow_; }
  StepIndex index(std::string_view id) const {
    auto index = workflow_->find(StepId{std::string(id)});
    invariant(index.has_value(), "the test names a step that its workflow does not have");
    return *index;
  }
  // Of the step at this place; past the last, a name that no step has.
  StepId id(std::size_t place) const {
    return place < run_.defined_steps() ? run_.definition(static_cast<StepIndex>(place)).id : StepId{"no-such-step"};
  }
  const Step& step(std::string_view id) const { return run_.steps[index(id)]; }
  const Approval& approval(std::size_t number = 0) const { return run_.approvals.at(number); }

  const std::vector<Commit>& commits() const { return commits_; }
  const Commit& last() const { return commits_.back(); }

  Instant now() const { return now_; }
  // Moves the clock and nothing else; negative spans are clocks that were set back.
  void wait(Duration span) { now_ = now_ + span; }

  // What decide would say, without it happening.
  Decision peek(const RunCommand& command, Draws draws = {}) const { return decide(run_, command, now_, draws); }
  const Commit& act(const RunCommand& command, Draws draws = {}) { return apply(decide(run_, command, now_, draws)); }
  // Appends events that no command makes, as one commit. They must be legal.
  const Commit& append(std::vector<RunPayload> payloads) {
    Decision decision;
    for (auto& payload : payloads) decision.events.push_back({now_, std::move(payload)});
    return apply(std::move(decision));
  }
  // Folds a decision's events up to and including the first of this type, and no further: the run in the middle of a
  // commit, as only evolve ever sees it.
  void act_until(const RunCommand& command, std::string_view type) {
    for (auto& event : peek(command).events) {
      evolve(run_, event);
      if (type_of(event.payload) == type) return;
    }
    invariant(false, "the test waits for an event that never comes");
  }

  const Commit& start() { return act(StartRun{}); }
  const Commit& claim(std::string_view id, std::string worker = "worker-1") {
    return act(ClaimStep{StepId{std::string(id)}, WorkerName{std::move(worker)}, false, {}, {}});
  }
  const Commit& complete(std::string_view id, JsonText output = "{}", Money cost = {}) {
    return act(CompleteStep{StepId{std::string(id)}, LeaseProof::local(step(id).lease_token), std::move(output), cost});
  }
  const Commit& fail(std::string_view id, std::string code = "TOOL_FAILED", Money cost = {}) {
    return act(FailStep{StepId{std::string(id)},
                        LeaseProof::local(step(id).lease_token),
                        std::move(code),
                        "it did not work",
                        {},
                        {},
                        cost});
  }
  const Commit& charge(std::string_view id, Money cost) {
    return act(ChargeStep{StepId{std::string(id)}, LeaseProof::local(step(id).lease_token), cost});
  }
  const Commit& release(std::string_view id) {
    return act(ReleaseStep{StepId{std::string(id)}, LeaseProof::local(step(id).lease_token)});
  }
  const Commit& fail_for_good(std::string_view id) { return fail(id, "TOOL_INVALID_ARGUMENTS"); }
  const Commit& ask(std::string_view id, JsonText question = R"("which one?")") {
    return act(AskQuestion{StepId{std::string(id)}, LeaseProof::local(step(id).lease_token), std::move(question)});
  }
  const Commit& answer(std::string_view id, JsonText answer = R"("the first")") {
    return act(AnswerQuestion{StepId{std::string(id)}, std::move(answer), Actor{"person:ada"}});
  }
  const Commit& approve(std::string by = "person:ada", std::optional<ApprovalId> approval = {}) {
    return act(ResolveApproval{approval, true, Actor{std::move(by)}, {}});
  }
  const Commit& reject(std::string by = "person:ada", std::string reason = "not now") {
    return act(ResolveApproval{{}, false, Actor{std::move(by)}, std::move(reason)});
  }
  const Commit& cancel() { return act(CancelRun{Actor{"person:ada"}, "no longer needed"}); }
  const Commit& report(RunTrigger trigger, std::shared_ptr<const Diagnostic> diagnostic = nullptr) {
    return act(ReportRun{trigger, Actor{"key:orchestrator"}, std::move(diagnostic), {}});
  }
  // Time goes by and the timers fire.
  const Commit& pass(Duration span, Draws draws = {}) {
    wait(span);
    return act(TimePasses{}, draws);
  }
  // claim and complete
  void do_step(std::string_view id) {
    claim(id);
    complete(id);
  }
  // A running step proposes an action to a policy that says this.
  const Commit& propose(std::string_view id, const Verdict& verdict, const Proposal& proposal = a_proposal(),
                        std::optional<ProposeAction::Holder> holder = {}) {
    return act(ProposeAction{.step = StepId{std::string(id)},
                             .proof = LeaseProof::local(step(id).lease_token),
                             .proposal = std::make_shared<const Proposal>(proposal),
                             .verdict = verdict,
                             .writes_max = writes_max,
                             .holder = std::move(holder)});
  }
  const Commit& gate_action(std::string_view id, ApprovalTerms terms = {}) {
    return propose(id,
                   {.effect = Effect::needs_approval, .policy_version = 1, .rule = "ask", .terms = std::move(terms)});
  }
  const Receipt& receipt(std::size_t number = 0) const { return run_.receipts.at(number); }
  const Commit& outcome(std::string_view id, bool succeeded = true, std::size_t number = 0) {
    return act(RecordOutcome{.step = StepId{std::string(id)},
                             .proof = LeaseProof::local(step(id).lease_token),
                             .receipt = receipt(number).id,
                             .succeeded = succeeded,
                             .error_code = succeeded ? "" : "TOOL_FAILED",
                             .response = R"({"status":200})"});
  }
  std::optional<int> writes_max;  // the cap in force

  // The run folded anew from its events: must equal run() in all that events determine.
  Run refolded() const {
    Run out = blank(run_.tenant, run_.id);
    for (const auto& commit : commits_)
      for (const auto& event : commit.events) evolve(out, event);
    return out;
  }

 private:
  Run blank(TenantId tenant, RunId id) const {
    Run run;
    run.workflow = workflow_.get();
    run.tenant = tenant;
    run.id = id;
    return run;
  }

  const Commit& apply(Decision decision) {
    for (const auto& event : decision.events) evolve(run_, event);
    commits_.push_back({now_, std::move(decision.events), std::move(decision.refusal)});
    return commits_.back();
  }

  std::shared_ptr<const Workflow> workflow_;  // shared, so that a copy of a history can go its own way
  Run run_;
  Instant now_ = first_moment;
  std::vector<Commit> commits_;
};

// Steps come in the order they are added, each after the one before it. What follows a step or gate (needs, terms,
// retry, lease, ...) is about that one.
class RunBuilder {
 public:
  RunBuilder& step(std::string id) { return add(std::move(id), ToolName{"noop"}); }
  RunBuilder& gate(std::string id) { return add(std::move(id), approval_tool); }
  RunBuilder& timer(std::string id, std::string span) {
    add(std::move(id), wait_tool);
    workflow_.steps.back().wait = {WaitTerms::Kind::span, std::move(span)};
    return *this;
  }

  // After exactly these, which may be none, instead of after the step before.
  RunBuilder& needs(const std::vector<std::string>& ids) {
    auto& needs = workflow_.steps.back().needs;
    needs.clear();
    for (const auto& id : ids) {
      auto index = workflow_.find(StepId{id});
      invariant(index && *index + 1u < workflow_.steps.size(), "a test's step needs one that was not added before it");
      needs.push_back(*index);
    }
    return *this;
  }
  RunBuilder& terms(ApprovalTerms terms) {
    workflow_.steps.back().approval = std::move(terms);
    return *this;
  }
  RunBuilder& retry(RetryPolicy policy) {
    workflow_.steps.back().retry = std::move(policy);
    return *this;
  }
  RunBuilder& attempts(int max) {
    workflow_.steps.back().retry.max_attempts = max;
    return *this;
  }
  RunBuilder& with(const std::function<void(StepDefinition&)>& change) {
    change(workflow_.steps.back());
    return *this;
  }
  RunBuilder& lease(Duration span) {
    workflow_.steps.back().lease = span;
    return *this;
  }
  RunBuilder& step_timeout(Duration span) {
    workflow_.steps.back().timeout = span;
    return *this;
  }

  RunBuilder& run_timeout(Duration span) {
    command_.timeout = span;
    return *this;
  }
  RunBuilder& budget(std::int64_t micros) {
    command_.budget = Money{micros};
    return *this;
  }
  RunBuilder& provider(Provider provider) {
    command_.provider = provider;
    return *this;
  }
  RunBuilder& input(JsonText input) {
    command_.input = std::move(input);
    return *this;
  }
  // The workflow's own, which a run may override.
  RunBuilder& workflow_limits(std::optional<Duration> timeout, std::optional<Money> budget) {
    workflow_.timeout = timeout;
    workflow_.budget = budget;
    return *this;
  }

  History create() const {
    CreateRun command = command_;
    command.id = first_run_id;
    command.by = asker;
    return History(std::make_shared<const Workflow>(workflow_), std::move(command));
  }

 private:
  RunBuilder& add(std::string id, ToolName tool) {
    workflow_.name = WorkflowName{"test"};
    workflow_.version = 1;
    StepDefinition step;
    step.id = StepId{std::move(id)};
    step.tool = std::move(tool);
    if (!workflow_.steps.empty()) step.needs = {static_cast<StepIndex>(workflow_.steps.size() - 1)};
    workflow_.steps.push_back(std::move(step));
    return *this;
  }

  Workflow workflow_;
  CreateRun command_;
};

inline const RunBuilder one_step = RunBuilder().step("a");

// A run that another orchestrator carries.
inline RunBuilder external_run() { return RunBuilder().step("a").provider(Provider::external); }

// What happens to a run, as a row of test data.
using Play = std::function<void(History&)>;

inline History play(const RunBuilder& builder, const Play& acts) {
  History history = builder.create();
  acts(history);
  return history;
}

inline std::shared_ptr<const Diagnostic> some_diagnostic(std::string_view code = "TOOL_FAILED") {
  return std::make_shared<const Diagnostic>(diagnose(code, "reported", first_moment));
}

}  // namespace pawl::tests
