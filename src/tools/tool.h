// What an in-process worker can do for a step. One file a tool; the list of them is in tools.cc.
#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <variant>
#include <vector>

#include "core/tool_spec.h"
#include "engine/lease.h"

namespace pawl {

// Done, but not before this moment: a sleep costs a timer, not a thread.
struct CompleteAt {
  Instant at;
  Completed outcome;
};

using ToolResult = std::variant<Completed, Failed, CompleteAt>;

class Tool {
 public:
  virtual ~Tool() = default;
  virtual const ToolSpec& spec() const = 0;
  // True when a call returns within microseconds, so that a worker may run many of them in one go.
  virtual bool is_quick() const { return false; }
  // Blocking; called from many threads at once. Must end soon after `stop` is requested (cancel, lost lease, step
  // time-out), with a Failed: it is dropped. A Completed after a time-out still counts, since the work is done and
  // must not be done again. Never throws for bad input: that is a Failed. A broken world may be an exception.
  virtual ToolResult run(const Lease& lease, Instant now, std::stop_token stop) = 0;
};

}  // namespace pawl
