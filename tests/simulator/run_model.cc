#include "simulator/run_model.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/invariants.h"
#include "core/tenant.h"
#include "crypto/sha256.h"
#include "engine/engine.h"
#include "simulator/failure.h"

namespace pawl::simulator {
namespace {

std::string in_quotes(std::string_view text) { return "\"" + std::string(text) + "\""; }

// The simulation's workers put their token into everything they report, so the journal itself shows a stale one.
std::optional<std::uint64_t> token_in(std::string_view text) {
  auto at = text.find("token");
  if (at == std::string_view::npos) return std::nullopt;
  at = text.find_first_of("0123456789", at);
  if (at == std::string_view::npos) return std::nullopt;
  return std::strtoull(std::string(text.substr(at, 20)).c_str(), nullptr, 10);
}

// The simulation's people say in their reasons which approval they mean, when they name one.
bool is_for(std::string_view reason, ApprovalId approval) {
  return !reason.starts_with("apr_") || reason == approval.str();
}

// The rule of the documentation, not the code's: min(max, base * 2^attempts), or the schedule's entry.
double nominal_wait_ms(const RetryPolicy& policy, int attempts) {
  if (policy.schedule.empty())
    return std::min(static_cast<double>(policy.max.count()),
                    static_cast<double>(policy.base.count()) * std::pow(2.0, attempts));
  auto entry = std::min(static_cast<std::size_t>(attempts), policy.schedule.size()) - 1;
  return static_cast<double>(policy.schedule[entry].count());
}

}  // namespace

struct RunModel::Rules {
  RunModel& run;
  Instant at;

  std::string where() const { return run.id.str() + " event " + std::to_string(run.seq + 1); }
  void check(bool holds, const char* rule, std::string_view seen) const {
    demand(holds, rule, [&] { return where() + ": " + std::string(seen); });
  }

  StepModel& move(const StepId& id, StepTrigger trigger) const {
    auto index = run.find_step(id);
    check(index && *index < run.steps.size(), "only tabled transitions", "no step " + in_quotes(id.text));
    StepModel& step = run.steps[*index];
    auto to = next(step_table, step.status, trigger);
    check(to.has_value(), "only tabled transitions",
          "step " + in_quotes(id.text) + " " + std::string(to_string(step.status)) + " cannot " +
              std::string(to_string(trigger)));
    bool was_running = step.status == StepStatus::running;
    step.status = *to;
    if (was_running) check_calls_of(*index, step, trigger);
    return step;
  }
  // Whoever was allowed to call is gone: what it did not say is in doubt, in the journal too, before anything else.
  void check_calls_of(StepIndex index, const StepModel& step, StepTrigger trigger) const {
    for (const ReceiptModel& receipt : run.receipts) {
      if (receipt.step != index) continue;
      check(receipt.status != ReceiptStatus::intended, "a call whose worker is gone is in doubt", receipt.id.str());
      bool open = receipt.status == ReceiptStatus::in_doubt && receipt.tokens.back() == step.token;
      check(trigger != StepTrigger::complete || !open, "a step completes once its calls are accounted for",
            receipt.id.str());
    }
  }
  const StepDefinition& definition(const StepId& id) const { return run.definition(*run.find_step(id)); }
  bool needs_met(const StepDefinition& step) const {
    return std::ranges::all_of(step.needs,
                               [&](StepIndex need) { return run.steps[need].status == StepStatus::succeeded; });
  }
  void charge(StepModel& step, Money cost) const {
    step.cost = step.cost + cost;
    run.cost = run.cost + cost;
  }

  void operator()(const RunCreated& event) const {
    check(run.seq == 0, "a stream begins with its creation, once", "created again");
    run.provider = event.provider;
    run.workspace = event.workspace;
    run.created_by = event.by;
    run.other_requesters = event.other_requesters;
    run.created_at = at;
    run.retry_of = event.retry_of;
    run.is_new_in_frame = true;
    if (event.trigger_type == task_trigger)
      run.carries = TaskId::parse(event.trigger_ref.substr(0, event.trigger_ref.find('/')));
    run.budget = event.budget;
    run.timeout = event.timeout;
    if (run.is_native()) run.steps.resize(run.workflow->steps.size());
  }

