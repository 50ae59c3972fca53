#include "engine/request.h"

namespace pawl {

RecordOutcome outcome_command(const StepId& step, const LeaseProof& proof, const EffectOutcome& effect) {
  return {.step = step,
          .proof = proof,
          .receipt = effect.receipt,
          .succeeded = effect.succeeded,
          .error_code = effect.error_code,
          .message = effect.message,
          .response = effect.response,
          .undo = effect.undo};
}

}  // namespace pawl
