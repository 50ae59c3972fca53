#include "notify/http_answers.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <charconv>

#include "tools/outcome.h"

namespace pawl::notify {
namespace {

constexpr Duration retry_after_max = std::chrono::hours(24);
constexpr std::size_t excerpt_bytes_max = 200;

std::string place_of(const std::string& url) {
  auto origin = origin_of(url);
  return origin ? origin->str() : "the URL";
}

}  // namespace

Failed patient_failure(std::string_view code, std::string message) {
  Failed out = failure(code, std::move(message));
  out.retryable = true;
  return out;
}

Failed failure_of(const HttpError& error, const std::string& url) {
  std::string where = place_of(url);
  switch (error.kind) {
    case HttpError::Kind::stopped:
      return stopped();
    case HttpError::Kind::bad_url:
      return invalid_arguments(fmt::format("{} cannot be used: {}", where, error.message));
    case HttpError::Kind::refused_address:
      // Not TOOL_DENIED: no policy spoke, and a run that is denied is one that somebody or some policy said no to.
      return invalid_arguments(fmt::format("{} may not be reached: {}", where, error.message));
    case HttpError::Kind::too_large:
      return patient_failure("TOOL_OUTPUT_TOO_LARGE", fmt::format("{} answered with too much", where));
    case HttpError::Kind::timed_out:
      return patient_failure("TOOL_TIMEOUT", fmt::format("{} did not answer in time", where));
    case HttpError::Kind::unreachable:
      return patient_failure("TOOL_DEPENDENCY_DOWN", fmt::format("{}: {}", where, error.message));
  }
  return failure("TOOL_INTERNAL_ERROR", "unknown");
}

Failed failure_of(const HttpAnswer& answer, const std::string& url, Instant now) {
  bool redirects = answer.status >= 300 && answer.status < 400;
  std::string message =
      fmt::format("{} answered {}{}", place_of(url), answer.status, redirects ? "; redirects are not followed" : "");
  if (auto excerpt = head_of(repaired_utf8(answer.body), excerpt_bytes_max); !excerpt.empty() && !redirects)
    message += ": " + excerpt;
  Failed out = patient_failure(answer.status == 429 ? "TOOL_RATE_LIMITED" : "TOOL_DEPENDENCY_DOWN", std::move(message));
  out.retry_after = retry_after_of(answer, now);
  return out;
}

std::optional<Duration> retry_after_of(const HttpAnswer& answer, Instant now) {
  const std::string* text = answer.header("retry-after");
  if (!text || text->empty()) return std::nullopt;
  if (std::ranges::all_of(*text, [](char c) { return c >= '0' && c <= '9'; })) {
    constexpr auto most = std::chrono::duration_cast<std::chrono::seconds>(retry_after_max).count();
    std::int64_t seconds = 0;
    auto error = std::from_chars(text->data(), text->data() + text->size(), seconds).ec;
    return std::chrono::seconds(error == std::errc{} ? std::min<std::int64_t>(seconds, most) : most);
  }
  auto at = curl_getdate(text->c_str(), nullptr);
  if (at < 0) return std::nullopt;
  return std::clamp(Duration(static_cast<std::int64_t>(at) * 1000 - now.ms), Duration::zero(), retry_after_max);
}

bool says_sent(const JsonText& output, std::string_view member) {
  const auto value = parse_json(output);
  const Json* sent = value && value->is_object() ? value->get_object().if_contains(member) : nullptr;
  return sent && sent->is_bool() && sent->get_bool();
}

Delivery delivery_outcome(const ToolResult& result, std::string_view member) {
  if (const auto* failed = std::get_if<Failed>(&result))
    return failed->retryable.value_or(false) ? Delivery::retried : Delivery::failed;
  const auto* done = std::get_if<Completed>(&result);
  return done && says_sent(done->output, member) ? Delivery::delivered : Delivery::skipped;
}

}  // namespace pawl::notify
