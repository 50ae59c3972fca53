// A change of a tenant's limits that names every limit.
#pragma once

#include <optional>

#include "core/tenant_command.h"

namespace pawl::tests {

// Sets those that are given, and lifts the others.
inline LimitsPatch replacing_all(const Limits& limits, std::optional<int> weight = {}) {
  LimitsPatch out{weight, {}};
  for (std::size_t i = 0; i < enum_count<Limit>; ++i) {
    const auto limit = static_cast<Limit>(i);
    out.limits.emplace_back(limit, limits[limit]);
  }
  return out;
}

}  // namespace pawl::tests
