#include "simulator/actions.h"

#include <array>

#include "core/invariant.h"
#include "simulator/failure.h"

namespace pawl::simulator {

bool is_idempotent(const Action& action) { return action.operation == "put"; }
bool can_look(const Action& action) { return action.operation == "patch"; }

// ---- Actions

namespace {

// What the step wants is drawn once, from its name; so all attempts agree on it.
Dice dice_of(const Lease& lease) {
  std::uint64_t seed = lease.run.bits.high ^ (lease.run.bits.low * 0x9e3779b97f4a7c15ULL);
  for (char c : lease.step.text) seed = (seed ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return Dice(seed);
}

void describe(Dice& dice, Action& action) {
  action.connector = "desk";
  action.operation = dice.one_of({"put", "post", "post", "patch"});
  action.target = "desk/" + std::to_string(dice.below(3));
  action.fields = "{\"value\":" + std::to_string(dice.below(5)) + "}";
  action.risk = dice.one_of({Tier::low, Tier::low, Tier::med, Tier::high});
}

void change_something(Dice& dice, Action& action) {
  switch (dice.below(5)) {
    case 0:
      action.connector = "other";
      return;
    case 1:
      action.operation = action.operation == "put" ? "post" : "put";
      return;
    case 2:
      action.target += "/other";
      return;
    case 3:
      action.fields = R"({"value":"other"})";
      return;
    default:
      action.risk = action.risk == Tier::low ? Tier::med : Tier::low;
  }
}

}  // namespace

Action draw_action(Dice& dice, const Lease& lease) {
  Dice own = dice_of(lease);
  Action action;
  int kind = own.between(1, 100);
  if (kind <= 40) {
    // Whoever uses such a key means the same by it.
    auto number = own.below(3);
    action.idempotency_key = "shared-" + std::to_string(number);
    Dice shared(number + 1);
    describe(shared, action);
  } else {
    describe(own, action);
    action.idempotency_key = lease.idempotency_key;
    if (kind <= 55) action.idempotency_key += "#" + std::to_string(dice.below(3));
  }
  if (dice.percent(8)) change_something(dice, action);
  return action;
}

// ---- Policies

namespace {

constexpr std::array<const char*, policies_count> policies{
    "",
    "policy: p1\nrules: [{id: all, effect: allow}]\n",
    "policy: p2\nrules:\n- {id: low, effect: allow, when: risk = 'low'}\n"
    "- {id: med, effect: needs_approval, when: risk = 'med', two_person: true, expires: 2m}\n"
    "- {id: rest, effect: deny}\n",
    "policy: p3\nrules: [{id: all, effect: needs_approval, expires: 45s}]\n",
    "policy: p4\nrules:\n- {id: low, effect: needs_approval, when: risk = 'low', quorum: 2, expires: 3m}\n"
    "- {id: rest, effect: allow, when: risk <> 'low'}\n",
    "policy: p5\nrules: [{id: high, effect: deny, when: risk = 'high'}, {id: rest, effect: allow}]\n",
};

Policy compile(int number) {
  if (number == 0) return default_policy();
  auto policy = Policy::compile(policies[static_cast<std::size_t>(number)], "policy");
  invariant(policy.has_value(), "a simulated policy does not compile");
  return std::move(*policy);
}

}  // namespace

const PolicySource& policy_text(int number) {
  static const std::vector<PolicySource> sources = [] {
    std::vector<PolicySource> out;
    for (int i = 1; i < policies_count; ++i)
      out.push_back(PolicySource::read(policies[static_cast<std::size_t>(i)], "policy").value());
    return out;
  }();
  return sources[static_cast<std::size_t>(number - 1)];
}

int policy_number(std::string_view source) {
  for (std::size_t i = 1; i < policies.size(); ++i)
    if (source == policies[i]) return static_cast<int>(i);
  return 0;
}

Verdict judge(int number, int version, const Action& action) {
  // They look at nothing but the risk, so they are asked once for each.
  static const auto verdicts = [] {
    std::array<std::array<Verdict, enum_count<Tier>>, policies_count> out;
    for (int i = 0; i < policies_count; ++i) {
      Policy policy = compile(i);
      for (std::size_t risk = 0; risk < enum_count<Tier>; ++risk)
        out[static_cast<std::size_t>(i)][risk] = policy.evaluate({.connector = "desk",
                                                                  .operation = "put",
                                                                  .target = "desk/1",
                                                                  .risk = static_cast<Tier>(risk),
                                                                  .idempotency_key = "key"},
                                                                 {"tenant", "workspace", "workflow"});
    }
    return out;
  }();
  Verdict verdict = verdicts[static_cast<std::size_t>(number)][static_cast<std::size_t>(action.risk)];
  verdict.policy_version = version;
  return verdict;
}

Effect meant_by(int number, Tier risk) {
  using enum Effect;
  using Row = std::array<Effect, enum_count<Tier>>;  // low, med, high
  constexpr std::array<Row, policies_count> table{
      Row{allow, needs_approval, needs_approval}, Row{allow, allow, allow},
      Row{allow, needs_approval, deny},           Row{needs_approval, needs_approval, needs_approval},
      Row{needs_approval, allow, allow},          Row{allow, allow, deny},
  };
  return table[static_cast<std::size_t>(number)][static_cast<std::size_t>(risk)];
}

// ---- Where it happens

void Target::call(TenantId tenant, ReceiptId receipt, const Action& action, Answer answer) {
  if (answer == Answer::refused) return;
  int& effects = effects_[{tenant, action.idempotency_key}];
  happened_.insert(receipt);
  if (is_idempotent(action) && effects > 0) return;
  ++effects;
  demand(effects == 1, "no effect happens twice", [&] {
    return action.operation + " under " + action.idempotency_key + " of " + tenant.str() + ", now by " + receipt.str();
  });
}

void Target::undo(TenantId tenant, ReceiptId receipt, const Action& action) {
  if (!undone_.insert(receipt).second) return;
  --effects_[{tenant, action.idempotency_key}];
}

}  // namespace pawl::simulator
