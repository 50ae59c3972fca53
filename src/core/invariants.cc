#include "core/invariants.h"

#include <algorithm>

namespace pawl {
namespace {

class RunCheck {
 public:
  explicit RunCheck(const Run& run) : run_(run) {}

  std::vector<std::string> check() {
    if (run_.seq == 0) return {"the run has no first event"};
    check_requesters();
    if (run_.task) {
      check_task(*run_.task);
      return std::move(problems_);
    }
    check_end();
    if (run_.provider == Provider::native) {
      if (run_.steps.size() != run_.defined_steps())
        return {"it has steps without a definition, or the other way round"};
      check_progress();
      for (std::size_t i = 0; i < run_.steps.size(); ++i) check_step(static_cast<StepIndex>(i));
      check_sums();
    }
    if (is_foreign(run_.provider)) check_foreign();
    for (const Approval& approval : run_.approvals) check_approval(approval);
    for (const Receipt& receipt : run_.receipts) check_receipt(receipt);
    return std::move(problems_);
  }

 private:
  void expect(bool holds, std::string_view problem) {
    if (!holds) problems_.emplace_back(problem);
  }
  void expect_of(const std::string& step, bool holds, std::string_view problem) {
    if (!holds) problems_.push_back("step " + step + ": " + std::string(problem));
  }

  void check_requesters() {
    const std::vector<Actor> all = requesters_of(run_);
    expect(all.size() <= requesters_max, "it has too many requesters");
    for (std::size_t i = 1; i < all.size(); ++i)
      expect(!all[i].empty() && std::find(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(i), all[i]) ==
                                    all.begin() + static_cast<std::ptrdiff_t>(i),
             "a requester is named twice, or has no name");
  }

  void check_task(const Task& task) {
    expect(run_.status == run_status_of(task.state), "the row shows another state than the task's");
    expect(!task.deleted || !is_active(task.state), "it is deleted, and yet queued or running");
    expect(task.state != TaskState::ready || !task.is_subtask(), "a subtask waits for a review");
    bool has_session = task.latest() && !task.latest()->session.empty();
    expect(task.state != TaskState::blocked || !task.question.empty() || has_session,
           "it is blocked, and has neither a question nor a session");
    expect(task.question.empty() || task.state == TaskState::blocked, "it has a question and is not blocked");
    expect((has_failed(task.state) && task.state != TaskState::cancelled) == (run_.diagnostic != nullptr),
           "its failure and its diagnostic disagree");
    for (std::size_t i = 0; i < task.executions.size(); ++i) {
      const TaskExecution& each = task.executions[i];
      bool is_open = !each.outcome.has_value();
      expect(is_open == (each.ended_at.ms == 0), "an execution's end and the time of its end disagree");
      expect(!is_open || (i + 1 == task.executions.size() && is_active(task.state)),
             "an execution is open and nobody is at it");
      expect(!each.session.empty() && !each.run.is_nil(), "an execution without a run or a session");
    }
  }

  void check_end() {
    bool ended = is_terminal(run_.status);
    expect(ended == (run_.finished_at.ms != 0), "the end has no time, or there is a time of an end that never came");
    expect((run_.status != RunStatus::created) == (run_.started_at.ms != 0),
           "the start has no time, or there is a time of a start that never came");
    if (ended_badly(run_.status)) {
      expect(run_.diagnostic != nullptr, "it ended badly without a diagnostic");
      if (run_.diagnostic)
        expect(!run_.diagnostic->error_code.empty() && !run_.diagnostic->message.empty(),
               "its diagnostic lacks a code or a message");
    } else if (ended) {
      expect(run_.diagnostic == nullptr, "it did not end badly and yet has a diagnostic");
    }
    if (!ended) return;
    for (const Approval& approval : run_.approvals)
      expect(is_terminal(approval.status), "the run has ended and an approval is still open");
  }

