#include "api/api.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <iterator>

#include "api/lease_id.h"
#include "api/openapi.h"
#include "evidence/bundle.h"

namespace pawl::api {
namespace {

constexpr std::string_view optional_prefix = "/api";
constexpr std::string_view bearer = "Bearer ";
constexpr auto slow_request = std::chrono::seconds(1);
// Requests without a key that wait for their answer; they cost little, and anybody can send them.
constexpr std::size_t in_flight_without_key_max = 512;
// What one tenant may have under way: times what is free.
constexpr std::size_t in_flight_share = 3;

std::vector<std::string_view> segments(std::string_view path) {
  std::vector<std::string_view> out;
  while (!path.empty()) {
    path.remove_prefix(1);
    std::string_view segment = path.substr(0, path.find('/'));
    out.push_back(segment);
    path.remove_prefix(segment.size());
  }
  return out;
}

std::string_view name_of(Method method) {
  switch (method) {
    case Method::get:
      return "GET";
    case Method::head:
      return "HEAD";
    case Method::post:
      return "POST";
    case Method::put:
      return "PUT";
    case Method::patch:
      return "PATCH";
    case Method::delete_:
      return "DELETE";
    case Method::options:
      return "OPTIONS";
  }
  return "";
}

// What a route for this method answers to.
std::string_view names_of(Method method) { return method == Method::get ? "GET, HEAD" : name_of(method); }

bool is_variable(std::string_view segment) { return segment.starts_with('{'); }

// The scheme's name, in whatever case.
bool starts_with_word(std::string_view text, std::string_view word) {
  return text.size() >= word.size() && std::ranges::equal(text.substr(0, word.size()), word, [](char a, char b) {
           auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
           return lower(a) == lower(b);
         });
}

Problem unauthorized() {
  return {.status = 401,
          .code = "UNAUTHORIZED",
          .detail = "Send a key that is known here and has not expired: Authorization: Bearer pawl_...",
          .where = "authorization",
          .headers = {{"WWW-Authenticate", "Bearer"}}};
}

Problem tenant_suspended() {
  return {.status = 403,
          .code = "TENANT_SUSPENDED",
          .detail =
              "The installation has suspended the tenant of this key. Nothing is lost; ask those who run the "
              "server."};
}

Problem no_such_path() {
  return {.status = 404, .code = "NOT_FOUND", .detail = "There is no such path; /openapi.json lists those there are."};
}

Problem no_body_here() {
  return {.status = 400,
          .code = "INVALID_REQUEST",
          .detail = "This request takes no body; what it can be told stands in the path and the query."};
}

// What went wrong is for those who run the server; whoever asked can name the request to them.
Problem internal(Call& call, const std::exception& error) {
  call.api.log().error("an exception ended a request", {{"what", error.what()}, {"request_id", call.request.id}});
  return {.status = 500,
          .code = "INTERNAL",
          .detail = "This went wrong on the server; its log says why, under this request's X-Request-Id."};
}

// A lease's key opens the doors of its own lease, and none else.
bool is_of_lease(const Route& route, const std::vector<std::string>& path, const LeaseBinding& lease) {
  const auto is = [&](Method method, std::string_view pattern) {
    return route.method == method && route.pattern == pattern;
  };
  if (route.pattern.starts_with("/leases/{id}/")) return path[0] == lease_id(lease.run, lease.step);
  if (is(Method::get, "/runs/{id}")) return path[0] == lease.run.str();
  if (is(Method::get, "/tasks/{id}")) return !lease.task.empty();  // which one is seen to in begin()
  if (is(Method::post, "/tasks")) return !lease.task.empty();
  return is(Method::post, "/mcp");
}

Problem not_of_lease() {
  return {.status = 403,
          .code = "FORBIDDEN",
          .detail = "This key belongs to one lease and cannot be used for other objects."};
}

Problem overloaded() {
  return {.status = 503,
          .code = "OVERLOADED",
          .detail = "More requests are waiting than can be served soon. Try again in a moment.",
          .headers = {{"Retry-After", "1"}}};
}

void in_background(Background& threads, CallPtr call, std::move_only_function<void(Call&)> work) {
  Background::Work todo = [call, work = std::move(work)]() mutable {
    try {
      work(*call);
    } catch (const Problem& problem) {
      call->answer(problem);
    } catch (const std::exception& error) {  // a table that cannot be read; commits go on, or stop by themselves
      call->answer(call->api.is_store_away() ? store_away() : internal(*call, error));
    }
  };
  if (threads.offer(call->who.tenant, todo)) return;
  // Of those without a key nobody is to blame.
  if (call->route.access == Access::open) return call->answer(overloaded());
  call->answer(tenant_limit("Too many requests of this tenant wait for their turn. Send fewer at a time."));
}

}  // namespace

Problem store_away() {
  return {.status = 503,
          .code = "STORE_AWAY",
          .detail = "The database cannot be reached just now.",
          .headers = {{"Retry-After", "1"}}};
}

bool may(Role role, Access access) {
  if (role == Role::metrics) return access == Access::open || access == Access::metrics;
  switch (access) {
    case Access::open:
    case Access::viewer:
      return true;  // looking is everyone's, within the tenant
    case Access::metrics:
      return role == Role::admin;
    case Access::worker:
      return role == Role::admin || role == Role::operator_ || role == Role::worker;
    case Access::approver:
      return role == Role::admin || role == Role::operator_ || role == Role::approver;
    case Access::operator_:
      return role == Role::admin || role == Role::operator_;
    case Access::admin:
      return role == Role::admin;
  }
  return false;
}

std::vector<Route> all_routes() {
  std::vector<Route> all;
  for (auto part : {run_routes(), workflow_routes(), policy_routes(), approval_routes(), lease_routes(),
                    worker_routes(), action_routes(), receipt_routes(), people_routes(), tenant_routes(),
                    installation_routes(), webhook_routes(), slack_routes(), feed_routes(), operation_routes(),
                    evidence_routes(), task_routes(), log_routes(), mcp_routes()})
    std::ranges::move(part, std::back_inserter(all));
  return all;
}

void Call::answer(int status, const Json& body, Headers headers) {
  respond({.status = status,
           .content_type = "application/json",
           .body = boost::json::serialize(body),
           .headers = std::move(headers),
           .stream = {}});
}

Vocabulary Call::vocabulary() const {
  const std::string* word = query.find("vocabulary");
  if (!word) return Vocabulary::contract_v1;
  auto value = parse_enum<Vocabulary>(*word);
  if (!value) refuse_input("vocabulary", "It must be contract-v1, state-machine or runtime.");
  return *value;
}

Api::Api(Parts parts, ApiOptions options)
    : parts_(parts),
      options_(options),
      routes_(all_routes()),
      open_requests_(parts.keys, parts.clock, options.open_requests) {
  openapi_document();  // stops here and now when a route was not described
  if (store().shared()) away_watch_.emplace([this] { return is_store_away(); });
  for (const Route& route : routes_) {
    auto pattern = segments(route.pattern);
    auto variables = std::ranges::count_if(pattern, is_variable);
    by_first_[pattern.front()].push_back({&route, std::move(pattern), variables});
  }
}

Api::Match Api::find(Method method, std::string_view path) const {
  Match match;
  if (path.starts_with(optional_prefix) && path.substr(optional_prefix.size()).starts_with('/'))
    path.remove_prefix(optional_prefix.size());
  if (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  if (!path.starts_with('/')) return match;
  auto wanted = segments(path);
  auto candidates = by_first_.find(wanted.front());
  if (candidates == by_first_.end()) return match;
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates->second) {
    bool fits = std::ranges::equal(candidate.pattern, wanted, [](std::string_view a, std::string_view b) {
      return is_variable(a) ? !b.empty() : a == b;
    });
    if (!fits) continue;
    Method its = candidate.route->method;
    match.other_method = true;
    match.allowed += std::string(names_of(its)) + ", ";
    bool same = its == method || (method == Method::head && its == Method::get);
    // /leases/complete is not the lease called "complete".
    if (same && (!best || candidate.variables < best->variables)) best = &candidate;
  }
  if (match.other_method) match.allowed += name_of(Method::options);
  if (!best) return match;
  match.route = best->route;
  for (std::size_t i = 0; i < best->pattern.size(); ++i) {
    if (!is_variable(best->pattern[i])) continue;
    auto value = percent_decode(wanted[i]);
    if (!value) return {};
    match.path.push_back(std::move(*value));
  }
  return match;
}

// Also what a browser asks before it lets a page of another origin send the request. Whether that page may at all has
// been seen to when this is called.
Response Api::options_of(const Request& request) const {
  std::string allowed =
      request.path == "*" ? "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS" : find(request.method, request.path).allowed;
  if (allowed.empty()) return to_response(no_such_path());
  Response out{.status = 204, .content_type = {}, .body = {}, .headers = {{"Allow", allowed}}, .stream = {}};
  if (!request.header("origin").empty() && !request.header("access-control-request-method").empty()) {
    out.headers.push_back({"Access-Control-Allow-Methods", allowed});
    out.headers.push_back(
        {"Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID"});
    out.headers.push_back({"Access-Control-Max-Age", "600"});
  }
  return out;
}

Background& Api::pool_of(const Route& route) {
  switch (route.kind) {
    case RouteKind::usual:
    case RouteKind::waits:
      return usual_;
    case RouteKind::heavy:
      return heavy_;
    case RouteKind::callback:
      return callbacks_;
  }
  return usual_;
}

std::optional<std::int64_t> Api::limit_of(TenantId id, Limit limit) const {
  auto tenant = parts_.tenants.find(id);
  return tenant ? effective_limit(*tenant, limit) : std::nullopt;
}

std::optional<Problem> Api::judge_key(const Request& request, Head& head) {
  const Route& route = *head.match.route;
  std::string_view header = request.header("authorization");
  if (!starts_with_word(header, bearer)) return unauthorized();
  auto known = keys().authenticate(header.substr(bearer.size()), clock().now());
  if (!known) return unauthorized();
  head.who = std::move(*known);
  head.use = uses_.of(head.who.tenant);
  if (head.who.suspended) return tenant_suspended();
  if (head.who.lease) {
    if (!is_of_lease(route, head.match.path, *head.who.lease)) return not_of_lease();
  } else if (!may(head.who.role, route.access)) {
    return Problem{.status = 403,
                   .code = "FORBIDDEN",
                   .detail = "A key with the role " + std::string(to_string(head.who.role)) + " may not do this."};
  }
  return std::nullopt;
}

Api::Head Api::judge(const Request& request) {
  Head head{.match = find(request.method, request.path), .who = {}, .use = {}, .refusal = {}};
  const Route* route = head.match.route;
  if (!route && !head.match.other_method)
    head.refusal = no_such_path();
  else if (!route)
    head.refusal = Problem{.status = 405,
                           .code = "METHOD_NOT_ALLOWED",
                           .detail = "This path has other methods: " + head.match.allowed + ".",
                           .where = {},
                           .headers = {{"Allow", head.match.allowed}}};
  else if (route->access != Access::open)
    head.refusal = judge_key(request, head);
  else if (request.has_body && route->kind != RouteKind::callback)
    head.refusal = no_body_here();
  return head;
}

// Workers' reports and heartbeats are not counted: refusing those would only make more work.
std::optional<Problem> Api::over_limit(const Head& head) {
  if (!head.use || head.match.route->access == Access::worker) return std::nullopt;
  auto per_minute = limit_of(head.who.tenant, Limit::max_requests_per_min);
  if (!per_minute || head.use->rate.admit(*per_minute, std::chrono::steady_clock::now())) return std::nullopt;
  return tenant_limit("This tenant sends more requests than its limit max_requests_per_min allows: " +
                      std::to_string(*per_minute) + ".");
}

Response Api::refuse_head(const Request& request, const Head& head, const Problem& problem) {
  Response response = to_response(problem);
  answered({request, head.match.route, head.use ? &head.who : nullptr, std::chrono::steady_clock::now()}, response);
  return response;
}

Admission Api::admit(const Request& request) {
  using enum Admission::Client;
  Admission out{.client = unknown, .account = {}, .admitted = {}, .refusal = {}};
  if (request.method == Method::options) {
    out.refusal = options_of(request);
    return out;
  }
  auto head = std::make_shared<Head>(judge(request));
  if (!head->refusal) head->refusal = over_limit(*head);
  if (head->use) {
    out.client = known;
    out.account = head->use->account;
    auto connections_max = limit_of(head->who.tenant, Limit::max_connections);
    out.account->connections_max = connections_max ? static_cast<std::size_t>(*connections_max) : SIZE_MAX;
  } else if (head->match.route && head->match.route->kind == RouteKind::callback) {
    out.client = callback;
  }
  if (head->refusal) out.refusal = refuse_head(request, *head, *head->refusal);
  out.admitted = std::move(head);
  return out;
}

void Api::handle(Request request, Responder respond) {
  if (request.method == Method::options) return respond(options_of(request));
  auto head = std::static_pointer_cast<const Head>(std::exchange(request.admitted, nullptr));
  if (!head) head = std::make_shared<const Head>(judge(request));  // of an agent's tool, which is a request by itself
  if (head->refusal) return respond(refuse_head(request, *head, *head->refusal));
  // The body took its time, and the key may have been revoked meanwhile.
  if (head->use && !head->who.lease && !keys().is_good(head->who.key, clock().now()))
    return respond(refuse_head(request, *head, unauthorized()));
  const Route& route = *head->match.route;
  try {
    Query query(request.query);
    start(std::make_shared<Call>(*this, std::move(request), head->who, head->match.path, std::move(query),
                                 std::move(respond), route),
          route, head->use);
  } catch (const Problem& problem) {
    respond(refuse_head(request, *head, problem));
  }
}

void Api::start(CallPtr call, const Route& route, const std::shared_ptr<TenantUse>& use) {
  const bool reserved = route.access == Access::worker;
  auto& all = use ? in_flight_ : in_flight_without_key_;
  const std::size_t max = use ? options_.in_flight_max : in_flight_without_key_max;
  std::size_t others = 0, own = 0;
  std::shared_ptr<void> counted;
  if (!reserved) {
    others = all.fetch_add(1, std::memory_order_relaxed);
    if (use) own = use->in_flight.fetch_add(1, std::memory_order_relaxed);
    // Until it is answered or dropped, whichever comes first.
    counted = std::shared_ptr<void>(nullptr, [&all, use](void*) {
      all.fetch_sub(1, std::memory_order_relaxed);
      if (use) use->in_flight.fetch_sub(1, std::memory_order_relaxed);
    });
  }
  call->respond = [this, respond = std::move(call->respond), counted = std::move(counted), call = call.get(), &route,
                   since = std::chrono::steady_clock::now()](Response response) mutable {
    if (call->is_answered.exchange(true)) return;
    answered({call->request, &route, route.access == Access::open ? nullptr : &call->who, since, call->waits},
             response);
    respond(std::move(response));
  };
  if (away_watch_)
    call->watched = away_watch_->watch([waiting = std::weak_ptr(call)] {
      if (auto found = waiting.lock()) found->answer(store_away());
    });
  const std::size_t free = max - std::min(others, max);
  if (!reserved && free == 0) return call->answer(overloaded());
  if (!reserved && use && own >= in_flight_share * free)
    return call->answer(tenant_limit("Too many requests of this tenant are under way. Send fewer at a time."));
  if (route.method == Method::get || route.method == Method::delete_)
    if (!call->request.body.empty()) return call->answer(no_body_here());
  std::size_t bytes = call->request.body.size();
  if (bytes > options_.body_bytes_small) {
    Background& readers = bytes > options_.body_bytes_large ? huge_bodies_ : large_bodies_;
    return in_background(readers, call, [this, call, &route](Call&) { begin(call, route); });
  }
  try {
    begin(call, route);
  } catch (const Problem& problem) {
    call->answer(problem);
  } catch (const std::exception& error) {
    call->answer(internal(*call, error));
  }
}

// A lease's key delegates beneath its own task, and nowhere else.
bool is_beneath(const Request& request, const std::string& task) {
  const Input input = Input::parse(request);
  const Json* parent = input.find("parent_task_id");
  return parent && parent->is_string() && parent->get_string() == task;
}

// A lease's key reads its own task and those beneath it: one of whose parents it is. Any other task is refused alike,
// whether it is there or not.
void read_task_beneath(Engine& engine, CallPtr call, const Route& route, TaskId at, TaskId own) {
  if (at == own) return pawl::api::in_background(call, [call, &route](Call&) { route.handle(call); });
  engine.request(InspectTask{call->who.tenant, at},
                 [call, &route, own](const std::expected<std::shared_ptr<const Run>, Refusal>& found) {
                   const auto parent = found && (*found)->task ? (*found)->task->spec.parent : std::nullopt;
                   if (!parent) return call->answer(not_of_lease());
                   call->api.runtime().post([call, &route, parent = *parent, own](Engine& again) {
                     read_task_beneath(again, call, route, parent, own);
                   });
                 });
}

// What a lease's key asks for is asked for by a lease that is still held.
void Api::begin(CallPtr call, const Route& route) {
  if (!call->who.lease) return route.handle(std::move(call));
  runtime().post([call, &route](Engine& engine) {
    const LeaseBinding& lease = *call->who.lease;
    const bool is_held =
        engine.lease_context(call->who.tenant, lease.run, lease.step, LeaseProof::program(lease.token)).has_value();
    if (is_held && route.pattern == "/tasks/{id}") {
      const auto own = TaskId::parse(lease.task), wanted = TaskId::parse(call->path[0]);
      if (!own || !wanted) return call->answer(not_of_lease());
      return read_task_beneath(engine, call, route, *wanted, *own);
    }
    pawl::api::in_background(call, [call, &route, is_held](Call&) {
      if (!is_held) throw problem_of(lease_lost_refusal());
      if (route.pattern == "/tasks" && !is_beneath(call->request, call->who.lease->task)) throw not_of_lease();
      route.handle(call);
    });
  });
}

void Api::answered(const Asked& asked, const Response& response) {
  metrics().answered(response.status);
  auto write = [&](LogLevel level, std::string_view message, std::uint64_t held_back) {
    auto fields = fields_of(asked, response);
    if (held_back > 0) fields.emplace_back("not_logged", held_back);
    log().write(level, message, fields);
  };
  if (options_.access_log) write(LogLevel::info, "request", 0);
  if (response.status == 401)
    if (auto held_back = refused_keys_.admit()) write(LogLevel::warning, "a key was refused", *held_back);
  // A server that is not ready says so to whoever asks, again and again; why is logged where it begins and ends.
  const bool is_turned_away = response.status == 503;
  const bool is_probe = is_turned_away && asked.route && asked.route->access == Access::open;
  if (response.status >= 500 && !is_probe)
    if (auto held_back = server_errors_.admit())
      write(is_turned_away ? LogLevel::warning : LogLevel::error,
            is_turned_away ? "a request was turned away" : "a request failed here", *held_back);
  bool waits = asked.waits || (asked.route && asked.route->kind == RouteKind::waits);
  if (!waits && std::chrono::steady_clock::now() - asked.since >= slow_request)
    if (auto held_back = slow_requests_.admit()) write(LogLevel::warning, "a request was slow", *held_back);
}

// The route's pattern, not the path, and no query: what stands there may be meant for nobody else's eyes.
LogFields Api::fields_of(const Asked& asked, const Response& response) const {
  auto took = std::chrono::steady_clock::now() - asked.since;
  LogFields fields{{"method", name_of(asked.request.method)},
                   {"route", asked.route ? asked.route->pattern : "none"},
                   {"status", response.status},
                   {"bytes", response.body.size()},
                   {"microseconds", std::chrono::duration_cast<std::chrono::microseconds>(took).count()},
                   {"peer", asked.request.peer},
                   {"request_id", asked.request.id}};
  if (asked.who) {
    fields.emplace_back("tenant", asked.who->tenant_name);
    fields.emplace_back("key", asked.who->key.str());
  }
  return fields;
}

Response Api::refuse(int status, std::string_view code, std::string_view detail) {
  Problem problem{.status = status, .code = std::string(code), .detail = std::string(detail)};
  if (status == 503) problem.headers.push_back({"Retry-After", "1"});
  return to_response(problem);
}

void require_default_tenant(const Call& call) {
  if (call.who.tenant_name != installation_tenant)
    throw Problem{.status = 403, .code = "FORBIDDEN", .detail = "Only an admin of the tenant \"default\" may do this."};
}

RunId run_of(const Call& call, std::size_t index) {
  auto id = RunId::parse(call.path[index]);
  if (!id) throw not_found();
  return *id;
}

void in_background(CallPtr call, std::move_only_function<void(Call&)> work) {
  Background& pool = call->api.pool_of(call->route);
  in_background(pool, std::move(call), std::move(work));
}

void keep_open(const CallPtr& call) {
  if (call->who.lease) return;  // asked for with every use, and over with the lease
  call->open = call->api.open_requests().open(call->who, OpenRequests::Kind::poll, std::nullopt,
                                              [waiting = std::weak_ptr(call)] {
                                                if (auto found = waiting.lock()) found->answer(unauthorized());
                                              });
}

boost::json::object shown_run(Call& call, const Run& run) {
  auto out = run_object(run, call.vocabulary(), call.api.tenants().find(run.tenant).get());
  if (!is_terminal(run.status)) {
    out["bundle"] = nullptr;
  } else if (!call.api.is_store_away()) {
    try {
      out["bundle"] = stored_bundle_object(call.api.store().find_bundle(run.tenant, run.id));
    } catch (const StoreFailure&) {
      // Left out: what the run itself is, is known without the tables.
    }
  }
  return out;
}

void with_fresh_tables(CallPtr call, std::optional<RunId> run, std::move_only_function<void(Call&)> work) {
  call->api.runtime().post([call, run, work = std::move(work)](Engine& engine) mutable {
    engine.request(FlushRows{call->who.tenant, run},
                   [call, work = std::move(work)](std::expected<RunAnswer, Refusal> done) mutable {
                     if (!done) return call->answer(problem_of(done.error()));
                     in_background(call, std::move(work));
                   });
  });
}

namespace {

// The run's text is written on a background thread: the one that answers here commits for everyone.
void show(CallPtr call, int status, std::shared_ptr<const Run> run) {
  if (run->task) return call->answer(not_found());  // a task is no run, whatever its stream looks like
  call->api.answers().post(call->who.tenant,
                           [call, status, run = std::move(run)] { call->answer(status, shown_run(*call, *run)); });
}

}  // namespace

void answer_with_run(CallPtr call, TenantId tenant, RunId run, int status) {
  call->vocabulary();  // wrong words are refused before anything is done
  call->api.runtime().request(InspectRun{tenant, run},
                              [call, status](std::expected<std::shared_ptr<const Run>, Refusal> found) {
                                if (!found) return call->answer(problem_of(found.error()));
                                show(call, status, std::move(*found));
                              });
}

void command_run(CallPtr call, RunId run, RunCommand command) {
  call->vocabulary();
  RunRequest request{.tenant = call->who.tenant, .run = run, .command = std::move(command), .wants_state = true};
  call->api.runtime().request(std::move(request), [call](std::expected<RunAnswer, Refusal> answer) {
    if (!answer) return call->answer(problem_of(answer.error()));
    show(call, 200, std::move(answer->state));
  });
}

}  // namespace pawl::api
