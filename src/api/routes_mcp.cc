// The tools that agents are given, at /mcp. Each is a request to a route that remote workers use too, made again with
// the same key: what a tool may do, and how it is decided and recorded, is that route's own affair.
//
//   propose_action   POST /leases/{id}/actions
//   record_outcome   POST /leases/{id}/actions/{receipt}/outcome
//   ask_human        POST /leases/{id}/ask
//   create_subtask   POST /tasks
//   create_task      POST /tasks
//   list_tasks       GET /tasks
//   get_status       GET /runs/{id}, GET /tasks/{id}
#include <boost/json/serialize.hpp>
#include <chrono>
#include <future>

#include "api/api.h"
#include "api/lease_id.h"
#include "api/mcp.h"
#include "crypto/sha256.h"
#include "http/request_id.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::size_t title_bytes_usual = 80;
constexpr std::size_t content_bytes_max = std::size_t{256} << 10;
constexpr auto agent_answer_time_max = std::chrono::seconds(60);

// What a tool asks of a route.
struct Inner {
  Method method = Method::post;
  std::string path;
  std::string query = {};
  object body;
  std::string said;  // to the model, when all went well; empty: what the route answered
};

struct Misfit {
  std::string why;
};

// Of its kind, as the tool's schema says.
std::string take_text(object& arguments, std::string_view key, bool required) {
  const Json* value = arguments.if_contains(key);
  if (!value && required) throw Misfit{std::string(key) + " is missing"};
  if (!value) return {};
  std::string out(std::string_view(value->as_string()));
  arguments.erase(key);
  return out;
}

// Which lease is meant: the key's own, which needs no token, or the one that is named.
std::string take_lease(const Call& call, object& arguments) {
  if (const auto& lease = call.who.lease) {
    const auto own = lease_id(lease->run, lease->step);
    if (const auto named = take_text(arguments, "lease_id", false); !named.empty() && named != own)
      throw Misfit{"lease_id names another lease than yours: leave it out"};
    if (arguments.contains("token")) throw Misfit{"token is for other keys than yours: leave it out"};
    return own;
  }
  auto id = take_text(arguments, "lease_id", true);
  if (!parse_lease_id(id)) throw Misfit{"lease_id is not a lease's id"};
  if (!arguments.contains("token")) throw Misfit{"token is missing"};
  return id;
}

// The step's own key is that of the agent itself. Two calls for the same action are one.
void choose_key(const std::string& lease, object& arguments) {
  if (arguments.contains("idempotency_key")) return;
  object action;
  for (const auto* key : {"connector", "operation", "target", "fields"})
    if (const Json* value = arguments.if_contains(key)) action[key] = *value;
  arguments["idempotency_key"] = lease + ":" + sha256(canonical(Json(action))).hex().substr(0, 32);
}

Inner propose(const Call& call, object arguments) {
  const auto lease = take_lease(call, arguments);
  choose_key(lease, arguments);
  return {.path = "/leases/" + lease + "/actions", .body = std::move(arguments), .said = {}};
}

Inner record(const Call& call, object arguments) {
  const auto lease = take_lease(call, arguments);
  const auto receipt = take_text(arguments, "receipt_id", true);
  if (!ReceiptId::parse(receipt)) throw Misfit{"receipt_id is not a receipt's id"};
  return {.path = "/leases/" + lease + "/actions/" + receipt + "/outcome", .body = std::move(arguments), .said = {}};
}

Inner ask(const Call& call, object arguments) {
  const auto lease = take_lease(call, arguments);
  object body;
  if (const Json* token = arguments.if_contains("token")) body["token"] = *token;
  arguments.erase("token");
  object question{{"text", take_text(arguments, "question", true)}};
  for (const auto& [key, value] : arguments) question[key] = value;
  body["question"] = std::move(question);
  return {.path = "/leases/" + lease + "/ask",
          .body = std::move(body),
          .said = "Asked. End your turn now: you will be resumed with the answer."};
}

// The first line of what is to be done that says something.
std::string title_of(const object& arguments) {
  std::string_view text = arguments.at("prompt").as_string();
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t\r\n")));
  text = text.substr(0, text.find_first_of("\r\n"));
  if (text.size() <= title_bytes_usual) return std::string(text);
  std::size_t end = title_bytes_usual;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // no half character
  return std::string(text.substr(0, end)) + "...";
}

