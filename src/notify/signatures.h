// Who sent this: signatures of what goes out (Standard Webhooks) and of what comes in (Slack's v0).
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "core/time.h"

namespace pawl::notify {

// The keys in a webhook's secret: one `whsec_` and base64 of 24 to 64 bytes, or several with blanks between them, while
// one replaces another; or why there are none.
std::expected<std::vector<std::string>, std::string> webhook_keys(std::string_view secret);

struct WebhookMessage {
  std::string_view id;  // without a full stop, like the timestamp: it separates what is signed
  std::string_view timestamp;
  std::string_view body;
};
// The header `webhook-signature`: one signature a key.
std::string webhook_signature(const std::vector<std::string>& keys, const WebhookMessage& message);

// What Slack sends with a request, before anything in the request is believed.
struct SlackRequest {
  std::string_view timestamp;  // X-Slack-Request-Timestamp
  std::string_view signature;  // X-Slack-Signature
  std::string_view body;       // raw
};
// Sent within five minutes of now, before or after.
bool is_timely(const SlackRequest& request, Instant now);
bool is_signed_with(const SlackRequest& request, std::string_view signing_secret);

}  // namespace pawl::notify
