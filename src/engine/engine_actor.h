// pawl itself, as the actor of what the engine does by itself. The rules for people and keys do not bind it.
#pragma once

#include "core/run.h"

namespace pawl {

inline const Actor engine_actor{"engine"};

}  // namespace pawl
