// What the installation decides about tenants: ceilings, suspension; and freezing effects, which a tenant's admins can
// do for their own tenant too.
#include <algorithm>
#include <boost/json/array.hpp>
#include <set>

#include "api/api.h"
#include "api/tenant_object.h"
#include "core/notices.h"
#include "core/source_reader.h"
#include "tools/tool.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::string_view no_reason = "no reason was given";

std::shared_ptr<const Tenant> find_named(Call& call, std::string_view name) {
  auto all = call.api.tenants().all();
  auto found = std::ranges::find(all, name, [](const auto& tenant) -> std::string_view { return tenant->name; });
  return found == all.end() ? nullptr : *found;
}

// The tenant in the path, for the installation; its name says nothing to anybody else.
TenantId named_tenant(Call& call) {
  require_default_tenant(call);
  auto tenant = find_named(call, call.path[0]);
  if (!tenant) throw not_found();
  return tenant->id;
}

void get_named_tenant(CallPtr call) {
  call->query.only({});
  call->answer(200, tenant_object(*call->api.tenants().find(named_tenant(*call))));
}

// What is left out stays; null lifts a ceiling.
void change_ceiling(CallPtr call) {
  call->query.only({});
  TenantId tenant = named_tenant(*call);
  Input input = Input::parse(call->request);
  input.only(limit_keys);
  call->api.runtime().request(TenantRequest{tenant, ChangeCeiling{read_limits_patch(input, false)}, call->who.actor()},
                              reply_with_tenant(call, 200));
}

void suspend_tenant(CallPtr call) {
  call->query.only({});
  TenantId tenant = named_tenant(*call);
  Input input = Input::parse(call->request);
  input.only({"reason"});
  TenantSuspended suspended{input.text_or("reason", std::string(no_reason), reason_chars_max)};
  call->api.runtime().post_urgent([call, tenant, suspended](Engine& engine) {
    engine.request(TenantRequest{tenant, suspended, call->who.actor()}, reply_with_tenant(call, 200));
  });
}

void resume_tenant(CallPtr call) {
  call->query.only({});
  TenantId tenant = named_tenant(*call);
  Input::parse(call->request).only({});
  call->api.runtime().request(TenantRequest{tenant, TenantResumed{}, call->who.actor()}, reply_with_tenant(call, 200));
}

// ---- Freezes

object freeze_object(const Tenant& tenant, const Freezes::value_type& entry, bool is_for_installation) {
  const auto& [what, freeze] = entry;
  const auto& [scope, connector] = what;
  // Tenants do not learn which key of the installation it was.
  bool shows_actor = scope == FreezeScope::tenant || is_for_installation;
  return {{"scope", to_string(scope)},
          {"tenant", scope == FreezeScope::everywhere ? Json(nullptr) : Json(tenant.name)},
          {"connector", connector.empty() ? Json(nullptr) : Json(connector)},
          {"since", print_time(freeze.since)},
          {"by", shows_actor ? freeze.by.text : std::string("the installation")},
          {"reason", freeze.reason}};
}

array freezes_for(Call& call) {
  const bool is_installation = call.who.tenant_name == installation_tenant;
  array out;
  for (const auto& tenant : call.api.tenants().all())
    for (const auto& entry : tenant->freezes)
      if (is_installation || tenant->id == call.who.tenant || entry.first.first == FreezeScope::everywhere)
        out.push_back(freeze_object(*tenant, entry, is_installation));
  return out;
}

object freezes_object(Call& call, const std::optional<std::string>& warning = {}) {
  return {{"items", freezes_for(call)}, {"warning", warning ? Json(*warning) : Json(nullptr)}};
}

void list_freezes(CallPtr call) {
  call->query.only({});
  call->answer(200, freezes_object(*call));
}

// Of tools that may have effects; remote workers may have others, under names of their own.
std::set<std::string> known_connectors(const ToolCatalog& tools) {
  std::set<std::string> out;
  for (const ToolSpec& spec : tools.all())
    if (spec.writes != ToolSpec::Writes::never && !is_reserved_name(spec.name.text))
      out.insert(connector_of(spec.name));
  return out;
}

