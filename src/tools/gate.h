// The one place where side effects are governed. The worker pool passes every attempt that may write through the gate,
// just before the tool runs. Today the gate is open. Policy, approvals and receipts (the durable intent before the
// call) will stand here, and nowhere else.
#pragma once

#include <optional>

#include "core/tool_spec.h"
#include "engine/lease.h"

namespace pawl {

class Gate {
 public:
  virtual ~Gate() = default;
  // Nothing: go ahead. Called from many threads at once. An exception means no: the gate fails closed.
  virtual std::optional<Failed> admit(const Lease& lease, const ToolSpec& spec) = 0;
};

class OpenGate final : public Gate {
 public:
  std::optional<Failed> admit(const Lease&, const ToolSpec&) override { return std::nullopt; }
};

}  // namespace pawl
