// A decision in the making, and the moves that several commands share. For decide*.cc only.
#pragma once

#include <algorithm>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "core/decide.h"
#include "core/invariant.h"

namespace pawl {

// Of the steps that run agents: their receipts are of a session, not of an effect.
inline constexpr std::string_view agent_connector = "agent";

// Whoever carries a foreign run, as the one who reports on it.
Actor carrier_of(const Run& run);

// The run as the events drafted so far leave it. Only statuses are kept: that is all that rules look at, and it
// makes a decision cost a few bytes a step instead of a copy of the run.
class Draft {
 public:
  // `by`: whose report is decided, when it is one.
  Draft(const Run& run, Instant now, Actor by = {}) : run_(run), now_(now), by_(std::move(by)), status_(run.status) {
    steps_.reserve(run.steps.size());
    events_.reserve(4);
    for (const auto& step : run.steps) steps_.push_back(step.status);
    for (const auto& approval : run.approvals)
      if (approval.status == ApprovalStatus::requested) open_.push_back(approval.id);
  }

  const Run& run() const { return run_; }
  Instant now() const { return now_; }
  const Actor& by() const { return by_; }
  // The same, for the last event that names it.
  Actor take_by() { return std::move(by_); }
  RunStatus status() const { return status_; }
  StepStatus step(StepIndex index) const { return steps_[index]; }
  StepIndex size() const { return static_cast<StepIndex>(steps_.size()); }

  void emit(RunPayload payload) { events_.push_back({now_, std::move(payload)}); }

  void move_run(RunMoved moved) {
    auto to = next(run_table, status_, moved.trigger);
    invariant(to.has_value(), "decide drafted an illegal run transition");
    status_ = *to;
    // Whoever carries it elsewhere knows of an end only when that is its own doing.
    if (is_foreign(run_.provider) && is_terminal(*to) && moved.by != carrier_of(run_)) moved.tells = run_.provider;
    emit(std::move(moved));
  }
  void move_run(RunTrigger trigger) {
    move_run(RunMoved{.trigger = trigger, .by = {}, .reason = {}, .diagnostic = {}});
  }

  // Every step event passes here, so the overlay cannot drift from the table.
  void move_step(StepIndex index, StepTrigger trigger, RunPayload payload) {
    auto to = next(step_table, steps_[index], trigger);
    invariant(to.has_value(), "decide drafted an illegal step transition");
    if (steps_[index] == StepStatus::running && trigger != StepTrigger::complete) {
      if (trigger == StepTrigger::cancel) end_agent_session(index, "its run ended");
      doubt_calls(index);
    }
    steps_[index] = *to;
    emit(std::move(payload));
  }
  void move_step(StepIndex index, StepTrigger trigger, const Actor& by = {}) {
    move_step(index, trigger, StepMoved{run_.definition(index).id, trigger, by});
  }

  void request_approval(const StepDefinition& step, const ApprovalTerms& terms,
                        std::shared_ptr<const Proposal> proposal = {}, PolicyReason policy_reason = {}) {
    ApprovalId id{next_id()};
    open_.push_back(id);
    const bool is_proposed = proposal != nullptr;
    emit(ApprovalRequested{id, step.id, terms, now_ + terms.expires, std::move(proposal), std::move(policy_reason)});
    if (is_proposed) std::get<ApprovalRequested>(events_.back().payload).by = by_;
  }
  void request_approval(const StepDefinition& gate, Callback callback, Actor by) {
    request_approval(gate, gate.approval);
    auto& requested = std::get<ApprovalRequested>(events_.back().payload);
    requested.callback = std::move(callback);
    requested.by = std::move(by);
  }
  void resolve(ApprovalId approval, ApprovalTrigger trigger, Actor by = {}, std::string reason = {}, Actor via = {},
               std::string as = {}) {
    invariant(is_open(approval), "decide resolved an approval twice");
    std::erase(open_, approval);
    // One that is canceled ends with its run, and nobody waits for it there any more.
    bool is_awaited = is_foreign(run_.provider) && trigger != ApprovalTrigger::cancel;
    emit(ApprovalMoved{approval, trigger, std::move(by), std::move(reason), std::move(via),
                       is_awaited ? std::optional(run_.provider) : std::nullopt, std::move(as)});
  }
  bool is_open(ApprovalId approval) const { return std::find(open_.begin(), open_.end(), approval) != open_.end(); }
  // Those that this very decision asked for are among them.
  std::vector<ApprovalId> open_approvals() const { return open_; }

  // The run with the events drafted so far. A copy: for what cannot be decided by statuses alone.
  Run outcome() const {
    Run run = run_;
    for (const RunEvent& event : events_) evolve(run, event);
    return run;
  }

  // Names what the next event creates.
  IdBits next_id() const { return derive_id(run_.id.bits, run_.seq + events_.size()); }

  Decision done() && { return {std::move(events_), std::nullopt}; }
  Decision refused(RefusalCode code, std::string message) && {
    return {std::move(events_), Refusal{code, std::move(message)}};
  }

