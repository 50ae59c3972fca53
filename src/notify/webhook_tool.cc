// pawl.webhook: sends one event to one of the tenant's webhooks. Success is an answer of 2xx and nothing else.
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "notify/http_answers.h"
#include "notify/signatures.h"
#include "notify/webhooks.h"
#include "tools/http_url.h"
#include "tools/outcome.h"

namespace pawl::notify {
namespace {

using boost::json::object;

constexpr Duration send_timeout = std::chrono::seconds(20);
constexpr Duration webhook_connect_timeout = std::chrono::seconds(10);

Completed not_sent(std::string_view why) {
  return {.output = boost::json::serialize(object{{"delivered", false}, {"why", why}}), .cost = {}};
}

class WebhookTool final : public Tool {
 public:
  explicit WebhookTool(const NotifyContext& context) : context_(context) {}

  const ToolSpec& spec() const override { return spec_; }

  ToolResult run(const Lease& lease, Instant now, std::stop_token stop) override {
    ToolResult result = send(lease, now, stop);
    if (stop.stop_requested()) return result;
    const Failed* failed = std::get_if<Failed>(&result);
    if (failed && lease.attempt >= delivery_attempts_max) give_up(lease, now, *failed);
    context_.count("webhook", delivery_outcome(result, "delivered"));
    return result;
  }

 private:
  ToolResult send(const Lease& lease, Instant now, const std::stop_token& stop) {
    auto input = parse_json(lease.input);
    const object* with = input ? input->if_object() : nullptr;
    const Json* name = with ? with->if_contains("webhook") : nullptr;
    const Json* event = with ? with->if_contains("event") : nullptr;
    const Json* id = event && event->is_object() ? event->get_object().if_contains("id") : nullptr;
    if (!name || !name->is_string() || !id || !id->is_string())
      return invalid_arguments("a delivery has a webhook's name and an event");

    // As it is now: what was changed since the event is what counts.
    auto tenant = context_.find_tenant(lease.tenant);
    auto webhook =
        tenant ? tenant->webhooks.find(std::string(name->get_string())) : decltype(tenant->webhooks.begin()){};
    if (!tenant || webhook == tenant->webhooks.end()) return not_sent("the webhook was removed");
    if (!webhook->second.is_enabled()) return not_sent("the webhook is disabled: " + webhook->second.disabled);

    auto secret =
        context_.find_secret(*tenant, OwnSecret::find(*tenant, OwnSecret::Use::webhook_secret, webhook->first));
    auto keys = secret ? webhook_keys(*secret) : std::unexpected(secret.error());
    if (!keys) return patient_failure("TOOL_INVALID_ARGUMENTS", keys.error());

    auto url = normalize_url(webhook->second.url);
    if (!url) return patient_failure("TOOL_INVALID_ARGUMENTS", "the webhook's URL " + url.error());

    std::string body = canonical(*event);
    std::string timestamp = std::to_string(now.ms / 1000);
    std::string message_id(id->get_string());
    HttpRequest request{.method = "POST",
                        .url = std::move(*url),
                        .headers = {{"Content-Type", "application/cloudevents+json; charset=utf-8"},
                                    {"User-Agent", "pawl"},
                                    {"webhook-id", message_id},
                                    {"webhook-timestamp", timestamp},
                                    {"webhook-signature", webhook_signature(*keys, {message_id, timestamp, body})}},
                        .body = std::move(body),
                        .timeout = send_timeout,
                        .connect_timeout = webhook_connect_timeout};
    auto answer = exchange(request, context_.rules, stop);
    if (!answer) return failure_of(answer.error(), request.url);
    if (answer->status >= 200 && answer->status < 300)
      return Completed{.output = boost::json::serialize(object{{"delivered", true}, {"status", answer->status}}),
                       .cost = {}};
    if (answer->status == 410) return gone(lease, webhook->first);
    return failure_of(*answer, request.url, now);
  }

  void disable(const Lease& lease, const std::string& webhook, const std::string& why) {
    auto done = context_.runtime->ask(TenantRequest{lease.tenant, WebhookDisabled{webhook, why}, engine_actor});
    if (done) context_.report("the webhook " + webhook + " is disabled until it is set again: " + why);
  }

  // The last attempt at a delivery has failed. When nothing else came through either since it was made, days ago,
  // nobody is there: going on would keep workers waiting for ever more deliveries. A webhook that was enabled anew
  // since then has its days before it.
  void give_up(const Lease& lease, Instant now, const Failed& failed) {
    auto input = parse_json(lease.input);
    const Json* name = input && input->is_object() ? input->get_object().if_contains("webhook") : nullptr;
    if (!name || !name->is_string()) return;
    const std::string webhook(name->get_string());
    auto run = context_.runtime->ask(InspectRun{lease.tenant, lease.run});
    auto tenant = context_.find_tenant(lease.tenant);
    auto known = tenant ? tenant->webhooks.find(webhook) : decltype(tenant->webhooks.begin()){};
    if (!run || !tenant || known == tenant->webhooks.end()) return;
    const Instant since = (*run)->created_at;
    if (known->second.since > since || was_delivered_since(*context_.store, lease.tenant, webhook, since)) return;
    disable(lease, webhook,
            fmt::format("nothing could be delivered for {}; the last failure: {}", print_duration(now - since),
                        failed.message));
  }

  // It asks to be left alone, and is.
  Failed gone(const Lease& lease, const std::string& webhook) {
    disable(lease, webhook, "it answered 410 Gone");
    Failed out = failure("TOOL_DEPENDENCY_DOWN", "it answered 410 Gone: the webhook is disabled until it is set again");
    out.retryable = false;
    return out;
  }

  const NotifyContext& context_;
  const ToolSpec spec_{.name = webhook_tool,
                       .keys = {{.name = "webhook", .required = true, .kind = ToolKey::Kind::text},
                                {.name = "event", .required = true, .kind = ToolKey::Kind::map}},
                       // What is told to those who asked to be told of it is no effect that a policy decides on.
                       .writes = ToolSpec::Writes::never};
};

}  // namespace

std::unique_ptr<Tool> make_webhook_tool(const NotifyContext& context) { return std::make_unique<WebhookTool>(context); }

}  // namespace pawl::notify
