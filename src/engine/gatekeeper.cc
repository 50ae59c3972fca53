#include "engine/gatekeeper.h"

#include <algorithm>
#include <future>
#include <utility>

#include "crypto/sha256.h"

namespace pawl {
namespace {

// A policy that changes more often than this between the verdict and the decision is not one to act under.
constexpr int attempts_max = 5;

}  // namespace

ProposeEffect Gatekeeper::judge(const Request& request) {
  ProposeEffect out = request.action;
  Proposal proposal = *request.action.proposal;
  proposal.action.risk = std::max(proposal.action.risk, request.risk);
  out.verdict = verdict_on(request, proposal.action);
  proposal.action.risk = std::max(proposal.action.risk, out.verdict.risk);
  proposal.digest = digest_of(sha256, proposal.action);
  out.proposal = std::make_shared<const Proposal>(std::move(proposal));
  return out;
}

Verdict Gatekeeper::verdict_on(const Request& request, const Action& action) {
  auto tenant = runtime_.policy_cache().find(request.action.tenant);
  if (!tenant) return {.effect = Effect::deny, .reason = "there is no such tenant"};
  std::unique_ptr<Policies> policies;
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      policies = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (!policies) policies = std::make_unique<Policies>();
  Verdict verdict = policies->judge(*tenant, action, request.workspace, request.workflow);
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(policies));
  return verdict;
}

void Gatekeeper::propose(Request request, Reply<GateAnswer> reply) {
  propose(std::make_shared<Request>(std::move(request)), std::move(reply), 1);
}

void Gatekeeper::propose(std::shared_ptr<Request> request, Reply<GateAnswer> reply, int attempt) {
  runtime_.request(judge(*request), [this, request, reply = std::move(reply),
                                     attempt](std::expected<GateAnswer, Refusal> answer) mutable {
    bool again = !answer && answer.error().code == RefusalCode::policy_changed;
    if (again && attempt < attempts_max)
      propose(request, std::move(reply), attempt + 1);
    else
      reply(std::move(answer));
  });
}

std::expected<GateAnswer, Refusal> Gatekeeper::ask(const Request& request) {
  auto promise = std::make_shared<std::promise<std::expected<GateAnswer, Refusal>>>();
  auto answer = promise->get_future();
  propose(request, [promise = std::move(promise)](std::expected<GateAnswer, Refusal> result) mutable {
    promise->set_value(std::move(result));
  });
  try {
    return answer.get();
  } catch (const std::future_error&) {
    throw std::runtime_error("pawl stopped before it could answer");
  }
}

}  // namespace pawl
