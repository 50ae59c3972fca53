#include <algorithm>

#include "api/api.h"
#include "api/tenant_object.h"

namespace pawl::api {
namespace {

using boost::json::object;

Json expiry(Instant at) { return at == end_of_time ? Json(nullptr) : Json(print_time(at)); }

object key_object(KeyId id, const Tenant::Key& key, Instant now) {
  return {{"id", id.str()},
          {"name", key.name},
          {"role", to_string(key.role)},
          {"created_at", print_time(key.created_at)},
          {"created_by", key.created_by.text},
          {"expires_at", expiry(key.expires_at)},
          {"active", key.expires_at > now}};
}

void get_tenant(CallPtr call) {
  call->query.only({});
  call->answer(200, tenant_object(*call->api.tenants().find(call->who.tenant)));
}

// What the caps are, and what they do.
void get_caps(CallPtr call) {
  call->query.only({});
  call->api.runtime().post([call](Engine& engine) {
    TenantId id = call->who.tenant;
    const Scheduler& scheduler = engine.scheduler();
    object load{{"running", scheduler.running(id)}, {"queued", scheduler.queued(id)}};
    HeldBack held = scheduler.held_back(id);
    load["held_back"] = object{{"max_concurrency", held.max_concurrency},
                               {"max_runs_per_min", held.max_runs_per_min},
                               {"max_writes_per_run", held.max_writes_per_run}};
    call->api.answers().post(call->who.tenant, [call, load = std::move(load)] {
      object out = tenant_object(*call->api.tenants().find(call->who.tenant));
      out.erase("id");
      out.erase("name");
      for (const auto& [key, value] : load) out[key] = value;
      call->answer(200, out);
    });
  });
}

// PUT sets the caps as a whole; PATCH leaves what it does not name, and lifts what it names null. The weight stays
// unless it is given.
void change_caps(CallPtr call, bool as_a_whole) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only(limit_keys);
  call->api.runtime().request(
      TenantRequest{call->who.tenant, ChangeLimits{read_limits_patch(input, as_a_whole)}, call->who.actor()},
      reply_with_tenant(call, 200));
}

void set_workspace(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"weight"});
  if (!is_valid_name(call->path[0])) refuse_input("name", std::string(name_rule));
  WorkspaceSet workspace{WorkspaceName{call->path[0]},
                         static_cast<int>(input.number("weight", 1, weight_max).value_or(1))};
  call->api.runtime().post([call, workspace](Engine& engine) {
    engine.request(TenantRequest{call->who.tenant, workspace, call->who.actor()}, reply_with_tenant(call, 200));
  });
}

void list_workspaces(CallPtr call) {
  call->query.only({"limit", "cursor"});
  auto tenant = call->api.tenants().find(call->who.tenant);
  answer_page(
      *call, tenant->workspaces, [](const auto& each) { return each.first.text; }, is_valid_name,
      [](const auto& each) {
        return object{{"name", each.first.text}, {"weight", each.second}};
      });
}

void list_tenants(CallPtr call) {
  call->query.only({"limit", "cursor"});
  require_default_tenant(*call);
  answer_page(
      *call, call->api.tenants().all(), [](const auto& tenant) { return tenant->id.str(); },
      [](std::string_view text) { return TenantId::parse(text).has_value(); },
      [](const auto& tenant) { return tenant_object(*tenant); });
}

void create_tenant(CallPtr call) {
  call->query.only({});
  require_default_tenant(*call);
  Input input = Input::parse(call->request);
  input.only({"name"});
  std::string name = input.name("name");
  call->api.runtime().post([call, name](Engine& engine) {
    int status = engine.find_tenant(name) ? 200 : 201;
    engine.request(CreateTenant{name, call->who.actor()}, reply_with_tenant(call, status));
  });
}

struct KeyRequest {
  TenantId tenant;
  std::string name;
  Role role = Role::viewer;
  std::optional<Duration> lifetime;
  std::optional<KeyId> replaces = {};
  Duration overlap = {};
  std::string content;  // what makes another request with the same Idempotency-Key another request
};

// What the request comes to in the tenant as it is now.
std::expected<KeyCreated, Problem> decide_key(const KeyRequest& request, const Tenant& tenant, const NewKey& made,
                                              Instant now) {
  KeyCreated out{made.id,
                 request.name,
                 request.role,
                 made.secret_hash,
                 request.lifetime ? now + *request.lifetime : end_of_time,
                 made.secret_id};
  if (!request.replaces) return out;
  const Tenant::Key& old = tenant.keys.at(*request.replaces);
  if (old.revoked || old.expires_at <= now)
    return std::unexpected(Problem{
        .status = 409,
        .code = "KEY_NOT_ACTIVE",
        .detail = "This key was replaced or revoked, or its time is over. Rotate its successor, or make a new key."});
  out.name = old.name;
  out.role = old.role;
  if (!request.lifetime) out.expires_at = old.expires_at;
  return out;
}

void answer_repeated_key(Engine& engine, CallPtr call, const NewKey& made, KeyId id, const Tenant::Key& key) {
  bool same = id == made.id;
  engine.when_durable([call, same, id, key] {
    if (!same)
      return call->answer(
          problem_of(Refusal{RefusalCode::idempotency_conflict,
                             "this Idempotency-Key was used for another request, which made " + id.str()}));
    call->answer(200, key_object(id, key, call->api.clock().now()), {{"Idempotency-Replayed", "true"}});
  });
}

