// Who outside is told of what happens: webhooks and Slack.
#include "api/openapi_parts.h"

namespace pawl::api::openapi {
namespace {

using enum Method;

const Field webhook_name{"name", "Name", "The webhook's name."};
const Field delivery_id{"id", "RunId", "The delivery's id."};

}  // namespace

std::vector<RouteDoc> notice_routes() {
  return {
      {.method = put,
       .pattern = "/webhooks/{name}",
       .operation_id = "set_webhook",
       .tag = "webhooks",
       .says =
           "Every event of a run that matches becomes a delivery: a POST of a CloudEvent, signed as Standard Webhooks "
           "says, repeated for three days until it is answered with 2xx. One that answers 410 is disabled until it is "
           "set again. docs/webhooks.md has the rest.",
       .path = {webhook_name},
       .bodies = {{"NewWebhook"}},
       .answers = {{201, "It is new.", {{"Webhook"}}}, {200, "It was there, and is as asked for now.", {{"Webhook"}}}}},
      {.method = get,
       .pattern = "/webhooks",
       .operation_id = "list_webhooks",
       .tag = "webhooks",
       .says = "",
       .answers = {{200, "All of them.", {{"WebhookPage"}}}}},
      {.method = get,
       .pattern = "/webhooks/{name}",
       .operation_id = "get_webhook",
       .tag = "webhooks",
       .says = "",
       .path = {webhook_name},
       .answers = {{200, "The webhook.", {{"Webhook"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = delete_,
       .pattern = "/webhooks/{name}",
       .operation_id = "remove_webhook",
       .tag = "webhooks",
       .says = "What waits to be delivered to it is dropped when its turn comes.",
       .path = {webhook_name},
       .answers = {{200, "As it was.", {{"Webhook"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = get,
       .pattern = "/webhooks/{name}/deliveries",
       .operation_id = "list_deliveries",
       .tag = "webhooks",
       .says = "A delivery is a run of a workflow of pawl's own; GET /runs/{id} shows all of it.",
       .path = {webhook_name},
       .query = {{"status", "DeliveryFilter", "Only those."},
                 {"limit", "1..200", "How many at most; 50 unless told."},
                 {"cursor", "RunId", "The next_cursor of the page before."}},
       .answers = {{200, "A page of deliveries.", {{"DeliveryPage"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = post,
       .pattern = "/webhooks/{name}/deliveries/{id}/replay",
       .operation_id = "replay_delivery",
       .tag = "webhooks",
       .says = "A new delivery of the same event, under the same webhook-id: a receiver that has it can tell.",
       .path = {webhook_name, delivery_id},
       .headers = {{"Idempotency-Key", "text/255", "Makes a repeat of this request safe."}},
       .answers = {{201, "It is on its way.", {{"WebhookDelivery"}}},
                   {200, "The one that an earlier request made.", {{"WebhookDelivery"}}}},
       .problems = {"NOT_FOUND", "IDEMPOTENCY_KEY_REUSED"}},
      {.method = post,
       .pattern = "/webhooks/{name}/replay",
       .operation_id = "replay_deliveries",
       .tag = "webhooks",
       .says = "Those that failed for good, each once, 1000 at a time.",
       .path = {webhook_name},
       .bodies = {{"ReplayRequest"}},
       .body_required = false,
       .answers = {{200, "They are on their way.", {{"Replayed"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = put,
       .pattern = "/tenant/slack",
       .operation_id = "set_slack",
       .tag = "slack",
       .says =
           "Approvals that are asked for from now on are shown in this channel, with buttons. Token and signing secret "
           "are given by the names of secrets. docs/slack.md says how the app is made.",
       .bodies = {{"NewSlackPlace"}},
       .answers = {{200, "It is set.", {{"SlackPlace"}}}}},
      {.method = get,
       .pattern = "/tenant/slack",
       .operation_id = "get_slack",
       .tag = "slack",
       .says = "",
       .answers = {{200, "The place.", {{"SlackPlace"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = delete_,
       .pattern = "/tenant/slack",
       .operation_id = "remove_slack",
       .tag = "slack",
       .says = "Cards that were posted stay, and clicks on them are refused.",
       .answers = {{200, "As it was.", {{"SlackPlace"}}}},
       .problems = {"NOT_FOUND"}},
      {.method = post,
       .pattern = "/slack/actions",
       .operation_id = "receive_slack_action",
       .tag = "slack",
       .says = "For Slack, which signs what it sends (X-Slack-Signature, X-Slack-Request-Timestamp). Answered when the "
               "decision is durable.",
       .query = {{"tenant", "Name", "Only this tenant's signing secret is tried; all of them unless told."}},
       .bodies = {{"SlackAction", "SlackAction", "application/x-www-form-urlencoded"}},
       .answers = {{200, "Empty when it is done; otherwise what the window is to say.", {{"SlackReply"}}}},
       .problems = {"UNAUTHORIZED", "INVALID_REQUEST"}},
  };
}

std::vector<ObjectDoc> notice_answers() {
  return {
      {"Webhook",
       "Where events are sent.",
       {{"name", "Name", ""},
        {"url", "text", ""},
        {"events", "[EventPattern]", "Which."},
        {"secret", "Name", "The name of the secret that deliveries are signed with."},
        {"since", "Time", "What happened before is not sent."},
        {"disabled", "text?", "Why nothing is sent any more; null while something is."}}},
      {"WebhookPage", "", {{"items", "[Webhook]", "By name."}, {"next_cursor", "text?", "Always null."}}},
      {"WebhookDelivery",
       "One event on its way to one webhook.",
       {{"id", "RunId", "A delivery is a run."},
        {"event_id", "text?", "The webhook-id it is sent with."},
        {"type", "text?", "What happened: `pawl.run.succeeded`."},
        {"run_id", "text?", "To which run."},
        {"status", "DeliveryStatus", ""},
        {"attempts", "count", "So far."},
        {"created_at", "Time", ""},
        {"finished_at", "Time?", ""},
        {"next_attempt_at", "Time?", "While it is retrying."},
        {"last_error", "text?", "Of the latest attempt that failed."}}},
      {"DeliveryPage",
       "",
       {{"items", "[WebhookDelivery]", "Newest first."}, {"next_cursor", "RunId?", "Null on the last page."}}},
      {"Replayed", "", {{"replayed", "count", "How many."}}},
      {"SlackReply",
       "What Slack is to do with the window that sent this.",
       {{"response_action", "text", "`errors`: it stays open."}, {"errors", "map", "By block, in words."}}},
      {"SlackPlace",
       "Where approvals are asked for in Slack.",
       {{"team", "text", "The workspace's id."},
        {"channel", "text", "The channel's id."},
        {"token", "Name", "The name of the secret that is the bot's token."},
        {"signing_secret", "Name", "The name of the secret that Slack signs with."},
        {"api_base", "text", "Where Slack's API is reached."},
        {"since", "Time", "Approvals that were asked for before are not shown."}}},
  };
}

std::vector<ObjectDoc> notice_requests() {
  return {
      {"NewWebhook",
       "",
       {{"url", "text/2048",
         "An http or https URL. Private addresses are refused when it is called, unless the server's "
         "settings allow them."},
        {"events", "[EventPattern]", "1 to 50."},
        {"secret", "Name",
         "The name of a secret: whsec_ and the base64 of 24 to 64 bytes, or several, with blanks between "
         "them."}}},
      {"ReplayRequest", "", {{"since?", "Time", "Only those made at this time or later."}}},
      {"NewSlackPlace",
       "",
       {{"team", "text/40", "The workspace's id: T0123ABCD."},
        {"channel", "text/40", "The channel's id: C0123ABCD."},
        {"token", "Name", "The name of the secret that is the bot's token."},
        {"signing_secret", "Name", "The name of the secret that Slack signs with."},
        {"api_base?", "text/2048", "https://slack.com/api unless told."}}},
      {"SlackAction",
       "",
       {{"payload?", "text", "What was clicked, and by whom, in JSON."}, {"ssl_check?", "text", "1"}}},
  };
}

std::vector<ExampleDoc> notice_examples() {
  return {
      {"NewWebhook",
       R"({"url": "https://hooks.example.com/pawl", "events": ["run.*", "approval.requested"], "secret": "WEBHOOK_KEY"})"},
      {"Webhook",
       R"({
  "name": "orders", "url": "https://hooks.example.com/pawl", "events": ["run.*", "approval.requested"],
  "secret": "WEBHOOK_KEY", "since": "2026-11-16T07:29:28.681Z", "disabled": null
})"},
      {"WebhookPage",
       R"({
  "items": [
    {
      "name": "orders", "url": "https://hooks.example.com/pawl", "events": ["*"], "secret": "WEBHOOK_KEY",
      "since": "2026-11-16T07:29:28.681Z", "disabled": "it answered 410 Gone"
    }
  ],
  "next_cursor": null
})"},
      {"WebhookDelivery",
       R"({
  "id": "run_01m7hm5kk9e00a16va1g5nvbxh", "event_id": "evt_01m7hm5kk9e00a16va1g5nvbxh_7", "type": "pawl.run.succeeded",
  "run_id": "run_01m7hm5kk9e00a16va1g5nvbxh", "status": "pending", "attempts": 0,
  "created_at": "2026-11-16T07:29:28.681Z", "finished_at": null, "next_attempt_at": null, "last_error": null
})"},
      {"DeliveryPage",
       R"({
  "items": [
    {
      "id": "run_01m7hm5kk9e00a16va1g5nvbxh", "event_id": "evt_01m7hm5kk9e00a16va1g5nvbxh_7",
      "type": "pawl.run.succeeded", "run_id": "run_01m7hm5kk9e00a16va1g5nvbxh", "status": "retrying", "attempts": 2,
      "created_at": "2026-11-16T07:29:28.681Z", "finished_at": null, "next_attempt_at": "2026-11-16T07:34:33.100Z",
      "last_error": "https://hooks.example.com answered 503"
    }
  ],
  "next_cursor": null
})"},
      {"ReplayRequest", R"({"since": "2026-11-15T00:00:00Z"})"},
      {"Replayed", R"({"replayed": 12})"},
      {"NewSlackPlace",
       R"({"team": "T0123ABCD", "channel": "C0123ABCD", "token": "SLACK_TOKEN", "signing_secret": "SLACK_SIGNING"})"},
      {"SlackPlace",
       R"({
  "team": "T0123ABCD", "channel": "C0123ABCD", "token": "SLACK_TOKEN", "signing_secret": "SLACK_SIGNING",
  "api_base": "https://slack.com/api", "since": "2026-11-16T07:29:28.681Z"
})"},
      {"SlackReply", R"({"response_action": "errors", "errors": {"reason": "Please say why."}})"},
      {"SlackAction", R"({"payload": "{\"type\":\"block_actions\"}"})"},
  };
}

}  // namespace pawl::api::openapi
