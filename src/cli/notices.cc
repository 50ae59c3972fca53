// pawl webhooks, pawl slack: who outside is told of what happens.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/commands.h"
#include "cli/folder.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "cli/text.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

void require(bool given, std::string_view what) {
  if (!given) throw Stop(exit_usage, fmt::format("{} is missing", what));
}

void say(bool json, const Json& answer, const std::string& sentence) {
  if (json)
    print_json(answer);
  else
    fmt::print("{}\n", sentence);
}

std::string body_of(const object& body) { return boost::json::serialize(body); }

void set_webhook(const Remote& remote, const WebhooksOptions& options) {
  require(!options.url.empty(), "--url");
  require(!options.secret.empty(), "--secret");
  require(!options.events.empty(), "--event");
  array events;
  for (const std::string& pattern : options.events) events.emplace_back(pattern);
  Json set = remote.put("/webhooks/" + percent_encode(options.name),
                        body_of({{"url", options.url}, {"events", std::move(events)}, {"secret", options.secret}}));
  say(options.json, set, fmt::format("{} is told of events from now on", text_of(set, "url")));
}

void list_deliveries(const Remote& remote, const WebhooksOptions& options) {
  std::string path = fmt::format("/webhooks/{}/deliveries?limit={}", percent_encode(options.name), options.limit);
  if (!options.status.empty()) path += "&status=" + percent_encode(options.status);
  print_table(remote.get(path), options.json,
              {"id", "type", "run_id", "status", "attempts", "created_at", "next_attempt_at", "last_error"},
              "no deliveries");
}

void replay(const Remote& remote, const WebhooksOptions& options) {
  std::string path = "/webhooks/" + percent_encode(options.name);
  if (!options.delivery.empty()) {
    Json made = remote.post(path + "/deliveries/" + percent_encode(options.delivery) + "/replay", object{});
    return say(options.json, made, fmt::format("{} is on its way", text_of(made, "id")));
  }
  object body;
  if (!options.since.empty()) body["since"] = options.since;
  Json done = remote.post(path + "/replay", body);
  say(options.json, done, fmt::format("{} deliveries are on their way", text_of(done, "replayed")));
}

}  // namespace

ExitCode manage_webhooks(const WebhooksOptions& options) {
  Remote remote = Remote::require(options.server, data_folder(options.data));
  using enum WebhooksAction;
  if (options.what != list) require(!options.name.empty(), "the webhook's name");
  switch (options.what) {
    case list:
      print_table(remote.get("/webhooks"), options.json, {"name", "url", "events", "secret", "since", "disabled"},
                  "no webhooks");
      break;
    case set:
      set_webhook(remote, options);
      break;
    case remove:
      say(options.json, remote.remove("/webhooks/" + percent_encode(options.name)),
          fmt::format("{} is told nothing more", printable(options.name)));
      break;
    case deliveries:
      list_deliveries(remote, options);
      break;
    case replay:
      pawl::replay(remote, options);
      break;
  }
  return exit_success;
}

ExitCode manage_slack(const SlackOptions& options) {
  Remote remote = Remote::require(options.server, data_folder(options.data));
  auto place = [](const Json& slack) {
    return fmt::format("approvals are asked for in channel {} of team {}", text_of(slack, "channel"),
                       text_of(slack, "team"));
  };
  if (options.what == SlackAction::set) {
    for (auto [value, flag] :
         {std::pair(&options.team, "--team"), std::pair(&options.channel, "--channel"),
          std::pair(&options.token, "--token"), std::pair(&options.signing_secret, "--signing-secret")})
      require(!value->empty(), flag);
    object body{{"team", options.team},
                {"channel", options.channel},
                {"token", options.token},
                {"signing_secret", options.signing_secret}};
    if (!options.api_base.empty()) body["api_base"] = options.api_base;
    Json slack = remote.put("/tenant/slack", body_of(body));
    say(options.json, slack, place(slack));
  } else if (options.what == SlackAction::remove) {
    say(options.json, remote.remove("/tenant/slack"), "nothing is asked for in Slack any more");
  } else {
    Json slack = remote.get("/tenant/slack");
    say(options.json, slack, place(slack));
  }
  return exit_success;
}

}  // namespace pawl
