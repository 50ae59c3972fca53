#include "api/api.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <iterator>

#include "api/lease_id.h"
#include "api/openapi.h"

namespace pawl::api {
namespace {

constexpr std::string_view optional_prefix = "/api";
constexpr std::string_view bearer = "Bearer ";
constexpr auto slow_request = std::chrono::seconds(1);

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
  if (is(Method::get, "/tasks/{id}")) return !lease.task.empty();
  if (is(Method::post, "/tasks")) return !lease.task.empty();
  return is(Method::post, "/mcp");
}

Problem not_of_lease() {
  return {.status = 403,
          .code = "FORBIDDEN",
          .detail = "A lease's key is good for what concerns its lease, and for no more."};
}

Problem overloaded() {
  return {.status = 503,
          .code = "OVERLOADED",
          .detail = "More requests are waiting than can be served soon. Try again in a moment.",
          .headers = {{"Retry-After", "1"}}};
}

void in_background(Background& threads, CallPtr call, std::move_only_function<void(Call&)> work) {
  threads.post([call = std::move(call), work = std::move(work)]() mutable {
    try {
      work(*call);
    } catch (const Problem& problem) {
      call->answer(problem);
    } catch (const std::exception& error) {  // a table that cannot be read; commits go on, or stop by themselves
      call->answer(call->api.is_store_away() ? store_away() : internal(*call, error));
    }
  });
}

}  // namespace

Problem store_away() {
  return {.status = 503,
          .code = "STORE_AWAY",
          .detail = "The database cannot be reached just now.",
          .headers = {{"Retry-After", "1"}}};
}