// Makes a key, and shows its text this once: not even a repeat of the request is shown it again.
void make_key(CallPtr call, KeyRequest request) {
  Instant now = call->api.clock().now();
  auto name = idempotency_key(call->request);
  NewKey made =
      name ? call->api.keys().make(call->who.key.str() + "/" + *name, request.content) : call->api.keys().make(now);
  call->api.runtime().post(
      [call, request = std::move(request), made, now, repeatable = name.has_value()](Engine& engine) {
        const Tenant& tenant = *engine.find_tenant(request.tenant);
        auto known = tenant.keys.lower_bound(KeyId{{made.id.bits.high, 0}});
        if (repeatable && known != tenant.keys.end() && known->first.bits.high == made.id.bits.high)
          return answer_repeated_key(engine, call, made, known->first, known->second);
        auto created = decide_key(request, tenant, made, now);
        if (!created) return engine.when_durable([call, problem = created.error()] { call->answer(problem); });
        engine.request(TenantRequest{request.tenant, *created, call->who.actor()},
                       [call, made, key = *created](std::expected<TenantId, Refusal> done) {
                         if (!done) return call->answer(problem_of(done.error()));
                         call->answer(201, object{{"id", made.id.str()},
                                                  {"key", made.text},
                                                  {"name", key.name},
                                                  {"role", to_string(key.role)},
                                                  {"expires_at", expiry(key.expires_at)}});
                       });
        if (request.replaces)
          engine.request(
              TenantRequest{request.tenant, KeyRevoked{*request.replaces, now + request.overlap}, call->who.actor()});
      });
}

void create_key(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"name", "role", "expires_in", "tenant"});
  auto role = input.word<Role>("role");
  if (!role) input.refuse("role", "is missing: admin, operator, approver, worker, viewer or metrics");
  KeyRequest request{.tenant = call->who.tenant,
                     .name = input.has("name") ? input.name("name") : std::string(to_string(*role)),
                     .role = *role,
                     .lifetime = input.positive_duration("expires_in"),
                     .content = input.canonical_text()};
  if (input.has("tenant") && input.text("tenant") != call->who.tenant_name) {
    require_default_tenant(*call);
    auto all = call->api.tenants().all();
    auto found = std::ranges::find(all, input.text("tenant"), [](const auto& tenant) { return tenant->name; });
    if (found == all.end())
      throw Problem{
          .status = 422, .code = "UNKNOWN_TENANT", .detail = "There is no tenant of this name.", .where = "/tenant"};
    request.tenant = (*found)->id;
  }
  const bool is_installation =
      !input.has("tenant") ? call->who.tenant_name == installation_tenant : input.text("tenant") == installation_tenant;
  if (*role == Role::metrics && !is_installation)
    input.refuse(
        "role",
        "must not be metrics: only the tenant \"default\" has keys for metrics, which are figures of the whole "
        "server");
  make_key(call, std::move(request));
}

const Tenant::Key& find_key(const Tenant& tenant, const Call& call, KeyId& id) {
  auto parsed = KeyId::parse(call.path[0]);
  auto found = parsed ? tenant.keys.find(*parsed) : tenant.keys.end();
  if (found == tenant.keys.end()) throw not_found();
  id = found->first;
  return found->second;
}

void list_keys(CallPtr call) {
  call->query.only({"limit", "cursor"});
  Instant now = call->api.clock().now();
  auto tenant = call->api.tenants().find(call->who.tenant);
  answer_page(
      *call, tenant->keys, [](const auto& each) { return each.first.str(); },
      [](std::string_view text) { return KeyId::parse(text).has_value(); },
      [now](const auto& each) { return key_object(each.first, each.second, now); });
}

void revoke_key(CallPtr call) {
  call->query.only({});
  auto tenant = call->api.tenants().find(call->who.tenant);
  KeyId id;
  find_key(*tenant, *call, id);
  call->api.runtime().post([call, id](Engine& engine) {
    KeyRevoked revoked{id, call->api.clock().now()};
    engine.request(TenantRequest{call->who.tenant, revoked, call->who.actor()},
                   [call, id](std::expected<TenantId, Refusal> done) {
                     if (!done) return call->answer(problem_of(done.error()));
                     call->api.answers().post(call->who.tenant, [call, id] {
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
  KeyId id;
  find_key(*call->api.tenants().find(call->who.tenant), *call, id);
  make_key(call, {.tenant = call->who.tenant,
                  .lifetime = input.positive_duration("expires_in"),
                  .replaces = id,
                  .overlap = input.duration("overlap").value_or(std::chrono::hours(1)),
                  .content = "rotate " + id.str() + " " + input.canonical_text()});
}

}  // namespace

std::vector<Route> tenant_routes() {
  using enum Method;
  using enum Access;
  return {
      {get, "/tenant", viewer, get_tenant, "The tenant of this key: weight, caps, workspaces"},
      {get, "/tenant/caps", viewer, get_caps, "The tenant's caps, and what they have held back"},
      {put, "/tenant/caps", admin, [](CallPtr call) { change_caps(std::move(call), true); }, "Set the tenant's caps"},
      {patch, "/tenant/caps", admin, [](CallPtr call) { change_caps(std::move(call), false); },
       "Change some of the caps"},
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
