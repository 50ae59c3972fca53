#include <boost/json/array.hpp>

#include "api/api.h"
#include "crypto/sha256.h"
#include "notify/http_answers.h"
#include "notify/webhooks.h"
#include "tools/http_url.h"

namespace pawl::api {
namespace {

using boost::json::array;
using boost::json::object;
using RunPointer = std::shared_ptr<const Run>;

constexpr std::size_t replays_max = 1000;

object webhook_object(const std::string& name, const Webhook& webhook) {
  array events;
  for (const std::string& pattern : webhook.events) events.emplace_back(pattern);
  return {{"name", name},
          {"url", webhook.url},
          {"events", std::move(events)},
          {"secret", webhook.secret},
          {"since", print_time(webhook.since)},
          {"disabled", webhook.disabled.empty() ? Json(nullptr) : Json(webhook.disabled)}};
}

// As the directory knows it: behind every answer of the engine, that is what was just committed.
std::optional<object> find_webhook(Call& call, const std::string& name) {
  auto tenant = call.api.tenants().find(call.who.tenant);
  auto found = tenant->webhooks.find(name);
  if (found == tenant->webhooks.end()) return std::nullopt;
  return webhook_object(name, found->second);
}

const std::string& known_webhook(const Call& call) {
  if (!call.api.tenants().find(call.who.tenant)->webhooks.contains(call.path[0])) throw not_found();
  return call.path[0];
}

void set_webhook(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"url", "events", "secret"});
  WebhookSet webhook{
      .name = call->path[0], .url = input.text("url", 2048), .events = {}, .secret = input.name("secret")};
  const Json* events = input.find("events");
  if (!events || !events->is_array())
    input.refuse("events", "must be a list of kinds of events, for example [\"run.*\"]");
  for (const Json& each : events->get_array()) {
    if (!each.is_string()) input.refuse("events", "must be a list of strings");
    webhook.events.emplace_back(each.get_string());
  }
  if (auto problem = webhook_problem(webhook)) refuse_input("", *problem);
  // What is shown is what is sent to.
  auto url = normalize_url(webhook.url);
  if (!url) input.refuse("url", url.error());
  webhook.url = std::move(*url);
  bool is_new = !call->api.tenants().find(call->who.tenant)->webhooks.contains(webhook.name);
  call->api.runtime().post([call, webhook, is_new](Engine& engine) {
    engine.request(TenantRequest{call->who.tenant, webhook, call->who.actor()},
                   [call, is_new](std::expected<TenantId, Refusal> done) {
                     if (!done) return call->answer(problem_of(done.error()));
                     auto set = find_webhook(*call, call->path[0]);
                     call->answer(is_new ? 201 : 200, set ? Json(*set) : Json(nullptr));
                   });
  });
}

void get_webhook(CallPtr call) {
  call->query.only({});
  auto found = find_webhook(*call, call->path[0]);
  if (!found) throw not_found();
  call->answer(200, *found);
}

void list_webhooks(CallPtr call) {
  call->query.only({});
  array items;
  for (const auto& [name, webhook] : call->api.tenants().find(call->who.tenant)->webhooks)
    items.push_back(webhook_object(name, webhook));
  call->answer(200, object{{"items", std::move(items)}, {"next_cursor", nullptr}});
}

void remove_webhook(CallPtr call) {
  call->query.only({});
  auto before = find_webhook(*call, call->path[0]);
  if (!before) throw not_found();
  call->api.runtime().post([call, before = std::move(*before)](Engine& engine) {
    engine.request(TenantRequest{call->who.tenant, WebhookRemoved{call->path[0]}, call->who.actor()},
                   [call, before](std::expected<TenantId, Refusal> done) {
                     if (!done) return call->answer(problem_of(done.error()));
                     call->answer(200, before);
                   });
  });
}

// ---- Deliveries: runs of the webhook's own workflow

std::string_view delivery_status(const Run& run) {
  if (run.status == RunStatus::success)
    return notify::says_sent(run.steps.front().output, "delivered") ? "delivered" : "skipped";
  if (is_terminal(run.status)) return "failed";
  return run.steps.front().status == StepStatus::failed_retryable ? "retrying" : "pending";
}

object delivery_object(const Run& run) {
  const Step& step = run.steps.front();
  object out{{"id", run.id.str()},
             {"event_id", nullptr},
             {"type", nullptr},
             {"run_id", nullptr},
             {"status", delivery_status(run)},
             {"attempts", step.attempts},
             {"created_at", print_time(run.created_at)},
             {"finished_at", is_terminal(run.status) ? Json(print_time(run.finished_at)) : Json(nullptr)},
             {"next_attempt_at",
              step.status == StepStatus::failed_retryable ? Json(print_time(step.next_eligible_at)) : Json(nullptr)},
             {"last_error", step.last_error ? Json(step.last_error->message) : Json(nullptr)}};
  auto input = parse_json(run.input);
  const Json* event = input && input->is_object() ? input->get_object().if_contains("event") : nullptr;
  if (!event || !event->is_object()) return out;
  for (auto [to, from] : {std::pair("event_id", "id"), std::pair("type", "type"), std::pair("run_id", "subject")})
    if (const Json* value = event->get_object().if_contains(from)) out[to] = *value;
  return out;
}

