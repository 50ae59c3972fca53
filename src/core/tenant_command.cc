#include "core/tenant_command.h"

#include <string>
#include <string_view>

#include "core/characters.h"

namespace pawl {
namespace {

using Decided = std::expected<std::optional<TenantPayload>, Refusal>;

constexpr std::nullopt_t unchanged = std::nullopt;

std::unexpected<Refusal> invalid(std::string problem, std::string field = {}) {
  return std::unexpected(Refusal{RefusalCode::invalid, std::move(problem), std::move(field)});
}

std::unexpected<Refusal> missing(std::string_view what) {
  return std::unexpected(Refusal{RefusalCode::not_found, "there is no such " + std::string(what)});
}

std::unexpected<Refusal> wrong_weight() {
  return invalid("a weight lies between 1 and " + std::to_string(weight_max), "/weight");
}

bool is_valid_weight(int weight) { return weight >= 1 && weight <= weight_max; }

void change(Limits& limits, const LimitsPatch& changes) {
  for (const auto& [limit, value] : changes.limits) limits[limit] = value;
}

Decided decide_command(const Tenant& tenant, const ChangeLimits& command, Instant) {
  LimitsSet out{command.weight.value_or(tenant.weight), tenant.limits};
  change(out.limits, command);
  if (!is_valid_weight(out.weight)) return wrong_weight();
  // The installation's own tenant decides about its own ceiling.
  if (auto problem = ceiling_problem(tenant, out); problem && tenant.name != installation_tenant)
    return std::unexpected(Refusal{RefusalCode::above_ceiling, std::move(*problem)});
  return out;
}

Decided decide_command(const Tenant& tenant, const ChangeCeiling& command, Instant) {
  CeilingSet out{command.weight, tenant.ceiling};
  change(out.limits, command);
  if (out.weight && !is_valid_weight(*out.weight)) return wrong_weight();
  return out;
}

Decided decide_command(const Tenant& tenant, const TenantSuspended& command, Instant) {
  if (tenant.name == installation_tenant)
    return invalid("the tenant default is the installation's own and cannot be suspended");
  if (auto problem = reason_problem(command.reason)) return invalid(std::move(*problem), "/reason");
  if (tenant.suspended) return unchanged;
  return command;
}

Decided decide_command(const Tenant& tenant, const TenantResumed& command, Instant) {
  if (!tenant.suspended) return unchanged;
  return command;
}

std::optional<std::string> freeze_problem(const Tenant& tenant, const EffectsFrozen& freeze) {
  if (freeze.scope == FreezeScope::everywhere && tenant.name != installation_tenant)
    return "only the tenant default freezes effects everywhere";
  if (!freeze.connector.empty() &&
      (!is_valid_name(freeze.connector) || lower_case(freeze.connector) != freeze.connector))
    return "a connector's name is letters a-z in lower case, digits, . _ and -; actions with another one are refused";
  if (tenant.freezes.size() >= freezes_max) return "a tenant has at most " + std::to_string(freezes_max) + " freezes";
  return reason_problem(freeze.reason);
}

Decided decide_command(const Tenant& tenant, const EffectsFrozen& command, Instant) {
  if (tenant.freezes.contains({command.scope, command.connector})) return unchanged;
  if (auto problem = freeze_problem(tenant, command)) return invalid(std::move(*problem));
  return command;
}

Decided decide_command(const Tenant& tenant, const EffectsUnfrozen& command, Instant) {
  if (!tenant.freezes.contains({command.scope, command.connector})) return missing("freeze");
  return command;
}

Decided decide_command(const Tenant&, const WorkspaceSet& command, Instant) {
  if (!is_valid_weight(command.weight) || !is_valid_name(command.workspace.text))
    return invalid("a workspace has a name and a weight between 1 and " + std::to_string(weight_max));
  return command;
}

Decided decide_command(const Tenant& tenant, const KeyCreated& command, Instant) {
  if (!is_valid_name(command.name) || tenant.keys.contains(command.key))
    return invalid("a key's name is letters, digits, . _ and -", "/name");
  return command;
}

Decided decide_command(const Tenant& tenant, const KeyRevoked& command, Instant) {
  const auto found = tenant.keys.find(command.key);
  if (found == tenant.keys.end()) return missing("key");
  if (command.from >= found->second.expires_at) return unchanged;
  return command;
}

Decided decide_command(const Tenant& tenant, const PersonSet& command, Instant) {
  if (auto problem = person_problem(tenant, command)) return invalid(std::move(*problem));
  return command;
}

Decided decide_command(const Tenant& tenant, const PersonRemoved& command, Instant) {
  if (!tenant.people.contains(command.name)) return missing("person");
  return command;
}

Decided decide_command(const Tenant& tenant, const WebhookSet& command, Instant) {
  if (auto problem = webhook_problem(command)) return invalid(std::move(*problem));
  if (tenant.webhooks.size() >= webhooks_max && !tenant.webhooks.contains(command.name))
    return invalid("a tenant has at most " + std::to_string(webhooks_max) + " webhooks");
  return command;
}

Decided decide_command(const Tenant& tenant, const WebhookRemoved& command, Instant) {
  if (!tenant.webhooks.contains(command.name)) return missing("webhook");
  return command;
}

// One that is gone or disabled already needs nothing more.
Decided decide_command(const Tenant& tenant, const WebhookDisabled& command, Instant) {
  const auto found = tenant.webhooks.find(command.name);
  if (found == tenant.webhooks.end() || !found->second.is_enabled()) return unchanged;
  return command;
}

Decided decide_command(const Tenant&, const SlackSet& command, Instant) {
  if (auto problem = slack_problem(command)) return invalid(std::move(*problem));
  return command;
}

Decided decide_command(const Tenant& tenant, const SlackRemoved& command, Instant) {
  if (!tenant.slack) return missing("Slack channel");
  return command;
}

// Tried on a copy: what does not follow is refused and never appended.
Decided decide_command(const Tenant& tenant, const RecordEvidence& command, Instant now) {
  TenantPayload payload = std::visit([](const auto& each) -> TenantPayload { return each; }, command.record);
  Tenant tried = tenant;
  if (auto applied = evolve_checked(tried, {now, {}, payload}); !applied) return invalid(std::move(applied.error()));
  return payload;
}

}  // namespace

std::expected<std::optional<TenantPayload>, Refusal> decide(const Tenant& tenant, const TenantCommand& command,
                                                            Instant now) {
  return std::visit([&](const auto& each) { return decide_command(tenant, each, now); }, command);
}

}  // namespace pawl
