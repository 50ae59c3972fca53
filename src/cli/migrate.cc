// pawl migrate: an installation from a data folder to PostgreSQL. The folder is only read; what is in the database
// already is left, so that a move that was interrupted goes on where it was.
#include <fmt/format.h>

#include <chrono>

#include "cli/commands.h"
#include "cli/key_files.h"
#include "cli/session.h"
#include "cli/store_move.h"
#include "cli/text.h"
#include "evidence/signing_keys.h"
#include "store/postgres/postgres_store.h"
#include "store/sqlite/folder_lock.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

// What a server on the database needs in its own data folder, and the bundles that lie beside it. What is there already
// is left.
void copy_files(const fs::path& from, const KeyFiles& keys, const fs::path& to) {
  if (to.has_parent_path()) fs::create_directories(to.parent_path());
  sqlite::make_folder(to);
  const KeyFiles there = key_files_in(to);
  for (auto [old, place] : {std::pair(&keys.secret, &there.secret), std::pair(&keys.signing_key, &there.signing_key),
                            std::pair(&keys.admin_key, &there.admin_key)})
    if (fs::exists(*old)) fs::copy_file(*old, *place, fs::copy_options::skip_existing);
  if (fs::exists(from / "evidence"))
    fs::copy(from / "evidence", to / "evidence", fs::copy_options::recursive | fs::copy_options::skip_existing);
  sqlite::sync_folder(to);
}

}  // namespace

ExitCode migrate(const MigrateOptions& options) try {
  constexpr std::string_view prefix = "sqlite:";
  if (!options.from.starts_with(prefix))
    throw Stop(exit_usage, fmt::format("--from {}: write it as sqlite:DIR, a data folder", options.from));
  if (!is_postgres_url(options.to)) throw Stop(exit_usage, "--to: write it as postgres://user@host/database");
  const fs::path folder = options.from.substr(prefix.size());
  if (!fs::exists(journal_in(folder)))
    throw Stop(exit_usage, fmt::format("there is no journal in {}", folder.string()));
  const fs::path keys_in = options.data.empty() ? folder : fs::path(options.data);
  Toolbox toolbox;
  auto from = open_folded(folder, toolbox);
  // Before the move: without its keys the installation could not be served there.
  KeyFiles keys = key_files_in(folder);
  if (!options.signing_key.empty()) keys.signing_key = options.signing_key;
  if (auto problem = key_files_problem(from->tenants(), keys)) throw Stop(exit_not_found, *problem);
  if (!options.data.empty()) {
    copy_files(folder, keys, keys_in);
    if (auto problem = key_files_problem(from->tenants(), key_files_in(keys_in))) throw Stop(exit_not_found, *problem);
  }
  PostgresStore to({.url = options.to});
  const auto begin = std::chrono::steady_clock::now();
  StoreMove move(*from, to, to.now());
  move.tenants();
  move.runs();
  to.analyze();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const StoreMove::Counts& counts = move.counts();
  fmt::print("moved {}, {} and {} with {} in {:.1f} s", print_count(counts.tenants, "tenant"),
             print_count(counts.workflows, "workflow"), print_count(counts.runs, "run"),
             print_count(counts.events, "event"), seconds);
  if (counts.already_there > 0)
    fmt::print(" ({} {} there already)", print_count(counts.already_there, "run"),
               counts.already_there == 1 ? "was" : "were");
  fmt::print(
      "\n{} has the keys: start a server with --data {} --store {}\n"
      "every other server needs a copy of {}, {} and {} in its own data folder\n"
      "the old journal is as it was; do not serve it any more\n",
      keys_in.string(), shell_word(keys_in.string()), without_password(options.to), secret_file, signing_key_file,
      admin_key_file);
  return exit_success;
} catch (const fs::filesystem_error& error) {
  throw Stop(exit_store_failure, error.what());
}

}  // namespace pawl
