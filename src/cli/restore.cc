// pawl restore: an installation from the archive of `pawl backup`, into an empty data folder, and its journal into that
// folder or an empty database. Nothing takes its place before all of it has turned out to be whole.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "cli/backup_archive.h"
#include "cli/commands.h"
#include "cli/key_files.h"
#include "cli/session.h"
#include "cli/store_move.h"
#include "cli/text.h"
#include "store/postgres/postgres_store.h"
#include "store/sqlite/folder_lock.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;
using boost::json::object;

void require_empty(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_empty(folder))
    throw Stop(exit_usage, fmt::format("{} is not empty: restore into a new folder, and move the old one away first",
                                       folder.string()));
}

// Beside the data folder, so that it can take its place in one step.
fs::path make_staging(const fs::path& folder) {
  if (folder.has_parent_path()) fs::create_directories(folder.parent_path());
  std::string name = folder.string() + ".restoring-XXXXXX";
  if (!::mkdtemp(name.data()))
    throw Stop(exit_store_failure,
               fmt::format("cannot make a folder beside {}: {}", folder.string(), std::strerror(errno)));
  return name;
}

object extract(const std::string& file, const fs::path& staging) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Stop(exit_not_found, fmt::format("{} cannot be read", file));
  object manifest = extract_archive(in, [&](const std::string& name) {
    const fs::path place = staging / name;
    fs::create_directories(place.parent_path());
    return file_sink(place);
  });
  if (text_in(manifest, "format") != backup_format) throw ArchiveFailure("its manifest is not that of a backup");
  const Json* version = manifest.if_contains("version");
  if (!version || !version->is_int64() || version->get_int64() != backup_version)
    throw ArchiveFailure(fmt::format("it was made by a newer pawl ({}): use that one", text_in(manifest, "made_by")));
  return manifest;
}

// What is in it is what the manifest says. Counts are not compared: those of a backup that an older pawl made beside a
// busy server may be too low.
void compare(const BackupContents& found, const object& manifest) {
  const Json* tenants = manifest.if_contains("tenants");
  if (!tenants || canonical(*tenants) != canonical(found.described))
    throw ArchiveFailure("its journal does not end where its manifest says: it is another journal, or a part of it");
}

// A finding about the files of the archive, as they are called in it.
std::string without_place(std::string text, const fs::path& staging) {
  const std::string place = staging.string() + "/";
  for (auto at = text.find(place); at != text.npos; at = text.find(place, at)) text.erase(at, place.size());
  const std::string folder = staging.string();
  for (auto at = text.find(folder); at != text.npos; at = text.find(folder, at))
    text.replace(at, folder.size(), "the backup");
  return text;
}

// Into the database; the folder keeps the keys.
StoreMove::Counts fill_database(const std::string& url, const fs::path& staging) {
  PostgresStore to({.url = url});
  if (!to.tenants().empty())
    throw Stop(exit_usage,
               fmt::format("{} already holds an installation: restore into an empty database", without_password(url)));
  Toolbox toolbox;
  StoreMove::Counts counts;
  {
    auto from = open_folded(staging, toolbox);
    StoreMove move(*from, to, to.now());
    move.tenants();
    move.runs();
    to.analyze();
    counts = move.counts();
  }
  for (std::string_view name : {"pawl.db", "pawl.db-wal", "pawl.db-shm", "lock"}) fs::remove(staging / name);
  return counts;
}

}  // namespace

ExitCode restore(const RestoreOptions& options) {
  if (!options.store.empty() && !is_postgres_url(options.store))
    throw Stop(exit_usage, "--store: write it as postgres://user@host/database");
  fs::path folder = data_folder(options.data);
  if (!folder.has_filename()) folder = folder.parent_path();
  require_empty(folder);
  const fs::path staging = make_staging(folder);
  try {
    const object manifest = extract(options.file, staging);
    if (!fs::exists(journal_in(staging))) throw ArchiveFailure("it is not whole: pawl.db is missing");
    const BackupContents found = contents_of(*open_to_write(staging));
    if (found.tenants.empty()) throw ArchiveFailure("it is not whole: its journal is empty");
    compare(found, manifest);
    if (auto problem = key_files_problem(found.tenants, key_files_in(staging)))
      throw Stop(exit_not_found, "the backup is not whole: " + *problem);
    fmt::print("{} of {}, made by {}: {}, {}\n", options.file, text_in(manifest, "made_at"),
               text_in(manifest, "made_by"), print_count(found.tenants.size(), "tenant"),
               print_count(found.runs, "run"));
    if (!options.store.empty()) fill_database(options.store, staging);
    require_empty(folder);
    fs::remove(folder);
    fs::rename(staging, folder);
    sqlite::sync_folder(folder.has_parent_path() ? folder.parent_path() : fs::path("."));
  } catch (const ArchiveFailure& failure) {
    fs::remove_all(staging);
    throw Stop(exit_usage, fmt::format("{}: {}", options.file, without_place(failure.what(), staging)));
  } catch (const Stop& stop) {
    fs::remove_all(staging);
    throw Stop(stop.code(), fmt::format("{}: {}", options.file, without_place(stop.what(), staging)));
  } catch (const StoreFailure& failure) {
    fs::remove_all(staging);
    throw Stop(exit_store_failure, fmt::format("{}: {}", options.file, without_place(failure.what(), staging)));
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(staging, ignored);
    throw;
  }
  const std::string where = location_of(folder).flags;
  const std::string store = options.store.empty() ? "" : " --store " + shell_word(without_password(options.store));
  fmt::print("restored into {}{}\nnext: {} verify{}, then {} serve {}{}\n", folder.string(),
             options.store.empty() ? "" : " and " + without_password(options.store), this_program(),
             options.store.empty() ? " " + where : store, this_program(), where, store);
  return exit_success;
}

}  // namespace pawl
