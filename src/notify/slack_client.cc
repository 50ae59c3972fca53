#include "notify/slack_client.h"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "notify/http_answers.h"
#include "tools/http_url.h"
#include "tools/outcome.h"

namespace pawl::notify {
namespace {

using boost::json::object;

constexpr Duration slack_connect_timeout = std::chrono::seconds(5);
constexpr Duration tell_timeout = std::chrono::seconds(5);
constexpr auto between_messages = std::chrono::milliseconds(1000);
constexpr std::size_t channels_remembered_max = 1000;

// Those that pass; what else Slack refuses it refuses the next time, too.
constexpr std::array passing_errors{std::string_view("ratelimited"),     std::string_view("internal_error"),
                                    std::string_view("fatal_error"),     std::string_view("service_unavailable"),
                                    std::string_view("request_timeout"), std::string_view("team_added_to_org"),
                                    std::string_view("rate_limited")};

}  // namespace

std::expected<object, Failed> call_slack(const NotifyContext& context, const SlackCall& call, Instant now,
                                         const std::stop_token& stop) {
  const SlackPlace& slack = *call.tenant.slack;
  auto token = context.find_secret(call.tenant, OwnSecret::find(call.tenant, OwnSecret::Use::slack_token));
  if (!token) return std::unexpected(patient_failure("TOOL_INVALID_ARGUMENTS", token.error()));
  auto url = normalize_url(slack.api_base + "/" + std::string(call.method));
  if (!url) return std::unexpected(patient_failure("TOOL_INVALID_ARGUMENTS", "Slack's `api_base` " + url.error()));
  HttpRequest request{.method = "POST",
                      .url = std::move(*url),
                      .headers = {{"Content-Type", "application/json; charset=utf-8"},
                                  {"Authorization", "Bearer " + *token},
                                  {"User-Agent", "pawl"}},
                      .body = boost::json::serialize(call.body),
                      .timeout = call.timeout,
                      .connect_timeout = std::min(slack_connect_timeout, call.timeout)};
  auto answer = exchange(request, context.rules, stop);
  if (!answer) return std::unexpected(failure_of(answer.error(), request.url));
  if (answer->status != 200) return std::unexpected(failure_of(*answer, request.url, now));
  auto said = parse_json(answer->body);
  const object* body = said ? said->if_object() : nullptr;
  const Json* ok = body ? body->if_contains("ok") : nullptr;
  if (!ok || !ok->is_bool())
    return std::unexpected(patient_failure("TOOL_DEPENDENCY_DOWN", "Slack answered with something else than JSON"));
  if (ok->get_bool()) return *body;
  const Json* error = body->if_contains("error");
  std::string word = error && error->is_string() ? std::string(error->get_string()) : "unknown_error";
  bool passes = std::ranges::find(passing_errors, word) != passing_errors.end();
  Failed out = failure(passes ? "TOOL_DEPENDENCY_DOWN" : "TOOL_INVALID_ARGUMENTS",
                       std::string(call.method) + ": Slack says " + repaired_utf8(word));
  out.retryable = passes;
  out.retry_after = retry_after_of(*answer, now);
  return std::unexpected(std::move(out));
}

void tell_clicker(const NotifyContext& context, const Tenant& tenant, const std::string& response_url,
                  const std::string& text) {
  auto url = normalize_url(response_url);
  auto origin = url ? origin_of(*url) : std::nullopt;
  bool is_slacks =
      origin && (origin->str() == "https://hooks.slack.com" || *origin == origin_of(tenant.slack->api_base));
  if (!is_slacks) return;
  object body{{"response_type", "ephemeral"}, {"replace_original", false}, {"text", text}};
  auto answer = exchange({.method = "POST",
                          .url = *url,
                          .headers = {{"Content-Type", "application/json; charset=utf-8"}, {"User-Agent", "pawl"}},
                          .body = boost::json::serialize(body),
                          .timeout = tell_timeout,
                          .connect_timeout = tell_timeout},
                         context.rules, {});
  bool told = answer && answer->status == 200;
  context.count("slack", told ? Delivery::delivered : Delivery::failed);
}

bool ChannelPace::wait(const std::string& channel, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  auto now = Clock::now();
  if (next_.size() > channels_remembered_max) std::erase_if(next_, [&](const auto& each) { return each.second < now; });
  Clock::time_point& next = next_[channel];
  auto turn = std::max(next, now);
  next = turn + between_messages;
  changed_.wait_until(lock, stop, turn, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace pawl::notify
