// The one place where side effects are governed. The worker pool passes every attempt that may write through the gate,
// just before the tool runs: policy, approval and the durable intent lie behind it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "core/action.h"
#include "engine/gatekeeper.h"
#include "engine/lease.h"

namespace pawl {

// Go ahead, exactly so. `is_done`: it has happened already, and this is the outcome.
struct Allowed {
  ReceiptId receipt;
  bool is_done = false;
  JsonText response;
  JsonText before;  // of one that is called again: Lease::before
};
// Effects were frozen after this one was allowed, and before it began: it must not.
struct Frozen {
  ReceiptId receipt;
  std::string reason;
};
// The lease is over: the step was denied, or waits for a person. There is nothing to report.
struct Withheld {};
// Somebody must look whether an earlier call happened, and propose again.
struct Doubted {};

using GatePass = std::variant<Allowed, Frozen, Withheld, Doubted, Failed>;

class Gate {
 public:
  virtual ~Gate() = default;
  struct Question {
    bool can_look = false;
    std::optional<bool> happened = {};
  };
  // Blocks until the answer is durable. Called from many threads at once. An exception means no: the gate fails closed.
  virtual GatePass pass(const Lease& lease, const Proposal& proposal, const Question& question) = 0;
  // Why nothing may go to this connector at this moment: for questions to a model, which a freeze stops although they
  // are no effects.
  virtual std::optional<std::string> frozen(const Lease&, std::string_view) const { return std::nullopt; }
};

// That of the engine.
class PolicyGate final : public Gate {
 public:
  explicit PolicyGate(Runtime& runtime) : keeper_(runtime) {}
  GatePass pass(const Lease& lease, const Proposal& proposal, const Question& question) override;
  std::optional<std::string> frozen(const Lease& lease, std::string_view connector) const override {
    return keeper_.frozen(lease.tenant, connector);
  }

 private:
  Gatekeeper keeper_;
};

// For workers outside of the server, whose programs propose for themselves, or not at all.
class OpenGate final : public Gate {
 public:
  GatePass pass(const Lease&, const Proposal&, const Question&) override { return Allowed{}; }
};

}  // namespace pawl