  // A program that the step's tool runs, an agent, has to stop here. That is known of the tool's call and leaves no
  // doubt: it did not get done, and is made again when the step goes on. What the program itself was allowed is another
  // matter.
  void end_tool_call(StepIndex index, std::string_view code, std::string_view message) {
    for (const Receipt& receipt : run_.receipts) {
      const bool is_open = receipt.status == ReceiptStatus::intended && receipt.step == index &&
                           receipt.token == run_.steps[index].lease_token;
      if (is_open && !receipt.by_program && receipt.proposal->idempotent) fail_call(receipt, code, message);
    }
  }

  // An agent is ended with its lease, whoever ended that: its session certainly did not get done, and can be resumed.
  // Nobody needs to look at its receipt. The effects that it proposed itself are in doubt as ever.
  void end_agent_session(StepIndex index, std::string_view message) {
    for (const Receipt& receipt : run_.receipts) {
      const bool is_session = !receipt.by_program && receipt.proposal->action.connector == agent_connector;
      if (is_session && receipt.step == index && receipt.status == ReceiptStatus::intended)
        fail_call(receipt, "AGENT_INTERRUPTED", message);
    }
  }

 private:
  // Once each: a call that is known to have ended is not doubted.
  void fail_call(const Receipt& receipt, std::string_view code, std::string_view message) {
    if (std::find(doubted_.begin(), doubted_.end(), receipt.id) != doubted_.end()) return;
    doubted_.push_back(receipt.id);
    emit(ReceiptMoved{.receipt = receipt.id,
                      .trigger = ReceiptTrigger::fail,
                      .by = by_,
                      .error_code = std::string(code),
                      .message = std::string(message)});
  }

  // The worker is gone, or has let go, without a word on what became of its calls. Once each: what is doubted stays so.
  void doubt_calls(StepIndex index);

  const Run& run_;
  Instant now_;
  Actor by_;
  RunStatus status_;
  std::vector<StepStatus> steps_;
  std::vector<RunEvent> events_;
  std::vector<ApprovalId> open_;
  std::vector<ReceiptId> doubted_;  // by this very decision, or known not to be
};

Decision refuse(RefusalCode code, std::string message, std::string field = {});
// A caller's request that does not fit is audited in the run's own stream while that is open. A finished stream is
// sealed: the engine puts the audit of such a request into the tenant's stream.
Decision refuse_audited(const Run& run, Instant now, std::string_view requested, RefusalCode code, const Actor& by,
                        std::string message, std::string field = {});

// Unblocks what can go on, and ends, pauses or resumes the run accordingly. Called after every step's progress.
void settle(Draft& draft);
void start(Draft& draft);
// What is unfinished ends with the run, in the same commit.
void cancel_unfinished(Draft& draft);
// Ends the run badly from wherever it is, by a path of legal transitions.
void end_badly(Draft& draft, RunTrigger trigger, std::shared_ptr<const Diagnostic> diagnostic);

std::shared_ptr<const Diagnostic> diagnostic_of_step(const Draft& draft, StepIndex index, Diagnostic diagnostic);
// A step failed for good: the run follows. Policy and people deny; everything else fails.
void fail_run_for(Draft& draft, StepIndex index, const std::shared_ptr<const Diagnostic>& why);
void fail_for_good(Draft& draft, StepIndex index, Diagnostic diagnostic, Money cost);

// Pauses or resumes a foreign run as what was seen of it, and what people are asked, has it.
void settle_foreign(Draft& draft, SubState seen);

// An approval that nobody gave in time, or that somebody refused.
void deny_approval(Draft& draft, const Approval& approval, ApprovalTrigger trigger, const Actor& by,
                   const std::string& reason, const Actor& via = {}, std::string as = {});
// Tells those who were asked, or others too, when it is time for that.
void remind_of_approval(Draft& draft, const Approval& approval);

// What only the holder of a lease may say, and what a program that it runs may say too.
enum class ReportOf { holder, program_too };
// The step, when the proof is that of its live lease; otherwise refused as lost.
std::expected<StepIndex, Refusal> leased_step(const Run& run, const StepId& step, const LeaseProof& proof, ReportOf of);
// Where the step is among those of the run; nothing when it has no such step, or another engine executes it.
std::optional<StepIndex> find_own_step(const Run& run, const StepId& step);

// A worker that was allowed to call must report the outcome before it completes the step.
std::optional<Refusal> outcome_problem(const Run& run, StepIndex step);
// A person said whether the effect that is in doubt happened.
void settle_doubt(Draft& draft, const Receipt& receipt, bool happened, const Actor& by);

// decide_approval.cc
Decision decide_command(const Run& run, const ResolveApproval& command, Instant now, Draws draws);
// decide_foreign.cc
Decision decide_command(const Run& run, const ObserveRun& command, Instant now, Draws draws);
Decision decide_command(const Run& run, const RequestApproval& command, Instant now, Draws draws);
Decision decide_command(const Run& run, const RecordTold& command, Instant now, Draws draws);
// decide_action.cc
Decision decide_command(const Run& run, const ProposeAction& command, Instant now, Draws draws);
Decision decide_command(const Run& run, const RecordOutcome& command, Instant now, Draws draws);
Decision decide_command(const Run& run, const SettleReceipt& command, Instant now, Draws draws);
Decision decide_command(const Run& run, const ReverseReceipt& command, Instant now, Draws draws);

}  // namespace pawl
