// What a tenant may use: its limits, the ceiling above them, whether it is suspended, and which effects are frozen. All
// of it is configuration, so events of the tenant's stream.
//
// The installation (admins of the tenant `default`) sets the ceiling. A tenant's own admins set its own limits. What
// holds is the lower of the two, so a tenant can lower a limit and never raise one above its ceiling.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/id.h"
#include "core/names.h"
#include "core/time.h"
#include "core/workflow.h"

namespace pawl {

enum class Limit {
  max_concurrency,      // steps running at once
  max_runs_per_min,     // starts in any 60 seconds
  max_writes_per_run,   // steps of one run that may write
  max_stored_bytes,     // of the tenant's journal; once reached, no new run or task begins
  max_connections,      // open connections of the tenant's keys
  max_feed_streams,     // open feeds and long polls
  max_requests_per_min  // requests of the tenant's keys
};
template <>
inline constexpr std::array enum_names<Limit>{
    std::string_view("max_concurrency"),     std::string_view("max_runs_per_min"),
    std::string_view("max_writes_per_run"),  std::string_view("max_stored_bytes"),
    std::string_view("max_connections"),     std::string_view("max_feed_streams"),
    std::string_view("max_requests_per_min")};

inline constexpr std::int64_t limit_max = 1'000'000'000;
inline constexpr std::int64_t stored_bytes_limit_max = std::int64_t{1} << 50;

// The smallest value that makes sense. A tenant that may write nothing only reads; a tenant that may run nothing should
// be suspended instead.
constexpr std::int64_t least(Limit limit) { return limit == Limit::max_writes_per_run ? 0 : 1; }
constexpr std::int64_t most(Limit limit) {
  return limit == Limit::max_stored_bytes ? stored_bytes_limit_max : limit_max;
}

// A value for each limit; absent: no limit.
struct Limits {
  Limits() = default;
  Limits(const Caps& caps);

  std::optional<std::int64_t>& operator[](Limit limit) { return values[static_cast<std::size_t>(limit)]; }
  const std::optional<std::int64_t>& operator[](Limit limit) const { return values[static_cast<std::size_t>(limit)]; }
  friend bool operator==(const Limits&, const Limits&) = default;

 private:
  std::array<std::optional<std::int64_t>, enum_count<Limit>> values;
};

// The lower of the two, where there is one.
std::optional<std::int64_t> lower_of(const std::optional<std::int64_t>& a, const std::optional<std::int64_t>& b);

// ---- Events

// The tenant's share of the scheduler's turns, and its own limits.
struct LimitsSet {
  int weight = 1;
  Limits limits;
};

// What the installation lets the tenant have. A weight that is given is the tenant's from now on, and its highest.
struct CeilingSet {
  std::optional<int> weight;
  Limits limits;
};

// From now on its keys are refused and nothing of it begins.
struct TenantSuspended {
  std::string reason;
};

struct TenantResumed {};

// Who froze, which is who can lift it, and whose effects.
enum class FreezeScope {
  tenant,        // the tenant's own admins, its effects
  installation,  // the installation, this tenant's effects
  everywhere     // the installation, everybody's; stands in the stream of `default`
};
template <>
inline constexpr std::array enum_names<FreezeScope>{std::string_view("tenant"), std::string_view("installation"),
                                                    std::string_view("everywhere")};

// All effects, or those of one connector, are denied until this is lifted.
struct EffectsFrozen {
  FreezeScope scope = FreezeScope::tenant;
  std::string connector;  // empty: all; `x` is also `x.y`
  std::string reason;
};

struct EffectsUnfrozen {
  FreezeScope scope = FreezeScope::tenant;
  std::string connector;
};

// The tenant's streams have grown by so much since the last one of these, as the server that says so counted. What
// servers count adds up.
struct StorageCounted {
  std::int64_t grown_bytes = 0;
};
// How far they grow before it is said: what is counted is right to so much for each server and each of its starts.
inline constexpr std::int64_t storage_count_bytes = 1 << 20;

// ---- State

// A suspension, or a freeze: who, since when, why.
struct Restriction {
  Instant since;
  Actor by;
  std::string reason;
  friend bool operator==(const Restriction&, const Restriction&) = default;
};

// By scope and connector.
using Freezes = std::map<std::pair<FreezeScope, std::string>, Restriction>;

inline constexpr std::size_t freezes_max = 100;  // of one tenant
inline constexpr std::size_t reason_chars_max = 500;

// Of a suspension or a freeze: why it cannot be so; nothing when it can.
std::optional<std::string> reason_problem(std::string_view reason);

// Why the connector's effects are denied: "effects are frozen by ... since ...: ...". `everywhere`: the freezes of the
// tenant `default`, of which those with that scope count.
std::optional<std::string> frozen_reason(const Freezes& own, const Freezes& everywhere, std::string_view connector);

}  // namespace pawl
