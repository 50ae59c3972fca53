// http.request: one HTTP request. Success is any answer below 400; http_outcome.h says what the others mean.
#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <new>

#include "core/expression.h"
#include "tools/arguments.h"
#include "tools/connector.h"
#include "tools/http_headers.h"
#include "tools/http_outcome.h"
#include "tools/http_undo.h"
#include "tools/http_url.h"
#include "tools/outcome.h"
#include "tools/tools.h"

namespace pawl {
namespace {

using std::chrono::steady_clock;

constexpr int redirects_max = 5;
constexpr std::string_view default_method = "GET";

constexpr std::array<std::string_view, 7> methods = {"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"};
// What another origin may see after a redirect; anything else may say who asks.
constexpr std::array<std::string_view, 4> impersonal_headers = {"accept", "accept-language", "content-type",
                                                                "user-agent"};

std::string with_case(std::string_view text, int (*convert)(int)) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(convert(static_cast<unsigned char>(c)));
  return result;
}
int lower(int c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }
int upper(int c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; }

bool contains(const auto& words, std::string_view word) { return std::ranges::find(words, word) != words.end(); }

bool has_header(const HttpRequest& request, std::string_view name) {
  return std::ranges::any_of(request.headers,
                             [&](const auto& header) { return with_case(header.first, lower) == name; });
}

// The text of `url` in what is shown of the input; empty when there is none.
std::string shown_url(const Lease& lease) {
  Arguments shown(lease.shown.empty() ? "{}" : lease.shown);
  return shown.text("url").value_or("");
}

// Whether a secret's value leads away from what was judged: the URL must begin as its template does.
bool keeps_to_template(const std::string& url, const std::string& shown) {
  const auto judged = normalize_url_template(shown);
  const auto pieces = judged ? parse_template(*judged) : std::unexpected(ExpressionError{});
  if (!pieces || pieces->empty()) return false;
  const auto* literal = std::get_if<std::string>(&pieces->front());
  return !literal || (pieces->size() == 1 ? url == *literal : url.starts_with(*literal));
}

void read_url(Arguments& with, const Lease& lease, HttpRequest& request) {
  const std::string url = with.required_text("url");
  if (with.refusal()) return;
  auto normal = normalize_url(url);
  if (!normal) return with.refuse("url", normal.error());
  request.url = std::move(*normal);
  if (const std::string shown = shown_url(lease); !shown.empty() && !keeps_to_template(request.url, shown))
    with.refuse("url", "has a secret that leads to another place than the URL without it; percent-encode its value");
}

void read_headers(Arguments& with, HttpRequest& request) {
  request.headers = with.text_map("headers");
  for (const auto& [name, value] : request.headers)
    if (const auto problem = header_problem(name, value, request.method)) with.refuse("headers", *problem);
}

void read_body(Arguments& with, HttpRequest& request) {
  const Json* body = with.any("body");
  if (!body) return;
  const auto* text = body->if_string();
  request.body = text ? std::string(std::string_view(*text)) : boost::json::serialize(*body);
  if (!has_header(request, "content-type"))
    request.headers.emplace_back("Content-Type", text ? "text/plain; charset=utf-8" : "application/json");
}

HttpRequest read_request(Arguments& with, const Lease& lease, const ToolLimits& limits, bool writes) {
  HttpRequest request{.method = with_case(with.text("method").value_or(std::string(default_method)), upper),
                      .url = {},
                      .headers = {},
                      .body = {},
                      .timeout = with.duration("timeout").value_or(limits.http_timeout),
                      .connect_timeout = with.duration("connect_timeout").value_or(limits.http_connect_timeout)};
  if (!contains(methods, request.method))
    with.refuse("method", "must be GET, HEAD, OPTIONS, POST, PUT, PATCH or DELETE");
  read_url(with, lease, request);
  // To libcurl, zero is no limit at all.
  if (request.timeout <= Duration::zero()) with.refuse("timeout", "must be longer than nothing");
  if (request.connect_timeout <= Duration::zero()) with.refuse("connect_timeout", "must be longer than nothing");
  read_headers(with, request);
  read_body(with, request);
  if (writes && !has_header(request, "idempotency-key") && is_header_value(lease.idempotency_key))
    request.headers.emplace_back("Idempotency-Key", lease.idempotency_key);
  return request;
}

// Only reads are redirected. What another origin is told says nothing of who asks.
HttpRequest redirected(HttpRequest request, std::string url) {
  if (origin_of(request.url) != origin_of(url)) {
    request.body.reset();
    std::erase_if(request.headers,
                  [](const auto& header) { return !contains(impersonal_headers, with_case(header.first, lower)); });
  }
  request.url = std::move(url);
  return request;
}

// The request that a redirect asks for is one that nobody has allowed.
bool read_follows(Arguments& with, bool writes) {
  const bool follows = with.boolean("follow_redirects").value_or(false);
  if (follows && writes)
    with.refuse("follow_redirects",
                "is for reads: GET, HEAD and OPTIONS without a body, without a header that names a method, and without "
                "`writes`; send a write to where it belongs");
  return follows;
}

bool is_json(const HttpAnswer& answer) {
  const auto* type = answer.header("content-type");
  if (!type) return false;
  auto media = with_case(type->substr(0, type->find(';')), lower);
  while (media.ends_with(' ')) media.pop_back();
  return media == "application/json" || media.ends_with("+json");
}

void append_headers(std::string& output, const HttpAnswer& answer) {
  // One that came several times is one text, joined as RFC 9110 has it.
  HttpHeaders joined;
  for (const auto& [name, value] : answer.headers) {
    const auto earlier = std::ranges::find_if(joined, [&](const auto& header) { return header.first == name; });
    if (earlier == joined.end())
      joined.emplace_back(name, value);
    else
      earlier->second += ", " + value;
  }
  output += '{';
  for (const auto& [name, value] : joined) {
    if (output.back() != '{') output += ',';
    append_json_string(output, repaired_utf8(name));
    output += ':';
    append_json_string(output, repaired_utf8(value));
  }
  output += '}';
}

Completed completed(HttpAnswer answer) {
  std::string output = fmt::format(R"({{"status":{},"headers":)", answer.status);
  append_headers(output, answer);
  output += R"(,"body":)";
  auto text = repaired_utf8(std::move(answer.body));
  const auto parsed = is_json(answer) ? parse_json(text) : std::unexpected(std::string());
  if (parsed && nests_within(*parsed, json_depth_max - 1))
    output += boost::json::serialize(*parsed);
  else
    append_json_string(output, text);
  output += '}';
  return {.output = std::move(output), .cost = {}};
}

class HttpRequestTool final : public Tool {
 public:
  explicit HttpRequestTool(const ToolLimits& limits) : limits_(limits), rules_(http_rules(limits)) {
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) throw std::bad_alloc();
  }
  ~HttpRequestTool() override { curl_global_cleanup(); }