// A lease's key delegates beneath its own task, and nowhere else. What is delegated begins at once: nobody else would
// know that it is there.
Inner create_subtask(const Call& call, object arguments) {
  if (call.who.lease) {
    const std::string& own = call.who.lease->task;
    if (own.empty()) throw Misfit{"you do not work for a task, so it can have no subtasks"};
    if (const auto named = take_text(arguments, "parent_task_id", false); !named.empty() && named != own)
      throw Misfit{"parent_task_id names another task than yours: leave it out"};
    arguments["parent_task_id"] = own;
  } else if (!arguments.contains("parent_task_id")) {
    throw Misfit{"parent_task_id is missing"};
  }
  if (!arguments.contains("title")) arguments["title"] = title_of(arguments);
  arguments["run"] = true;
  return {.path = "/tasks", .body = std::move(arguments), .said = {}};
}

Inner create_task(object arguments) {
  if (!arguments.contains("title")) arguments["title"] = title_of(arguments);
  if (!arguments.contains("run")) arguments["run"] = true;
  return {.path = "/tasks", .body = std::move(arguments), .said = {}};
}

Inner list_tasks(object arguments) {
  std::string query = "limit=20";
  if (const Json* limit = arguments.if_contains("limit")) query = "limit=" + std::to_string(limit->as_int64());
  const auto add = [&](const char* key, const char* name) {
    const auto text = take_text(arguments, key, false);
    if (text.empty()) return;
    // As it stands: what would need an escape in a query is no state, tag or id that could be found.
    if (!is_valid_name(text)) throw Misfit{std::string(key) + " has characters that it cannot have"};
    query += std::string("&") + name + "=" + text;
  };
  add("state", "state");
  add("tag", "tag");
  add("parent_task_id", "parent");
  add("cursor", "cursor");
  return {.method = Method::get, .path = "/tasks", .query = std::move(query), .body = {}, .said = {}};
}

Inner get_status(const Call& call, object arguments) {
  const auto task = take_text(arguments, "task_id", false);
  auto run = take_text(arguments, "run_id", false);
  if (!task.empty() && !run.empty()) throw Misfit{"run_id and task_id exclude each other: name one"};
  if (!task.empty()) {
    if (!is_valid_name(task)) throw Misfit{"task_id is not a task's id"};
    return {.method = Method::get, .path = "/tasks/" + task, .body = {}, .said = {}};
  }
  if (run.empty() && call.who.lease) run = call.who.lease->run.str();
  if (run.empty()) throw Misfit{"name a run with run_id, or a task with task_id: this key has no run of its own"};
  if (!RunId::parse(run)) throw Misfit{"run_id is not a run's id"};
  return {.method = Method::get, .path = "/runs/" + run, .body = {}, .said = {}};
}

Inner inner_of(const Call& call, const mcp::ToolCall& tool) {
  if (tool.name == "propose_action") return propose(call, tool.arguments);
  if (tool.name == "record_outcome") return record(call, tool.arguments);
  if (tool.name == "ask_human") return ask(call, tool.arguments);
  if (tool.name == "create_subtask") return create_subtask(call, tool.arguments);
  if (tool.name == "create_task") return create_task(tool.arguments);
  if (tool.name == "list_tasks") return list_tasks(tool.arguments);
  return get_status(call, tool.arguments);
}

// A run or a task may be long: what a model needs of it to decide what to do next is not.
object brief(const object& whole) {
  object out;
  for (const auto* key : {"run_id", "task_id", "id", "title", "state", "status", "workflow", "error_code", "retryable",
                          "question", "result", "summary", "cost_usd", "created_at", "started_at", "finished_at"})
    if (const Json* value = whole.if_contains(key)) out[key] = *value;
  if (const Json* steps = whole.if_contains("steps"); steps && steps->is_array()) {
    array list;
    for (const Json& step : steps->get_array()) {
      object one;
      for (const auto* key : {"id", "step_id", "status", "attempts", "tool", "error_code"})
        if (const Json* value = step.is_object() ? step.get_object().if_contains(key) : nullptr) one[key] = *value;
      list.push_back(std::move(one));
    }
    out["steps"] = std::move(list);
  }
  return out;
}

