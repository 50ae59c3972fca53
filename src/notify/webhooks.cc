#include "notify/webhooks.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <stdexcept>

#include "notify/envelope.h"

namespace pawl::notify {
namespace {

using boost::json::object;

constexpr std::size_t runs_remembered_max = 100'000;
// From its first attempt to its last: the waits below, each a fifth longer, and no Retry-After adds more than a day to
// one.
constexpr Duration delivery_age_max = std::chrono::hours(24) * delivery_attempts_max;

bool is_creation(std::string_view type) { return type == "run.created" || type == "task.created"; }

}  // namespace

WorkflowName webhook_workflow(std::string_view webhook) { return {"pawl.webhook." + std::string(webhook)}; }

// The waits are those that Standard Webhooks suggests: three days in all. A receiver that hangs holds up no more than
// its own deliveries, and few of the workers.
std::string webhook_workflow_source(std::string_view webhook) {
  std::string name(webhook);
  return "workflow: pawl.webhook." + name + "\n" + "description: Sends one event to the webhook " + name + "\n" +
         "caps: {max_concurrency: 4}\n"
         "steps:\n"
         "  - id: send\n"
         "    tool: pawl.webhook\n"
         "    timeout: 45s\n"
         "    lease: 60s\n"
         "    retry: {max_attempts: " +
         std::to_string(delivery_attempts_max) +
         ", schedule: [5s, 5m, 30m, 2h, 5h, 10h, 14h, 20h, 24h], jitter: 0.2}\n"
         "    with: {webhook: " +
         name + ", event: \"${{ input.event }}\"}\n";
}

NewRun delivery_of(TenantId tenant, std::string_view webhook, const object& event) {
  NewRun run;
  run.tenant = tenant;
  run.workflow = webhook_workflow(webhook);
  run.workspace = internal_workspace;
  run.input = canonical(object{{"event", event}});
  run.by = engine_actor;
  run.trigger_type = webhook_trigger;
  run.trigger_ref = std::string(event.at("id").get_string());
  run.is_internal = true;
  return run;
}

bool was_delivered_since(Store& store, TenantId tenant, std::string_view webhook, Instant since) {
  constexpr std::size_t page = 500;
  RunFilter filter{.status = RunStatus::success,
                   .workflow = webhook_workflow(webhook),
                   .since = since - delivery_age_max,
                   .limit = page};
  for (;;) {
    auto rows = store.list_runs(tenant, filter);
    if (std::ranges::any_of(rows, [&](const RunRow& row) { return row.updated_at >= since; })) return true;
    if (rows.size() < page) return false;
    filter.before = rows.back().id;
  }
}

bool WebhookFollower::wants(const Tenant& tenant) const {
  return std::ranges::any_of(tenant.webhooks, [](const auto& each) { return each.second.is_enabled(); });
}

void WebhookFollower::remember(RunId run, std::string workflow) {
  if (!workflows_.try_emplace(run, std::move(workflow)).second) return;
  oldest_.push_back(run);
  if (oldest_.size() <= runs_remembered_max) return;
  workflows_.erase(oldest_.front());
  oldest_.pop_front();
}

std::shared_ptr<const Run> WebhookFollower::look(const JournalEvent& event) {
  auto run = context_.runtime->ask(InspectRun{event.stream.tenant, event.run()});
  if (!run) throw std::runtime_error(event.run().str() + ": " + run.error().message);
  return std::move(*run);
}

const std::string& WebhookFollower::workflow_of(const JournalEvent& event, const object& parsed) {
  if (auto known = workflows_.find(event.run()); known != workflows_.end()) return known->second;
  if (const Json* workflow = parsed.if_contains("workflow"); workflow && is_creation(event.header.type))
    remember(event.run(), std::string(workflow->get_string()));
  else
    remember(event.run(), look(event)->workflow->name.text);
  return workflows_.at(event.run());
}

void WebhookFollower::see(const JournalEvent& event) {
  if (event.stream.is_tenant()) return;
  auto line = parse_json(event.line);
  if (!line || !line->is_object()) return context_.report("an event of " + event.run().str() + " cannot be read");
  const object& parsed = line->get_object();
  const std::string_view type = event.header.type;
  Instant at{parsed.at("at").to_number<std::int64_t>()};
  std::optional<object> envelope;
  for (const auto& [name, webhook] : event.tenant.webhooks) {
    bool wanted = webhook.is_enabled() && webhook.since <= at &&
                  std::ranges::any_of(webhook.events, [&](const auto& each) { return matches_event(each, type); });
    if (!wanted && !is_creation(type)) continue;
    const std::string& workflow = workflow_of(event, parsed);
    // A task is somebody's own, though its stream is of a workflow of pawl's.
    if (is_reserved_name(workflow) && workflow != task_workflow_name) return;
    if (!wanted) continue;
    if (!envelope) {
      const auto task = workflow == task_workflow_name ? look(event)->task : nullptr;
      envelope = envelope_of(event, parsed, workflow, task.get());
    }
    run_creator_.publish(event.stream.tenant, webhook_workflow(name), webhook_workflow_source(name));
    run_creator_.make(delivery_of(event.stream.tenant, name, *envelope));
  }
}

}  // namespace pawl::notify
