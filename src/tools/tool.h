// What an in-process worker can do for a step. One file a tool; the list of them is in tools.cc.
#pragma once

#include <cstddef>
#include <expected>
#include <memory>
#include <optional>
#include <stop_token>
#include <variant>
#include <vector>

#include "core/action.h"
#include "core/tool_spec.h"
#include "engine/lease.h"

namespace pawl {

// Done, but not before this moment: a sleep costs a timer, not a thread.
struct CompleteAt {
  Instant at;
  Completed outcome;
};

// The gate ended the lease: there is nothing to report.
struct Nothing {};

using ToolResult = std::variant<Completed, Failed, CompleteAt, Nothing, Asked>;

// What policies and freezes call the tool's other side: its name, in lower case, up to the dot.
std::string connector_of(const ToolName& tool);

// What a write would do, as people and policies see it.
struct Plan {
  // `fields` is what run() will be given as its input, as a template: `lease.shown`, or made of it. Its key counts
  // unless the workflow's author gave the step one; without one, the step's is used.
  Action action;
  bool idempotent = false;  // the other side does it once, however often it is called under the same key
  JsonText before;          // what would be overwritten; empty when nobody looked
  // Of a tool that runs programs: whether they will be in a sandbox.
  std::optional<bool> sandboxed = {};
};

class Tool {
 public:
  virtual ~Tool() = default;
  virtual const ToolSpec& spec() const = 0;
  // True when a call returns within microseconds, so that a worker may run many of them in one go.
  virtual bool is_quick() const { return false; }
  // Of an attempt that may write: what it would do. May look at the other side, and changes nothing there. The default
  // is the tool's own name, in lower case, on what its input is.
  virtual std::expected<Plan, Failed> plan(const Lease& lease, std::stop_token stop);
  // Whether a call that is in doubt had its effect, for those that can find out.
  virtual bool can_look() const { return false; }
  // The lease is as run() would be given it.
  virtual std::optional<bool> has_happened(const Lease&, std::stop_token) { return std::nullopt; }
  // Blocking; called from many threads at once. A write is given as its input exactly the fields that were allowed.
  // Must end soon after `stop` is requested (cancel, lost lease, step time-out), with a Failed: it is dropped. A
  // Completed after a time-out still counts, since the work is done and must not be done again. Never throws for bad
  // input: that is a Failed. A broken world may be an exception.
  //
  // In `lease.input` secrets have their values. What the tool gives back is searched for them, here and in plan(); what
  // it makes known in any other way (a log, another process's arguments, a file) it must keep free of them itself.
  virtual ToolResult run(const Lease& lease, Instant now, std::stop_token stop) = 0;
  // What would undo a write that is done, null when nothing would. Called after secrets were taken out of `completed`,
  // with the lease that run() was given; the default is what run() said.
  virtual std::shared_ptr<const Action> make_undo(const Lease&, const Completed& completed) const {
    return completed.undo;
  }
};

}  // namespace pawl
