// Engine, the gate: finds what has happened under a key, asks core, and says what the worker may do.
#include <utility>

#include "core/invariant.h"
#include "engine/engine.h"
#include "engine/refusals.h"
#include "engine/resident.h"

namespace pawl {

std::optional<int> Engine::writes_max_of(const Run& run) const {
  const auto& own = run.workflow->caps.max_writes_per_run;
  const auto tenants = effective_caps(tenants_.at(run.tenant).tenant).max_writes_per_run;
  return own && tenants ? std::min(own, tenants) : own ? own : tenants;
}

void Engine::remember_effect(const Run& run, const Proposal& proposal) {
  const std::string& key = proposal.action.idempotency_key;
  if (!owner_of_key(key)) effects_[{run.tenant, key}] = run.id;
}

void Engine::remember_effects(const Resident& resident) {
  for (const Receipt& receipt : resident.run.receipts)
    if (holds_key(receipt.status)) remember_effect(resident.run, *receipt.proposal);
}

void Engine::forget_effects(const Run& run) {
  for (const Receipt& receipt : run.receipts) {
    const std::string& key = receipt.proposal->action.idempotency_key;
    if (owner_of_key(key)) continue;
    auto found = effects_.find({run.tenant, key});
    if (found != effects_.end() && found->second == run.id) effects_.erase(found);
  }
}

// What another run holds under the key; nothing when the key is a run's own. Tables may be behind, so each that they
// name is looked at as it is now; what they cannot know yet is remembered.
std::expected<std::optional<ProposeAction::Holder>, Refusal> Engine::find_holder(TenantId tenant, RunId own,
                                                                                 const std::string& key) {
  if (owner_of_key(key)) return std::nullopt;
  auto damaged = [&](RunId run) {
    return std::unexpected(
        Refusal{RefusalCode::idempotency_conflict,
                "the idempotency key \"" + key + "\" belongs to a receipt of " + run.str() +
                    ", and what is stored of it is damaged: the action may have happened, and is not repeated. Run "
                    "`pawl verify` and restore a backup."});
  };
  std::vector<std::pair<RunId, std::optional<ReceiptId>>> runs;
  if (auto found = effects_.find({tenant, key}); found != effects_.end()) runs.push_back({found->second, {}});
  for (const ReceiptRow& row : store_.find_effects(tenant, key)) runs.push_back({row.run, row.id});
  for (const auto& [run, id] : runs) {
    if (run == own) continue;
    auto resident = residents_.find(run);
    Resident* holder = resident != residents_.end() ? resident->second.get() : find_verified(tenant, run);
    // What is in memory of another server's run may be older than the row.
    if (!holder || (id && !shared_ && !find_receipt(holder->run, *id))) return damaged(run);
    const Receipt* receipt = find_effect(holder->run, key);
    if (receipt) return ProposeAction::Holder{run, *receipt, holder->run.definition(receipt->step).tool};
  }
  return std::nullopt;
}

// When it is not live as far as this server knows, another one may have granted it meanwhile.
bool Engine::is_live_lease(Resident& resident, StepIndex step, const LeaseProof& proof) {
  auto is_live = [&] {
    const auto& steps = resident.run.steps;
    return step < steps.size() && is_held_by(steps[step], proof);
  };
  return is_live() || (verify(resident) && is_live());
}

std::optional<Engine::LeaseContext> Engine::lease_context(TenantId tenant, RunId run, const StepId& step,
                                                          const LeaseProof& proof) {
  Resident* resident = find_leased(tenant, run);
  auto index = resident ? resident->run.find_step(step) : std::nullopt;
  if (!index || !is_live_lease(*resident, *index, proof)) return std::nullopt;
  auto key = render_idempotency_key(resident->run, *index);
  const Workflow& workflow = *resident->run.workflow;
  return LeaseContext{resident->run.workspace, workflow.name, workflow.steps[*index].risk, key ? *key : ""};
}

Engine::Outcome<GateAnswer> Engine::handle(ProposeEffect& request) {
  Resident* resident = find_leased(request.tenant, request.run);
  auto index = resident ? resident->run.find_step(request.step) : std::nullopt;
  if (!index) return {lease_over()};
  // What another server froze, or published, before this was proposed counts.
  learn_tenants_once();
  // In-process workers are alive while they are registered, and time has not been told yet when a proposal comes first.
  if (*index < resident->run.steps.size() && resident->run.steps[*index].lease_expires_at <= clock_.now())
    pass_time(*resident);
  // Whose lease is over hears that, and not that they might ask again.
  bool is_live = is_live_lease(*resident, *index, request.proof);
  if (is_live && request.verdict.policy_version != tenants_.at(request.tenant).tenant.policy.version)
    return {std::unexpected(Refusal{RefusalCode::policy_changed, "the policy has changed meanwhile"})};
  auto frozen = policy_cache_.frozen(request.tenant, request.proposal->action.connector);
  if (const auto& reverses = resident->run.definition(*index).reverses; reverses != request.proposal->reverses) {
    // What the step undoes is the plan's to say, not the worker's.
    auto proposal = std::make_shared<Proposal>(*request.proposal);
    proposal->reverses = reverses;
    request.proposal = std::move(proposal);
  }
  auto holder = find_holder(request.tenant, request.run, request.proposal->action.idempotency_key);
  if (!holder) return {std::unexpected(std::move(holder.error()))};
  const RunCommand command = ProposeAction{.step = request.step,
                                           .proof = request.proof,
                                           .proposal = std::move(request.proposal),
                                           .verdict = std::move(request.verdict),
                                           .writes_max = writes_max_of(resident->run),
                                           .frozen = std::move(frozen),
                                           .can_look = request.can_look,
                                           .happened = request.happened,
                                           .holder = std::move(*holder)};
  Decision decision = decide_on(*resident, command);
  apply(*resident, decision.events, reporter_of(command));
  if (decision.refusal) return {std::unexpected(std::move(*decision.refusal)), basis_of(*resident)};
  GateAnswer answer = gate_answer(resident->run, std::get<ProposeAction>(command), decision);
  if (answer.is_done) note_reversal(resident->run, *index, answer.receipt);
  return {std::move(answer), basis_of(*resident)};
}

void Engine::note_reversal(const Run& run, StepIndex step, ReceiptId effect) {
  if (const auto& undone = run.definition(step).reverses) reversals_.push_back({run.tenant, *undone, effect});
}

void Engine::record_reversals() {
  for (const Reversal& each : std::exchange(reversals_, {}))
    if (auto row = store_.find_receipt(each.tenant, each.undone))
      request(RunRequest{each.tenant, row->run, ReverseReceipt{each.undone, each.by}});
}

GateAnswer Engine::gate_answer(const Run& run, const ProposeAction& command, const Decision& decision) const {
  GateAnswer out{.policy_reason = policy_reason_of(command.verdict),
                 .risk = command.proposal->action.risk,
                 .digest = command.proposal->digest};
  for (const RunEvent& event : decision.events) {
    if (const auto* denied = std::get_if<ActionDenied>(&event.payload)) {
      out.policy_reason = denied->policy_reason;
      return out;
    }
    if (const auto* requested = std::get_if<ApprovalRequested>(&event.payload)) {
      out.effect = Effect::needs_approval;
      out.approval = requested->approval;
      return out;
    }
  }
  const Receipt* receipt = find_effect(run, command.proposal->action.idempotency_key);
  if (!receipt && command.holder) receipt = &command.holder->receipt;
  if (!receipt) return out;
  out.effect = Effect::allow;
  out.receipt = receipt->id;
  out.policy_reason = receipt->policy_reason;
  out.is_done = receipt->status == ReceiptStatus::succeeded;
  if (out.is_done) out.response = receipt->response;
  if (receipt->status == ReceiptStatus::in_doubt) out.before = receipt->proposal->before;
  return out;
}

}  // namespace pawl