bool may(Role role, Access access) {
  switch (access) {
    case Access::open:
    case Access::viewer:
      return true;  // looking is everyone's, within the tenant
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
  for (auto part :
       {run_routes(), workflow_routes(), policy_routes(), approval_routes(), lease_routes(), action_routes(),
        receipt_routes(), people_routes(), tenant_routes(), webhook_routes(), slack_routes(), feed_routes(),
        operation_routes(), evidence_routes(), task_routes(), log_routes(), mcp_routes()})
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

Api::Api(Parts parts, ApiOptions options) : parts_(parts), options_(options), routes_(all_routes()) {
  openapi_document();  // stops here and now when a route was not described
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

void Api::handle(Request request, Responder respond) {
  if (request.method == Method::options) return respond(options_of(request));
  auto match = find(request.method, request.path);
  Principal who;
  auto refuse_with = [&](const Problem& problem) {
    Response response = to_response(problem);
    answered({request, match.route, who.tenant_name.empty() ? nullptr : &who, std::chrono::steady_clock::now()},
             response);
    respond(std::move(response));
  };
  if (!match.route) {
    if (!match.other_method) return refuse_with(no_such_path());
    return refuse_with({.status = 405,
                        .code = "METHOD_NOT_ALLOWED",
                        .detail = "This path has other methods: " + match.allowed + ".",
                        .where = {},
                        .headers = {{"Allow", match.allowed}}});
  }
  const Route& route = *match.route;
  if (route.access != Access::open) {
    std::string_view header = request.header("authorization");
    if (!starts_with_word(header, bearer)) return refuse_with(unauthorized());
    auto known = keys().authenticate(header.substr(bearer.size()), clock().now());
    if (!known) return refuse_with(unauthorized());
    who = std::move(*known);
    if (who.lease) {
      if (!is_of_lease(route, match.path, *who.lease)) return refuse_with(not_of_lease());
    } else if (!may(who.role, route.access))
      return refuse_with({.status = 403,
                          .code = "FORBIDDEN",
                          .detail = "A key with the role " + std::string(to_string(who.role)) + " may not do this."});
  }
  try {
    Query query(request.query);
    admit(std::make_shared<Call>(*this, std::move(request), std::move(who), std::move(match.path), std::move(query),
                                 std::move(respond)),
          route);
  } catch (const Problem& problem) {
    refuse_with(problem);
  }
}

void Api::admit(CallPtr call, const Route& route) {
  bool reserved = route.access == Access::worker || route.access == Access::open;
  bool full = !reserved && in_flight_.load(std::memory_order_relaxed) >= options_.in_flight_max;
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  // Counted until it is answered or dropped, whichever comes first.
  auto counted = std::shared_ptr<void>(nullptr, [this](void*) { in_flight_.fetch_sub(1, std::memory_order_relaxed); });
  call->respond = [this, respond = std::move(call->respond), counted = std::move(counted), call = call.get(), &route,
                   since = std::chrono::steady_clock::now()](Response response) mutable {
    answered({call->request, &route, route.access == Access::open ? nullptr : &call->who, since}, response);
    respond(std::move(response));
  };
  if (full) return call->answer(overloaded());
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

// What a lease's key asks for is asked for by a lease that is still held.
void Api::begin(CallPtr call, const Route& route) {
  if (!call->who.lease) return route.handle(std::move(call));
  runtime().post([call, &route](Engine& engine) {
    const LeaseBinding& lease = *call->who.lease;
    const bool is_held = engine.lease_context(call->who.tenant, lease.run, lease.step, lease.token).has_value();
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
  if (response.status >= 500)
    if (auto held_back = server_errors_.admit()) write(LogLevel::error, "a request failed here", *held_back);
  bool waits = asked.route && asked.route->waits;
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
  if (call.who.tenant_name != "default")
    throw Problem{.status = 403, .code = "FORBIDDEN", .detail = "Only an admin of the tenant \"default\" may do this."};
}

RunId run_of(const Call& call, std::size_t index) {
  auto id = RunId::parse(call.path[index]);
  if (!id) throw not_found();
  return *id;
}

void in_background(CallPtr call, std::move_only_function<void(Call&)> work) {
  Background& background = call->api.background();
  in_background(background, std::move(call), std::move(work));
}

void with_fresh_tables(CallPtr call, std::optional<RunId> run, std::move_only_function<void(Call&)> work) {
  call->api.runtime().post([call, run, work = std::move(work)](Engine& engine) mutable {
    engine.flush(call->who.tenant, run, [call, work = std::move(work)](std::expected<RunAnswer, Refusal> done) mutable {
      if (!done) return call->answer(problem_of(done.error()));
      in_background(call, std::move(work));
    });
  });
}

namespace {

// The run's text is written on a background thread: the one that answers here commits for everyone.
Reply<std::shared_ptr<const Run>> reply_with_run(CallPtr call, int status) {
  return [call, status](std::expected<std::shared_ptr<const Run>, Refusal> run) {
    if (!run) return call->answer(problem_of(run.error()));
    if ((*run)->task) return call->answer(not_found());  // a task is no run, whatever its stream looks like
    call->api.background().post(
        [call, status, run = std::move(*run)] { call->answer(status, run_object(*run, call->vocabulary())); });
  };
}

}  // namespace

void answer_with_run(CallPtr call, TenantId tenant, RunId run, int status) {
  call->vocabulary();  // wrong words are refused before anything is done
  call->api.runtime().post(
      [call, tenant, run, status](Engine& engine) { engine.inspect(tenant, run, reply_with_run(call, status)); });
}

void command_run(CallPtr call, RunId run, RunCommand command) {
  call->vocabulary();
  call->api.runtime().post([call, run, command = std::move(command)](Engine& engine) {
    auto refused = std::make_shared<bool>(false);
    engine.command(call->who.tenant, run, command, [call, refused](std::expected<RunAnswer, Refusal> answer) {
      if (answer) return;
      *refused = true;
      call->answer(problem_of(answer.error()));
    });
    // As decided in this very turn; the two answers come one after the other.
    engine.inspect(
        call->who.tenant, run,
        [refused, reply = reply_with_run(call, 200)](std::expected<std::shared_ptr<const Run>, Refusal> r) mutable {
          if (!*refused) reply(std::move(r));
        });
  });
}

}  // namespace pawl::api
