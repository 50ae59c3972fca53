// The commands of what was done outside and who allowed it: pawl receipts, pawl undo, pawl audit, pawl people.
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
      "Every undo passes the gate like any other effect: the policy decides, and people where it says so. The command\n"
      "waits for the end and lists every effect: undone, not undone and why, or without an undo. The first undo that\n"
      "fails or is denied ends it, so earlier effects are not attempted: when one effect is to stay, name the others\n"
      "with --receipt. Undoing again goes on with what is left. Exit code: 0 when everything is undone, 3 when an "
      "undo\n"
      "was denied, 1 when one failed or an effect has no undo, 5 when somebody must approve first.\n"
      "Examples:\n  pawl undo 9g4qf1\n  pawl undo --receipt rcp_01m7hm5kk9e00atssh0jsk99j4");
  command->add_option("RUN", options->run, "a run's id, or the end of it");
  command->add_option("--receipt", options->receipt, "only this effect")->type_name("RECEIPT");
  add_progress(*command, options->progress);
  return {command, [options] { return undo_run(*options); }};
}

DeclaredCommand declare_audit(CLI::App& app) {
  auto options = std::make_shared<AuditOptions>();
  CLI::App* command = app.add_subcommand("audit", "List who changed what in the tenant, newest first");
  command->footer(
      "The tenant's own stream: keys, people, policies, workflows, limits, refused requests on runs that have ended,\n"
      "checkpoints and stored bundles. With --json each line has the event and the hashes that chain it.\n"
      "Examples:\n  pawl audit --type 'key.*'\n  pawl audit --type '!bundle.stored' --type '!checkpoint.made'\n"
      "  pawl audit --object run_01kaw3v9m8f2hr4x6q0t7c5ezy\n"
      "  pawl audit --actor key_01kaw3v9m8f2hr4x6q0t7c5ezy --since 2d --json");
  command->add_option("--actor", options->actor, "only what this one did: the id of a key, or `by` as --json has it")
      ->type_name("ACTOR");
  command
      ->add_option("--type", options->types,
                   "only this type of event; `key.*` is all that begin so, `!key.*` all others (repeatable)")
      ->type_name("TYPE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--object", options->object,
                   "only what names this run, workflow, key, person, account, group or webhook")
      ->type_name("TEXT");
  add_moment(*command, "--since", options->since, "only what happened then or later");
  add_moment(*command, "--until", options->until, "only what happened before");
  command->add_option("--limit", options->limit, "how many at most")->type_name("N")->check(CLI::Range(1, 100'000));
  add_place(*command, *options);
  return {command, [options] { return show_audit(*options); }};
}

DeclaredCommand declare_people(CLI::App& app) {
  auto options = std::make_shared<PeopleOptions>();
  CLI::App* command =
      app.add_subcommand("people", "Say whose keys and accounts are one person's, and which groups they are in");
  command->footer(
      "Two keys of one person are one person: nobody approves twice, nor what they asked for themselves.\n"
      "Approvals can name people and groups who may decide: approvers: [ada, group:finance]. `set` says all of a\n"
      "person: what is not named is not theirs any more.\n"
      "Examples:\n  pawl people\n  pawl people set ada --key key_01kaw3v9m8f2hr4x6q0t7c5ezy --account "
      "slack:T0123:U0456\n"
      "  pawl people set ada --key key_01kaw3v9m8f2hr4x6q0t7c5ezy --group finance --group heads\n"
      "  pawl people remove ada");
  add_action(*command, options->what, "list, set or remove");
  command->add_option("PERSON", options->name, "their name");
  command->add_option("--group", options->groups, "a group they are in; may be given several times")
      ->type_name("GROUP")
      ->allow_extra_args(false);
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
  return {declare_receipts(app), declare_undo(app), declare_audit(app), declare_people(app)};
}

}  // namespace pawl
