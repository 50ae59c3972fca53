// The commands of what was done outside and who allowed it: pawl receipts, pawl undo, pawl people.
#include <memory>

#include "cli/command_flags.h"
#include "cli/commands.h"

namespace pawl {
namespace {

DeclaredCommand declare_receipts(CLI::App& app) {
  auto options = std::make_shared<ReceiptsOptions>();
  CLI::App* command =
      app.add_subcommand("receipts", "List what was done outside, look at one, resolve one that is in doubt");
  command->footer(
      "Examples:\n  pawl receipts --status in_doubt\n  pawl receipts rcp_01m7hm5kk9e00atssh0jsk99j4\n"
      "  pawl receipts rcp_01m7hm5kk9e00atssh0jsk99j4 --happened no");
  command->add_option("RECEIPT", options->id, "its id");
  command->add_option("--status", options->status, "only those: intended, succeeded, failed, in_doubt or reversed")
      ->type_name("WORD");
  command->add_option("--happened", options->happened, "of one in doubt: whether it had its effect, yes or no")
      ->type_name("WORD")
      ->check(CLI::IsMember({"yes", "no"}));
  add_place(*command, *options);
  return {command, [options] { return show_receipts(*options); }};
}

DeclaredCommand declare_undo(CLI::App& app) {
  auto options = std::make_shared<UndoOptions>();
  CLI::App* command = app.add_subcommand("undo", "Undo what a run did, latest effect first, as a run of its own");
  command->footer(
      "Every undo passes the gate like any other effect: the policy decides, and people where it says so. What cannot "
      "be\n"
      "undone is listed with the reason.\n"
      "Examples:\n  pawl undo 9g4qf1\n  pawl undo --receipt rcp_01m7hm5kk9e00atssh0jsk99j4");
  command->add_option("RUN", options->run, "a run's id, or the end of it");
  command->add_option("--receipt", options->receipt, "only this effect")->type_name("RECEIPT");
  add_place(*command, *options);
  return {command, [options] { return undo_run(*options); }};
}

DeclaredCommand declare_people(CLI::App& app) {
  auto options = std::make_shared<PeopleOptions>();
  CLI::App* command = app.add_subcommand("people", "Say whose keys and accounts are one person's");
  command->footer(
      "Two keys of one person are one person: nobody approves twice, nor what they asked for themselves.\n"
      "Examples:\n  pawl people\n  pawl people set ada --key key_01kaw3v9m8f2hr4x6q0t7c5ezy --account "
      "slack:T0123:U0456\n"
      "  pawl people remove ada");
  add_action(*command, options->what, "list, set or remove");
  command->add_option("PERSON", options->name, "their name");
  command->add_option("--key", options->keys, "an API key's id; may be given several times")
      ->type_name("KEY")
      ->allow_extra_args(false);
  command
      ->add_option("--account", options->accounts, "an account elsewhere, slack:TEAM:USER; may be given several times")
      ->type_name("ACCOUNT")
      ->allow_extra_args(false);
  add_place(*command, *options);
  return {command, [options] { return manage_people(*options); }};
}

}  // namespace

std::vector<DeclaredCommand> declare_governance_commands(CLI::App& app) {
  return {declare_receipts(app), declare_undo(app), declare_people(app)};
}

}  // namespace pawl
