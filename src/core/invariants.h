// What must hold of a run whenever a commit is over: the invariants of the design that one state can show. `pawl
// verify`, the simulator and the tests share this list, so that none of them believes something the others do not.
//
// Legality of each single move is evolve_checked()'s; what needs several runs or the tables is the caller's.
#pragma once

#include <string>
#include <vector>

#include "core/run.h"

namespace pawl {

// One sentence a violation, the step first where one is concerned; empty when the run is sound. Between two events of
// one commit a sound run may look otherwise: call it where commits end.
std::vector<std::string> check_run(const Run& run);

}  // namespace pawl