mcp::ToolOutcome outcome_of(const mcp::ToolCall& tool, const Inner& inner, const Response& response) {
  mcp::ToolOutcome out{.is_error = response.status >= 400, .content = {}, .text = {}};
  auto body = parse_json(response.body);
  if (body && body->is_object()) out.content = std::move(body->get_object());
  if (out.is_error) {
    const auto text = [&](std::string_view key) {
      const Json* value = out.content.if_contains(key);
      return value && value->is_string() ? std::string(std::string_view(value->get_string())) : std::string();
    };
    out.text = text("code") + ": " + text("detail");
    return out;
  }
  out.text = inner.said;
  if (tool.name == "get_status" || tool.name == "create_task") out.content = brief(out.content);
  if (Json* items = tool.name == "list_tasks" ? out.content.if_contains("items") : nullptr; items && items->is_array())
    for (Json& item : items->get_array())
      if (item.is_object()) item = brief(item.get_object());
  if (boost::json::serialize(out.content).size() > content_bytes_max) {
    out.content = {};
    out.text = "This is longer than can be shown here.";
  }
  return out;
}

void send(Call& call, const mcp::Answer& answer) {
  if (!answer.body)
    return call.respond({.status = answer.status, .content_type = {}, .body = {}, .headers = {}, .stream = {}});
  call.answer(answer.status, Json(*answer.body));
}

// What a lease's key can never do is not offered to the agent that has it.
std::vector<std::string_view> hidden_from(const Call& call) {
  if (!call.who.lease) return {};
  std::vector<std::string_view> out{"create_task", "list_tasks"};
  if (call.who.lease->task.empty()) out.push_back("create_subtask");
  return out;
}

void serve_mcp(CallPtr call) {
  call->query.only({});
  auto understood = mcp::understand(call->request, hidden_from(*call));
  if (const auto* answer = std::get_if<mcp::Answer>(&understood)) return send(*call, *answer);
  auto tool = std::make_shared<const mcp::ToolCall>(std::move(std::get<mcp::ToolCall>(understood)));
  try {
    auto inner = std::make_shared<const Inner>(inner_of(*call, *tool));
    Request request{.method = inner->method,
                    .path = inner->path,
                    .query = inner->query,
                    .headers = {{"authorization", std::string(call->request.header("authorization"))},
                                {"content-type", "application/json"}},
                    .body = inner->method == Method::get ? "" : boost::json::serialize(inner->body),
                    .peer = call->request.peer,
                    .id = call->request.id,
                    .gone = call->request.gone};
    call->api.handle(std::move(request), [call, tool, inner](Response response) {
      send(*call, mcp::answer_call(*tool, outcome_of(*tool, *inner, response)));
    });
  } catch (const Misfit& misfit) {
    send(*call, mcp::refuse_arguments(*tool, misfit.why));
  }
}

}  // namespace

std::string Api::speak_mcp(const std::string& key, const std::string& line) {
  Request request{.method = Method::post,
                  .path = "/mcp",
                  .query = {},
                  .headers = mcp::headers_for(line),
                  .body = line,
                  .peer = "agent",
                  .id = http::RequestIds().next(),
                  .gone = {}};
  request.headers.emplace_back("authorization", "Bearer " + key);
  request.headers.emplace_back("content-type", "application/json");
  auto answered = std::make_shared<std::promise<Response>>();
  auto answer = answered->get_future();
  handle(std::move(request), [answered](Response response) { answered->set_value(std::move(response)); });
  if (answer.wait_for(agent_answer_time_max) != std::future_status::ready)
    return mcp::line_for_failure(line, "the server does not answer");
  const Response response = answer.get();
  return mcp::line_for(line, response.status, response.body);
}

std::vector<Route> mcp_routes() {
  return {{Method::post, "/mcp", Access::viewer, serve_mcp, "The Model Context Protocol: tools for agents",
           RouteKind::waits}};
}

}  // namespace pawl::api
