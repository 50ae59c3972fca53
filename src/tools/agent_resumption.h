// A task's run that goes on with what an earlier run of the task began: where a step finds the session it had there.
#pragma once

#include <optional>

#include "core/json.h"
#include "engine/lease.h"
#include "engine/runtime.h"

namespace pawl {

struct AgentResumption {
  RunId run;         // in which the step had begun, and did not get done
  JsonText message;  // what its session is told: an answer, or that it ran out of time; empty when that is for others
};

// Nothing when the run is no task's, starts over, or the step had not begun before. Asks the engine, and blocks.
std::optional<AgentResumption> find_resumption(Runtime& runtime, const Lease& lease);

}  // namespace pawl
