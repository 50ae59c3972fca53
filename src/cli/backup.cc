// pawl backup: one archive with all that an installation is, taken at one moment beside servers that go on.
//
// Whatever the store is, the archive holds the journal as a SQLite database: it can be restored into a data folder or
// into PostgreSQL, and a later pawl opens it as it opens any folder of an older one.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>

#include "cli/backup_archive.h"
#include "cli/commands.h"
#include "cli/key_files.h"
#include "cli/store_move.h"
#include "cli/text.h"
#include "core/checkpoint.h"
#include "crypto/sha256.h"
#include "engine/clock.h"
#include "evidence/signing_keys.h"
#include "store/postgres/postgres_store.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

// Of a folder that cannot be made there.
std::string reason_of(int error) { return error == ENOENT ? "no such folder" : std::strerror(error); }

// Beside the archive, for its owner only; goes with this.
class StagingFolder {
 public:
  explicit StagingFolder(const fs::path& beside) {
    std::string name = beside.string() + ".part-XXXXXX";
    if (!::mkdtemp(name.data()))
      throw Stop(exit_store_failure, fmt::format("cannot write {}: {}", beside.string(), reason_of(errno)));
    path_ = name;
  }
  ~StagingFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  StagingFolder(const StagingFolder&) = delete;
  StagingFolder& operator=(const StagingFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

EffectiveSettings settings_of(const BackupOptions& options) {
  SettingSources sources{.flags = {}, .config = options.config, .environment = environment_variable};
  auto give = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) sources.flags.push_back({std::string(name), {text}});
  };
  give("data", options.data);
  give("store", options.store);
  give("signing_key", options.signing_key);
  return read_settings(sources);
}

// The journal at one moment, as a database in the folder.
void copy_journal(const EffectiveSettings& settings, const fs::path& folder) {
  if (settings.values.store.empty()) {
    if (!fs::exists(journal_in(settings.folder)))
      throw Stop(exit_not_found, fmt::format("there is no journal in {}", settings.folder.string()));
    return SqliteStore::open_reader(settings.folder)->copy_to(journal_in(folder));
  }
  auto from = PostgresStore::open_view(settings.values.store);
  SqliteStore to({.folder = folder, .vfs = {}, .frame_bytes_kept = 0});
  StoreMove move(*from, to, SystemClock().now());
  move.tenants();
  move.runs();
  move.end_copy();
}

// What was stored last of each run.
std::map<RunId, Hash> stored_bundles_of(Store& store, const std::vector<Tenant>& tenants) {
  std::map<RunId, Hash> out;
  for (const Tenant& tenant : tenants)
    store.for_each_bundle(tenant.id, [&](const BundleRow& row) { out[row.stored.run] = row.stored.sha256; });
  return out;
}

// Bundles that the journal in the backup knows. One that was stored or replaced since is made again when it is asked
// for.
std::size_t add_bundles(ArchiveWriter& archive, const fs::path& folder, const std::map<RunId, Hash>& known) {
  std::size_t count = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (!at->is_regular_file(error)) continue;
    const std::string name = "evidence/" + fs::relative(at->path(), folder).string();
    auto run = RunId::parse(at->path().stem().string());
    auto stored = run ? known.find(*run) : known.end();
    if (!is_backup_name(name) || stored == known.end()) continue;
    std::ifstream in(at->path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    if (sha256(bytes) != stored->second) continue;
    archive.add(name, bytes);
    ++count;
  }
  return count;
}

void add_if_there(ArchiveWriter& archive, std::string_view name, const fs::path& from) {
  if (fs::exists(from)) archive.add_file(std::string(name), from);
}

std::string file_of(const BackupOptions& options, Instant now) {
  if (options.output == "-") throw Stop(exit_usage, "a backup cannot be written to stdout; name a file: -o FILE");
  if (!options.output.empty()) return options.output;
  std::string day = print_time(now).substr(0, 19);
  std::erase_if(day, [](char c) { return c == '-' || c == ':'; });
  return fmt::format("pawl-backup-{}.tar", day);
}

}  // namespace

ExitCode backup(const BackupOptions& options) try {
  const EffectiveSettings settings = settings_of(options);
  const Instant now = SystemClock().now();
  const fs::path file = file_of(options, now);
  if (fs::exists(file)) throw Stop(exit_usage, fmt::format("{} is there already", file.string()));
  StagingFolder staging(file);
  copy_journal(settings, staging.path());
  const auto copy = open_to_read(staging.path());
  const BackupContents journal = contents_of(*copy);
  // After the journal: a key that was rotated meanwhile is one more in the file, and none less.
  const KeyFiles keys = key_files_of(settings);
  if (auto problem = key_files_problem(journal.tenants, keys))
    throw Stop(exit_not_found, fmt::format("a backup without its keys could not be served: {}", *problem));
  ArchiveWriter archive(file);
  archive.add_file("pawl.db", journal_in(staging.path()));
  add_if_there(archive, secret_file, keys.secret);
  add_if_there(archive, signing_key_file, keys.signing_key);
  add_if_there(archive, admin_key_file, keys.admin_key);
  add_if_there(archive, "pawl.yaml", settings.folder / "pawl.yaml");
  const std::size_t bundles =
      add_bundles(archive, settings.folder / "evidence", stored_bundles_of(*copy, journal.tenants));
  archive.finish({{"format", backup_format},
                  {"version", backup_version},
                  {"made_at", print_time(now)},
                  {"made_by", fmt::format("pawl {}", PAWL_VERSION)},
                  {"store", settings.values.store.empty() ? "sqlite" : "postgres"},
                  {"position", journal.position},
                  {"tenants", journal.described},
                  {"runs", journal.runs},
                  {"events", journal.events},
                  {"bundles", bundles}});
  fmt::print("{}: {}, {}, {}, {}, {}\n", file.string(), print_count(journal.tenants.size(), "tenant"),
             print_count(journal.runs, "run"), print_count(journal.events, "event"), print_count(bundles, "bundle"),
             fmt::format("{:.1f} MB", static_cast<double>(archive.bytes()) / 1e6));
  fmt::print("It holds the installation's keys: keep it as safe as the data folder.\n");
  return exit_success;
} catch (const ArchiveFailure& failure) {
  throw Stop(exit_store_failure, failure.what());
} catch (const fs::filesystem_error& error) {
  throw Stop(exit_store_failure, error.what());
}

}  // namespace pawl
