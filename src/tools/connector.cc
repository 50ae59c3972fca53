#include "tools/connector.h"

#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>

#include "core/expression.h"
#include "crypto/sha256.h"
#include "tools/http_url.h"
#include "tools/outcome.h"

namespace pawl {
namespace {

constexpr std::size_t hash_chars = 32;
constexpr std::size_t undo_hash_chars = 16;

}  // namespace

std::expected<ApiAnswer, ApiFailed> ApiClient::call(std::string method, const std::string& path, const Json* body,
                                                    Instant now) const {
  HttpRequest request{.method = std::move(method),
                      .url = options_.base + path,
                      .headers = options_.headers,
                      .body = {},
                      .timeout = options_.timeout,
                      .connect_timeout = limits_.http_connect_timeout};
  request.headers.emplace_back("Accept", "application/json");
  if (body) {
    request.headers.emplace_back("Content-Type", "application/json; charset=utf-8");
    request.body = boost::json::serialize(*body);
  }
  auto answer = exchange(request, http_rules(limits_), stop_);
  if (!answer) return std::unexpected(ApiFailed{transfer_failure(answer.error(), request, limits_)});
  auto parsed = parse_json(answer->body);
  ApiAnswer out{std::move(*answer), parsed ? std::move(*parsed) : Json()};
  if (out.http.status >= 400) {
    Failed failed = status_failure(request, out.http, now);
    // Not TOOL_DENIED: a run is denied by those who govern it here.
    if (out.http.status == 401 || out.http.status == 403) not_again(failed);
    if (options_.explain) options_.explain(out, now, failed);
    return std::unexpected(ApiFailed{std::move(failed), out.http.status});
  }
  // A redirect, or a page that says that one should log in: whatever it is, it is not the API.
  if (out.http.status >= 300 || (!parsed && !out.http.body.empty())) {
    auto failed = failure("TOOL_FAILED", fmt::format("{} {} answered {} with something that is not JSON",
                                                     request.method, origin_of(request.url)->str(), out.http.status));
    failed.retryable = false;
    return std::unexpected(ApiFailed{std::move(failed), out.http.status});
  }
  return out;
}

const Json* member(const Json& value, std::string_view key) {
  const auto* map = value.if_object();
  return map ? map->if_contains(key) : nullptr;
}

std::string text_member(const Json& value, std::string_view key) {
  const Json* found = member(value, key);
  const auto* text = found ? found->if_string() : nullptr;
  return text ? std::string(std::string_view(*text)) : std::string();
}

std::string url_encoded(std::string_view text) {
  constexpr std::string_view kept = "-._~";
  std::string out;
  for (const char c : text) {
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (is_word || kept.contains(c))
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string base_url(Arguments& with, std::string_view key, std::string_view otherwise) {
  const std::string given = with.text(key).value_or(std::string(otherwise));
  auto url = normalize_url(given);
  if (!url) return with.refuse(key, url.error()), given;
  if (url->contains('?')) with.refuse(key, "must be an http or https URL without a query");
  while (url->ends_with('/')) url->pop_back();
  return *url;
}

std::string short_hash(const Json& value) { return sha256(canonical(value)).hex().substr(0, hash_chars); }

JsonText with_fields(const JsonText& shown, std::initializer_list<FieldText> texts) {
  auto fields = parse_json(shown);
  if (!fields || !fields->is_object()) return shown;
  for (const auto& [key, text] : texts) fields->get_object()[key] = template_of(text);
  return canonical(*fields);
}

std::string target_at(std::string_view base, std::string_view own, std::string_view name) {
  return base == own ? std::string(name) : fmt::format("{}/{}", base, name);
}

std::string undo_key(const Lease& lease) {
  return fmt::format("undo:{}:{}:{}", lease.run.str(), lease.step.text,
                     sha256(lease.idempotency_key).hex().substr(0, undo_hash_chars));
}

Duration timeout_of(Arguments& with, Duration otherwise) {
  const auto timeout = with.duration("timeout").value_or(otherwise);
  if (timeout <= Duration::zero()) with.refuse("timeout", "must be longer than nothing");
  return timeout;
}

void not_again(Failed& failed) {
  failed.error_code = "TOOL_FAILED";
  failed.retryable = false;
  failed.retry_after.reset();
}

Instant wall_clock() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return Instant{std::chrono::duration_cast<std::chrono::milliseconds>(since).count()};
}

}  // namespace pawl
