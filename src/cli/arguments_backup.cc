// The commands that take an installation elsewhere: pawl backup, pawl restore, pawl migrate.
#include <memory>

#include "cli/command_flags.h"
#include "cli/commands.h"

namespace pawl {
namespace {

constexpr const char* data_help = "the data folder [$PAWL_DATA, else $XDG_DATA_HOME/pawl, else ~/.local/share/pawl]";

DeclaredCommand declare_backup(CLI::App& app) {
  auto options = std::make_shared<BackupOptions>();
  CLI::App* command = app.add_subcommand("backup", "Write one archive with all that an installation is, keys included");
  command->footer(
      "Examples:\n  pawl backup -o /backup/pawl.tar\n  pawl backup --config /etc/pawl/pawl.yaml\n"
      "  pawl backup --store postgres://pawl@db/pawl\n"
      "It is one moment of the journal, taken while servers run. docs/operating.md says what is in it.");
  command->add_option("--output,-o", options->output, "where to [pawl-backup-TIME.tar]")->type_name("FILE");
  command->add_option("--data", options->data, data_help)->type_name("DIR");
  command->add_option("--store", options->store, "the database, when the journal is in one")->type_name("URL");
  command->add_option("--signing-key", options->signing_key, "the signing key, when it is not in the data folder")
      ->type_name("FILE");
  command->add_option("--config", options->config, "read these from the server's settings")->type_name("FILE");
  return {command, [options] { return backup(*options); }};
}

DeclaredCommand declare_restore(CLI::App& app) {
  auto options = std::make_shared<RestoreOptions>();
  CLI::App* command = app.add_subcommand("restore", "Make an installation from the archive of pawl backup");
  command->footer(
      "Examples:\n  pawl restore pawl.tar --data /var/lib/pawl\n"
      "  pawl restore pawl.tar --data /var/lib/pawl --store postgres://pawl@db/pawl\n"
      "The folder, and the database, must be empty. Nothing is there before all of the archive has been checked.");
  command->add_option("FILE", options->file, "the archive")->required();
  command->add_option("--data", options->data, data_help)->type_name("DIR");
  command->add_option("--store", options->store, "put the journal into this database")->type_name("URL");
  return {command, [options] { return restore(*options); }};
}

DeclaredCommand declare_migrate(CLI::App& app) {
  auto options = std::make_shared<MigrateOptions>();
  CLI::App* command =
      app.add_subcommand("migrate", "Move a data folder's tenants, workflows and runs to PostgreSQL, with the keys");
  command->footer(
      "Examples:\n  pawl migrate --from sqlite:/var/lib/pawl --to postgres://pawl@db/pawl\n"
      "  pawl migrate --from sqlite:/var/lib/pawl --to postgres://pawl@db/pawl --data /srv/pawl\n"
      "The folder is only read, and must not be served meanwhile. What was interrupted goes on when it is started "
      "again.");
  command->add_option("--from", options->from, "sqlite: and a data folder")->required()->type_name("sqlite:DIR");
  command->add_option("--to", options->to, "the database")->required()->type_name("URL");
  command
      ->add_option("--data", options->data,
                   "the data folder of a server on the database: gets the keys and the stored bundles [the old folder]")
      ->type_name("DIR");
  command->add_option("--signing-key", options->signing_key, "the signing key, when it is not in the old folder")
      ->type_name("FILE");
  return {command, [options] { return migrate(*options); }};
}

}  // namespace

std::vector<DeclaredCommand> declare_backup_commands(CLI::App& app) {
  return {declare_backup(app), declare_restore(app), declare_migrate(app)};
}

}  // namespace pawl
