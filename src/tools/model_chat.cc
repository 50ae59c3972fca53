// model.chat: one question to a language model, of Anthropic's Messages API or of any server that speaks OpenAI's chat
// completions. What it used is turned into cost by a table of prices; what the table does not know has no cost that is
// known, and the output says so.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <chrono>

#include "tools/connector.h"
#include "tools/outcome.h"
#include "tools/prices.h"
#include "tools/tools.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;
using std::chrono::steady_clock;

constexpr std::string_view anthropic_api = "https://api.anthropic.com";
constexpr std::string_view anthropic_version = "2023-06-01";
constexpr std::string_view openai_api = "https://api.openai.com";
// Models think.
constexpr Duration chat_timeout = std::chrono::minutes(5);

enum class Speech { anthropic, openai };

struct Chat {
  Speech speech = Speech::anthropic;
  std::string provider;
  std::string base;
  std::string model;
  std::string api_key;
  Json request;
  Duration timeout{};
};

// What the tool itself decides; `options` may say anything else that the API takes.
constexpr std::array<std::string_view, 7> own_keys = {
    "model", "messages", "system", "max_tokens", "max_completion_tokens", "stream", "n"};

array read_messages(Arguments& with) {
  const Json* messages = with.any("messages");
  if (!messages || !messages->is_array() || messages->get_array().empty()) {
    with.refuse("messages", "must be a list of at least one {role, content}");
    return {};
  }
  for (const Json& message : messages->get_array())
    if (text_member(message, "role").empty() || !member(message, "content"))
      with.refuse("messages", "must hold maps with `role` and `content`");
  return messages->get_array();
}

Json make_request(Arguments& with, const Chat& chat) {
  object out;
  if (const Json* options = with.any("options")) {
    if (const auto* map = options->if_object())
      out = *map;
    else
      with.refuse("options", "must be a map");
    for (const auto key : own_keys)
      if (out.contains(key)) with.refuse("options", fmt::format("must not hold {}, which the tool sets", key));
  }
  const auto tokens_max = with.count("max_tokens");
  if (!tokens_max || *tokens_max == 0) with.refuse("max_tokens", "is required, and must be a number above nought");
  auto messages = read_messages(with);
  const auto system = with.text("system");
  out["model"] = chat.model;
  for (const auto* key : {"temperature", "tools", "tool_choice"})
    if (const Json* value = with.any(key)) out[key] = *value;
  if (chat.speech == Speech::anthropic) {
    out["max_tokens"] = tokens_max.value_or(1);
    if (system) out["system"] = *system;
  } else {
    if (system) messages.insert(messages.begin(), object{{"role", "system"}, {"content", *system}});
    // Servers that only speak like OpenAI mostly know the older word.
    out[chat.base == openai_api ? "max_completion_tokens" : "max_tokens"] = tokens_max.value_or(1);
  }
  out["messages"] = std::move(messages);
  return out;
}

Chat read_chat(Arguments& with) {
  Chat chat{.provider = with.required_text("provider"),
            .model = with.required_text("model"),
            .api_key = with.text("api_key").value_or(""),
            .timeout = timeout_of(with, chat_timeout)};
  if (chat.provider != "anthropic" && chat.provider != "openai")
    with.refuse("provider",
                "must be anthropic or openai; openai is also for servers that speak like it, with `base_url`");
  chat.speech = chat.provider == "openai" ? Speech::openai : Speech::anthropic;
  chat.base = base_url(with, "base_url", chat.speech == Speech::anthropic ? anthropic_api : openai_api);
  if (chat.base.ends_with("/v1")) chat.base.resize(chat.base.size() - 3);
  if (chat.api_key.find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos)
    with.refuse("api_key", "must be one line");
  chat.request = make_request(with, chat);
  return chat;
}

HttpHeaders headers_of(const Chat& chat) {
  HttpHeaders headers;
  if (chat.speech == Speech::anthropic) {
    headers.emplace_back("anthropic-version", anthropic_version);
    if (!chat.api_key.empty()) headers.emplace_back("x-api-key", chat.api_key);
  } else if (!chat.api_key.empty()) {
    headers.emplace_back("Authorization", "Bearer " + chat.api_key);
  }
  return headers;
}

std::optional<Duration> retry_after_ms(const HttpAnswer& answer) {
  const auto* text = answer.header("retry-after-ms");
  double ms = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), ms).ec != std::errc()) return std::nullopt;
  return Duration(static_cast<std::int64_t>(std::clamp(ms, 0.0, 3.6e6)));
}

