// slack.post: a message in a channel or a thread. Slack knows no idempotency keys, so the message carries ours as
// metadata, and a call that is in doubt is looked for in the channel.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <span>

#include "tools/connector.h"
#include "tools/outcome.h"
#include "tools/tools.h"

namespace pawl {
namespace {

constexpr std::string_view slack_api = "https://slack.com/api";
constexpr std::string_view event_type = "pawl_post";
constexpr int history_page = 200;
constexpr int history_pages_max = 5;

struct Post {
  std::string base;
  std::string token;
  std::string channel;
  std::string thread;
  std::string text;
  Json blocks;
  Duration timeout{};
};

bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }

// One spelling each: an id, or a name as Slack shows it. A name and an id of the same channel remain two targets.
bool is_channel(std::string_view text) {
  if (text.size() < 2) return false;
  const bool is_name = text[0] == '#';
  if (!is_name && text[0] != 'C' && text[0] != 'D' && text[0] != 'G') return false;
  return std::ranges::all_of(text.substr(1), [&](char c) {
    return is_decimal_digit(c) ||
           (is_name ? (c >= 'a' && c <= 'z') || c == '-' || c == '_' || c == '.' : c >= 'A' && c <= 'Z');
  });
}

// "1503435956.000247"
bool is_timestamp(std::string_view text) {
  const auto dot = text.find('.');
  return dot != text.npos && dot > 0 && dot + 1 < text.size() &&
         std::ranges::all_of(text.substr(0, dot), is_decimal_digit) &&
         std::ranges::all_of(text.substr(dot + 1), is_decimal_digit);
}

std::string target_of(const Post& post) {
  return target_at(post.base, slack_api,
                   post.thread.empty() ? post.channel : fmt::format("{}/{}", post.channel, post.thread));
}

Post read_post(Arguments& with, const ToolLimits& limits) {
  Post post{.base = base_url(with, "url", slack_api),
            .token = with.required_text("token"),
            .channel = with.required_text("channel"),
            .thread = with.text("thread_ts").value_or(""),
            .text = with.required_text("text"),
            .blocks = {},
            .timeout = timeout_of(with, limits.http_timeout)};
  if (!is_channel(post.channel))
    with.refuse("channel",
                "must be a channel's id, which begins with C, D or G, or its name in lower case with # before it");
  if (!post.thread.empty() && !is_timestamp(post.thread))
    with.refuse("thread_ts", "must be a message's `ts`, such as \"1503435956.000247\"");
  if (post.text.empty()) with.refuse("text", "must not be empty: it is what notifications show");
  if (const Json* blocks = with.any("blocks")) {
    if (!blocks->is_array()) with.refuse("blocks", "must be a list of blocks");
    post.blocks = *blocks;
  }
  return post;
}

ApiClient client_for(const Post& post, const ToolLimits& limits, std::stop_token stop) {
  return ApiClient(limits,
                   {.base = post.base, .headers = {{"Authorization", "Bearer " + post.token}}, .timeout = post.timeout},
                   std::move(stop));
}

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

// Most of what Slack refuses it refuses with 200.
Failed refusal_of(const ApiAnswer& answer, Instant now) {
  static constexpr std::array<std::string_view, 4> unsure = {"internal_error", "fatal_error", "service_unavailable",
                                                             "request_timeout"};
  static constexpr std::array<std::string_view, 10> denied = {
      "invalid_auth",  "not_authed",    "account_inactive",  "token_revoked", "token_expired",
      "no_permission", "missing_scope", "ekm_access_denied", "access_denied", "org_login_required"};
  std::string error = text_member(answer.body, "error");
  if (error.empty()) error = "an answer without `ok`";
  std::string message = "Slack refused: " + error;
  if (const Json* more = member(answer.body, "response_metadata"))
    if (const Json* lines = member(*more, "messages"); lines && lines->is_array() && !lines->get_array().empty())
      message += " " + head_of(canonical(*lines), 400);
  if (error == "ratelimited" || error == "rate_limited") {
    auto failed = failure("TOOL_RATE_LIMITED", std::move(message));
    failed.retry_after = retry_after(answer.http, now);
    failed.is_harmless = true;
    return failed;
  }
  // It broke on their side: part of it may have happened.
  if (is_one_of(error, unsure)) return failure("TOOL_DEPENDENCY_DOWN", std::move(message));
  auto failed = failure("TOOL_INVALID_ARGUMENTS", std::move(message));
  if (is_one_of(error, denied)) not_again(failed);
  failed.is_harmless = true;
  return failed;
}

bool is_ok(const ApiAnswer& answer) {
  const Json* ok = member(answer.body, "ok");
  return ok && *ok == Json(true);
}

bool has_key(const Json& message, std::string_view key) {
  const Json* metadata = member(message, "metadata");
  const Json* payload = metadata ? member(*metadata, "event_payload") : nullptr;
  return payload && text_member(*payload, "key") == key;
}

class SlackPost final : public Tool {
 public:
  explicit SlackPost(const ToolLimits& limits) : limits_(limits) {}
  const ToolSpec& spec() const override { return spec_; }
  bool can_look() const override { return true; }

