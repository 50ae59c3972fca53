// What an approval demands, as authors write it: `tier`, `two_person`, `quorum`, `expires`, `approvers`, `remind`,
// `escalate`, beside other keys of the same map. Workflows have them on a gate, policies on a rule that asks for
// approval.
#pragma once

#include "core/source_reader.h"
#include "core/workflow.h"

namespace pawl {

inline constexpr int quorum_max = 20;
inline constexpr std::size_t approvers_max = 50;

// Keys that are absent leave what `terms` has; two_person sets the quorum to two.
void read_approval_terms(SourceReader& reader, const SourceNode& map, ApprovalTerms& terms);

}  // namespace pawl
