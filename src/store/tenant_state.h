// A tenant as bytes: its row's `state`. A cache of the tenant's own stream, like a run's snapshot.
//
//   state  := version(1 byte) name weight cap*3 workspaces workflows keys people policy webhooks slack seq
//   cap    := 0, or 1 + its value                     workspaces, workflows, keys := count, then that many entries
//   policy := version digest source                   slack := 0, or 1 and its members
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tenant.h"
#include "store/store.h"

namespace pawl {

std::string write_tenant(const Tenant& tenant);

// Nothing when the format is not this one's, or damaged: then the tenant is folded anew from its stream.
std::optional<Tenant> read_tenant(TenantId id, std::string_view bytes);

// Folds it from the lines of its stream; throws StoreFailure when they are damaged.
Tenant fold_tenant(TenantId id, std::string_view lines);

// What lines of a tenant's stream say of stored bundles, in their order. Lines that cannot be read are left out.
std::vector<BundleRow> stored_bundles(TenantId id, std::string_view lines);

}  // namespace pawl
