// What goes through the gate: proposals, calls, outcomes, doubts, and the people and policies behind the answers. A
// worker may be lost, or the process may die, between any two of these.
#include <algorithm>

#include "crypto/sha256.h"
#include "simulator/failure.h"
#include "simulator/simulation.h"

namespace pawl::simulator {
namespace {

constexpr std::array people{"ada", "bob", "cyd"};

std::string account_of(std::string_view person) { return "slack:T1:" + std::string(person); }

}  // namespace

// ---- People and policies

// Ada has two keys and has made a third, which is nobody's; bob has one; cyd has none; one key is an admin's.
void Simulation::introduce_people(TenantId tenant) {
  auto& keys = keys_[tenant];
  for (int i = 0; i < 5; ++i) keys.push_back(KeyId{{static_cast<std::uint64_t>(i + 1), dice_.next()}});
  for (std::size_t i = 0; i < keys.size(); ++i)
    asked().request(
        TenantRequest{tenant, KeyCreated{keys[i], "k" + std::to_string(i), Role::operator_, "hash", end_of_time},
                      i == 3 ? actor_of(keys[0]) : Actor{"admin"}},
        expect<TenantId>([](const auto& answer) { demand(answer.has_value(), "a key can be made", "refused"); }));
  asked().request(TenantRequest{tenant, PersonSet{"ada", {keys[0], keys[1]}, {account_of("ada")}}, Actor{"admin"}});
  asked().request(TenantRequest{tenant, PersonSet{"bob", {keys[2]}, {account_of("bob")}}, Actor{"admin"}});
  asked().request(TenantRequest{tenant, PersonSet{"cyd", {}, {account_of("cyd")}}, Actor{"admin"}});
}

Actor Simulation::any_identity(TenantId tenant) {
  const auto& keys = keys_[tenant];
  if (keys.empty() || dice_.percent(30)) return anyone();
  if (dice_.percent(40)) return Actor{account_of(dice_.one_of({"ada", "bob", "cyd", "nobody"}))};
  return actor_of(dice_.one_of(keys));
}

void Simulation::change_people(TenantId tenant) {
  const auto& keys = keys_[tenant];
  if (keys.empty()) return;
  std::string name = people[dice_.below(people.size())];
  note([&] { return "people change: " + name; });
  if (dice_.percent(20))
    return asked().request(TenantRequest{tenant, PersonRemoved{name}, Actor{"admin"}},
                           expect<TenantId>([](const auto&) {}));
  PersonSet person{name, {}, {account_of(name)}};
  for (KeyId key : keys)
    if (dice_.percent(30)) person.keys.insert(key);
  // Refused when one of them is somebody else's.
  asked().request(TenantRequest{tenant, person, Actor{"admin"}}, expect<TenantId>([](const auto&) {}));
}

void Simulation::change_policy(TenantId tenant) {
  int number = dice_.between(1, policies_count - 1);
  note([&] { return "policy p" + std::to_string(number) + " for " + tenant.str(); });
  asked().request(PublishPolicy{tenant, policy_text(number), Actor{"admin"}}, expect<PolicyRef>([](const auto& answer) {
                    demand(answer.has_value(), "a policy can be published", "refused");
                  }));
}

// ---- Proposals

Held* Simulation::find_held(SimWorker& worker, RunId run, const StepId& step, std::uint64_t token) {
  auto found = std::ranges::find_if(worker.held, [&](const Held& one) {
    return one.lease.run == run && one.lease.step == step && one.lease.token == token;
  });
  return found == worker.held.end() ? nullptr : &*found;
}

bool Simulation::pursue_effect(SimWorker& worker, Held& held) {
  if (!held.effect) {
    if (held.effects_wanted == 0) return false;
    propose(worker, held);
    return true;
  }
  switch (held.effect->stage) {
    case Pending::Stage::asked:  // and has heard nothing: the answer may be lost
      if (!faults_ || dice_.percent(25)) propose(worker, held);
      return true;
    case Pending::Stage::allowed:
      if (!held.is_live(clock_.now())) return true;
      if (faults_ && dice_.percent(10)) {  // it asks once more before it calls
        held.effect->stage = Pending::Stage::asked;
        propose(worker, held);
        return true;
      }
      call_target(held);
      if (dice_.percent(50)) return true;
      [[fallthrough]];
    case Pending::Stage::called:
      break;
  }
  if (!held.effect->is_known) {  // the answer was lost: nobody here can say what became of it
    held.reported = true;
    send(held, Failed{"SIMULATED", "token " + std::to_string(held.lease.token), true, {}, {}}, held.lease.token);
    return true;
  }
  if (!held.effect->succeeded && dice_.percent(60)) {
    held.reported = true;
    send(held, Failed{"SIMULATED", "token " + std::to_string(held.lease.token), true, {}, {}}, held.lease.token, true);
    return true;
  }
  // Either by itself, or with the completion.
  if (held.effects_wanted == 1 && held.effect->succeeded && dice_.percent(50)) return false;
  record_outcome(worker, held);
  return true;
}

void Simulation::propose(SimWorker& worker, Held& held, std::optional<bool> happened) {
  const Lease& lease = held.lease;
  if (!held.effect) {
    Action action = draw_action(dice_, lease);
    // Under a key that is another run's own, now and then.
    const SimWorker& other = *dice_.one_of(workers_);
    if (dice_.percent(3) && !other.held.empty()) action.idempotency_key = other.held.back().lease.idempotency_key;
    action.risk = std::max(action.risk, lease.risk);  // as the gatekeeper sees to
    auto proposal = std::make_shared<Proposal>();
    proposal->digest = digest_of(sha256, action);
    proposal->idempotent = is_idempotent(action);
    proposal->action = std::move(action);
    held.effect = Pending{.proposal = std::move(proposal)};
  }
  auto proposal = held.effect->proposal;
  const Tenant::Policy& policy = engine_->find_tenant(lease.tenant)->policy;
  bool stale = policy.version > 0 && dice_.percent(6);
  Verdict verdict = judge(policy_number(policy.source), policy.version, proposal->action);
  if (stale) verdict = {.effect = Effect::allow, .policy_version = policy.version - 1, .rule = "stale"};
  note([&] {
    return "propose " + proposal->action.operation + " under " + proposal->action.idempotency_key + " for " +
           lease.run.str() + " " + lease.step.text + " token " + std::to_string(lease.token);
  });
  const bool frozen = is_frozen(lease.tenant, proposal->action.connector);
  asked().request(
      ProposeEffect{.tenant = lease.tenant,
                    .run = lease.run,
                    .step = lease.step,
                    .proof = lease.proof(),
                    .proposal = proposal,
                    .verdict = verdict,
                    .can_look = can_look(proposal->action),
                    .happened = happened},
      expect<GateAnswer>([this, &worker, lease, proposal, stale, frozen, lifts = lifts_](const auto& answer) {
        bool begins = answer && answer->effect == Effect::allow && !answer->is_done;
        demand(!frozen || !begins || lifts != lifts_, "no effect while it is frozen", lease.run.str());
        if (!answer) note([&] { return "the gate: " + answer.error().message; });
        demand(!stale || !answer, "a verdict is of the policy in force", "a stale one was taken");
        take_gate_answer(worker, lease, proposal, answer);
      }));
}

void Simulation::take_gate_answer(SimWorker& worker, const Lease& lease,
                                  const std::shared_ptr<const Proposal>& proposal,
                                  const std::expected<GateAnswer, Refusal>& answer) {
  Held* found = find_held(worker, lease.run, lease.step, lease.token);
  if (!found || !found->effect || found->effect->proposal != proposal || found->effect->stage != Pending::Stage::asked)
    return;
  Held& held = *found;
  if (answer && answer->effect == Effect::allow) {
    if (answer->is_done) {
      demand(target_.has_happened(answer->receipt), "what answers for an action is its own success",
             [&] { return answer->receipt.str(); });
      held.effect.reset();
      --held.effects_wanted;
    } else {
      held.effect->stage = Pending::Stage::allowed;
      held.effect->receipt = answer->receipt;
    }
    return;
  }
  if (answer) {  // denied, or somebody is asked: the lease is over
    held.reported = true;
    return;
  }
  switch (answer.error().code) {
    case RefusalCode::policy_changed:
      return;  // it will ask again
    case RefusalCode::lease_lost:
      held.revoked = true;
      return;
    case RefusalCode::effect_in_doubt:
      if (can_look(proposal->action)) return look(worker, held);
      held.reported = true;
      return;
    case RefusalCode::effects_frozen:  // it may have been allowed before, and has not called
      held.reported = true;
      return send(held, Failed{"SIMULATED", "token " + std::to_string(lease.token), true, {}, {}}, lease.token);
    case RefusalCode::effect_in_progress:
    case RefusalCode::idempotency_conflict:
      held.effect.reset();  // it gives up, or wants something else
      held.effects_wanted = dice_.percent(50) ? 0 : held.effects_wanted;
      return;
    default:
      throw Broken("the gate refuses with a reason", answer.error().message);
  }
}

// The lease of whoever called before is over, so what is there now is what became of it.
void Simulation::look(SimWorker& worker, Held& held) {
  if (!held.is_live(clock_.now())) return;
  propose(worker, held, target_.stands(held.lease.tenant, held.effect->proposal->action.idempotency_key));
}

// ---- Calls

void Simulation::call_target(Held& held) {
  const Lease& lease = held.lease;
  Pending& effect = *held.effect;
  checker_.check_call({lease.tenant, lease.run, lease.step, lease.token, effect.receipt, effect.proposal->action});
  bool refused = dice_.percent(12);
  note([&] {
    return "call for " + effect.receipt.str() + " of " + lease.run.str() + (refused ? " (refused)" : " (done)");
  });
  target_.call(lease.tenant, effect.receipt, effect.proposal->action,
               refused ? Target::Answer::refused : Target::Answer::done);
  effect.stage = Pending::Stage::called;
  effect.succeeded = !refused;
  effect.is_known = !dice_.percent(10);
}

EffectOutcome Simulation::outcome_of(const Held& held) const {
  const Pending& effect = *held.effect;
  return {.receipt = effect.receipt,
          .succeeded = effect.succeeded,
          .error_code = effect.succeeded ? "" : "SIMULATED",
          .message = {},
          .response = effect.succeeded ? "{\"ok\":true}" : "",
          .undo = hostile_ && effect.succeeded ? hostile_undo() : nullptr};
}

void Simulation::record_outcome(SimWorker& worker, Held& held) {
  const Lease& lease = held.lease;
  note([&] { return "outcome of " + held.effect->receipt.str() + " for " + lease.run.str() + " " + lease.step.text; });
  EffectOutcome outcome = outcome_of(held);
  asked().request(RunRequest{lease.tenant, lease.run, outcome_command(lease.step, lease.proof(), outcome)},
                  expect<RunAnswer>([this, &worker, tenant = lease.tenant, run = lease.run, step = lease.step,
                                     token = lease.token, outcome](const auto& answer) {
                    // Until it has heard that it is recorded, the worker would say it again.
                    // And a repeat that failed has settled nothing: then it has to give up.
                    const ReceiptModel* receipt = answer ? checker_.find(run)->find_receipt(outcome.receipt) : nullptr;
                    bool doubtful = receipt && receipt->status == ReceiptStatus::in_doubt;
                    Held* still = find_held(worker, run, step, token);
                    if (still && still->effect && still->effect->receipt == outcome.receipt) {
                      if (doubtful) {
                        still->effect->is_known = false;
                      } else {
                        still->effect.reset();
                        --still->effects_wanted;
                      }
                    }
                    if (!answer) {
                      demand(answer.error().code == RefusalCode::lease_lost, "an outcome that is late is told so",
                             answer.error().message);
                      return;
                    }
                    check_answer(tenant, *answer, "outcome for");
                    bool stands =
                        outcome.succeeded
                            ? receipt->status == ReceiptStatus::succeeded || receipt->status == ReceiptStatus::reversed
                            : receipt->status == ReceiptStatus::failed || receipt->tokens.size() > 1;
                    demand(stands, "an outcome that is accepted stands", outcome.receipt.str());
                  }));
}

// ---- What they must not get

void Simulation::act_badly(SimWorker& worker, Held& held) {
  const Lease& lease = held.lease;
  auto lost = [](const auto& answer) {
    demand(!answer && answer.error().code == RefusalCode::lease_lost, "no tenant sees another's",
           "the gate answered otherwise than that the lease is over");
  };
  switch (dice_.below(4)) {
    case 0: {  // for another tenant
      ProposeEffect request{.tenant = dice_.one_of(tenants_),
                            .run = lease.run,
                            .step = lease.step,
                            .proof = lease.proof(),
                            .proposal = std::make_shared<const Proposal>(),
                            .verdict = {.effect = Effect::allow}};
      if (request.tenant == lease.tenant) return;
      request.verdict.policy_version = engine_->find_tenant(request.tenant)->policy.version;
      return asked().request(request, expect<GateAnswer>(lost));
    }
    case 1: {  // of what was never allowed
      EffectOutcome outcome{.receipt = ReceiptId{{dice_.next(), dice_.next()}}};
      return asked().request(RunRequest{lease.tenant, lease.run, outcome_command(lease.step, lease.proof(), outcome)},
                             expect<RunAnswer>([](const auto& answer) {
                               demand(!answer, "an outcome is of an effect that was allowed", "taken");
                             }));
    }
    case 2:  // completes as if there were no effect to account for
      if (held.effect && held.effect->stage != Pending::Stage::asked)
        send(held, Completed{"{\"token\":" + std::to_string(lease.token) + "}", {}}, lease.token);
      return;
    default:  // changes its mind before it has heard
      if (held.effect && held.effect->stage == Pending::Stage::asked) {
        held.effect.reset();
        held.forgot_effect = true;
        propose(worker, held);
      }
  }
}

// ---- Doubts, and what is undone

bool Simulation::may_still_call(ReceiptId receipt) const {
  for (const auto& worker : workers_)
    for (const Held& held : worker->held)
      if (held.effect && held.effect->stage == Pending::Stage::allowed && held.effect->receipt == receipt &&
          held.is_live(clock_.now()))
        return true;
  return false;
}

// They look before they answer, when nobody is about to call any more.
bool Simulation::answer_doubt(const RunModel& run, StepIndex step) {
  ReceiptId receipt = *run.steps[step].doubt;
  if (may_still_call(receipt)) return false;
  bool happened = target_.has_happened(receipt);
  note([&] { return "answer that " + receipt.str() + (happened ? " happened" : " did not happen"); });
  asked().request(RunRequest{run.tenant, run.id,
                             AnswerQuestion{run.definition(step).id,
                                            happened ? R"({"happened":true})" : R"({"happened":false})", anyone()}},
                  expect<RunAnswer>([this, tenant = run.tenant](const auto& answer) {
                    if (answer) check_answer(tenant, *answer, "answer to");
                  }));
  return true;
}

const RunModel* Simulation::any_run_with(ReceiptStatus status, ReceiptId& receipt) {
  for (int tries = 0; tries < 6 && !run_ids_.empty(); ++tries) {
    const RunModel* run = checker_.find(dice_.one_of(run_ids_));
    for (const ReceiptModel& one : run->receipts)
      if (one.status == status) {
        receipt = one.id;
        return run;
      }
  }
  return nullptr;
}

void Simulation::settle_receipt() {
  ReceiptId receipt;
  const RunModel* run = any_run_with(ReceiptStatus::in_doubt, receipt);
  if (!run || may_still_call(receipt)) return;
  bool happened = target_.has_happened(receipt);
  note([&] { return "settle " + receipt.str() + (happened ? ": it happened" : ": it did not happen"); });
  asked().request(RunRequest{run->tenant, run->id, SettleReceipt{receipt, happened, anyone()}},
                  expect<RunAnswer>([this, id = run->id, receipt](const auto& answer) {
                    if (!answer) return;
                    ReceiptStatus status = checker_.find(id)->find_receipt(receipt)->status;
                    demand(status != ReceiptStatus::intended && status != ReceiptStatus::in_doubt,
                           "a doubt that is settled stays so", receipt.str());
                  }));
}

void Simulation::reverse_receipt() {
  ReceiptId receipt;
  const RunModel* run = any_run_with(ReceiptStatus::succeeded, receipt);
  if (!run) return;
  note([&] { return "undo " + receipt.str(); });
  target_.undo(run->tenant, receipt, run->find_receipt(receipt)->proposal->action);
  asked().request(RunRequest{run->tenant, run->id, ReverseReceipt{receipt, ReceiptId{{1, 2}}}},
                  expect<RunAnswer>([this, id = run->id, receipt](const auto& answer) {
                    demand(answer.has_value(), "what was undone is said to be", receipt.str());
                    demand(checker_.find(id)->find_receipt(receipt)->status == ReceiptStatus::reversed,
                           "what was undone is said to be", receipt.str());
                  }));
}

}  // namespace pawl::simulator
