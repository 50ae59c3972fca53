// pawl verify: is everything in this folder what the journal says, and does the journal hold together?
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <fstream>
#include <iterator>

#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/served_verification.h"
#include "cli/terminal.h"
#include "cli/verification.h"
#include "engine/clock.h"
#include "evidence/bundle_check.h"
#include "store/postgres/postgres_store.h"
#include "store/sqlite/connection.h"
#include "store/sqlite/log_check.h"

namespace pawl {
namespace {

class Report {
 public:
  explicit Report(const VerifyOptions& options)
      : json_(options.json), traits_(terminal_traits(options.no_colour)), started_(clock_.now()) {}

  void problem(const Problem& problem) {
    ++problems_;
    if (json_) {
      boost::json::object object{{"type", "problem"}, {"subject", problem.subject}, {"what", problem.what}};
      if (problem.seq > 0) object["seq"] = problem.seq;
      fmt::print("{}\n", boost::json::serialize(object));
      return;
    }
    clear_progress();
    Line line(Ink::red, problem.subject);
    if (problem.seq > 0) line.add(fmt::format(" seq {}", problem.seq));
    fmt::print("{}\n", line.add(": ").add(printable(problem.what)).print(traits_.look));
  }

  void progress(const VerifyCounts& counts) {
    Instant now = clock_.now();
    if (json_ || !traits_.can_move || now - shown_ < Duration(100)) return;
    shown_ = now;
    fmt::print("\r{} runs, {} events, {} problems\x1b[K", print_count(counts.runs), print_count(counts.events),
               problems_);
    std::fflush(stdout);
  }

  ExitCode summary(const VerifyCounts& counts, const std::string& where) {
    if (json_) {
      fmt::print("{}\n", boost::json::serialize(boost::json::object{{"type", "summary"},
                                                                    {"tenants", counts.tenants},
                                                                    {"runs", counts.runs},
                                                                    {"events", counts.events},
                                                                    {"approvals", counts.approvals},
                                                                    {"receipts", counts.receipts},
                                                                    {"ready", counts.ready},
                                                                    {"checkpoints", counts.checkpoints},
                                                                    {"bundles", counts.bundles},
                                                                    {"problems", problems_}}));
    } else {
      clear_progress();
      bool clean = problems_ == 0;
      Line line(clean ? Ink::green : Ink::red, clean ? "clean" : print_count(problems_, "problem"));
      line.add(fmt::format(": {}, {}, {}, {}, {}, {} in {}", print_count(counts.runs, "run"),
                           print_count(counts.events, "event"), print_count(counts.tenants, "tenant"),
                           print_count(counts.approvals, "approval"), print_count(counts.receipts, "receipt"),
                           print_count(counts.ready, "ready step"), where));
      line.add(Ink::dim, fmt::format(" ({})", print_elapsed(clock_.now() - started_)));
      fmt::print("{}\n", line.print(traits_.look));
    }
    return problems_ == 0 ? exit_success : exit_ended_badly;
  }

  ExitCode file_summary(const BundleSummary& seen, const std::string& file) {
    const bool clean = problems_ == 0;
    if (json_) {
      fmt::print("{}\n", boost::json::serialize(boost::json::object{{"type", "summary"},
                                                                    {"run", seen.run},
                                                                    {"tenant", seen.tenant},
                                                                    {"status", seen.status},
                                                                    {"mode", seen.mode},
                                                                    {"key", seen.key},
                                                                    {"events", seen.events},
                                                                    {"redacted", seen.redacted},
                                                                    {"checkpoint", seen.checkpoint},
                                                                    {"problems", problems_}}));
    } else {
      Line line(clean ? Ink::green : Ink::red, clean ? "good" : print_count(problems_, "problem"));
      line.add(fmt::format(": {}", printable(file)));
      if (!seen.run.empty())
        line.add(fmt::format(", {} {}, {} events ({} of them redacted), checkpoint {}, signed by {}",
                             printable(seen.run), seen.status, seen.events, seen.redacted, seen.checkpoint,
                             printable(seen.key)));
      fmt::print("{}\n", line.print(traits_.look));
    }
    return clean ? exit_success : exit_ended_badly;
  }

 private:
  void clear_progress() {
    if (!json_ && traits_.can_move) fmt::print("\r\x1b[K");
  }

