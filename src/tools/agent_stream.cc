#include "tools/agent_stream.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>

#include "core/json.h"
#include "tools/outcome.h"

namespace pawl {
namespace {

using boost::json::object;

constexpr double money_max = 1e9;
constexpr std::size_t denied_input_bytes_max = 1000;

const Json* find(const object& in, std::string_view key) {
  const Json* value = in.if_contains(key);
  return value && !value->is_null() ? value : nullptr;
}

std::int64_t number_in(const object& in, std::string_view key) {
  const Json* value = find(in, key);
  const auto* number = value ? value->if_int64() : nullptr;
  return number ? *number : 0;
}

std::optional<bool> flag_in(const object& in, std::string_view key) {
  const Json* value = find(in, key);
  const auto* flag = value ? value->if_bool() : nullptr;
  return flag ? std::optional(*flag) : std::nullopt;
}

// The errors of a result that has no text.
std::string joined_errors(const object& result) {
  std::string out;
  const Json* errors = find(result, "errors");
  if (const auto* list = errors ? errors->if_array() : nullptr)
    for (const Json& error : *list)
      if (const auto* text = error.if_string()) out += (out.empty() ? "" : "; ") + std::string(std::string_view(*text));
  return out;
}

void take_denials(const object& line, AgentStory::Result& result) {
  const Json* denials = find(line, "permission_denials");
  const auto* list = denials ? denials->if_array() : nullptr;
  if (!list) return;
  for (const Json& each : *list) {
    const auto* denial = each.if_object();
    if (!denial) continue;
    if (result.denials.size() == agent_denials_max) {
      ++result.denials_left_out;
      continue;
    }
    const Json* input = find(*denial, "tool_input");
    JsonText text = input ? canonical(*input) : "null";
    if (text.size() > denied_input_bytes_max) text = canonical(Json(head_of(text, denied_input_bytes_max)));
    result.denials.push_back({head_of(text_in(*denial, "tool_name"), denied_input_bytes_max), std::move(text)});
  }
}

// What the CLI says of the servers that it was told of, when it begins.
bool could_not_connect(const object& line) {
  const Json* servers = find(line, "mcp_servers");
  const auto* list = servers ? servers->if_array() : nullptr;
  return list && std::ranges::any_of(*list, [](const Json& each) {
           const auto* server = each.if_object();
           return server && text_in(*server, "name") == own_mcp_server && text_in(*server, "status") == "failed";
         });
}

// Lines of these types are most of a stream, and say nothing that counts once the session is known: not to read them as
// JSON is what makes a fast agent cheap to follow.
bool is_talk(std::string_view line) {
  constexpr std::string_view opening = R"({"type":")";
  if (!line.starts_with(opening)) return false;
  line.remove_prefix(opening.size());
  if (line.starts_with(R"(user")") || line.starts_with(R"(stream_event")") || line.starts_with(R"(tool_progress")"))
    return true;
  // Of what the assistant says only why it could not matters.
  return line.starts_with(R"(assistant")") && !line.contains(R"("error":")");
}

}  // namespace

std::optional<Money> reported_money(const Json& value) {
  if (const auto* text = value.if_string()) return parse_money(*text);
  double amount = -1;
  if (const auto* number = value.if_double()) amount = *number;
  if (const auto* number = value.if_int64()) amount = static_cast<double>(*number);
  if (!(amount >= 0 && amount <= money_max)) return std::nullopt;
  return Money{std::llround(amount * 1e6)};
}

void AgentStream::take(std::string_view line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  if (line.empty()) return;
  ++story_.lines;
  if (dialect_ == AgentDialect::claude && !story_.session_id.empty() && is_talk(line)) return;
  const auto parsed = line.front() == '{' ? parse_json(line) : std::unexpected(std::string("no object"));
  if (!parsed || !parsed->is_object()) {
    ++story_.lines_broken;
    return;
  }
  take_object(parsed->get_object());
}

void AgentStream::take_object(const object& line) {
  const auto type = text_in(line, "type");
  if (auto session = text_in(line, "session_id"); !session.empty()) story_.session_id = std::move(session);
  // A CLI that cannot resume a session says so in a result, and nothing else.
  if (dialect_ == AgentDialect::plain || type != "result") story_.has_begun = true;
  for (const auto* key : {"total_cost_usd", "cost_usd"})
    if (const Json* cost = find(line, key))
      if (const auto amount = reported_money(*cost)) story_.total_cost = amount;
  if (type != "assistant" && type != "user")
    if (const Json* usage = find(line, "usage"); usage && usage->is_object()) story_.usage = canonical(*usage);
  if (const auto turns = number_in(line, "num_turns"); turns > 0) story_.turns = turns;
  if (type == "assistant" || type == "system")
    if (auto error = text_in(line, "error"); !error.empty()) story_.last_error = std::move(error);
  if (type == "system" && could_not_connect(line)) story_.has_lost_tools = true;
  if (type == "system" && text_in(line, "subtype") == "permission_denied" && story_.denials.size() < agent_denials_max)
    story_.denials.push_back({head_of(text_in(line, "tool_name"), denied_input_bytes_max), "null"});
  if (type != "result") return;

  AgentStory::Result result;
  result.is_error = flag_in(line, "is_error").value_or(false);
  result.subtype = text_in(line, "subtype");
  // An error that forgot to say that it is one.
  if (result.subtype.starts_with("error")) result.is_error = true;
  result.terminal_reason = text_in(line, "terminal_reason");
  result.stop_reason = text_in(line, "stop_reason");
  result.text = text_in(line, "result");
  if (result.text.empty()) result.text = text_in(line, "message");
  if (result.text.empty()) result.text = joined_errors(line);
  if (const Json* output = find(line, dialect_ == AgentDialect::plain ? "output" : "structured_output"))
    result.output = canonical(*output);
  if (const Json* deferred = find(line, "deferred_tool_use")) result.deferred_tool = canonical(*deferred);
  result.api_error_status = number_in(line, "api_error_status");
  result.error_code = dialect_ == AgentDialect::plain ? text_in(line, "error_code") : "";
  result.retryable = flag_in(line, "retryable");
  take_denials(line, result);
  story_.result = std::move(result);
}

}  // namespace pawl