// Both APIs: {"error": {"type", "message", "code"?}}, and a header that knows better than the status.
void explain_model_error(const ApiAnswer& answer, Instant, Failed& failed) {
  std::string type, code;
  if (const Json* error = member(answer.body, "error")) {
    type = text_member(*error, "type");
    code = text_member(*error, "code");
    const auto message = text_member(*error, "message");
    failed.message = fmt::format("the model's API answered {}: {}{}{}", answer.http.status, type,
                                 type.empty() || message.empty() ? "" : ": ", head_of(message, 600));
  }
  if (auto soon = retry_after_ms(answer.http)) failed.retry_after = soon;
  if (answer.http.status == 409) {
    failed.error_code = "TOOL_DEPENDENCY_DOWN";
    failed.retryable = true;
  }
  if (const auto* word = answer.http.header("x-should-retry"); word && (*word == "true" || *word == "false"))
    failed.retryable = *word == "true";
  // A 429 that no waiting mends.
  if (code == "insufficient_quota" || type == "insufficient_quota" || type == "billing_error") not_again(failed);
}

std::int64_t count_at(const Json* value, std::string_view key) {
  const Json* found = value ? member(*value, key) : nullptr;
  if (!found || !found->is_number()) return 0;
  if (const auto* number = found->if_int64()) return std::max<std::int64_t>(*number, 0);
  return 0;
}

// What the model said, in the same words for both APIs.
struct Said {
  std::string text;
  array tool_calls;
  std::string stop_reason;
  std::string model;
  std::optional<TokenCounts> tokens;
  std::int64_t server_tool_requests = 0;
  std::string service_tier;
};

Said read_anthropic(const Json& body) {
  Said said{.stop_reason = text_member(body, "stop_reason"), .model = text_member(body, "model")};
  if (const Json* content = member(body, "content"); content && content->is_array())
    for (const Json& block : content->get_array()) {
      if (text_member(block, "type") == "text") said.text += text_member(block, "text");
      if (text_member(block, "type") != "tool_use") continue;
      const Json* input = member(block, "input");
      said.tool_calls.push_back(object{
          {"id", text_member(block, "id")}, {"name", text_member(block, "name")}, {"input", input ? *input : Json()}});
    }
  const Json* usage = member(body, "usage");
  if (!usage || !usage->is_object()) return said;
  const Json* writes = member(*usage, "cache_creation");
  const auto written = count_at(usage, "cache_creation_input_tokens");
  const auto for_an_hour = std::min(count_at(writes, "ephemeral_1h_input_tokens"), written);
  said.tokens = TokenCounts{.input_uncached = count_at(usage, "input_tokens"),
                            .input_cache_read = count_at(usage, "cache_read_input_tokens"),
                            .input_cache_write_5m = written - for_an_hour,
                            .input_cache_write_1h = for_an_hour,
                            .output = count_at(usage, "output_tokens"),
                            .reasoning = count_at(member(*usage, "output_tokens_details"), "thinking_tokens")};
  const Json* server = member(*usage, "server_tool_use");
  said.server_tool_requests = count_at(server, "web_search_requests") + count_at(server, "web_fetch_requests");
  said.service_tier = text_member(*usage, "service_tier");
  return said;
}

object tool_call_of(const Json& call) {
  const Json* function = member(call, "function");
  object out{{"id", text_member(call, "id")}, {"name", function ? text_member(*function, "name") : ""}};
  const auto arguments = function ? text_member(*function, "arguments") : "";
  // A model may write what is not JSON.
  if (auto parsed = parse_json(arguments); parsed && nests_within(*parsed, json_depth_max - 4))
    out["input"] = *parsed;
  else
    out["arguments"] = arguments;
  return out;
}

Said read_openai(const Json& body) {
  Said said{.model = text_member(body, "model"), .service_tier = text_member(body, "service_tier")};
  const Json* choices = member(body, "choices");
  if (choices && choices->is_array() && !choices->get_array().empty()) {
    const Json& choice = choices->get_array()[0];
    said.stop_reason = text_member(choice, "finish_reason");
    const Json* message = member(choice, "message");
    if (message) said.text = text_member(*message, "content");
    const Json* calls = message ? member(*message, "tool_calls") : nullptr;
    if (calls && calls->is_array())
      for (const Json& call : calls->get_array()) said.tool_calls.push_back(tool_call_of(call));
  }
  const Json* usage = member(body, "usage");
  if (!usage || !usage->is_object() || !member(*usage, "prompt_tokens")) return said;
  const Json* details = member(*usage, "prompt_tokens_details");
  const auto read = count_at(details, "cached_tokens"), written = count_at(details, "cache_write_tokens");
  // Here the total includes what came from a cache.
  said.tokens =
      TokenCounts{.input_uncached = std::max<std::int64_t>(count_at(usage, "prompt_tokens") - read - written, 0),
                  .input_cache_read = read,
                  .input_cache_write_5m = written,
                  .output = count_at(usage, "completion_tokens"),
                  .reasoning = count_at(member(*usage, "completion_tokens_details"), "reasoning_tokens")};
  return said;
}

class ModelChat final : public Tool {
 public:
  explicit ModelChat(const ToolLimits& limits) : limits_(limits) {}
  const ToolSpec& spec() const override { return spec_; }