  void check_foreign() {
    if (!run_.foreign) return expect(false, "another engine carries it and nothing is known of that");
    expect(run_.steps.empty() && run_.receipts.empty(), "another engine carries it and it has steps here");
    bool ended_there = run_.foreign->sub_state == SubState::succeeded || run_.foreign->sub_state == SubState::failed;
    expect(!ended_there || is_terminal(run_.status), "it has ended where it is carried, and not here");
    expect(run_.status != RunStatus::success || run_.foreign->sub_state == SubState::succeeded,
           "it succeeded here and not where it is carried");
    expect(run_.foreign->bound.size() == run_.approvals.size(),
           "an approval that nobody waits for where it is carried");
  }

  // Whether the run's status is what its steps say it is.
  void check_progress() {
    auto all = [&](auto holds) { return std::ranges::all_of(run_.steps, holds, &Step::status); };
    bool all_succeeded = all([](StepStatus status) { return status == StepStatus::succeeded; });
    bool all_ended = all([](StepStatus status) { return is_terminal(status); });
    bool any_active = !all([](StepStatus status) { return !is_active(status); });
    expect(all_succeeded == (run_.status == RunStatus::success), "success must mean that every step succeeded");
    if (is_terminal(run_.status)) expect(all_ended, "the run has ended and a step has not");
    if (run_.status == RunStatus::running) expect(any_active, "the run is running and no step of it can move");
    if (run_.status == RunStatus::waiting) expect(!any_active, "the run is waiting and a step of it can move");
    if (run_.status == RunStatus::created)
      expect(all([](StepStatus status) { return status == StepStatus::pending || status == StepStatus::ready; }),
             "a step moved before the run started");
  }

  void check_step(StepIndex index) {
    const Step& step = run_.steps[index];
    const StepDefinition& definition = run_.definition(index);
    const std::string& id = definition.id.text;
    bool needs_met = std::ranges::all_of(
        definition.needs, [&](StepIndex need) { return run_.steps[need].status == StepStatus::succeeded; });
    bool untouched = step.status == StepStatus::pending || step.status == StepStatus::canceled;
    expect_of(id, untouched || needs_met, "it moved before everything it needs succeeded");
    bool held_by_start = (definition.is_gate() || definition.is_wait()) && run_.status == RunStatus::created;
    expect_of(id, step.status != StepStatus::pending || !needs_met || held_by_start,
              "everything it needs succeeded and it is still pending");

    expect_of(id, step.attempts >= 0 && step.attempts <= definition.retry.max_attempts, "more attempts than allowed");
    expect_of(id, static_cast<std::uint64_t>(step.attempts) <= step.lease_token, "an attempt without a lease");
    if (definition.is_gate())
      expect_of(id, step.lease_token == 0 && step.attempts == 0, "a worker executed an approval");
    expect_of(id, (step.status == StepStatus::waiting_event) == (step.due_at.ms != 0),
              "it waits for a time that is not set, or has a time that it does not wait for");
    expect_of(id, step.status != StepStatus::waiting_event || definition.is_wait(),
              "it waits for a time and is no wait");
    expect_of(id, step.server_losses >= 0 && step.server_losses < server_losses_max,
              "its server was lost more often than allowed");
    if (step.status == StepStatus::running)
      expect_of(id, step.lease_token > 0 && !step.lease_owner.empty(), "it is running and nobody holds its lease");

    if (step.status == StepStatus::failed_retryable) {
      expect_of(id, step.next_eligible_at.ms != 0, "it waits for a retry that has no time");
      expect_of(id, step.next_eligible_at <= run_.deadline(), "its retry lies behind the run's deadline");
      expect_of(id, step.attempts < definition.retry.max_attempts, "it waits for a retry it may not have");
    } else if (!is_terminal(step.status)) {
      expect_of(id, step.next_eligible_at.ms == 0, "it has the time of a retry it does not wait for");
    }
    if (step.status == StepStatus::failed_retryable || step.status == StepStatus::failed_terminal)
      expect_of(id, step.last_error != nullptr, "it failed without a diagnostic");
    expect_of(id, is_terminal(step.status) == (step.finished_at.ms != 0), "its end and the time of its end disagree");
    if (step.status == StepStatus::succeeded) expect_of(id, !step.output.empty(), "it succeeded without an output");
    if (step.status == StepStatus::waiting_input)
      expect_of(id, !step.question.empty() && step.answer.empty(), "it waits for an answer to no question");
    check_gate_of(index);
  }

