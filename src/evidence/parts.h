// What a bundle says of a run beyond its events: each part is made from the events in the bundle and nothing else (and,
// for decisions, the texts of the policies that they name), so that whoever has the events can make it again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/event.h"
#include "core/json.h"
#include "engine/policy_records.h"

namespace pawl {

struct NumberedEvent {
  std::uint64_t seq = 0;
  RunEvent event;
};

// The run's own, without the lists below.
Json run_part(const Run& run);
Json steps_part(const Run& run);
Json approvals_part(const Run& run);
Json receipts_part(const Run& run);

// Every time that a policy, or a cap, was asked about an action, and what it said.
struct DecisionMade {
  std::uint64_t seq = 0;
  int policy_version = 0;
  Json object;
};
std::vector<DecisionMade> decisions_of(const std::vector<NumberedEvent>& events);
// The policies are those that the decisions name, in that order, each once.
Json decisions_part(const std::vector<DecisionMade>& decisions, const std::vector<PolicyVersion>& policies);

// By provider and model where outputs say so; the rest by tool. Failed attempts cost too.
Json cost_part(const Run& run, const std::vector<NumberedEvent>& events);

}  // namespace pawl
