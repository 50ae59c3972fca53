// Which step waits for which, and which step may read which: the two references between steps that a definition makes.
#pragma once

#include <bitset>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/source_reader.h"
#include "core/workflow.h"

namespace pawl {

// The steps by the ids their author gave them, valid or not, so that one bad id is one error.
struct StepNames {
  std::vector<std::string_view> in_order;
  std::unordered_map<std::string_view, StepIndex> index;
};

struct Needs {
  std::vector<std::vector<StepIndex>> direct;
  // For each step, all that is certain to have succeeded when it starts.
  std::vector<std::bitset<steps_max>> finished;
  // False when some `needs` was refused: then `finished` says too little to complain by.
  bool sound = true;
};

// `steps` holds at most steps_max nodes, one for each name in order.
Needs read_needs(SourceReader& reader, const std::vector<const SourceNode*>& steps, const StepNames& names);

// Refuses every expression under `node` that cannot be read or names a step that `reading` cannot rely on.
void check_expressions(SourceReader& reader, const SourceNode& node, StepIndex reading, const StepNames& names,
                       const Needs& needs);

}  // namespace pawl
