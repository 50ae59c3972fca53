// Who outside is told of what happens here: a tenant's webhooks and its Slack channel. Configuration like any other, so
// events of the tenant's stream; secrets stand in it by their names only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/id.h"
#include "core/time.h"

namespace pawl {

inline constexpr std::size_t webhooks_max = 50;        // of one tenant
inline constexpr std::size_t webhook_events_max = 50;  // patterns of one webhook

struct WebhookSet {
  std::string name;
  std::string url;
  std::vector<std::string> events;  // patterns: "run.succeeded", "approval.*", "*"
  std::string secret;               // the name of the one that deliveries are signed with
};

struct WebhookRemoved {
  std::string name;
};

// The receiver said that it is gone for good, or was not there for days. It stays so until the webhook is set again.
struct WebhookDisabled {
  std::string name;
  std::string reason;
};

// Where people are asked for approvals.
struct SlackSet {
  std::string team;            // the workspace's id: whose users may answer
  std::string channel;         // the id of the one that cards are posted in
  std::string token;           // the name of the secret that is the bot's token,
  std::string signing_secret;  // and of the one that Slack signs its requests with
  std::string api_base;        // https://slack.com/api, unless it is reached some other way
};

struct SlackRemoved {};

struct Webhook {
  std::string url;
  std::vector<std::string> events;
  std::string secret;
  Instant since;         // what happened earlier is not sent
  std::string disabled;  // why; empty while it is not

  bool is_enabled() const { return disabled.empty(); }
  friend bool operator==(const Webhook&, const Webhook&) = default;
};

struct SlackPlace {
  std::string team;
  std::string channel;
  std::string token;
  std::string signing_secret;
  std::string api_base;
  Instant since;

  friend bool operator==(const SlackPlace&, const SlackPlace&) = default;
};

inline constexpr std::string_view slack_api_base = "https://slack.com/api";

// Why it cannot be set so; nothing when it can.
std::optional<std::string> webhook_problem(const WebhookSet& webhook);
std::optional<std::string> slack_problem(const SlackSet& slack);

// "approval.*" matches "approval.requested", "*" everything, anything else itself.
bool matches_event(std::string_view pattern, std::string_view type);
// Whether any event of a run matches it at all.
bool is_event_pattern(std::string_view pattern);

// What pawl itself publishes and runs, and nobody else may: workflows and tools whose names begin so.
inline constexpr std::string_view reserved_prefix = "pawl.";
inline bool is_reserved_name(std::string_view name) { return name.starts_with(reserved_prefix); }

}  // namespace pawl
