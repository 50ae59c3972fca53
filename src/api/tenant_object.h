// A tenant as the API shows it, and reading its limits from a request.
#pragma once

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <functional>

#include "api/api.h"

namespace pawl::api {

// What a request can name.
inline constexpr auto limit_keys = [] {
  std::array<std::string_view, enum_count<Limit> + 1> keys{"weight"};
  std::ranges::copy(enum_names<Limit>, keys.begin() + 1);
  return keys;
}();

boost::json::object tenant_object(const Tenant& tenant);

// What a request says of limits, for the tenant's own or for its ceiling. `as_a_whole`: one that is left out is lifted;
// otherwise it stays, and null lifts it.
LimitsPatch read_limits_patch(const Input& input, bool as_a_whole);

// Answers with the tenant as it is behind the commit.
Reply<TenantId> reply_with_tenant(CallPtr call, int status);

}  // namespace pawl::api
