#include <boost/json/array.hpp>

#include "api/api.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

Json cap(const std::optional<int>& value) { return value ? Json(*value) : Json(nullptr); }

object tenant_object(const Tenant& tenant) {
  array workspaces;
  for (const auto& [name, weight] : tenant.workspaces)
    workspaces.push_back(object{{"name", name.text}, {"weight", weight}});
  return {{"id", tenant.id.str()},
          {"name", tenant.name},
          {"weight", tenant.weight},
          {"caps", object{{"max_concurrency", cap(tenant.caps.max_concurrency)},
                          {"max_runs_per_min", cap(tenant.caps.max_runs_per_min)},
                          {"max_writes_per_run", cap(tenant.caps.max_writes_per_run)}}},
          {"workspaces", std::move(workspaces)}};
}

object key_object(KeyId id, const Tenant::Key& key, Instant now) {
  return {{"id", id.str()},
          {"name", key.name},
          {"role", to_string(key.role)},
          {"created_at", print_time(key.created_at)},
          {"created_by", key.created_by.text},
          {"expires_at", key.expires_at == end_of_time ? Json(nullptr) : Json(print_time(key.expires_at))},
          {"active", key.expires_at > now}};
}

Reply<TenantId> reply_with_tenant(CallPtr call, int status) {
  return [call, status](std::expected<TenantId, Refusal> done) {
    if (!done) return call->answer(problem_of(done.error()));
    // Behind this answer, the directory knows what was just committed.
    call->api.background().post([call, status, id = *done] {
      call->answer(status, tenant_object(*call->api.tenants().find(id)));
    });
  };
}

void get_tenant(CallPtr call) {
  call->query.only({});
  call->answer(200, tenant_object(*call->api.tenants().find(call->who.tenant)));
}

void set_caps(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"weight", "max_concurrency", "max_runs_per_min", "max_writes_per_run"});
  LimitsSet limits;
  auto tenant = call->api.tenants().find(call->who.tenant);
  limits.weight = static_cast<int>(input.number("weight", 1, weight_max).value_or(tenant->weight));
  auto read = [&](std::string_view key) -> std::optional<int> {
    auto value = input.number(key, 1, 1'000'000'000);
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
  };
  limits.caps = {read("max_concurrency"), read("max_runs_per_min"), read("max_writes_per_run")};
  call->api.runtime().post([call, limits](Engine& engine) {
    engine.set_limits(call->who.tenant, limits, call->who.actor(), reply_with_tenant(call, 200));
  });
}

void set_workspace(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"weight"});
  WorkspaceSet workspace{WorkspaceName{call->path[0]}, static_cast<int>(input.number("weight", 1, weight_max).value_or(1))};
  call->api.runtime().post([call, workspace](Engine& engine) {
    engine.set_workspace(call->who.tenant, workspace, call->who.actor(), reply_with_tenant(call, 200));
  });
}

void list_workspaces(CallPtr call) {
  call->query.only({});
  auto tenant = tenant_object(*call->api.tenants().find(call->who.tenant));
  call->answer(200, object{{"items", tenant.at("workspaces")}, {"next_cursor", nullptr}});
}

void list_tenants(CallPtr call) {
  call->query.only({});
  require_house(*call);
  array items;
  for (const auto& tenant : call->api.tenants().all()) items.push_back(tenant_object(*tenant));
  call->answer(200, object{{"items", std::move(items)}, {"next_cursor", nullptr}});
}

void create_tenant(CallPtr call) {
  call->query.only({});
  require_house(*call);
  Input input = Input::parse(call->request);
  input.only({"name"});
  std::string name = input.name("name");
  call->api.runtime().post([call, name](Engine& engine) {
    int status = engine.find_tenant(name) ? 200 : 201;
    engine.create_tenant(name, call->who.actor(), reply_with_tenant(call, status));
  });
}