  // A step waits for an approval exactly while one of its own is open.
  void check_gate_of(StepIndex index) {
    auto open = std::ranges::count_if(run_.approvals, [&](const Approval& approval) {
      return approval.step == index && approval.status == ApprovalStatus::requested;
    });
    bool waits = run_.steps[index].status == StepStatus::waiting_approval;
    expect_of(run_.definition(index).id.text, open == (waits ? 1 : 0),
              waits ? "it waits for an approval and not exactly one is open"
                    : "an approval is open that it does not wait for");
  }

  void check_sums() {
    Money cost;
    int writes = 0;
    for (std::size_t i = 0; i < run_.steps.size(); ++i) {
      cost = cost + run_.steps[i].cost;
      writes += writes_of(run_, static_cast<StepIndex>(i));
    }
    expect(cost == run_.cost, "the run's cost is not the sum of its steps'");
    expect(writes == run_.writes, "the run's writes are not those of its steps");
    if (run_.status == RunStatus::success && run_.budget)
      expect(run_.cost <= *run_.budget, "the run succeeded over its budget");
  }

  void check_approval(const Approval& approval) {
    std::string about = "approval " + approval.id.str() + ": ";
    auto expect_here = [&](bool holds, std::string_view problem) { expect(holds, about + std::string(problem)); };
    expect_here(is_terminal(approval.status) == (approval.resolved_at.ms != 0),
                "its decision and the time of its decision disagree");
    for (std::size_t i = 0; i < approval.votes.size(); ++i) {
      const Vote& vote = approval.votes[i];
      expect_here(vote.at < approval.expires_at, "a vote after it had expired");
      expect_here(!approval.terms.two_person || !is_requester(run_, vote.by), "one who asked for the run approved it");
      expect_here(is_entitled(approval, vote.by, vote.as), "somebody approved whom it does not name");
      for (std::size_t j = 0; j < i; ++j) expect_here(approval.votes[j].by != vote.by, "one person voted twice");
    }
    bool enough = static_cast<int>(approval.votes.size()) >= approval.terms.quorum;
    if (approval.status == ApprovalStatus::approved)
      expect_here(enough, "approved by fewer than it demands");
    else
      expect_here(!enough, "its quorum is reached and it is not approved");
    if (approval.terms.two_person) expect_here(approval.terms.quorum == 2, "two_person with another quorum than two");
  }

  void check_receipt(const Receipt& receipt) {
    std::string about = "receipt " + receipt.id.str() + ": ";
    auto expect_here = [&](bool holds, std::string_view problem) { expect(holds, about + std::string(problem)); };
    const Step& step = run_.steps[receipt.step];
    bool is_open = receipt.status == ReceiptStatus::intended;
    if (is_open)
      expect_here(step.status == StepStatus::running && receipt.token == step.lease_token,
                  "its call is open and nobody is there to make it");
    expect_here(is_open == (receipt.resolved_at.ms == 0), "its outcome and the time of its outcome disagree");
    expect_here((receipt.status == ReceiptStatus::reversed) == receipt.reversed_by.has_value(),
                "undone, and by nothing; or by something, and not undone");
    expect_here(receipt.calls == 1 || receipt.proposal->idempotent, "called again although that is not safe");
    expect_here(receipt.proposal->action.risk >= run_.definition(receipt.step).risk,
                "its action has less risk than its step");
    if (step.status == StepStatus::succeeded && receipt.token == step.lease_token)
      expect_here(receipt.status != ReceiptStatus::in_doubt, "its step succeeded and nobody knows whether it happened");
    if (!holds_key(receipt.status)) return;
    for (const Receipt& other : run_.receipts)
      expect_here(&other == &receipt || !holds_key(other.status) ||
                      other.proposal->action.idempotency_key != receipt.proposal->action.idempotency_key,
                  "a second effect stands under its key");
  }

  const Run& run_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> check_run(const Run& run) { return RunCheck(run).check(); }

}  // namespace pawl
