#include "engine/resident.h"

#include <algorithm>

namespace pawl {
namespace {

template <class Visit>
void for_each_line(std::string_view lines, Visit visit) {
  while (!lines.empty()) {
    std::size_t end = lines.find('\n');
    if (end == std::string_view::npos) throw StoreFailure("a stream in the journal ends in mid-line");
    visit(lines.substr(0, end));
    lines.remove_prefix(end + 1);
  }
}

struct StepIdOf {
  const StepId* operator()(const RunCreated&) const { return nullptr; }
  const StepId* operator()(const RunMoved&) const { return nullptr; }
  const StepId* operator()(const StepMoved& event) const { return &event.step; }
  const StepId* operator()(const StepClaimed& event) const { return &event.step; }
  const StepId* operator()(const StepWaitOpened& event) const { return &event.step; }
  const StepId* operator()(const StepArrived& event) const { return &event.step; }
  const StepId* operator()(const StepReleased& event) const { return &event.step; }
  const StepId* operator()(const StepCompleted& event) const { return &event.step; }
  const StepId* operator()(const StepFailed& event) const { return &event.step; }
  const StepId* operator()(const StepCharged&) const { return nullptr; }
  const StepId* operator()(const StepAsked& event) const { return &event.step; }
  const StepId* operator()(const StepAnswered& event) const { return event.early ? nullptr : &event.step; }
  const StepId* operator()(const ApprovalRequested&) const { return nullptr; }
  const StepId* operator()(const ApprovalVoted&) const { return nullptr; }
  const StepId* operator()(const ApprovalMoved&) const { return nullptr; }
  const StepId* operator()(const ReceiptIntended&) const { return nullptr; }
  const StepId* operator()(const ReceiptRepeated&) const { return nullptr; }
  const StepId* operator()(const ReceiptMoved&) const { return nullptr; }
  const StepId* operator()(const ActionDenied&) const { return nullptr; }
  const StepId* operator()(const ActionFound&) const { return nullptr; }
  const StepId* operator()(const TaskMoved&) const { return nullptr; }
  const StepId* operator()(const TaskAsked&) const { return nullptr; }
  const StepId* operator()(const TaskSubtask&) const { return nullptr; }
  const StepId* operator()(const TaskChanged&) const { return nullptr; }
  const StepId* operator()(const TaskDeleted&) const { return nullptr; }
  const StepId* operator()(const TransitionRefused&) const { return nullptr; }
  const StepId* operator()(const RunObserved&) const { return nullptr; }
  const StepId* operator()(const ApprovalTold&) const { return nullptr; }
  const StepId* operator()(const ApprovalReminded&) const { return nullptr; }
};

}  // namespace

bool Engine::Resident::replay(const StreamPart& part) {
  std::uint64_t seq = part.first_seq;
  bool any = false;
  for_each_line(part.lines, [&](std::string_view line) {
    if (seq++ <= run.seq) return;
    if (seq - 1 != run.seq + 1) throw StoreFailure("the journal of " + run.id.str() + " has a gap");
    auto event = fold_line(run, line);
    if (!event) throw StoreFailure(event.error());
    updated_at = event->at;
    approvals_changed |= concerns_approval(event->payload);
    note_receipt(event->payload, changed_receipts);
    head = chain_next(sha256, head, line);
    lines += line;
    lines += '\n';
    any = true;
  });
  lease_marks.resize(run.steps.size());
  return any;
}

namespace {

std::size_t bytes_of(const Action& action) {
  return sizeof action + action.fields.capacity() + action.target.capacity();
}

std::size_t bytes_of(const std::shared_ptr<const Proposal>& proposal) {
  return proposal ? sizeof(Proposal) + bytes_of(proposal->action) + proposal->before.capacity() : 0;
}

std::size_t bytes_of(const Task& task) {
  std::size_t out = sizeof task + task.spec.prompt.capacity() + task.spec.settings.capacity() +
                    task.spec.input.capacity() + task.question.capacity() + task.answer.capacity() +
                    (task.subtasks.capacity() + task.spec.depends_on.capacity()) * sizeof(TaskId);
  for (const TaskExecution& each : task.executions) out += sizeof each + each.message.capacity();
  return out;
}

}  // namespace

std::size_t Engine::Resident::bytes() const {
  constexpr std::size_t diagnostic_bytes = 1000;  // mostly
  std::size_t out = sizeof *this + lines.capacity() + run.input.capacity() + run.steps.capacity() * sizeof(Step);
  for (const Step& step : run.steps)
    out += step.output.capacity() + step.question.capacity() + step.answer.capacity() +
           (step.last_error ? diagnostic_bytes : 0);
  for (const Approval& approval : run.approvals) out += sizeof approval + bytes_of(approval.proposal);
  for (const Receipt& receipt : run.receipts)
    out += sizeof receipt + bytes_of(receipt.proposal) + receipt.response.capacity() +
           (receipt.undo ? bytes_of(receipt.undo->action) : 0);
  if (run.foreign) out += sizeof(Foreign) + run.foreign->output.capacity();
  if (run.task) out += bytes_of(*run.task);
  return out;
}

bool concerns_approval(const RunPayload& payload) {
  return std::holds_alternative<ApprovalRequested>(payload) || std::holds_alternative<ApprovalMoved>(payload);
}

void note_receipt(const RunPayload& payload, std::vector<ReceiptId>& changed) {
  const auto* intended = std::get_if<ReceiptIntended>(&payload);
  const auto* moved = std::get_if<ReceiptMoved>(&payload);
  if (!intended && !moved) return;
  ReceiptId receipt = intended ? intended->receipt : moved->receipt;
  if (std::ranges::find(changed, receipt) == changed.end()) changed.push_back(receipt);
}

std::optional<StepIndex> step_of(const Run& run, const RunPayload& payload) {
  const StepId* id = std::visit(StepIdOf{}, payload);
  return id ? run.find_step(*id) : std::nullopt;
}

bool starts_at_gate(const Run& run) {
  if (run.status != RunStatus::created || run.provider != Provider::native) return false;
  for (const Step& step : run.steps)
    if (step.status == StepStatus::ready) return false;
  return true;
}

bool is_claimable(const Run& run, StepIndex step, Instant now) {
  return step < run.steps.size() && (run.steps[step].status == StepStatus::ready || is_reclaimable(run, step, now));
}

}  // namespace pawl
