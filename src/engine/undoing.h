// Carries an undo out as far as the engine is asked: plans it, publishes the plan as a workflow, starts its run.
#pragma once

#include "core/undo.h"
#include "engine/runtime.h"

namespace pawl {

struct UndoRequest {
  TenantId tenant;
  RunId run;
  std::optional<ReceiptId> only = {};  // that effect of the run; otherwise all that can be undone
  Actor by;
};

struct UndoAnswer {
  RunAnswer run;  // the one that undoes; not new when one that was asked for before is still at it
  UndoPlan plan;
};

// The reply comes on one of the engine's threads, once that run is durable. The runtime must outlive it.
void undo(Runtime& runtime, UndoRequest request, Reply<UndoAnswer> reply);

}  // namespace pawl
