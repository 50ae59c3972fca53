// What the journal remembers about policies: every version of them, and the actions that they were asked about.
#pragma once

#include <boost/json/object.hpp>
#include <optional>
#include <string>
#include <vector>

#include "govern/policy_trial.h"
#include "store/store.h"

namespace pawl {

struct PolicyVersion {
  int version = 0;  // 0: the one that pawl brings along, published by nobody
  std::string digest;
  std::string source;
  Instant published_at;
  Actor published_by;
};

struct PolicyPage {
  int before = INT32_MAX;  // of these versions
  std::size_t limit = 50;
};
// Newest first. Reads the tenant's stream backwards, a piece at a time, until there are enough.
std::vector<PolicyVersion> policy_versions(Store& store, TenantId tenant, PolicyPage page = {});
// This one; absent when there is none.
std::optional<PolicyVersion> find_policy_version(Store& store, TenantId tenant, int version);
// {version, digest, published_at, published_by} and source, if that is wanted.
boost::json::object policy_object(const PolicyVersion& version, bool with_source);

struct RecordedActions {
  std::vector<ProposedAction> actions;  // those of the newest runs first
  bool is_all = true;                   // there may be more in older runs
};

inline constexpr std::size_t recorded_runs_max = 1000;  // that are looked into

// At most `limit` of them; one that was decided on several times in its run counts once, with what was said first. The
// tables must be fresh.
RecordedActions recorded_actions(Store& store, TenantId tenant, std::size_t limit);
// try_policy() with these, and `is_all`.
boost::json::object try_policy(Policy& draft, const Tenant& tenant, const RecordedActions& recorded);

}  // namespace pawl