// Makes a key for `tenant`, and shows its text this once.
void make_key(CallPtr call, TenantId tenant, const std::string& name, Role role, std::optional<Duration> lifetime,
              std::optional<KeyRevoked> replaces) {
  Instant now = call->api.clock().now();
  NewKey made = call->api.keys().make(now);
  KeyCreated created{made.id, name, role, made.secret_hash, lifetime ? now + *lifetime : end_of_time};
  call->api.runtime().post([call, tenant, made, created, replaces](Engine& engine) {
    engine.create_key(tenant, created, call->who.actor(), [call, made, created](std::expected<TenantId, Refusal> done) {
      if (!done) return call->answer(problem_of(done.error()));
      call->answer(201, object{{"id", made.id.str()},
                               {"key", made.text},
                               {"name", created.name},
                               {"role", to_string(created.role)},
                               {"expires_at", created.expires_at == end_of_time ? Json(nullptr)
                                                                                : Json(print_time(created.expires_at))}});
    });
    if (replaces) engine.revoke_key(tenant, *replaces, call->who.actor(), {});
  });
}

void create_key(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"name", "role", "expires_in", "tenant"});
  auto role = input.word<Role>("role");
  if (!role) input.refuse("role", "is missing: admin, operator, approver, worker or viewer");
  TenantId tenant = call->who.tenant;
  if (input.has("tenant") && input.text("tenant") != call->who.tenant_name) {
    require_house(*call);
    bool found = false;
    for (const auto& known : call->api.tenants().all())
      if (known->name == input.text("tenant")) {
        tenant = known->id;
        found = true;
      }
    if (!found) input.refuse("tenant", "is no tenant's name");
  }
  make_key(call, tenant, input.has("name") ? input.name("name") : std::string(to_string(*role)), *role,
           input.duration("expires_in"), std::nullopt);
}

const Tenant::Key& find_key(const Tenant& tenant, const Call& call, KeyId& id) {
  auto parsed = KeyId::parse(call.path[0]);
  auto found = parsed ? tenant.keys.find(*parsed) : tenant.keys.end();
  if (found == tenant.keys.end()) throw not_found();
  id = found->first;
  return found->second;
}

void list_keys(CallPtr call) {
  call->query.only({});
  array items;
  Instant now = call->api.clock().now();
  auto tenant = call->api.tenants().find(call->who.tenant);
  for (const auto& [id, key] : tenant->keys) items.push_back(key_object(id, key, now));
  call->answer(200, object{{"items", std::move(items)}, {"next_cursor", nullptr}});
}

void revoke_key(CallPtr call) {
  call->query.only({});
  auto tenant = call->api.tenants().find(call->who.tenant);
  KeyId id;
  find_key(*tenant, *call, id);
  call->api.runtime().post([call, id](Engine& engine) {
    KeyRevoked revoked{id, call->api.clock().now()};
    engine.revoke_key(call->who.tenant, revoked, call->who.actor(), [call, id](std::expected<TenantId, Refusal> done) {
      if (!done) return call->answer(problem_of(done.error()));
      call->api.background().post([call, id] {
        auto now_known = call->api.tenants().find(call->who.tenant);
        call->answer(200, key_object(id, now_known->keys.at(id), call->api.clock().now()));
      });
    });
  });
}

void rotate_key(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"overlap", "expires_in"});
  auto tenant = call->api.tenants().find(call->who.tenant);
  KeyId id;
  const Tenant::Key& key = find_key(*tenant, *call, id);
  Instant from = call->api.clock().now() + input.duration("overlap").value_or(std::chrono::hours(1));
  make_key(call, call->who.tenant, key.name, key.role, input.duration("expires_in"), KeyRevoked{id, from});
}

}  // namespace

std::vector<Route> tenant_routes() {
  using enum Method;
  using enum Access;
  return {
      {get, "/tenant", viewer, get_tenant, "The tenant of this key: weight, caps, workspaces"},
      {put, "/tenant/caps", admin, set_caps, "Set the tenant's weight and caps"},
      {get, "/workspaces", viewer, list_workspaces, "The workspaces that have a weight"},
      {put, "/workspaces/{name}", admin, set_workspace, "Give a workspace its weight"},
      {get, "/tenants", admin, list_tenants, "All tenants (admins of the tenant default)"},
      {post, "/tenants", admin, create_tenant, "Make a tenant (admins of the tenant default)"},
      {get, "/keys", admin, list_keys, "The API keys, without their secrets"},
      {post, "/keys", admin, create_key, "Make a key; its text is shown this once"},
      {post, "/keys/{id}/rotate", admin, rotate_key, "Replace a key; both are good for a while"},
      {delete_, "/keys/{id}", admin, revoke_key, "Revoke a key at once"},
  };
}

}  // namespace pawl::api
