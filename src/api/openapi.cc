#include "api/openapi.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <map>

#include "api/api.h"
#include "api/openapi_parts.h"
#include "core/invariant.h"

namespace pawl::api {
namespace {

using namespace openapi;
using boost::json::array;
using boost::json::object;

constexpr std::string_view key_scheme = "key";

std::string_view word_of(Method method) {
  switch (method) {
    case Method::get:
      return "get";
    case Method::head:
      return "head";
    case Method::post:
      return "post";
    case Method::put:
      return "put";
    case Method::patch:
      return "patch";
    case Method::delete_:
      return "delete";
    case Method::options:
      return "options";
  }
  return {};
}

std::string_view word_of(Access access) {
  switch (access) {
    case Access::open:
      return "none";
    case Access::metrics:
      return to_string(Role::metrics);
    case Access::viewer:
      return to_string(Role::viewer);
    case Access::worker:
      return to_string(Role::worker);
    case Access::approver:
      return to_string(Role::approver);
    case Access::operator_:
      return to_string(Role::operator_);
    case Access::admin:
      return to_string(Role::admin);
  }
  return {};
}

std::string who_may(Access access) {
  if (access == Access::open) return "No key is needed.";
  std::string out;
  for (std::size_t i = 0; i < enum_count<Role>; ++i)
    if (may(static_cast<Role>(i), access)) (out += out.empty() ? "Roles: " : ", ") += enum_names<Role>[i];
  return out + ".";
}

object reference(std::string_view kind, std::string_view name) {
  return {{"$ref", "#/components/" + std::string(kind) + "/" + std::string(name)}};
}

// ---- One operation

object parameter(const Field& field, std::string_view in) {
  return {{"name", field.name},
          {"in", in},
          {"required", in == "path"},
          {"description", field.says},
          {"schema", schema_of(field.type)}};
}

array parameters(const RouteDoc& doc) {
  array out;
  for (const Field& field : doc.path) out.push_back(parameter(field, "path"));
  for (const Field& field : doc.query) out.push_back(parameter(field, "query"));
  for (const Field& field : doc.headers) out.push_back(parameter(field, "header"));
  return out;
}

object content(const std::vector<Body>& bodies) {
  object out;
  for (const Body& body : bodies)
    out[body.content_type] = object{{"schema", reference("schemas", body.schema)},
                                    {"examples", object{{body.example, reference("examples", body.example)}}}};
  return out;
}

object answer_object(const Answer& answer) {
  object out{{"description", answer.says}};
  if (!answer.bodies.empty()) out["content"] = content(answer.bodies);
  object headers;
  for (std::string_view name : answer.headers) headers[name] = reference("headers", name);
  if (!headers.empty()) out["headers"] = std::move(headers);
  return out;
}

// What any route with this role and this input may answer, and what it says of itself.
std::vector<std::string_view> problem_names(const Route& route, const RouteDoc& doc) {
  std::vector<std::string_view> out = doc.problems;
  if (!doc.query.empty() || !doc.bodies.empty()) out.push_back("INVALID_REQUEST");
  // A route that takes something else beside JSON reads JSON as that: what is wrong with it has the route's own code.
  if (doc.bodies.size() == 1) out.push_back("INVALID_JSON");
  if (!doc.bodies.empty()) out.push_back("BODY_TOO_LARGE");
  if (route.access == Access::open) return out;
  out.push_back("UNAUTHORIZED");
  if (route.access != Access::viewer) out.push_back("FORBIDDEN");
  if (route.access != Access::worker) out.push_back("OVERLOADED");
  out.push_back("TENANT_LIMIT");
  return out;
}

void add_problems(object& responses, const std::vector<std::string_view>& names, const std::vector<ProblemDoc>& docs) {
  std::map<int, std::vector<const ProblemDoc*>> by_status;
  for (std::string_view name : names) {
    auto found = std::ranges::find(docs, name, &ProblemDoc::name);
    invariant(found != docs.end(), "a route names a problem that openapi_examples.cc does not have");
    by_status[found->problem.status].push_back(&*found);
  }
  for (const auto& [status, problems] : by_status) {
    std::string codes;
    object shown;
    object headers;
    for (const ProblemDoc* doc : problems) {
      (codes += codes.empty() ? "" : ", ") += doc->problem.code;
      shown[doc->name] = reference("examples", doc->name);
      for (const auto& [name, value] : doc->problem.headers) headers[name] = reference("headers", name);
    }
    object media{{"schema", reference("schemas", "Problem")}, {"examples", std::move(shown)}};
    object response{{"description", codes}, {"content", object{{"application/problem+json", std::move(media)}}}};
    if (!headers.empty()) response["headers"] = std::move(headers);
    responses[std::to_string(status)] = std::move(response);
  }
  responses["default"] = reference("responses", "Problem");
}

object operation(const Route& route, const RouteDoc& doc, const std::vector<ProblemDoc>& problems) {
  object responses;
  for (const Answer& answer : doc.answers) responses[std::to_string(answer.status)] = answer_object(answer);
  add_problems(responses, problem_names(route, doc), problems);

