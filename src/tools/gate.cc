#include "tools/gate.h"

#include "tools/outcome.h"

namespace pawl {

GatePass PolicyGate::pass(const Lease& lease, const Proposal& proposal, const Question& question) {
  auto answer = keeper_.ask({.action = {.tenant = lease.tenant,
                                        .run = lease.run,
                                        .step = lease.step,
                                        .proof = lease.proof(),
                                        .proposal = std::make_shared<const Proposal>(proposal),
                                        .verdict = {},
                                        .can_look = question.can_look,
                                        .happened = question.happened},
                             .workspace = lease.workspace,
                             .workflow = lease.workflow,
                             .risk = lease.risk});
  if (answer) {
    if (answer->effect != Effect::allow) return Withheld{};
    if (!answer->is_done)
      if (auto reason = keeper_.frozen(lease.tenant, proposal.action.connector))
        return Frozen{answer->receipt, std::move(*reason)};
    return Allowed{answer->receipt, answer->is_done, std::move(answer->response), std::move(answer->before)};
  }
  const Refusal& refusal = answer.error();
  switch (refusal.code) {
    case RefusalCode::lease_lost:
      return Withheld{};
    case RefusalCode::effect_in_doubt:
      return question.can_look && !question.happened ? GatePass(Doubted{}) : GatePass(Withheld{});
    case RefusalCode::effect_in_progress:
      return failure("EFFECT_IN_PROGRESS", refusal.message);
    case RefusalCode::idempotency_conflict:
      return failure("IDEMPOTENCY_KEY_REUSED", refusal.message);
    case RefusalCode::effects_frozen:
      return failure("EFFECTS_FROZEN", refusal.message);
    default:
      return failure("POLICY_DENIED", refusal.message);
  }
}

}  // namespace pawl