// A slip of the pen would freeze nothing, and say nothing.
std::optional<std::string> freeze_warning(const ToolCatalog& tools, const std::string& connector) {
  const auto known = known_connectors(tools);
  if (connector.empty() || known.contains(connector.substr(0, connector.find('.')))) return std::nullopt;
  const std::vector<std::string_view> names(known.begin(), known.end());
  return "No tool of this server has the connector " + quote(connector) +
         ": the freeze holds only for remote workers that propose actions under this name. This server has " +
         list_words(names, "and") + ".";
}

struct FreezeTarget {
  TenantId tenant;
  FreezeScope scope = FreezeScope::tenant;
  std::string connector;
};

// The installation freezes everywhere, or one tenant; a tenant's admins freeze their own.
FreezeTarget target_of(Call& call, const Input& input) {
  FreezeTarget out{.tenant = call.who.tenant, .connector = input.has("connector") ? input.name("connector") : ""};
  if (call.who.tenant_name == installation_tenant) {
    out.scope = FreezeScope::everywhere;
    if (!input.has("tenant")) return out;
    auto tenant = find_named(call, input.text("tenant"));
    if (!tenant)
      throw Problem{
          .status = 422, .code = "UNKNOWN_TENANT", .detail = "There is no tenant of this name.", .where = "/tenant"};
    return {tenant->id, FreezeScope::installation, std::move(out.connector)};
  }
  if (input.has("tenant") && input.text("tenant") != call.who.tenant_name) require_default_tenant(call);
  return out;
}

Reply<TenantId> reply_with_freezes(CallPtr call, std::optional<std::string> warning = {}) {
  return [call, warning = std::move(warning)](std::expected<TenantId, Refusal> done) {
    if (!done) return call->answer(problem_of(done.error()));
    call->api.answers().post(call->who.tenant, [call, warning] { call->answer(200, freezes_object(*call, warning)); });
  };
}

// Before everything that waits: what was proposed earlier and is not decided yet must not happen either.
void freeze_effects(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"tenant", "connector", "reason"});
  auto [tenant, scope, connector] = target_of(*call, input);
  EffectsFrozen frozen{scope, connector, input.text_or("reason", std::string(no_reason), reason_chars_max)};
  call->api.runtime().post_urgent([call, tenant, frozen](Engine& engine) {
    auto warning = freeze_warning(engine.tools(), frozen.connector);
    engine.request(TenantRequest{tenant, frozen, call->who.actor()}, reply_with_freezes(call, std::move(warning)));
  });
}

void unfreeze_effects(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"tenant", "connector"});
  auto [tenant, scope, connector] = target_of(*call, input);
  call->api.runtime().post([call, tenant, lifted = EffectsUnfrozen{scope, connector}](Engine& engine) {
    engine.request(TenantRequest{tenant, lifted, call->who.actor()}, reply_with_freezes(call));
  });
}

}  // namespace

std::vector<Route> installation_routes() {
  using enum Method;
  using enum Access;
  return {
      {get, "/tenants/{name}", admin, get_named_tenant, "One tenant (admins of the tenant default)"},
      {patch, "/tenants/{name}", admin, change_ceiling, "Set a tenant's ceiling (admins of the tenant default)"},
      {post, "/tenants/{name}/suspend", admin, suspend_tenant, "Suspend a tenant (admins of the tenant default)"},
      {post, "/tenants/{name}/resume", admin, resume_tenant,
       "Resume a suspended tenant (admins of the tenant default)"},
      {get, "/freezes", viewer, list_freezes, "What is frozen for this tenant"},
      {post, "/freeze", admin, freeze_effects, "Deny all effects until this is lifted"},
      {post, "/unfreeze", admin, unfreeze_effects, "Lift a freeze"},
  };
}

}  // namespace pawl::api