  void operator()(const RunMoved& event) const {
    auto to = next(run_table, run.status, event.trigger);
    check(to.has_value(), "only tabled transitions",
          "run " + std::string(to_string(run.status)) + " cannot " + std::string(to_string(event.trigger)));
    run.status = *to;
    if (event.trigger == RunTrigger::start) {
      run.started = true;
      run.started_at = at;
      ++run.starts_in_frame;
    }
    run.error_code = event.diagnostic ? event.diagnostic->error_code : "";
    if (ended_badly(*to)) {
      const auto& why = event.diagnostic;
      check(why && !why->error_code.empty() && !why->message.empty() && !why->likely_cause.empty() &&
                !why->suggested_fix.empty(),
            "failed, denied and timeout carry a diagnostic", "an empty one");
    }
    if (*to == RunStatus::success)
      for (const auto& step : run.steps)
        check(step.status == StepStatus::succeeded, "success <=> every step succeeded",
              "a step is " + std::string(to_string(step.status)));
    if (*to == RunStatus::timeout && run.is_native())
      check(run.deadline() <= at, "a deadline is not passed early", "timed out before it");
  }

  void operator()(const StepMoved& event) const {
    const StepDefinition& step_definition = definition(event.step);
    StepModel& step = move(event.step, event.trigger);
    if (event.trigger == StepTrigger::unblock) {
      check(!step_definition.is_gate(), "workers never get an approval", event.step.text);
      check(!step_definition.is_wait(), "workers never get a timer", event.step.text);
      check(needs_met(step_definition), "a step runs only after all it needs", event.step.text);
    }
    if (event.trigger == StepTrigger::open_gate)
      check(step_definition.is_gate() && needs_met(step_definition), "a step runs only after all it needs",
            event.step.text);
    if (event.trigger == StepTrigger::due)
      check(step.next_eligible_at <= at, "no retry before next_eligible_at", event.step.text);
    if (event.trigger == StepTrigger::approve_gate) step.output = "null";
    if (event.trigger == StepTrigger::gate) {
      check_reporter(event.step, event.by, true);
      --step.attempts;
    }
  }

  void operator()(const StepWaitOpened& event) const {
    const StepDefinition& step_definition = definition(event.step);
    StepModel& step = move(event.step, StepTrigger::open_wait);
    check(step_definition.is_wait() && needs_met(step_definition), "a step runs only after all it needs",
          event.step.text);
    check(run.status != RunStatus::created, "a timer begins with its run", event.step.text);
    auto span = parse_duration(step_definition.wait->text);
    check(!span || event.due_at == at + *span, "a timer is due when its workflow says", event.step.text);
    step.due_at = event.due_at;
  }

  void operator()(const StepArrived& event) const {
    StepModel& step = move(event.step, StepTrigger::arrive);
    check(step.due_at <= at, "a timer is never early", event.step.text);
    step.output = event.output;
  }

  void operator()(const StepReleased& event) const {
    StepModel& step = move(event.step, StepTrigger::release);
    --step.attempts;
    const bool is_local = step.owner.text.starts_with(local_worker_prefix);
    switch (event.cause) {
      case ReleaseCause::worker:
        return check_reporter(event.step, event.by, false);
      case ReleaseCause::server_lost:
        check(is_local && (step.orphaned || step.earliest_end <= at), "a server that lives is not lost",
              event.step.text);
        check(++step.server_losses < server_losses_max, "a step that kills its servers ends", event.step.text);
        return;
      case ReleaseCause::suspended:
        check(is_local || step.earliest_end <= at, "one live lease a step", event.step.text);
        return;
    }
  }