  std::expected<Plan, Failed> plan(const Lease& lease, std::stop_token stop) override {
    Arguments with(lease.input);
    const Post post = read_post(with, limits_);
    if (with.refusal()) return std::unexpected(*with.refusal());
    auto plan = Tool::plan(lease, std::move(stop));
    if (!plan) return plan;
    plan->action.fields = with_fields(lease.shown, {{"url", post.base}});
    plan->action.target = target_of(post);
    const boost::json::object said{{"text", post.text}, {"blocks", post.blocks}};
    plan->action.idempotency_key = fmt::format("slack:post:{}:{}:{}", post.channel, post.thread, short_hash(said));
    return plan;
  }

  std::optional<bool> has_happened(const Lease& lease, std::stop_token stop) override {
    Arguments with(lease.input);
    const Post post = read_post(with, limits_);
    if (with.refusal()) return std::nullopt;
    const ApiClient slack = client_for(post, limits_, std::move(stop));
    std::string cursor;
    for (int page = 0; page < history_pages_max; ++page) {
      std::string path = post.thread.empty() ? "/conversations.history?"
                                             : "/conversations.replies?ts=" + url_encoded(post.thread) + "&";
      path += fmt::format("channel={}&include_all_metadata=true&limit={}", url_encoded(post.channel), history_page);
      if (!cursor.empty()) path += "&cursor=" + url_encoded(cursor);
      const auto answer = slack.get(path, wall_clock());
      const Json* messages = answer && is_ok(*answer) ? member(answer->body, "messages") : nullptr;
      if (!messages || !messages->is_array()) return std::nullopt;
      for (const Json& message : messages->get_array())
        if (has_key(message, lease.idempotency_key)) return true;
      const Json* more = member(answer->body, "response_metadata");
      cursor = more ? text_member(*more, "next_cursor") : "";
      if (cursor.empty()) return false;
    }
    return std::nullopt;  // too much was said since
  }

  ToolResult run(const Lease& lease, Instant now, std::stop_token stop) override {
    Arguments with(lease.input);
    const Post post = read_post(with, limits_);
    if (with.refusal()) return *with.refusal();
    boost::json::object body{
        {"channel", post.channel},
        {"text", post.text},
        {"unfurl_links", false},
        {"metadata", {{"event_type", event_type}, {"event_payload", {{"key", lease.idempotency_key}}}}}};
    if (!post.thread.empty()) body["thread_ts"] = post.thread;
    if (post.blocks.is_array()) body["blocks"] = post.blocks;
    const Json sent(std::move(body));
    const auto answer = client_for(post, limits_, std::move(stop)).call("POST", "/chat.postMessage", &sent, now);
    if (!answer) return answer.error();
    if (!is_ok(*answer)) return refusal_of(*answer, now);
    return Completed{.output = canonical(boost::json::object{{"channel", text_member(answer->body, "channel")},
                                                             {"ts", text_member(answer->body, "ts")}})};
  }

 private:
  using Kind = ToolKey::Kind;
  const ToolLimits limits_;
  const ToolSpec spec_{.name = {"slack.post"},
                       .keys = {{.name = "channel", .required = true, .kind = Kind::text},
                                {.name = "text", .required = true, .kind = Kind::text},
                                {.name = "blocks", .kind = Kind::list},
                                {.name = "thread_ts", .kind = Kind::text},
                                {.name = "token", .required = true, .kind = Kind::text, .secrets = true},
                                {.name = "url", .kind = Kind::text, .fallback = canonical(Json(slack_api))},
                                {.name = "timeout", .kind = Kind::duration}},
                       .writes = ToolSpec::Writes::always};
};

}  // namespace

std::unique_ptr<Tool> make_slack_post(const ToolLimits& limits) { return std::make_unique<SlackPost>(limits); }

}  // namespace pawl
