// The commands that say who outside is told of what happens: pawl webhooks, pawl slack.
#include <fmt/format.h>

#include <memory>

#include "cli/command_flags.h"
#include "cli/commands.h"

namespace pawl {
namespace {

DeclaredCommand declare_webhooks(CLI::App& app) {
  auto options = std::make_shared<WebhooksOptions>();
  CLI::App* command = app.add_subcommand("webhooks", "Say where events are sent, and look at what was");
  command->footer(
      "Examples:\n  pawl webhooks\n"
      "  pawl webhooks set orders --url https://hooks.example.com/pawl --event 'run.*' --secret WEBHOOK_KEY\n"
      "  pawl webhooks deliveries orders --status failed\n"
      "  pawl webhooks replay orders                       once more what could not be delivered\n"
      "  pawl webhooks replay orders run_01m7hm5kk9e00a16va1g5nvbxh\n"
      "  pawl webhooks remove orders\n"
      "docs/webhooks.md says what receivers get, and how they check it.");
  add_action(*command, options->what, "list, set, remove, deliveries or replay");
  command->add_option("WEBHOOK", options->name, "its name");
  command->add_option("DELIVERY", options->delivery, "the delivery to replay, not all that failed");
  command->add_option("--url", options->url, "where to send them")->type_name("URL");
  command->add_option("--event", options->events, "which: run.succeeded, approval.*, *; may be given several times")
      ->type_name("KIND")
      ->allow_extra_args(false);
  command->add_option("--secret", options->secret, "the name of the secret that they are signed with")
      ->type_name("NAME");
  command->add_option("--status", options->status, "only deliveries that are pending, delivered or failed")
      ->type_name("WORD");
  command->add_option("--since", options->since, "replay only those made at this time or later")->type_name("TIME");
  command->add_option("--limit", options->limit, "so many deliveries at most")
      ->type_name("N")
      ->check(CLI::Range(1, 200))
      ->capture_default_str();
  add_place(*command, *options);
  return {command, [options] { return manage_webhooks(*options); }};
}

DeclaredCommand declare_slack(CLI::App& app) {
  auto options = std::make_shared<SlackOptions>();
  CLI::App* command = app.add_subcommand("slack", "Say where in Slack approvals are asked for");
  command->footer(
      "Examples:\n  pawl slack\n"
      "  pawl slack set --team T0123ABCD --channel C0123ABCD --token SLACK_TOKEN --signing-secret SLACK_SIGNING\n"
      "  pawl slack remove\n"
      "Token and signing secret are given by the names of secrets. docs/slack.md says how the app is made.");
  add_action(*command, options->what, "show, set or remove");
  command->add_option("--team", options->team, "the workspace's id")->type_name("ID");
  command->add_option("--channel", options->channel, "the channel's id")->type_name("ID");
  command->add_option("--token", options->token, "the name of the secret that is the bot's token")->type_name("NAME");
  command->add_option("--signing-secret", options->signing_secret, "the name of the secret that Slack signs with")
      ->type_name("NAME");
  command->add_option("--api-base", options->api_base, "where Slack's API is reached [https://slack.com/api]")
      ->type_name("URL");
  add_place(*command, *options);
  return {command, [options] { return manage_slack(*options); }};
}

}  // namespace

std::vector<DeclaredCommand> declare_notice_commands(CLI::App& app) {
  return {declare_webhooks(app), declare_slack(app)};
}

}  // namespace pawl