  std::string says(doc.says);
  if (!says.empty()) says += "\n\n";
  object out{{"operationId", doc.operation_id},
             {"tags", array{doc.tag}},
             {"summary", route.summary},
             {"description", says + who_may(route.access)},
             {"x-role", word_of(route.access)}};
  if (route.access == Access::open) out["security"] = array{};
  if (auto all = parameters(doc); !all.empty()) out["parameters"] = std::move(all);
  if (!doc.bodies.empty())
    out["requestBody"] = object{{"required", doc.body_required}, {"content", content(doc.bodies)}};
  out["responses"] = std::move(responses);
  return out;
}

// The router's table and ours, each in the other.
object paths(const std::vector<ProblemDoc>& problems) {
  auto docs = route_docs();
  auto routes = all_routes();
  object out;
  for (const Route& route : routes) {
    auto doc = std::ranges::find_if(
        docs, [&](const RouteDoc& d) { return d.method == route.method && d.pattern == route.pattern; });
    invariant(doc != docs.end(), "a route is not described in openapi_routes.cc: " + std::string(route.pattern));
    for (const Field& field : doc->path)
      invariant(route.pattern.find("{" + std::string(field.name) + "}") != route.pattern.npos,
                "a path has no such name");
    invariant(std::ranges::count(route.pattern, '{') == static_cast<std::ptrdiff_t>(doc->path.size()),
              "a name in a path is not described");
    Json& item = out[route.pattern];
    if (!item.is_object()) item = object{};
    item.get_object()[word_of(route.method)] = operation(route, *doc, problems);
  }
  invariant(docs.size() == routes.size(), "openapi_routes.cc describes what is no route");
  return out;
}

// ---- What operations refer to

object header(std::string_view says, object schema) { return {{"description", says}, {"schema", std::move(schema)}}; }

object all_examples(const std::vector<ProblemDoc>& problems) {
  object out = examples();
  for (const ProblemDoc& doc : problems) {
    auto text = parse_json(to_response(doc.problem).body);
    invariant(text.has_value(), "a problem is JSON");
    out[doc.name] = object{{"value", std::move(*text)}};
  }
  return out;
}

object components(const std::vector<ProblemDoc>& problems) {
  return {
      {"securitySchemes",
       object{{key_scheme, object{{"type", "http"},
                                  {"scheme", "bearer"},
                                  {"bearerFormat", "pawl_<id: 26 characters>_<secret and checksum: 38 characters>"},
                                  {"description", "An API key. It belongs to one tenant and has one role."}}}}},
      {"headers", object{{"Location", header("The path of the run.", schema_of("text"))},
                         {"Idempotency-Replayed", header("There when an earlier request made this run.",
                                                         {{"type", "string"}, {"enum", array{"true"}}})},
                         {"Retry-After", header("Seconds to wait.", schema_of("text"))},
                         {"WWW-Authenticate", header("How to say who asks.", schema_of("text"))}}},
      {"responses",
       object{{"Problem",
               object{{"description", "Anything else that goes wrong, on every route alike; see the introduction."},
                      {"content",
                       object{{"application/problem+json", object{{"schema", reference("schemas", "Problem")}}}}}}}}},
      {"schemas", schemas()},
      {"examples", all_examples(problems)},
  };
}

// Every reference leads somewhere. Wrong words in our tables end here, and not at a reader's.
void check_references(const Json& value, const object& known) {
  constexpr std::string_view begin = "#/components/";
  if (const auto* list = value.if_array())
    for (const Json& item : *list) check_references(item, known);
  const auto* members = value.if_object();
  if (!members) return;
  for (const auto& member : *members) {
    if (member.key() != "$ref") {
      check_references(member.value(), known);
      continue;
    }
    std::string_view target = std::string_view(member.value().as_string()).substr(begin.size());
    std::size_t slash = target.find('/');
    const Json* kind = known.if_contains(target.substr(0, slash));
    bool found = kind && kind->as_object().contains(target.substr(slash + 1));
    invariant(found, "the OpenAPI tables refer to " + std::string(target) + ", which is not there");
  }
}

// ---- What is said once

std::string vocabulary_table() {
  std::string out = "|";
  for (std::string_view name : enum_names<Vocabulary>) out += " " + std::string(name) + " |";
  out += " sub_state |\n|---|---|---|---|\n";
  static_assert(enum_count<Vocabulary> == 3);
  for (const RunProjection& row : run_projections) {
    out += "|";
    for (std::string_view word : row.words) out += " " + std::string(word) + " |";
    out += " " + std::string(row.sub_state.empty() ? "null" : row.sub_state) + " |\n";
  }
  return out;
}

constexpr std::string_view introduction =
    R"(pawl runs workflows of steps durably. Everything here is JSON unless a route says otherwise.

**Paths.** Every path may begin with `/api`: `/api/runs` is `/runs`.

**Keys.** `Authorization: Bearer pawl_...`. A key belongs to one tenant and has one role; `x-role` of an operation is
the least that does, and its description lists all. Another tenant's object and one that never was are the same 404.

**Problems.** What goes wrong is `application/problem+json` (RFC 9457) with a stable `code`. Beside those that an
operation lists, each may answer 400 REQUEST_MALFORMED, 403 ORIGIN_NOT_ALLOWED (a browser's page from elsewhere),
405 METHOD_NOT_ALLOWED, 408 REQUEST_TOO_SLOW, 421 HOST_NOT_ALLOWED (a name that is not this server's),
431 HEADERS_TOO_LARGE, 500 INTERNAL and 503 TOO_MANY_CONNECTIONS, TOO_MANY_BYTES or NOT_ANSWERED. After a 503 the same
request may be sent again; whether the first one was carried out is known only where repeats are safe. 400 is what is
not understood, 413 what is too large, 422 what is understood and cannot be done, 409 what does not fit the present
state. docs/errors.md has all codes.

**Input.** A key or parameter that is not known is refused, so that a wrong spelling cannot go unnoticed. A key that is
null counts as left out. In answers, keys may be added in time.

**Values.** Times are RFC 3339 in UTC; durations are like `90s`, `15m` and `1h30m`; money is a decimal string in USD.
Lists are `{"items": [...], "next_cursor": ...}`.

**Repeats.** What makes something new (`POST /runs`, `/runs/batch`, `/runs/{id}/retry`, `/keys`, `/keys/{id}/rotate`)
takes an `Idempotency-Key`; deciding, canceling, publishing, making tenants and workers' reports are safe to repeat as
they are. The status of external runs is not: look before sending it again.

**Pages.** `OPTIONS` says which methods a path has, and to pages of an origin that the server was started with
(`--origin`) that they may use them.

**Vocabularies.** Statuses are stored in one vocabulary and shown in the one that `?vocabulary=` asks for. For runs:

)";

object document() {
  array tags;
  for (const TagDoc& tag : tag_docs()) tags.push_back(object{{"name", tag.name}, {"description", tag.says}});
  auto problems = problem_docs();
  object out{
      {"openapi", "3.1.0"},
      {"info", object{{"title", "pawl"},
                      {"version", PAWL_VERSION},
                      {"description", std::string(introduction) + vocabulary_table()},
                      {"contact", object{{"name", "pawl"}}},
                      {"license", object{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
      {"servers", array{object{{"url", "/"}, {"description", "This server."}},
                        object{{"url", "/api"}, {"description", "The same, with the prefix that is optional."}}}},
      {"security", array{object{{key_scheme, array{}}}}},
      {"tags", std::move(tags)},
      {"paths", paths(problems)},
      {"components", components(problems)}};
  check_references(out, out["components"].as_object());
  return out;
}

}  // namespace

const std::string& openapi_document() {
  static const std::string text = boost::json::serialize(document());
  return text;
}

}  // namespace pawl::api
