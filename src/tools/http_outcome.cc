#include "tools/http_outcome.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "tools/outcome.h"

namespace pawl {
namespace {

constexpr std::size_t excerpt_bytes_max = 500;
// A server may ask for patience, not for ever.
constexpr Duration retry_after_max = std::chrono::hours(24);

// As many seconds as the digits say, capped; nothing when they are none.
std::optional<std::int64_t> read_seconds(std::string_view text) {
  if (text.empty() || !std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return error == std::errc{} ? std::min<std::int64_t>(seconds, INT64_MAX / 1000) : INT64_MAX / 1000;
}

Duration within_reason(std::int64_t ms) { return std::clamp(Duration(ms), Duration::zero(), retry_after_max); }

}  // namespace

HttpRules http_rules(const ToolLimits& limits) {
  return {.allow = limits.http_allow,
          .body_bytes_max = limits.http_body_bytes_max,
          .proxy_from_environment = limits.http_proxy_from_environment};
}

Failed transfer_failure(const HttpError& error, const HttpRequest& request, const ToolLimits& limits) {
  const auto origin = origin_of(request.url);
  const auto where = origin ? origin->str() : std::string("the URL");
  const auto make = [&]() -> Failed {
    switch (error.kind) {
      case HttpError::Kind::stopped:
        return stopped();
      case HttpError::Kind::bad_url:
        return invalid_arguments(fmt::format("`url` cannot be used: {}", error.message));
      case HttpError::Kind::refused_address:
        return failure("TOOL_DENIED", fmt::format("{} may not be reached: {}", where, error.message));
      case HttpError::Kind::too_large:
        return failure("TOOL_OUTPUT_TOO_LARGE",
                       fmt::format("{} answered with more than {} bytes", where, limits.http_body_bytes_max));
      case HttpError::Kind::timed_out:
        return failure("TOOL_TIMEOUT", fmt::format("{} did not answer in time: {}", where, error.message));
      case HttpError::Kind::unreachable:
        return failure("TOOL_DEPENDENCY_DOWN", fmt::format("{}: {}", where, error.message));
    }
    return failure("TOOL_INTERNAL_ERROR", "unknown");
  };
  auto failed = make();
  failed.is_harmless = !error.was_sent;
  return failed;
}

std::optional<Duration> retry_after(const HttpAnswer& answer, Instant now) {
  const auto* text = answer.header("retry-after");
  if (!text || text->empty()) return std::nullopt;
  if (const auto seconds = read_seconds(*text)) return within_reason(*seconds * 1000);
  const auto at = curl_getdate(text->c_str(), nullptr);
  if (at < 0) return std::nullopt;
  return within_reason(static_cast<std::int64_t>(at) * 1000 - now.ms);
}

std::optional<Duration> until_unix_time(const HttpAnswer& answer, std::string_view header, Instant now) {
  const auto* text = answer.header(header);
  const auto seconds = text ? read_seconds(*text) : std::nullopt;
  if (!seconds) return std::nullopt;
  return within_reason(*seconds * 1000 - now.ms);
}

Failed status_failure(const HttpRequest& request, const HttpAnswer& answer, Instant now) {
  auto message = fmt::format("{} {} answered {}", request.method, origin_of(request.url)->str(), answer.status);
  if (const auto excerpt = head_of(repaired_utf8(answer.body), excerpt_bytes_max); !excerpt.empty())
    message += ": " + excerpt;
  const auto code = answer.status == 408   ? "TOOL_TIMEOUT"
                    : answer.status == 429 ? "TOOL_RATE_LIMITED"
                    : answer.status >= 500 ? "TOOL_DEPENDENCY_DOWN"
                                           : "TOOL_INVALID_ARGUMENTS";
  auto failed = failure(code, std::move(message));
  failed.is_harmless = answer.status < 500;
  if (answer.status == 408 || answer.status == 429 || answer.status >= 500)
    failed.retry_after = retry_after(answer, now);
  return failed;
}

}  // namespace pawl