  // Of a question that is a write: to an address that is not trusted, or with what the provider is to execute.
  std::expected<Plan, Failed> plan(const Lease& lease, std::stop_token stop) override {
    Arguments with(lease.input);
    const Chat chat = read_chat(with);
    if (with.refusal()) return std::unexpected(*with.refusal());
    auto plan = Tool::plan(lease, std::move(stop));
    if (!plan) return plan;
    plan->action.fields = with_fields(lease.shown, {{"base_url", chat.base}});
    plan->action.target = chat.base;
    // Where the address alone makes it one, nothing but an answer comes of it.
    Json elsewhere = parse_json(lease.input).value_or(Json());
    if (elsewhere.is_object()) elsewhere.get_object().erase("base_url");
    plan->idempotent = !may_write(spec_, canonical(elsewhere));
    return plan;
  }

  ToolResult run(const Lease& lease, Instant now, std::stop_token stop) override {
    Arguments with(lease.input);
    const Chat chat = read_chat(with);
    if (with.refusal()) return *with.refusal();
    const ApiClient api(
        limits_,
        {.base = chat.base, .headers = headers_of(chat), .timeout = chat.timeout, .explain = explain_model_error},
        std::move(stop));
    const auto begin = steady_clock::now();
    const auto answer = api.call("POST", chat.speech == Speech::anthropic ? "/v1/messages" : "/v1/chat/completions",
                                 &chat.request, now);
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(steady_clock::now() - begin);
    if (!answer) return answer.error();
    const Said said = chat.speech == Speech::anthropic ? read_anthropic(answer->body) : read_openai(answer->body);
    if (said.model.empty() && said.stop_reason.empty()) {
      auto failed = failure("TOOL_FAILED", "the answer is none of a model");
      failed.retryable = false;
      return failed;
    }
    const Prices& prices = limits_.prices ? *limits_.prices : Prices::shipped();
    const auto cost = said.tokens && said.server_tool_requests == 0
                          ? prices.cost(chat.provider, said.model.empty() ? chat.model : said.model, *said.tokens)
                          : std::nullopt;
    object usage = record_of(lease, chat, said, *answer);
    usage["latency_ms"] = took.count();
    usage["cost_usd"] = cost ? Json(print_money(*cost)) : Json();
    usage["price_version"] = cost ? Json(prices.version()) : Json();
    usage["cost_basis"] = cost ? "computed" : "unknown";
    return Completed{.output = canonical(object{{"text", said.text},
                                                {"tool_calls", said.tool_calls},
                                                {"stop_reason", said.stop_reason},
                                                {"usage", std::move(usage)}}),
                     .cost = cost.value_or(Money{})};
  }

 private:
  static object record_of(const Lease& lease, const Chat& chat, const Said& said, const ApiAnswer& answer) {
    const auto* id = answer.http.header(chat.speech == Speech::anthropic ? "request-id" : "x-request-id");
    const auto count = [&](std::int64_t TokenCounts::*at) { return said.tokens ? Json((*said.tokens).*at) : Json(); };
    return {{"provider", chat.provider},
            {"model", said.model.empty() ? chat.model : said.model},
            {"request_id", repaired_utf8(id ? *id : text_member(answer.body, "id"))},
            {"run_id", lease.run.str()},
            {"step_id", lease.step.text},
            {"attempt", lease.attempt},
            {"input_uncached_tokens", count(&TokenCounts::input_uncached)},
            {"input_cache_read_tokens", count(&TokenCounts::input_cache_read)},
            {"input_cache_write_5m_tokens", count(&TokenCounts::input_cache_write_5m)},
            {"input_cache_write_1h_tokens", count(&TokenCounts::input_cache_write_1h)},
            {"output_tokens", count(&TokenCounts::output)},
            {"reasoning_tokens", count(&TokenCounts::reasoning)},
            {"server_tool_requests", said.server_tool_requests},
            {"service_tier", said.service_tier.empty() ? Json() : Json(said.service_tier)}};
  }

  using Kind = ToolKey::Kind;
  const ToolLimits limits_;
  const ToolSpec spec_{.name = {"model.chat"},
                       .keys = {{.name = "provider", .required = true, .kind = Kind::text},
                                {.name = "model", .required = true, .kind = Kind::text},
                                {.name = "messages", .required = true, .kind = Kind::list},
                                {.name = "system", .kind = Kind::text},
                                {.name = "max_tokens", .required = true, .kind = Kind::number},
                                {.name = "temperature", .kind = Kind::number},
                                {.name = "tools", .kind = Kind::list},
                                {.name = "tool_choice"},
                                {.name = "options", .kind = Kind::map},
                                {.name = "api_key", .kind = Kind::text, .secrets = true},
                                {.name = "base_url", .kind = Kind::text},
                                {.name = "timeout", .kind = Kind::duration}},
                       .writes = ToolSpec::Writes::by_method};
};

}  // namespace

std::unique_ptr<Tool> make_model_chat(const ToolLimits& limits) { return std::make_unique<ModelChat>(limits); }

}  // namespace pawl