  void operator()(const StepClaimed& event) const {
    const StepDefinition& step_definition = definition(event.step);
    StepModel before = run.steps[*run.find_step(event.step)];
    StepModel& step = move(event.step, event.trigger);
    check(!step_definition.is_gate(), "workers never get an approval", event.step.text);
    check(needs_met(step_definition), "a step runs only after all it needs", event.step.text);
    check(event.token > before.token, "lease tokens grow", event.step.text);
    check(before.attempts < step_definition.retry.max_attempts, "attempts <= max_attempts", event.step.text);
    check(run.status == RunStatus::running, "a step runs while its run does", to_string(run.status));
    if (event.trigger == StepTrigger::reclaim)
      check(before.earliest_end <= at, "one live lease a step",
            event.step.text + " was reclaimed from " + before.owner.text + " before its lease was over");
    if (event.trigger == StepTrigger::reclaim)
      check(!before.owner.text.starts_with(local_worker_prefix), "the loss of a server costs no attempt",
            event.step.text);
    step.token = event.token;
    ++step.attempts;
    step.owner = event.worker;
    step.holder = event.holder;
    check(event.holder.has_value() == event.worker.text.starts_with("remote-"), "a claim names its holder",
          event.worker.text);
    step.is_new = event.trigger == StepTrigger::claim;
    step.orphaned = false;
    step.claimed_at = at;
    step.earliest_end = step.latest_end = event.lease_expires_at;
    const bool is_local = event.worker.text.starts_with(local_worker_prefix);
    const Duration term = is_local ? std::min(step_definition.lease, local_lease_max) : step_definition.lease;
    check(event.lease_expires_at == at + term, "a lease lasts as its step says", event.step.text);
    if (event.writes && !step.wrote) {
      int counted = run.writes_of(static_cast<StepIndex>(&step - run.steps.data()));
      step.wrote = true;
      if (counted == 0) {
        ++run.writes;
        ++run.writes_in_frame;
      }
    }
    ++run.claims_in_frame;
  }

  // Who may report on the step, as the journal must name them: whoever holds its lease; and, where a program may speak
  // too, a program that a worker in this process runs.
  std::string holder_of(const StepModel& step) const {
    return step.holder ? actor_of(step.holder->key).text : "worker:" + step.owner.text;
  }
  std::string program_of(StepIndex index) const {
    return "lease:" + run.id.str() + ":" + run.definition(index).id.text;
  }
  void check_reporter(const StepId& id, const Actor& by, bool by_program_too) const {
    StepIndex index = *run.find_step(id);
    const StepModel& step = run.steps[index];
    bool is_program = by_program_too && !step.holder && by.text == program_of(index);
    check(is_program || by.text == holder_of(step), "a report is the holder's, and the journal names them",
          id.text + " by " + in_quotes(by.text) + " while " + holder_of(step) + " holds it");
  }
  void check_risk(StepIndex index, const Proposal& proposal) const {
    check(proposal.action.risk >= run.definition(index).risk, "a worker's word does not lower a risk",
          run.definition(index).id.text);
  }

  void check_token(const StepModel& step, std::string_view report) const {
    if (auto token = token_in(report))
      check(*token == step.token, "a stale token changes nothing",
            "a report with token " + std::to_string(*token) + " was taken while the live one is " +
                std::to_string(step.token));
  }

  void operator()(const StepCompleted& event) const {
    StepModel& step = move(event.step, StepTrigger::complete);
    check_token(step, event.output);
    check_reporter(event.step, event.by, false);
    step.output = event.output;
    charge(step, event.cost);
    check(!run.budget || run.cost <= *run.budget, "a run over its budget fails", "a step completed beyond it");
  }

  void operator()(const StepFailed& event) const {
    const StepDefinition& step_definition = definition(event.step);
    StepModel& step = move(event.step, event.trigger);
    check(event.diagnostic && !event.diagnostic->error_code.empty(), "a failed step carries a diagnostic",
          event.step.text);
    if (event.diagnostic->error_code == "SIMULATED") {
      check_token(step, event.diagnostic->message);
      check_reporter(event.step, event.by, false);
    } else if (!event.by.empty()) {
      check_reporter(event.step, event.by, true);
    }
    charge(step, event.cost);
    if (event.trigger != StepTrigger::fail_retryable) return;
    step.next_eligible_at = event.next_eligible_at;
    check(event.diagnostic->retryable, "what is not retryable is not retried", event.step.text);
    check(step.attempts < step_definition.retry.max_attempts, "attempts <= max_attempts",
          event.step.text + " was to be tried again after attempt " + std::to_string(step.attempts));
    double least = nominal_wait_ms(step_definition.retry, step.attempts) * (1 - step_definition.retry.jitter);
    Instant soonest = std::min(at + Duration(static_cast<std::int64_t>(least)), run.deadline());
    check(event.next_eligible_at >= soonest, "a retry waits as its policy says", event.step.text);
    check(event.next_eligible_at <= run.deadline(), "a retry is never set past the deadline", event.step.text);
  }