// Blocks: for background threads.
RunPointer inspect(Call& call, RunId run) {
  auto found = call.api.runtime().ask(InspectRun{call.who.tenant, run});
  return found ? *found : nullptr;
}

void list_deliveries(CallPtr call) {
  call->query.only({"status", "limit", "cursor"});
  RunFilter filter{.workflow = notify::webhook_workflow(known_webhook(*call))};
  if (const auto* word = call->query.find("status")) {
    if (*word == "failed")
      filter.status = RunStatus::failed;
    else if (*word == "delivered")
      filter.status = RunStatus::success;
    else if (*word == "pending")
      filter.status = RunStatus::running;
    else
      refuse_input("status", "It must be delivered, pending or failed.");
  }
  filter.before = call->query.cursor<RunId>();
  std::uint64_t limit = call->query.number("limit", page_default, large_items_page_max);
  filter.limit = limit + 1;  // one more tells whether there are more
  with_fresh_tables(call, std::nullopt, [filter, limit](Call& c) {
    auto rows = c.api.store().list_runs(c.who.tenant, filter);
    bool more = rows.size() > limit;
    if (more) rows.pop_back();
    array items;
    for (const RunRow& row : rows)
      if (auto run = inspect(c, row.id)) items.push_back(delivery_object(*run));
    c.answer(200,
             object{{"items", std::move(items)}, {"next_cursor", more ? Json(rows.back().id.str()) : Json(nullptr)}});
  });
}

// The same event once more. Its id is the same, so a receiver that has it knows.
NewRun replay_of(const Call& call, const Run& delivery) {
  NewRun run;
  run.tenant = call.who.tenant;
  run.workflow = delivery.workflow->name;
  run.workspace = notify::internal_workspace;
  run.input = delivery.input;
  run.by = call.who.actor();
  run.trigger_type = notify::replay_trigger;
  run.is_internal = true;
  return run;
}

void replay_one(CallPtr call) {
  call->query.only({});
  WorkflowName workflow = notify::webhook_workflow(known_webhook(*call));
  auto id = RunId::parse(call->path[1]);
  if (!id) throw not_found();
  auto key = idempotency_key(call->request);
  in_background(call, [call, id, workflow, key](Call& c) {
    auto delivery = inspect(c, *id);
    if (!delivery || delivery->workflow->name != workflow) throw not_found();
    NewRun again = replay_of(c, *delivery);
    if (key)
      again.idempotency = std::make_shared<const Idempotency>(
          Idempotency{c.who.key.str(), *key, sha256(workflow.text, delivery->id.str()).hex()});
    auto made = c.api.runtime().ask(again);
    if (!made) throw problem_of(made.error());
    auto run = inspect(c, made->run);
    if (!run) throw not_found();
    c.answer(made->is_new ? 201 : 200, delivery_object(*run));
  });
}

// Those that failed for good, oldest first, so that they arrive in the order in which they happened.
void replay_failed(CallPtr call) {
  call->query.only({});
  Input input = Input::parse(call->request);
  input.only({"since"});
  RunFilter filter{.status = RunStatus::failed,
                   .workflow = notify::webhook_workflow(known_webhook(*call)),
                   .since = input.moment("since"),
                   .limit = replays_max};
  with_fresh_tables(call, std::nullopt, [filter](Call& c) {
    auto rows = c.api.store().list_runs(c.who.tenant, filter);
    std::size_t made = 0;
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
      auto delivery = inspect(c, row->id);
      if (!delivery) continue;
      NewRun again = replay_of(c, *delivery);
      again.trigger_ref = row->id.str();  // one that was replayed so already is not sent a third time
      auto done = c.api.runtime().ask(again);
      if (!done) throw problem_of(done.error());
      made += done->is_new ? 1 : 0;
    }
    c.answer(200, object{{"replayed", made}});
  });
}

}  // namespace

std::vector<Route> webhook_routes() {
  using enum Method;
  using enum Access;
  return {
      {put, "/webhooks/{name}", admin, set_webhook, "Send events to this address from now on"},
      {get, "/webhooks", viewer, list_webhooks, "Where events are sent"},
      {get, "/webhooks/{name}", viewer, get_webhook, "One of them"},
      {delete_, "/webhooks/{name}", admin, remove_webhook, "Send it nothing more"},
      {get, "/webhooks/{name}/deliveries", viewer, list_deliveries, "What was sent, or is to be, newest first"},
      {post, "/webhooks/{name}/deliveries/{id}/replay", operator_, replay_one, "Send the same event once more"},
      {post, "/webhooks/{name}/replay", operator_, replay_failed, "Send once more what could not be delivered"},
  };
}

}  // namespace pawl::api
