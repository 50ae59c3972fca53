// What is asked of a tenant's configuration. decide() turns each command into events or a refusal; a repeat of what
// holds already gives neither.
#pragma once

#include <expected>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "core/decide.h"
#include "core/tenant.h"

namespace pawl {

// New values of some limits; an absent value lifts the limit. Limits that are not named stay as they are.
struct LimitsPatch {
  std::optional<int> weight;
  std::vector<std::pair<Limit, std::optional<std::int64_t>>> limits;
};

// By the tenant's own admins; refused when it would raise a limit above the ceiling.
struct ChangeLimits : LimitsPatch {};

// By the installation.
struct ChangeCeiling : LimitsPatch {};

// What src/evidence made of the journal. Refused when it does not follow what is recorded already: somebody else was
// faster, and the caller reads again.
struct RecordEvidence {
  std::variant<SigningKeySet, CheckpointMade, BundleStored> record;
};

// A command that changes one thing is the event that it asks for.
using TenantCommand = std::variant<ChangeLimits, ChangeCeiling, TenantSuspended, TenantResumed, EffectsFrozen,
                                   EffectsUnfrozen, WorkspaceSet, KeyCreated, KeyRevoked, PersonSet, PersonRemoved,
                                   WebhookSet, WebhookRemoved, WebhookDisabled, SlackSet, SlackRemoved, RecordEvidence>;

std::expected<std::optional<TenantPayload>, Refusal> decide(const Tenant& tenant, const TenantCommand& command,
                                                            Instant now);

}  // namespace pawl