  void operator()(const StepCharged& event) const {
    StepModel& step = run.steps[*run.find_step(event.step)];
    check(step.status == StepStatus::running, "only what runs costs", event.step.text);
    check(event.cost.micros > 0, "what costs nothing is not told", event.step.text);
    check_reporter(event.step, event.by, false);
    charge(step, event.cost);
    check(!run.budget || run.cost <= *run.budget, "a run over its budget fails", "a step goes on beyond it");
  }

  void operator()(const StepAsked& event) const {
    StepModel& step = move(event.step, StepTrigger::ask);
    check_reporter(event.step, event.by, true);
    --step.attempts;
    step.doubt = event.doubt;
    if (event.doubt)
      check(receipt_of(*event.doubt).status == ReceiptStatus::in_doubt, "a person is asked about what is in doubt",
            event.doubt->str());
  }
  void operator()(const StepAnswered& event) const {
    if (event.early) return;
    StepModel& step = move(event.step, StepTrigger::answer);
    if (step.doubt)
      check(receipt_of(*step.doubt).status != ReceiptStatus::in_doubt, "an answer resolves the doubt",
            step.doubt->str());
    step.doubt.reset();
  }

  ApprovalModel& find(ApprovalId id) const {
    auto found = std::ranges::find(run.approvals, id, &ApprovalModel::id);
    check(found != run.approvals.end(), "an approval is asked for before it is decided", id.str());
    return *found;
  }
  void vote(ApprovalModel& approval, const Actor& by, const Actor& via) const {
    check(approval.status == ApprovalStatus::requested, "an approval resolves once", by.text);
    check(approval.expires_at > at, "an expired approval never passes", by.text);
    check(std::ranges::find(approval.votes, by) == approval.votes.end(), "one person, one vote", by.text);
    check(!approval.terms.two_person || !run.is_requester(by), "two people, neither a requester", by.text);
    approval.votes.push_back(by);
    run.voted_in_frame.push_back({static_cast<std::size_t>(&approval - run.approvals.data()), by, via});
  }

  void operator()(const ApprovalRequested& event) const {
    auto index = run.find_step(event.step);
    check(index && run.steps[*index].status == StepStatus::waiting_approval, "an approval belongs to a waiting step",
          event.step.text);
    run.approvals.push_back({.id = event.approval,
                             .step = *index,
                             .status = ApprovalStatus::requested,
                             .terms = event.terms,
                             .requested_at = at,
                             .expires_at = event.expires_at,
                             .votes = {},
                             .proposal = event.proposal,
                             .policy_reason = event.policy_reason});
    check((event.proposal == nullptr) == run.definition(*index).is_gate(), "an approval says what it is for",
          event.step.text);
  }
  void operator()(const ApprovalVoted& event) const {
    ApprovalModel& approval = find(event.approval);
    vote(approval, event.by, event.via);
    check(static_cast<int>(approval.votes.size()) < approval.terms.quorum, "the vote that makes the quorum approves",
          event.by.text);
  }
  void operator()(const ApprovalMoved& event) const {
    ApprovalModel& approval = find(event.approval);
    auto to = next(approval_table, approval.status, event.trigger);
    check(to.has_value(), "an approval resolves once", to_string(approval.status));
    if (*to == ApprovalStatus::approved) {
      vote(approval, event.by, event.via);
      check(is_for(event.reason, approval.id), "a decision is about the approval that it names", event.reason);
      check(static_cast<int>(approval.votes.size()) == approval.terms.quorum, "an approval needs its quorum",
            std::to_string(approval.votes.size()) + " of " + std::to_string(approval.terms.quorum));
    }
    if (*to == ApprovalStatus::expired)
      check(approval.expires_at <= at, "an approval does not expire early", approval.id.str());
    approval.status = *to;
  }

  // ---- Receipts (11 to 14)

