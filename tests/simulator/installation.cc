// What tenants and the installation set: limits and ceilings, suspension, freezes. Tenants try to raise what is not
// theirs to raise.
#include "simulator/failure.h"
#include "simulator/simulation.h"
#include "support/limits.h"

namespace pawl::simulator {
namespace {

pawl::Limits draw_limits(Dice& dice) {
  pawl::Limits out;
  if (dice.percent(50)) out[Limit::max_concurrency] = dice.between(1, 3);
  if (dice.percent(40)) out[Limit::max_runs_per_min] = dice.between(1, 5);
  if (dice.percent(30)) out[Limit::max_writes_per_run] = dice.between(0, 3);
  return out;
}

bool is_above(const pawl::Limits& wanted, const pawl::Limits& before, const pawl::Limits& ceiling) {
  for (Limit limit : {Limit::max_concurrency, Limit::max_runs_per_min, Limit::max_writes_per_run})
    if (wanted[limit] && ceiling[limit] && *wanted[limit] > *ceiling[limit] && wanted[limit] != before[limit])
      return true;
  return false;
}

}  // namespace

void Simulation::change_limits() {
  TenantId tenant = dice_.one_of(tenants_);
  if (dice_.percent(20))
    return asked().request(
        TenantRequest{tenant, WorkspaceSet{WorkspaceName{dice_.one_of({"default", "a", "b"})}, dice_.between(1, 4)},
                      Actor{"admin"}},
        expect<TenantId>([](const auto&) {}));
  const pawl::Limits limits = draw_limits(dice_);
  const int weight = dice_.between(1, 4);
  if (dice_.percent(40)) {
    note([&] { return std::string("change a ceiling"); });
    return asked().request(
        TenantRequest{tenant, ChangeCeiling{tests::replacing_all(limits, weight)}, Actor{"admin"}},
        expect<TenantId>([](const auto& answer) { demand(answer.has_value(), "ceilings can be set", "refused"); }));
  }
  note([&] { return std::string("change limits"); });
  const Tenant& now = *asked().find_tenant(tenant);
  const int weight_most = now.weight_max.value_or(now.weight);
  const bool is_too_much =
      now.name != installation_tenant && (is_above(limits, now.limits, now.ceiling) || weight > weight_most);
  asked().request(TenantRequest{tenant, ChangeLimits{tests::replacing_all(limits, weight)}, Actor{"operator"}},
                  expect<TenantId>([is_too_much](const auto& answer) {
                    demand(answer.has_value() != is_too_much, "no tenant raises its own ceiling",
                           is_too_much ? "accepted" : "refused");
                  }));
}

bool Simulation::is_frozen(TenantId tenant, const std::string& connector) const {
  auto holds = [&](TenantId of, FreezeScope scope) {
    const Freezes& freezes = engine_->find_tenant(of)->freezes;
    return freezes.contains({scope, ""}) || freezes.contains({scope, connector});
  };
  return holds(tenant, FreezeScope::tenant) || holds(tenant, FreezeScope::installation) ||
         std::ranges::any_of(tenants_, [&](TenantId each) { return holds(each, FreezeScope::everywhere); });
}

void Simulation::restrict_tenant() {
  TenantId tenant = dice_.one_of(tenants_);
  const Tenant& known = *engine_->find_tenant(tenant);
  auto taken = [](const char* what) {
    return [what](const auto& answer) { demand(answer.has_value(), "a restriction can be set and lifted", what); };
  };
  if (known.suspended)
    return asked().request(TenantRequest{tenant, TenantResumed{}, Actor{"admin"}}, expect<TenantId>(taken("resume")));
  if (!known.freezes.empty() && dice_.percent(70)) {
    auto [scope, connector] = known.freezes.begin()->first;
    ++lifts_;
    // Somebody else may have lifted it.
    return asked().request(TenantRequest{tenant, EffectsUnfrozen{scope, connector}, Actor{"admin"}},
                           expect<TenantId>([](const auto&) {}));
  }
  if (known.name != installation_tenant && dice_.percent(40)) {
    note([&] { return "suspend " + tenant.str(); });
    return asked().request(TenantRequest{tenant, TenantSuspended{"unpaid"}, Actor{"admin"}},
                           expect<TenantId>(taken("suspend")));
  }
  auto scope = dice_.one_of({FreezeScope::tenant, FreezeScope::installation});
  if (known.name == installation_tenant && dice_.percent(50)) scope = FreezeScope::everywhere;
  const std::string connector = dice_.one_of({"", "desk", "other"});
  note([&] { return "freeze " + std::string(to_string(scope)) + " " + connector + " of " + tenant.str(); });
  asked().request(TenantRequest{tenant, EffectsFrozen{scope, connector, "an incident"}, Actor{"admin"}},
                  expect<TenantId>(taken("freeze")));
}

void Simulation::lift_restrictions() {
  for (TenantId tenant : tenants_) {
    const Tenant known = *engine_->find_tenant(tenant);
    asked().request(TenantRequest{tenant, TenantResumed{}, Actor{"admin"}});
    ++lifts_;
    for (const auto& [what, freeze] : known.freezes)
      asked().request(TenantRequest{tenant, EffectsUnfrozen{what.first, what.second}, Actor{"admin"}});
  }
  flush();
}

}  // namespace pawl::simulator
