#include "api/tenant_object.h"

#include <boost/json/array.hpp>

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

template <class ValueOf>
object limits_object(ValueOf value_of) {
  object out;
  for (std::size_t i = 0; i < enum_count<Limit>; ++i) {
    std::optional<std::int64_t> value = value_of(static_cast<Limit>(i));
    out[enum_names<Limit>[i]] = value ? Json(*value) : Json(nullptr);
  }
  return out;
}

Json suspension_object(const Tenant& tenant) {
  if (!tenant.suspended) return nullptr;
  return object{{"since", print_time(tenant.suspended->since)}, {"reason", tenant.suspended->reason}};
}

}  // namespace

object tenant_object(const Tenant& tenant) {
  array workspaces;
  for (const auto& [name, weight] : tenant.workspaces)
    workspaces.push_back(object{{"name", name.text}, {"weight", weight}});
  return {{"id", tenant.id.str()},
          {"name", tenant.name},
          {"weight", tenant.weight},
          {"caps", limits_object([&](Limit limit) { return tenant.limits[limit]; })},
          {"ceiling", limits_object([&](Limit limit) { return tenant.ceiling[limit]; })},
          {"limits", limits_object([&](Limit limit) { return effective_limit(tenant, limit); })},
          {"suspended", suspension_object(tenant)},
          {"frozen", !tenant.freezes.empty()},
          {"workspaces", std::move(workspaces)}};
}

LimitsPatch read_limits_patch(const Input& input, bool as_a_whole) {
  LimitsPatch out;
  if (auto weight = input.number("weight", 1, weight_max)) out.weight = static_cast<int>(*weight);
  for (std::size_t i = 0; i < enum_count<Limit>; ++i) {
    const auto limit = static_cast<Limit>(i);
    auto value = input.number(to_string(limit), least(limit), most(limit));
    if (value || as_a_whole || input.is_null(to_string(limit))) out.limits.emplace_back(limit, value);
  }
  return out;
}

Reply<TenantId> reply_with_tenant(CallPtr call, int status) {
  return [call, status](std::expected<TenantId, Refusal> done) {
    if (!done) return call->answer(problem_of(done.error()));
    // Behind this answer, the directory knows what was just committed.
    call->api.answers().post(call->who.tenant, [call, status, id = *done] {
      call->answer(status, tenant_object(*call->api.tenants().find(id)));
    });
  };
}

}  // namespace pawl::api
