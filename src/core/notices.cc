#include "core/notices.h"

#include <algorithm>
#include <array>

#include "core/event_names.h"

namespace pawl {
namespace {

constexpr std::size_t url_chars_max = 2048;
// A webhook's deliveries are runs of a workflow that bears its name, and names have their limit.
constexpr std::size_t webhook_name_chars_max = 40;
constexpr std::size_t slack_id_chars_max = 40;

constexpr std::array other_run_events{std::string_view("run.created"),        std::string_view("step.charged"),
                                      std::string_view("approval.requested"), std::string_view("approval.voted"),
                                      std::string_view("receipt.intended"),   std::string_view("receipt.repeated"),
                                      std::string_view("action.denied"),      std::string_view("action.found"),
                                      std::string_view("transition.refused"), std::string_view("run.observed"),
                                      std::string_view("approval.told"),      std::string_view("task.created"),
                                      std::string_view("task.asked"),         std::string_view("task.question_closed"),
                                      std::string_view("task.subtask_added"), std::string_view("task.subtask_dropped"),
                                      std::string_view("task.deleted"),       std::string_view("task.refused"),
                                      std::string_view("approval.reminded"),  std::string_view("approval.escalated")};

bool is_url(std::string_view url) {
  bool has_scheme = url.starts_with("https://") || url.starts_with("http://");
  auto printable = [](char c) { return c > ' ' && c < 0x7f; };
  return has_scheme && url.size() > url.find("//") + 2 && url.size() <= url_chars_max &&
         std::ranges::all_of(url, printable) && url.find('@') == url.npos && url.find('#') == url.npos;
}

bool is_slack_id(std::string_view id, std::string_view first) {
  auto fits = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  return id.size() >= 2 && id.size() <= slack_id_chars_max && first.find(id[0]) != first.npos &&
         std::ranges::all_of(id, fits);
}

}  // namespace

bool matches_event(std::string_view pattern, std::string_view type) {
  if (pattern == "*") return true;
  if (!pattern.ends_with(".*")) return pattern == type;
  return type.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool is_event_pattern(std::string_view pattern) {
  auto matches = [&](std::string_view type) { return matches_event(pattern, type); };
  return std::ranges::any_of(run_event_names, matches) || std::ranges::any_of(step_event_names, matches) ||
         std::ranges::any_of(approval_event_names, matches) || std::ranges::any_of(receipt_event_names, matches) ||
         std::ranges::any_of(task_event_names, matches) || std::ranges::any_of(other_run_events, matches);
}

std::optional<std::string> webhook_problem(const WebhookSet& webhook) {
  if (!is_valid_name(webhook.name) || webhook.name.size() > webhook_name_chars_max)
    return "a webhook's name is letters, digits, . _ and -, at most " + std::to_string(webhook_name_chars_max);
  if (!is_url(webhook.url))
    return "a webhook's url begins with https:// or http:// and has neither a user nor a fragment in it";
  if (webhook.events.empty() || webhook.events.size() > webhook_events_max)
    return "a webhook wants between 1 and " + std::to_string(webhook_events_max) + " kinds of events";
  for (const std::string& pattern : webhook.events)
    if (!is_event_pattern(pattern))
      return "no event is called \"" + pattern + "\"; write for example run.succeeded, approval.* or *";
  if (!is_valid_name(webhook.secret)) return "a secret is given by its name: letters, digits, . _ and -";
  return std::nullopt;
}

std::optional<std::string> slack_problem(const SlackSet& slack) {
  if (!is_slack_id(slack.team, "TE")) return "a team is given by its id, for example T0123ABCD";
  if (!is_slack_id(slack.channel, "CGD")) return "a channel is given by its id, for example C0123ABCD";
  if (!is_valid_name(slack.token) || !is_valid_name(slack.signing_secret))
    return "the token and the signing secret are given by the names of secrets: letters, digits, . _ and -";
  if (!is_url(slack.api_base) || slack.api_base.ends_with('/'))
    return "api_base is an http or https URL without a slash at its end";
  return std::nullopt;
}

}  // namespace pawl
