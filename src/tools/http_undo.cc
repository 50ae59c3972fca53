#include "tools/http_undo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>

#include "core/expression.h"
#include "tools/connector.h"
#include "tools/http_headers.h"
#include "tools/http_url.h"

namespace pawl {
namespace {

constexpr std::array<std::string_view, 4> undo_keys = {"method", "url", "headers", "body"};
// An undo is an effect: what only reads could not be one, and would pass no gate.
constexpr std::array<std::string_view, 4> undo_methods = {"POST", "PUT", "PATCH", "DELETE"};

std::string upper_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

bool is_whole_expression(const std::string& text) {
  const auto pieces = parse_template(text);
  return pieces && pieces->size() == 1 && std::holds_alternative<Expression>(pieces->front());
}

// The reason follows "`undo`" in a sentence.
std::optional<std::string> undo_problem(const boost::json::object& undo) {
  for (const auto& member : undo)
    if (std::ranges::find(undo_keys, std::string_view(member.key())) == undo_keys.end())
      return fmt::format("has only method, url, headers and body, and no {}", std::string_view(member.key()));
  const std::string method = text_member(undo, "method"), url = text_member(undo, "url");
  if (std::ranges::find(undo_methods, upper_case(method)) == undo_methods.end())
    return "has a `method` that is not POST, PUT, PATCH or DELETE";
  if (const Json* headers = undo.if_contains("headers"); headers && names_response(*headers))
    return "has `headers` that name the response, which can stand only in the `url` behind the host and in the values "
           "of a `body`";
  if (const Json* headers = undo.if_contains("headers"); headers && headers->is_object())
    for (const auto& entry : headers->get_object())
      if (const auto* value = entry.value().if_string())
        if (const auto problem = header_problem(entry.key(), *value, upper_case(method)))
          return "has `headers` that cannot be sent: they " + *problem;
  if (const Json* body = undo.if_contains("body"); body && body->is_string() && names_response(*body))
    return "has a `body` of text that names the response; write the body as a map or a list";
  if (names_response(Json(url)) && is_whole_expression(url))
    return "has a `url` whose host would be the response's to say";
  if (const auto normal = normalize_url_template(url); !normal) return "has a `url` that " + normal.error();
  return std::nullopt;
}

// The text of a value as one part of a path or of a query. Empty text could turn the path into another's.
std::optional<std::string> url_part(const Json& value) {
  const auto* text = value.if_string();
  if (!text && !value.is_number() && !value.is_bool()) return std::nullopt;
  std::string encoded = url_encoded(text ? std::string_view(*text) : std::string_view(canonical(value)));
  return encoded.empty() ? std::nullopt : std::optional(std::move(encoded));
}

// `url` is a normalised template. What comes out must be its own one spelling: a value that is `..` is not.
std::optional<std::string> fill_url(const std::string& url, const Json& response) {
  const auto pieces = parse_template(url);
  if (!pieces) return std::nullopt;
  std::string out;
  for (const auto& piece : *pieces) {
    const auto* expression = std::get_if<Expression>(&piece);
    if (!expression) {
      out += template_of(std::get<std::string>(piece));
    } else if (expression->root != Expression::Root::response) {
      out += print_expression(*expression);
    } else {
      const auto value = find_in_response(*expression, response);
      const auto part = value ? url_part(*value) : std::nullopt;
      if (!part) return std::nullopt;
      out += *part;
    }
  }
  const auto normal = normalize_url_template(out);
  return normal && *normal == out ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

void check_http_undo(Arguments& with, const Lease& lease) {
  const Json* given = with.any("undo");
  if (!given) return;
  const auto shown = parse_json(lease.shown.empty() ? "{}" : lease.shown);
  const Json* declared = shown ? member(*shown, "undo") : nullptr;
  const Json undo = declared ? *declared : template_of_value(*given);
  const auto* map = undo.if_object();
  const auto is_text = [&](std::string_view key) {
    const Json* value = map ? map->if_contains(key) : nullptr;
    return value && value->is_string();
  };
  if (!is_text("method") || !is_text("url"))
    return with.refuse("undo", "must be a map with `method` and `url`, and `headers` and `body` where they are needed");
  if (const auto problem = undo_problem(*map)) with.refuse("undo", *problem);
}

// Unless it says otherwise, the undo is sent with the headers of what it undoes: those that say who asks, most likely.
std::shared_ptr<const Action> http_undo(const Lease& lease, const JsonText& response) {
  const auto shown = parse_json(lease.shown.empty() ? "{}" : lease.shown);
  const Json* undo = shown ? member(*shown, "undo") : nullptr;
  if (!undo || !undo->is_object()) return nullptr;
  boost::json::object fields = undo->get_object();
  for (const auto* key : {"headers", "timeout", "connect_timeout"})
    if (const Json* own = member(*shown, key); own && !fields.contains(key)) fields[key] = *own;
  const auto answer = parse_json(response);
  const auto normal = normalize_url_template(text_member(fields, "url"));
  const auto url = normal && answer ? fill_url(*normal, *answer) : std::nullopt;
  if (!url) return nullptr;
  if (const Json* body = fields.if_contains("body")) {
    auto filled = render_response(*body, *answer);
    if (!filled) return nullptr;
    fields["body"] = std::move(*filled);
  }
  fields["url"] = *url;
  fields["method"] = upper_case(text_member(fields, "method"));
  Action action{.connector = "http",
                .operation = "request",
                .target = url_without_query(*url),
                .fields = canonical(fields),
                .risk = lease.risk,
                .idempotency_key = undo_key(lease)};
  if (!check_action(action)) return nullptr;
  return std::make_shared<const Action>(std::move(action));
}

}  // namespace pawl