  ReceiptModel& receipt_of(ReceiptId id) const {
    auto found = std::ranges::find(run.receipts, id, &ReceiptModel::id);
    check(found != run.receipts.end(), "a receipt begins with its intent", id.str());
    return *found;
  }
  StepIndex running(const StepId& id) const {
    auto index = run.find_step(id);
    check(index && *index < run.steps.size() && run.steps[*index].status == StepStatus::running,
          "only who holds the step acts for it", id.text);
    return *index;
  }
  // An allow by people is for exactly this action, under exactly this policy, of exactly this step.
  void check_approval(std::optional<ApprovalId> id, StepIndex step, const Proposal& proposal,
                      const PolicyReason& policy_reason) const {
    check(digest_of(sha256, proposal.action) == proposal.digest, "a digest is that of its action",
          proposal.digest.hex());
    if (!id) return;
    const ApprovalModel& approval = find(*id);
    bool same = approval.proposal && approval.proposal->digest == proposal.digest &&
                approval.policy_reason.policy_version == policy_reason.policy_version && approval.step == step;
    check(same && approval.status == ApprovalStatus::approved, "no effect but what was approved, as it was approved",
          id->str());
  }

  // In-process workers hold theirs for as long as they are there, and when one went the journal does not say.
  void check_lease(const StepModel& step) const {
    check(step.latest_end > at || step.orphaned || step.owner.text.starts_with(local_worker_prefix),
          "no effect is allowed on a lease that has run out", step.owner.text);
  }

  void operator()(const ReceiptIntended& event) const {
    StepIndex index = running(event.step);
    check_lease(run.steps[index]);
    check_approval(event.approval, index, *event.proposal, event.policy_reason);
    check_reporter(event.step, event.by, event.by_program);
    check(event.by_program == (event.by.text == program_of(index)), "a receipt is its proposer's", event.by.text);
    check_risk(index, *event.proposal);
    int before = run.writes_of(index);
    run.receipts.push_back({.id = event.receipt,
                            .step = index,
                            .proposal = event.proposal,
                            .tokens = {run.steps[index].token},
                            .by = event.by,
                            .by_program = event.by_program,
                            .reversed_by = {}});
    if (int more = run.writes_of(index) - before; more > 0) {
      run.writes += more;
      ++run.writes_in_frame;
    }
    run.granted_in_frame.push_back({event.proposal, event.policy_reason, event.approval});
    run.keys_in_frame.push_back(run.receipts.back().key());
  }

  void operator()(const ReceiptRepeated& event) const {
    ReceiptModel& receipt = receipt_of(event.receipt);
    check(receipt.status == ReceiptStatus::in_doubt && receipt.proposal->idempotent,
          "in doubt: again only if the connector is idempotent", receipt.id.str());
    StepIndex index = running(run.definition(receipt.step).id);
    check_lease(run.steps[index]);
    if (event.proposal) {
      check(is_same_effect(event.proposal->action, receipt.proposal->action), "a repeat is the same effect",
            receipt.id.str());
      receipt.proposal = event.proposal;
    }
    check_approval(event.approval, index, *receipt.proposal, event.policy_reason);
    check_reporter(run.definition(index).id, event.by, receipt.by_program);
    check_risk(index, *receipt.proposal);
    receipt.by = event.by;
    receipt.tokens.push_back(run.steps[index].token);
    run.granted_in_frame.push_back({receipt.proposal, event.policy_reason, event.approval});
  }

  void operator()(const ReceiptMoved& event) const {
    ReceiptModel& receipt = receipt_of(event.receipt);
    auto to = next(receipt_table, receipt.status, event.trigger);
    check(to.has_value(), "only tabled transitions",
          "receipt " + std::string(to_string(receipt.status)) + " cannot " + std::string(to_string(event.trigger)));
    // While its call is open, what became of it is its proposer's to say.
    if (receipt.status == ReceiptStatus::intended && *to != ReceiptStatus::in_doubt)
      check(event.by == receipt.by, "an outcome is told by who was allowed to call",
            receipt.id.str() + " by " + in_quotes(event.by.text) + " instead of " + in_quotes(receipt.by.text));
    if (event.undo) {
      auto meant = receipt.by_program                       ? UndoSource::agent
                   : receipt.by.text.starts_with("worker:") ? UndoSource::tool
                                                            : UndoSource::worker;
      check(event.undo->source == meant, "an undo is its giver's word", to_string(event.undo->source));
    }
    receipt.status = *to;
    receipt.reversed_by = event.reversed_by;
    if (*to == ReceiptStatus::succeeded || *to == ReceiptStatus::failed)
      run.settled_in_frame.push_back({receipt.id, *to == ReceiptStatus::succeeded});
    run.keys_in_frame.push_back(receipt.key());
  }

