// The way to the gate for whoever wants to have an effect outside, in this process or over HTTP: evaluates the tenant's
// policy on the caller's thread, then has the engine decide. When the policy was replaced meanwhile it is evaluated
// again, so that a verdict is always one of the policy in force at the moment of the decision.
//
// The risk of an action is the highest of what its proposer, the step and the policy say. It is set here, before the
// action is digested: what is decided, shown to people and kept has that risk.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "engine/runtime.h"
#include "govern/policies.h"

namespace pawl {

class Gatekeeper {
 public:
  // The runtime must outlive this.
  explicit Gatekeeper(Runtime& runtime) : runtime_(runtime) {}

  struct Request {
    ProposeEffect action;  // without the verdict; its proposal without the digest
    WorkspaceName workspace;
    WorkflowName workflow;
    Tier risk = Tier::low;  // of the step: the action has at least this one, whatever it says itself
  };
  // The reply comes on one of the engine's threads, once the answer is durable.
  void propose(Request request, Reply<GateAnswer> reply);
  // The same, and waits. Not from a reply function.
  std::expected<GateAnswer, Refusal> ask(const Request& request);
  // Why the tenant's effects are denied at this moment, as far as this server knows.
  std::optional<std::string> frozen(TenantId tenant, std::string_view connector) const {
    return runtime_.policy_cache().frozen(tenant, connector);
  }

 private:
  void propose(std::shared_ptr<Request> request, Reply<GateAnswer> reply, int attempt);
  // What the engine is asked: with the verdict, the risk that the action has by the step and the policy, and the
  // digest.
  ProposeEffect judge(const Request& request);
  Verdict verdict_on(const Request& request, const Action& action);

  Runtime& runtime_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Policies>> idle_;  // a caller has one to itself for as long as it judges
};

}  // namespace pawl