  const ToolSpec& spec() const override { return spec_; }

  std::expected<Plan, Failed> plan(const Lease& lease, std::stop_token stop) override {
    Arguments with(lease.input);
    const bool writes = may_write(spec_, lease.input);
    read_follows(with, writes);
    const HttpRequest request = read_request(with, lease, limits_, writes);
    check_http_undo(with, lease);
    const bool repeats = with.boolean("idempotent").value_or(false);
    const bool only_reads = with.boolean("writes") == std::optional(false);
    if (with.refusal()) return std::unexpected(*with.refusal());
    auto plan = Tool::plan(lease, std::move(stop));
    if (!plan) return plan;
    auto fields = parse_json(lease.shown);
    const auto url = normalize_url_template(shown_url(lease));
    if (!fields || !fields->is_object() || !url)
      return std::unexpected(invalid_arguments("`url` " + (url ? std::string("is missing") : url.error())));
    fields->get_object()["url"] = *url;
    fields->get_object()["method"] = request.method;
    plan->action.fields = canonical(*fields);
    plan->action.target = url_without_query(*url);
    plan->idempotent = repeats || only_reads;
    return plan;
  }

  // What the call answered is its output.
  std::shared_ptr<const Action> make_undo(const Lease& lease, const Completed& completed) const override {
    return http_undo(lease, completed.output);
  }

  ToolResult run(const Lease& lease, Instant now, std::stop_token stop) override {
    Arguments with(lease.input);
    const bool writes = may_write(spec_, lease.input);
    const bool follows = read_follows(with, writes);
    HttpRequest request = read_request(with, lease, limits_, writes);
    check_http_undo(with, lease);
    if (with.refusal()) return *with.refusal();

    // The time-out is for all of it, redirects included.
    const auto deadline = steady_clock::now() + request.timeout;
    for (int redirects = 0;; ++redirects) {
      auto answer = exchange(request, rules_, stop);
      if (!answer || answer->status >= 400) {
        return answer ? status_failure(request, *answer, now) : transfer_failure(answer.error(), request, limits_);
      }
      if (!follows || answer->redirect_url.empty()) return completed(std::move(*answer));
      if (redirects == redirects_max)
        return failure("TOOL_INVALID_ARGUMENTS", fmt::format("more than {} redirects", redirects_max));
      auto next = normalize_url(answer->redirect_url);
      if (!next) return invalid_arguments("it is redirected to a `url` that " + next.error());
      request = redirected(std::move(request), std::move(*next));
      request.timeout = std::max(std::chrono::ceil<Duration>(deadline - steady_clock::now()), Duration(1));
    }
  }

 private:
  using Kind = ToolKey::Kind;
  const ToolLimits limits_;
  const HttpRules rules_;
  const ToolSpec spec_{.name = {"http.request"},
                       .keys = {{.name = "url", .required = true, .kind = Kind::text, .secrets = true},
                                {.name = "method", .kind = Kind::text, .fallback = canonical(Json(default_method))},
                                {.name = "headers", .kind = Kind::text_map, .secrets = true},
                                {.name = "body", .secrets = true},
                                {.name = "timeout", .kind = Kind::duration},
                                {.name = "connect_timeout", .kind = Kind::duration},
                                {.name = "follow_redirects", .kind = Kind::boolean},
                                {.name = "writes", .kind = Kind::boolean},
                                {.name = "idempotent", .kind = Kind::boolean},
                                {.name = "undo", .kind = Kind::map, .secrets = true, .response = true}},
                       .writes = ToolSpec::Writes::by_method};
};

}  // namespace

std::unique_ptr<Tool> make_http_request(const ToolLimits& limits) { return std::make_unique<HttpRequestTool>(limits); }

}  // namespace pawl
