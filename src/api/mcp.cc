#include "api/mcp.h"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <vector>

namespace pawl::api::mcp {
namespace {

using boost::json::array;
using boost::json::object;

constexpr int parse_error = -32700, invalid_request = -32600, no_such_method = -32601, invalid_params = -32602;
constexpr int server_away = -32000;
constexpr int header_mismatch = -32020, unsupported_version = -32022;
constexpr std::int64_t list_ttl_ms = 300'000;
constexpr std::string_view server_info_key = "io.modelcontextprotocol/serverInfo";
constexpr std::string_view version_key = "io.modelcontextprotocol/protocolVersion";
constexpr std::array legacy_versions{legacy_version, std::string_view("2025-06-18"), std::string_view("2025-03-26"),
                                     std::string_view("2024-11-05")};
constexpr std::string_view instructions =
    "Before any effect outside of your own folder call propose_action and do what is decided: on allow do exactly that "
    "and "
    "call record_outcome, on anything else stop. When you need a person, call ask_human and end your turn.";

object server_info() { return {{"name", "pawl"}, {"version", PAWL_VERSION}}; }
object capabilities() { return {{"tools", object{}}}; }

object meta() { return {{server_info_key, server_info()}}; }

Answer error(const Json& id, int code, std::string_view message, int status, object data = {}) {
  object problem{{"code", code}, {"message", message}};
  if (!data.empty()) problem["data"] = std::move(data);
  return {status, object{{"jsonrpc", "2.0"}, {"id", id}, {"error", std::move(problem)}}};
}

Answer result(const Json& id, Era era, object value) {
  if (era == Era::modern) {
    value["resultType"] = "complete";
    value["_meta"] = meta();
  }
  return {200, object{{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(value)}}};
}

std::string_view text_in(const object* in, std::string_view key) {
  const Json* value = in ? in->if_contains(key) : nullptr;
  return value && value->is_string() ? std::string_view(value->get_string()) : std::string_view();
}

const object* object_in(const object* in, std::string_view key) {
  const Json* value = in ? in->if_contains(key) : nullptr;
  return value ? value->if_object() : nullptr;
}

// What proxies route by must be what is meant.
std::optional<Answer> check_headers(const http::Request& request, const Json& id, std::string_view version,
                                    std::string_view method, const object* params) {
  const auto mismatch = [&](std::string_view header) {
    return error(id, header_mismatch, "the header " + std::string(header) + " is missing, or is not what the body says",
                 400);
  };
  if (request.header("mcp-protocol-version") != version) return mismatch("MCP-Protocol-Version");
  if (request.header("mcp-method") != method) return mismatch("Mcp-Method");
  if (method == "tools/call" && request.header("mcp-name") != text_in(params, "name")) return mismatch("Mcp-Name");
  return std::nullopt;
}

// ---- Arguments, as far as our own schemas say what they are

// What a value of this schema is; empty: it is one already.
std::string kind_wanted(const object& schema, const Json& value) {
  const auto type = text_in(&schema, "type");
  if (type == "string") return value.is_string() ? "" : "text";
  if (type == "boolean") return value.is_bool() ? "" : "true or false";
  if (type == "object") return value.is_object() ? "" : "an object";
  if (type == "integer") {
    const std::int64_t low = schema.at("minimum").as_int64(), high = schema.at("maximum").as_int64();
    const auto* number = value.if_int64();
    if (number && *number >= low && *number <= high) return "";
    return "a number from " + std::to_string(low) + " to " + std::to_string(high);
  }
  if (type != "array") return "";
  const auto* list = value.if_array();
  const bool fits = list && std::ranges::all_of(*list, [](const Json& item) { return item.is_string(); });
  return fits ? "" : "a list of text";
}

std::string listed(const array& words) {
  std::string out;
  for (const Json& word : words) (out += out.empty() ? "" : ", ") += std::string_view(word.as_string());
  return out;
}

bool is_blank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

std::optional<std::string> value_problem(std::string_view name, const object& schema, const Json& value) {
  const std::string subject(name);
  if (const auto kind = kind_wanted(schema, value); !kind.empty()) return subject + " must be " + kind;
  if (schema.contains("minLength") && is_blank(value.get_string())) return subject + " must say something";
  if (const Json* words = schema.if_contains("enum"))
    if (const array& list = words->as_array(); std::ranges::find(list, value) == list.end())
      return subject + " must be one of " + listed(list);
  return std::nullopt;
}

// Why the arguments do not fit the tool. Null stands for an optional argument that is left out, and is taken out.
std::optional<std::string> argument_problem(const object& tool, object& arguments) {
  const object& schema = tool.at("inputSchema").as_object();
  const object& properties = schema.at("properties").as_object();
  std::vector<std::string> left_out;
  for (const auto& [name, value] : arguments) {
    const object* wanted = object_in(&properties, name);
    if (!wanted) {
      array names;
      for (const auto& property : properties) names.emplace_back(property.key());
      return std::string(name) + " is not an argument of " + std::string(text_in(&tool, "name")) + ", which has " +
             listed(names);
    }
    if (value.is_null() && wanted->contains("type"))
      left_out.emplace_back(name);
    else if (auto problem = value_problem(name, *wanted, value))
      return problem;
  }
  for (const auto& name : left_out) arguments.erase(name);
  if (const Json* required = schema.if_contains("required"))
    for (const Json& name : required->as_array())
      if (!arguments.contains(name.as_string())) return std::string(name.as_string()) + " is missing";
  return std::nullopt;
}

std::variant<ToolCall, Answer> call_of(const Json& id, Era era, const object* params) {
  ToolCall call{.id = id, .era = era, .name = std::string(text_in(params, "name")), .arguments = {}};
  const auto tool =
      std::ranges::find_if(tools(), [&](const Json& each) { return each.at("name").as_string() == call.name; });
  if (tool == tools().end()) return refuse_call(call, "there is no tool of that name");
  const Json* arguments = params ? params->if_contains("arguments") : nullptr;
  if (arguments && arguments->is_object()) call.arguments = arguments->get_object();
  if (arguments && !arguments->is_object() && !arguments->is_null())
    return refuse_arguments(call, "arguments must be an object");
  if (const auto problem = argument_problem(tool->as_object(), call.arguments)) return refuse_arguments(call, *problem);
  return call;
}

using Hidden = std::span<const std::string_view>;

array listed_tools(Hidden hidden) {
  array out;
  for (const Json& tool : tools())
    if (std::ranges::find(hidden, std::string_view(tool.at("name").as_string())) == hidden.end()) out.push_back(tool);
  return out;
}

std::variant<ToolCall, Answer> modern(const Json& id, std::string_view method, const object* params, Hidden hidden) {
  if (method == "server/discover")
    return result(id, Era::modern,
                  {{"supportedVersions", array{modern_version}},
                   {"capabilities", capabilities()},
                   {"instructions", instructions},
                   {"ttlMs", list_ttl_ms},
                   {"cacheScope", "private"}});
  if (method == "tools/list")
    return result(id, Era::modern,
                  {{"tools", listed_tools(hidden)}, {"ttlMs", list_ttl_ms}, {"cacheScope", "private"}});
  if (method == "tools/call") return call_of(id, Era::modern, params);
  return error(id, no_such_method, "there is no such method", 404);
}

std::variant<ToolCall, Answer> legacy(const Json& id, std::string_view method, const object* params, Hidden hidden) {
  if (method == "initialize") {
    const auto wanted = text_in(params, "protocolVersion");
    const bool is_known = std::ranges::find(legacy_versions, wanted) != legacy_versions.end();
    return result(id, Era::legacy,
                  {{"protocolVersion", is_known ? wanted : legacy_version},
                   {"capabilities", capabilities()},
                   {"serverInfo", server_info()},
                   {"instructions", instructions}});
  }
  if (method == "ping") return result(id, Era::legacy, {});
  if (method == "tools/list") return result(id, Era::legacy, {{"tools", listed_tools(hidden)}});
  if (method == "tools/call") return call_of(id, Era::legacy, params);
  return error(id, no_such_method, "there is no such method", 200);
}

constexpr std::string_view tools_text = R"([
{"name":"propose_action","title":"Propose an action",
 "description":"Asks whether one effect outside may happen, before it happens. The answer is durable. decision allow: do exactly this now, then call record_outcome with receipt_id (is_done: it has happened already, do not repeat it). decision needs_approval or deny: do not do it and end your turn; once people have decided you are resumed, and proposing exactly the same again tells you.",
 "inputSchema":{"type":"object","properties":{
  "connector":{"type":"string","description":"The system that is changed, such as github or smtp."},
  "operation":{"type":"string","description":"What is done there, such as issue.close."},
  "target":{"type":"string","description":"What it is done to."},
  "fields":{"type":"object","description":"Everything else that says exactly what is done. No secrets."},
  "risk":{"type":"string","enum":["low","med","high"],"description":"At least that of the step."},
  "idempotent":{"type":"boolean","description":"The other side does it once, however often it is asked under the same key."},
  "before":{"description":"What is overwritten, so that it can be undone."},
  "idempotency_key":{"type":"string","description":"Under which it happens once. Follows from the action when left out."},
  "lease_id":{"type":"string","description":"For keys that are not a lease's own."},
  "token":{"type":"string","description":"For keys that are not a lease's own."}},
  "required":["connector","operation","target"],"additionalProperties":false},
 "annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}},
{"name":"record_outcome","title":"Record an outcome",
 "description":"Says what became of an action that was allowed: once for each receipt, right after the attempt. If you do not know whether it happened, say nothing and end your turn.",
 "inputSchema":{"type":"object","properties":{
  "receipt_id":{"type":"string"},
  "succeeded":{"type":"boolean","description":"false only if you know that nothing has happened."},
  "error_code":{"type":"string"},
  "message":{"type":"string"},
  "response":{"description":"What the other side said. No secrets."},
  "undo":{"type":"object","description":"The action that would undo it: connector, operation, target, fields."},
  "lease_id":{"type":"string","description":"For keys that are not a lease's own."},
  "token":{"type":"string","description":"For keys that are not a lease's own."}},
  "required":["receipt_id","succeeded"],"additionalProperties":false},
 "annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}},
{"name":"ask_human","title":"Ask a person",
 "description":"Asks a person, and gives the work back until there is an answer. End your turn after this: you are resumed with the answer.",
 "inputSchema":{"type":"object","properties":{
  "question":{"type":"string","minLength":1},
  "options":{"type":"array","items":{"type":"string"},"description":"Answers to choose from."},
  "context":{"description":"What the person should know."},
  "lease_id":{"type":"string","description":"For keys that are not a lease's own."},
  "token":{"type":"string","description":"For keys that are not a lease's own."}},
  "required":["question"],"additionalProperties":false},
 "annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}},
{"name":"create_subtask","title":"Create a subtask",
 "description":"Has a part of the work done as a task of its own, beneath the one that you work for.",
 "inputSchema":{"type":"object","properties":{
  "prompt":{"type":"string","minLength":1,"description":"What is to be done, in full: whoever does it knows nothing else."},
  "title":{"type":"string"},
  "max_budget_usd":{"type":"string","description":"What it may spend, like 0.50. Needed when your own task has a budget, and at most what that has left."},
  "parent_task_id":{"type":"string","description":"For keys that are not a lease's own."}},
  "required":["prompt"],"additionalProperties":false},
 "annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}},
{"name":"create_task","title":"Create a task",
 "description":"Asks for something to be done, as a task of its own, which people review. For keys of operators; an agent that works for a task uses create_subtask.",
 "inputSchema":{"type":"object","properties":{
  "prompt":{"type":"string","minLength":1,"description":"What is to be done, in full: whoever does it knows nothing else."},
  "title":{"type":"string"},
  "folder":{"type":"string","description":"Where it is done: an absolute path on the server."},
  "max_budget_usd":{"type":"string","description":"What it may spend, like 0.50."},
  "timeout":{"type":"string","description":"How long each try may take, like 30m."},
  "depends_on":{"type":"array","items":{"type":"string"},"description":"Tasks that must be COMPLETED first."},
  "tags":{"type":"array","items":{"type":"string"}},
  "run":{"type":"boolean","description":"Begin at once; true unless told."}},
  "required":["prompt"],"additionalProperties":false},
 "annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":false,"openWorldHint":false}},
{"name":"list_tasks","title":"List tasks",
 "description":"Tasks, newest first, in brief.",
 "inputSchema":{"type":"object","properties":{
  "state":{"type":"string","enum":["PENDING","QUEUED","RUNNING","READY","COMPLETED","FAILED","TIMED_OUT","CANCELLED","BUDGET_EXCEEDED","BLOCKED"]},
  "tag":{"type":"string"},
  "parent_task_id":{"type":"string","description":"Only its subtasks."},
  "limit":{"type":"integer","minimum":1,"maximum":50,"description":"20 unless told."},
  "cursor":{"type":"string","description":"next_cursor of the page before."}},
  "additionalProperties":false},
 "annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}},
{"name":"get_status","title":"Look at a run or a task",
 "description":"How a run stands, with its steps; your own when none is named. Or how a task stands.",
 "inputSchema":{"type":"object","properties":{
  "run_id":{"type":"string"},
  "task_id":{"type":"string"}},
  "additionalProperties":false},
 "annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}
])";

}  // namespace

const array& tools() {
  static const array parsed = boost::json::parse(tools_text).as_array();
  return parsed;
}

http::Headers headers_for(std::string_view line) {
  http::Headers out{{"accept", "application/json, text/event-stream"}};
  const auto parsed = parse_json(line);
  const object* message = parsed ? parsed->if_object() : nullptr;
  const object* params = object_in(message, "params");
  const auto version = text_in(object_in(params, "_meta"), version_key);
  if (version.empty()) return out;
  const auto add = [&](const char* name, std::string_view value) {
    // Nothing that comes in a message may become another header.
    if (!value.empty() && value.find_first_of("\r\n") == value.npos) out.emplace_back(name, value);
  };
  add("mcp-protocol-version", version);
  add("mcp-method", text_in(message, "method"));
  if (text_in(message, "method") == "tools/call") add("mcp-name", text_in(params, "name"));
  return out;
}

std::string line_for(std::string_view line, int status, std::string_view body) {
  if (body.empty()) return {};
  const auto parsed = parse_json(body);
  const object* answer = parsed ? parsed->if_object() : nullptr;
  if (answer && answer->contains("jsonrpc")) return boost::json::serialize(*answer);
  const auto detail = text_in(answer, "detail");
  return line_for_failure(line, detail.empty() ? "the server answered " + std::to_string(status) : std::string(detail));
}

std::string line_for_failure(std::string_view line, std::string_view why) {
  const auto parsed = parse_json(line);
  const object* message = parsed ? parsed->if_object() : nullptr;
  const Json* id = message ? message->if_contains("id") : nullptr;
  if (!id) return {};
  return boost::json::serialize(*error(*id, server_away, why, 0).body);
}

std::variant<ToolCall, Answer> understand(const http::Request& request, std::span<const std::string_view> hidden) {
  const auto parsed = parse_json(request.body);
  if (!parsed) return error(nullptr, parse_error, "this is no JSON: " + parsed.error(), 400);
  const object* message = parsed->if_object();
  if (!message) return error(nullptr, invalid_request, "one message at a time, as an object", 400);
  const Json* said_id = message->if_contains("id");
  const auto method = text_in(message, "method");
  // A notification, or an answer to something that we never asked.
  if (text_in(message, "jsonrpc") == "2.0" && ((!said_id && !method.empty()) || (said_id && method.empty())))
    return Answer{202, std::nullopt};
  const Json id = said_id ? *said_id : Json(nullptr);
  if (text_in(message, "jsonrpc") != "2.0" || method.empty() || !(id.is_string() || id.is_number()))
    return error(id, invalid_request, "jsonrpc, id and method are needed", 400);
  const object* params = object_in(message, "params");
  const auto version = text_in(object_in(params, "_meta"), version_key);
  const auto header = request.header("mcp-protocol-version");
  if (!version.empty() || header == modern_version || method == "server/discover") {
    if (version != modern_version)
      return error(id, unsupported_version, "this version is not spoken here", 400,
                   {{"supported", array{modern_version}}, {"requested", version}});
    if (auto wrong = check_headers(request, id, version, method, params)) return *wrong;
    return modern(id, method, params, hidden);
  }
  if (!header.empty() && std::ranges::find(legacy_versions, header) == legacy_versions.end())
    return error(id, unsupported_version, "this version is not spoken here", 400,
                 {{"supported", array{modern_version, legacy_version}}, {"requested", header}});
  return legacy(id, method, params, hidden);
}

Answer answer_call(const ToolCall& call, ToolOutcome outcome) {
  if (outcome.text.empty()) outcome.text = boost::json::serialize(outcome.content);
  return result(call.id, call.era,
                {{"content", array{object{{"type", "text"}, {"text", outcome.text}}}},
                 {"structuredContent", std::move(outcome.content)},
                 {"isError", outcome.is_error}});
}

Answer refuse_arguments(const ToolCall& call, std::string_view why) {
  return answer_call(call, {.is_error = true,
                            .content = {{"code", "INVALID_ARGUMENTS"}, {"detail", why}},
                            .text = "INVALID_ARGUMENTS: " + std::string(why)});
}

Answer refuse_call(const ToolCall& call, std::string_view why) {
  return error(call.id, invalid_params, why, call.era == Era::modern ? 400 : 200);
}

}  // namespace pawl::api::mcp