  void operator()(const ActionDenied& event) const {
    running(event.step);
    check_reporter(event.step, event.by, true);
    run.granted_in_frame.push_back({event.proposal, event.policy_reason, {}, true});
  }
  void operator()(const ActionFound& event) const {
    running(event.step);
    check_reporter(event.step, event.by, true);
    run.found_in_frame.push_back(event);
  }

  // The simulator has no tasks; their streams are not runs.
  void operator()(const TaskMoved&) const { check(false, "a run has no event of a task", ""); }
  void operator()(const TaskAsked&) const { check(false, "a run has no event of a task", ""); }
  void operator()(const TaskSubtask&) const { check(false, "a run has no event of a task", ""); }
  void operator()(const TaskChanged&) const { check(false, "a run has no event of a task", ""); }
  void operator()(const TaskDeleted&) const { check(false, "a run has no event of a task", ""); }
  void operator()(const TransitionRefused&) const {}
  // Nobody carries runs elsewhere in this simulation.
  void operator()(const RunObserved&) const { check(false, "a run is carried elsewhere", ""); }
  void operator()(const ApprovalTold&) const { check(false, "a run is carried elsewhere", ""); }
  void operator()(const ApprovalReminded&) const {}
};

const ReceiptModel* RunModel::find_receipt(ReceiptId receipt) const {
  auto found = std::ranges::find(receipts, receipt, &ReceiptModel::id);
  return found == receipts.end() ? nullptr : &*found;
}

int RunModel::writes_of(StepIndex step) const {
  std::set<std::string_view> keys;
  for (const ReceiptModel& receipt : receipts)
    if (receipt.step == step) keys.insert(receipt.key());
  return std::max(steps[step].wrote ? 1 : 0, static_cast<int>(keys.size()));
}

void RunModel::begin_frame() {
  is_new_in_frame = false;
  claims_in_frame = starts_in_frame = writes_in_frame = 0;
  for (StepModel& step : steps) step.is_new = false;
  voted_in_frame.clear();
  granted_in_frame.clear();
  settled_in_frame.clear();
  found_in_frame.clear();
  keys_in_frame.clear();
}

void RunModel::apply(std::string_view line) {
  auto event = parse_run_event(line);
  demand(event.has_value(), "events can be read", [&] { return id.str() + ": " + event.error(); });
  Rules rules{*this, event->at};
  // What an effect came to may be found out, or be undone, when its run is over.
  rules.check(!ended() || std::holds_alternative<ReceiptMoved>(event->payload), "a terminal run never changes",
              type_of(event->payload));
  rules.check(seq > 0 || std::holds_alternative<RunCreated>(event->payload), "a stream begins with its creation, once",
              type_of(event->payload));
  rules.check(event->at >= updated_at, "time goes forward in a stream", type_of(event->payload));
  std::visit(rules, event->payload);
  updated_at = event->at;
  ++seq;
  status_after.push_back(status);
  head = sha256(head.view(), line);
  lines += line;
  lines += '\n';
}

void RunModel::check_whole() const {
  auto check = [&](bool holds, const char* rule) {
    demand(holds, rule,
           [&] { return id.str() + " is " + std::string(to_string(status)) + " after event " + std::to_string(seq); });
  };
  if (!is_native()) return;
  bool all_succeeded = true, any_active = false, all_ended = true;
  for (const auto& step : steps) {
    all_succeeded = all_succeeded && step.status == StepStatus::succeeded;
    all_ended = all_ended && is_terminal(step.status);
    any_active = any_active || step.status == StepStatus::ready || step.status == StepStatus::running ||
                 step.status == StepStatus::failed_retryable;
    if (step.status == StepStatus::failed_terminal)
      check(ended_badly(status), "a step that fails for good ends its run");
  }
  bool any_open = std::ranges::any_of(approvals, [](auto& a) { return a.status == ApprovalStatus::requested; });
  check(all_succeeded == (status == RunStatus::success), "success <=> every step succeeded");
  check(!ended() || (all_ended && !any_open), "what is unfinished ends with its run");
  check(status != RunStatus::running || any_active, "a run with nothing to do waits");
  check(status != RunStatus::waiting || !any_active, "a run with something to do does not wait");
  check(!budget || cost <= *budget || error_code == "BUDGET_EXCEEDED", "a run over its budget fails");
  for (StepIndex i = 0; i < steps.size(); ++i)
    if (steps[i].status == StepStatus::pending && !ended() &&
        !((definition(i).is_gate() || definition(i).is_wait()) && status == RunStatus::created))
      check(!std::ranges::all_of(definition(i).needs,
                                 [&](StepIndex need) { return steps[need].status == StepStatus::succeeded; }),
            "a step whose needs are met goes on");
}

bool RunModel::starts_at_gate() const {
  return is_native() && status == RunStatus::created &&
         std::ranges::none_of(steps, [](auto& step) { return step.status == StepStatus::ready; });
}

std::string RunModel::overdue(Instant now, const std::function<bool(const StepModel&)>& is_held) const {
  if (ended()) return {};
  if (deadline() <= now) return "the run's deadline";
  for (StepIndex i = 0; i < steps.size(); ++i) {
    const StepModel& step = steps[i];
    const std::string& name = definition(i).id.text;
    if (step.status == StepStatus::failed_retryable && step.next_eligible_at <= now) return "the retry of " + name;
    if (step.status == StepStatus::waiting_event && step.due_at <= now) return "the timer of " + name;
    if (step.status != StepStatus::running) continue;
    if (step.claimed_at + definition(i).timeout <= now) return "the time-out of " + name;
    const bool is_last = step.attempts >= definition(i).retry.max_attempts;
    if (step.latest_end <= now && (is_last || step.owner.text.starts_with(local_worker_prefix)) && !is_held(step))
      return "the end of the last lease of " + name;
  }
  for (const auto& approval : approvals)
    if (approval.status == ApprovalStatus::requested && approval.expires_at <= now) return "the expiry of an approval";
  return {};
}

void RunModel::compare(const Run& run, const char* where) const {
  auto same = [&](bool equal, std::string_view what) {
    demand(equal, "tables and memory equal the fold of the journal",
           [&] { return id.str() + " " + where + ": another " + std::string(what); });
  };
  for (const std::string& sentence : check_run(run))
    throw Broken("the invariants that pawl verify checks", id.str() + " " + where + ": " + sentence);
  same(run.id == id && run.tenant == tenant, "id");
  same(run.seq == seq, "seq");
  same(run.status == status, "status");
  same(run.cost == cost, "cost");
  same(run.writes == writes, "count of writes");
  same((run.diagnostic ? run.diagnostic->error_code : std::string()) == error_code, "error code");
  same(run.steps.size() == steps.size(), "number of steps");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Step& a = run.steps[i];
    const StepModel& b = steps[i];
    const std::string& name = workflow->steps[i].id.text;
    same(a.status == b.status, "status of " + name);
    same(a.attempts == b.attempts, "count of attempts of " + name);
    same(a.lease_token == b.token, "token of " + name);
    same(a.lease_owner == b.owner && a.lease_holder == b.holder, "owner of " + name);
    same(a.output == b.output, "output of " + name);
    same(a.cost == b.cost, "cost of " + name);
    same(a.wrote == b.wrote, "write mark of " + name);
    same(a.server_losses == b.server_losses, "count of lost servers of " + name);
    if (b.status == StepStatus::waiting_event) same(a.due_at == b.due_at, "timer of " + name);
    if (b.status == StepStatus::failed_retryable) same(a.next_eligible_at == b.next_eligible_at, "retry of " + name);
  }
  same(run.approvals.size() == approvals.size(), "number of approvals");
  for (std::size_t i = 0; i < approvals.size(); ++i) {
    same(run.approvals[i].status == approvals[i].status, "status of an approval");
    same(run.approvals[i].votes.size() == approvals[i].votes.size(), "count of votes");
  }
  same(run.receipts.size() == receipts.size(), "number of receipts");
  for (std::size_t i = 0; i < receipts.size(); ++i) {
    const Receipt& a = run.receipts[i];
    const ReceiptModel& b = receipts[i];
    same(a.id == b.id && a.step == b.step && *a.proposal == *b.proposal, "receipt");
    same(a.status == b.status && a.reversed_by == b.reversed_by, "status of a receipt");
    same(a.proposed_by == b.by && a.by_program == b.by_program, "proposer of a receipt");
    same(a.token == b.tokens.back() && a.calls == static_cast<int>(b.tokens.size()), "count of calls");
  }
}

}  // namespace pawl::simulator
