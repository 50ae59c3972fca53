// Workflows drawn at random, as the YAML that an author would publish.
#pragma once

#include <string>

#include "core/tool_spec.h"
#include "simulator/dice.h"

namespace pawl::simulator {

// read never writes, write always does, fetch goes by its method.
ToolCatalog simulated_tools();

// Sequences and graphs of one to six steps: work, gates, retries, time-outs, short leases, budgets, caps.
std::string make_workflow(Dice& dice, const std::string& name);
// The same, with a risk here and there.
std::string with_risks(Dice& dice, std::string workflow);

}  // namespace pawl::simulator