  bool json_;
  TerminalTraits traits_;
  SystemClock clock_;
  Instant started_;
  Instant shown_;
  std::uint64_t problems_ = 0;
};

// SQLite's own opinion of its file.
std::string integrity_of(const std::filesystem::path& folder) {
  sqlite::Connection connection({.path = journal_in(folder).string(), .vfs = {}, .read_only = true});
  connection.abandon();
  return connection.text("PRAGMA integrity_check(1)");
}

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Stop(exit_not_found, fmt::format("{} cannot be read", printable(path)));
  return {std::istreambuf_iterator<char>(in), {}};
}

std::set<std::string> trusted_keys(const std::string& key) {
  if (key.empty())
    throw Stop(exit_usage,
               "signed by whom? Name the key that you trust with --key; without one, anybody could have signed it");
  auto trusted = read_trusted_keys(key);
  if (!trusted && std::filesystem::exists(key)) trusted = read_trusted_keys(read_bytes(key));
  if (!trusted) throw Stop(exit_usage, fmt::format("--key {}: {}", printable(key), trusted.error()));
  return std::move(*trusted);
}

ExitCode verify_file(const VerifyOptions& options, Report& report) {
  const std::set<std::string> trusted = trusted_keys(options.key);
  const std::string bytes = read_bytes(options.file);
  auto found = [&](const BundleFinding& finding) { report.problem({finding.part, finding.seq, finding.what}); };
  const auto document = bytes.starts_with('{') ? parse_json(bytes) : std::unexpected(std::string());
  if (document && document->is_object() && document->get_object().contains("newer")) {
    check_consistency_document(bytes, trusted, found);
    return report.file_summary({}, options.file);
  }
  // A bundle that was damaged at its beginning is still one as long as its end is there.
  if (!bytes.empty() && !bytes.starts_with("PK") && bytes.find("PK\x05\x06") == bytes.npos) {
    report.problem({"file", 0, "this is neither a bundle nor a proof"});
    return report.file_summary({}, options.file);
  }
  return report.file_summary(check_bundle(bytes, trusted, found), options.file);
}

SignedCheckpoint read_held(const std::string& path) {
  auto value = parse_json(read_bytes(path));
  auto held = value ? read_checkpoint_object(*value) : std::unexpected(value.error());
  if (!held) throw Stop(exit_usage, fmt::format("{} is no checkpoint: {}", printable(path), held.error()));
  return std::move(*held);
}

VerifyCounts check_all(Store& store, const std::string& where, const VerifyOptions& options, Report& report) try {
  Verification verification(
      store, [&](const Problem& problem) { report.problem(problem); },
      [&](const VerifyCounts& so_far) { report.progress(so_far); });
  if (!options.checkpoint.empty()) verification.expect(read_held(options.checkpoint));
  return verification.check();
} catch (const StoreFailure& failure) {
  // What cannot be read is a finding, not an accident of this command.
  report.problem({where, 0, failure.what()});
  return {};
}

ExitCode verify_folder(const VerifyOptions& options, const std::filesystem::path& folder, Report& report) {
  std::string journal = journal_in(folder).string();
  // Before anybody opens the log: what is damaged in it is dropped then.
  if (!is_locked_by_another(folder))
    if (auto damage = sqlite::damage_in_log(journal)) report.problem({journal, 0, *damage});
  auto store = open_to_read(folder);
  try {
    if (auto integrity = integrity_of(folder); integrity != "ok") report.problem({journal, 0, "SQLite: " + integrity});
  } catch (const StoreFailure& failure) {
    report.problem({journal, 0, failure.what()});
  }
  VerifyCounts counts = check_all(*store, journal, options, report);
  try {
    for (const std::string& problem : store->problems()) report.problem({journal, 0, problem});
  } catch (const StoreFailure& failure) {
    report.problem({journal, 0, failure.what()});
  }
  return report.summary(counts, folder.string());
}

ExitCode verify_database(const VerifyOptions& options, Report& report) {
  const std::string& url = options.store;
  std::string where = without_password(url);
  if (!is_postgres_url(url))
    throw Stop(exit_usage, fmt::format("--store {}: write it as postgres://user@host/database", printable(where)));
  std::unique_ptr<PostgresStore> store;
  try {
    store = PostgresStore::open_view(url);
  } catch (const StoreFailure& failure) {
    throw Stop(exit_store_failure, failure.what());
  }
  VerifyCounts counts = check_all(*store, where, options, report);
  for (const std::string& problem : store->problems()) report.problem({where, 0, problem});
  return report.summary(counts, where);
}

ExitCode verify_server(const Remote& remote, Report& report) {
  ServedVerification verification(
      remote, [&](const Problem& problem) { report.problem(problem); },
      [&](const VerifyCounts& so_far) { report.progress(so_far); });
  return report.summary(verification.check(), remote.url());
}

}  // namespace

ExitCode verify(const VerifyOptions& options) {
  Report report(options);
  if (!options.file.empty()) return verify_file(options, report);
  if (!options.store.empty()) return verify_database(options, report);
  auto folder = data_folder(options.data);
  if (auto remote = Remote::find_named(options.server, folder)) return verify_server(*remote, report);
  return verify_folder(options, folder, report);
}

}  // namespace pawl
