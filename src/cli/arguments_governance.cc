// The verbs of what was done outside and who allowed it: pawl receipts, pawl undo, pawl people.
#include <memory>

#include "cli/verb_flags.h"
#include "cli/verbs.h"

namespace pawl {
namespace {

DeclaredVerb declare_receipts(CLI::App& app) {
  auto options = std::make_shared<ReceiptsOptions>();
  CLI::App* verb = app.add_subcommand("receipts", "List what was done outside, look at one, settle a doubt");
  verb->footer(
      "Examples:\n  pawl receipts --status in_doubt\n  pawl receipts rcp_01m7hm5kk9e00atssh0jsk99j4\n"
      "  pawl receipts rcp_01m7hm5kk9e00atssh0jsk99j4 --happened no");
  verb->add_option("RECEIPT", options->id, "its id");
  verb->add_option("--status", options->status, "only those: intended, succeeded, failed, in_doubt or reversed")
      ->type_name("WORD");
  verb->add_option("--happened", options->happened, "of one in doubt: whether it had its effect, yes or no")
      ->type_name("WORD")
      ->check(CLI::IsMember({"yes", "no"}));
  add_place(*verb, *options);
  return {verb, [options] { return show_receipts(*options); }};
}

DeclaredVerb declare_undo(CLI::App& app) {
  auto options = std::make_shared<UndoOptions>();
  CLI::App* verb = app.add_subcommand("undo", "Undo what a run did, latest effect first, as a run of its own");
  verb->footer(
      "Every undo passes the gate like any other effect: the policy decides, and people where it says so. What cannot "
      "be\n"
      "undone is listed with the reason.\n"
      "Examples:\n  pawl undo 9g4qf1\n  pawl undo --receipt rcp_01m7hm5kk9e00atssh0jsk99j4");
  verb->add_option("RUN", options->run, "a run's id, or the end of it");
  verb->add_option("--receipt", options->receipt, "only this effect")->type_name("RECEIPT");
  add_place(*verb, *options);
  return {verb, [options] { return undo_run(*options); }};
}

DeclaredVerb declare_people(CLI::App& app) {
  auto options = std::make_shared<PeopleOptions>();
  CLI::App* verb = app.add_subcommand("people", "Say whose keys and accounts are one person's");
  verb->footer(
      "Two keys of one person are one person: nobody approves twice, nor what they asked for themselves.\n"
      "Examples:\n  pawl people\n  pawl people set ada --key key_01kaw3v9m8f2hr4x6q0t7c5ezy --account "
      "slack:T0123:U0456\n"
      "  pawl people remove ada");
  add_action(*verb, options->what, "list, set or remove");
  verb->add_option("PERSON", options->name, "their name");
  verb->add_option("--key", options->keys, "an API key's id; may be given several times")
      ->type_name("KEY")
      ->allow_extra_args(false);
  verb->add_option("--account", options->accounts, "an account elsewhere, slack:TEAM:USER; may be given several times")
      ->type_name("ACCOUNT")
      ->allow_extra_args(false);
  add_place(*verb, *options);
  return {verb, [options] { return manage_people(*options); }};
}

}  // namespace

std::vector<DeclaredVerb> declare_governance_verbs(CLI::App& app) {
  return {declare_receipts(app), declare_undo(app), declare_people(app)};
}

}  // namespace pawl
