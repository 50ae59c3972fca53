#include "cli/folder.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>

#include "cli/history.h"
#include "cli/settings.h"
#include "cli/text.h"
#include "core/decide.h"
#include "core/event_header.h"
#include "core/task.h"

namespace pawl {
namespace {

constexpr std::size_t suffix_chars_min = 6;
constexpr std::size_t page_rows = 1000;
constexpr std::size_t near_runs_max = 5;

// A task's stream, which is no run to anybody.
bool is_of_task(const StreamPart& part) {
  return has_event(part.lines, [](const EventHeader& event) { return event.subject() == "task"; });
}

// Newest first. Stops when `visit` returns false.
template <class Visit>
void for_each_run(Store& store, Visit visit) {
  std::set<RunId> unfolded;
  store.for_each_frame([&](Position, std::string_view parts) {
    for_each_part(parts, [&](const StreamPart& part) {
      RunId run{part.key.stream};
      if (part.key.is_tenant() || !unfolded.insert(run).second || store.load(part.key.tenant, run)) return;
      if (is_of_task(part)) return;
      visit(FoundRun{part.key.tenant, run});
    });
  });
  for (const Tenant& tenant : store.tenants()) {
    RunFilter filter{.status = {}, .workflow = {}, .workspace = {}, .since = {}, .before = {}, .limit = page_rows};
    while (true) {
      auto rows = store.list_runs(tenant.id, filter);
      for (const RunRow& row : rows)
        if (!visit(FoundRun{tenant.id, row.id})) return;
      if (rows.size() < page_rows) break;
      filter.before = rows.back().id;
    }
  }
}

bool matches(const std::string& id, std::string_view text) {
  if (id.starts_with(text) || std::string_view(id).substr(RunTag::prefix.size() + 1).starts_with(text)) return true;
  return text.size() >= suffix_chars_min && id.ends_with(text);
}

// The latest run that carries it out.
std::optional<FoundRun> run_of_task(Store& store, TaskId task) {
  for (const Tenant& tenant : store.tenants()) {
    const WholeStream stream = read_stream(store, StreamKey::of(tenant.id, stream_of(task)));
    const auto created = creation_of(stream);
    const auto row = created ? store.find_workflow(tenant.id, created->workflow, created->version) : std::nullopt;
    const auto workflow = row ? compile_workflow(row->source, row->name.text, nullptr) : std::unexpected(std::string());
    if (!workflow) continue;
    std::string lines;
    for (const StreamLine& line : stream.lines) (lines += line.text) += '\n';
    const auto run = fold_lines(tenant.id, stream_of(task), *workflow, lines);
    if (run && run->task && run->task->latest()) return FoundRun{tenant.id, run->task->latest()->run};
  }
  return std::nullopt;
}

// By the id of an approval or a receipt.
std::optional<FoundRun> run_of_part(Store& store, std::string_view text) {
  const auto approval = ApprovalId::parse(text);
  const auto receipt = ReceiptId::parse(text);
  for (const Tenant& tenant : store.tenants()) {
    if (approval)
      if (auto row = store.find_approval(tenant.id, *approval)) return FoundRun{tenant.id, row->run};
    if (receipt)
      if (auto row = store.find_receipt(tenant.id, *receipt)) return FoundRun{tenant.id, row->run};
  }
  return std::nullopt;
}

std::string list(const std::vector<std::string>& ids) {
  std::string out;
  for (const std::string& id : ids) out += "\n  " + id;
  return out;
}

}  // namespace

std::filesystem::path data_folder(const std::string& flag) {
  if (!flag.empty()) return flag;
  if (auto folder = environment_variable("PAWL_DATA").value_or(""); !folder.empty()) return folder;
  if (auto folder = environment_variable("XDG_DATA_HOME").value_or(""); !folder.empty())
    return std::filesystem::path(folder) / "pawl";
  std::string home = environment_variable("HOME").value_or("");
  if (home.empty())
    if (const passwd* user = ::getpwuid(::getuid())) home = user->pw_dir;
  if (home.empty()) throw Stop(exit_usage, "there is no home folder to keep the data in: name one with --data");
  return std::filesystem::path(home) / ".local/share/pawl";
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view harmless = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+,=~";
  if (!text.empty() && text.find_first_not_of(harmless) == text.npos) return std::string(text);
  std::string out = "'";
  for (char c : text) c == '\'' ? out += "'\\''" : out += c;
  return out + "'";
}

std::string this_program() {
  std::string_view name = program_invocation_name;
  return name.find('/') == name.npos ? "pawl" : shell_word(name);
}

Location location_of(const std::filesystem::path& folder) {
  return {.flags = "--data " + shell_word(folder.string()), .is_served = false, .server = {}, .folder = folder};
}

std::string command_line(std::string_view command, std::string_view what, const Location& location) {
  return fmt::format("{} {} {} {}", this_program(), command, what, location.flags);
}

bool is_locked_by_another(const std::filesystem::path& folder) { return sqlite::is_folder_locked(folder); }

std::filesystem::path journal_in(const std::filesystem::path& folder) { return folder / "pawl.db"; }

std::unique_ptr<SqliteStore> open_to_write(const std::filesystem::path& folder) try {
  // The store makes the folder itself, for its owner only; what lies above it is made here.
  if (folder.has_parent_path()) std::filesystem::create_directories(folder.parent_path());
  return std::make_unique<SqliteStore>(SqliteOptions{.folder = folder, .vfs = {}});
} catch (const StoreFailure& failure) {
  if (is_locked_by_another(folder)) throw Stop(exit_busy, failure.what());
  throw;
} catch (const std::filesystem::filesystem_error& error) {
  throw Stop(exit_store_failure, error.what());
}

std::unique_ptr<SqliteStore> open_to_read(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(journal_in(folder), error))
    throw Stop(exit_not_found,
               fmt::format("there is no journal in {}: nothing was run there yet, or --data names another folder",
                           folder.string()));
  return SqliteStore::open_view(folder);
}

bool is_postgres_url(std::string_view text) {
  return text.starts_with("postgres://") || text.starts_with("postgresql://");
}

std::string without_password(std::string url) {
  std::size_t begin = url.find("://");
  std::size_t at = url.find('@');
  if (begin == url.npos || at == url.npos) return url;
  std::size_t colon = url.find(':', begin + 3);
  if (colon < at) url.replace(colon + 1, at - colon - 1, "...");
  return url;
}

FoundRun find_run(Store& store, std::string_view text) {
  // By its whole id, also a run of pawl's own or of a task, which lists leave out.
  if (const auto id = RunId::parse(text))
    for (const Tenant& tenant : store.tenants())
      if (const auto row = store.load(tenant.id, *id); row && row->workflow.text != task_workflow_name)
        return {tenant.id, *id};
  const auto task = TaskId::parse(text);
  if (auto run = task ? run_of_task(store, *task) : run_of_part(store, text)) return *run;
  if (task)
    throw Stop(
        exit_not_found,
        fmt::format("the task {} has no run in this folder; a server shows tasks: pawl task show {}", text, text));
  std::vector<std::string> matching, all_near;
  std::optional<FoundRun> found;
  std::vector<std::string> newest;
  for_each_run(store, [&](FoundRun run) {
    std::string id = run.id.str();
    if (id == text) {
      found = run;
      matching = {id};
      return false;
    }
    if (matches(id, text)) {
      found = run;
      matching.push_back(id);
    }
    if (newest.size() < page_rows) newest.push_back(std::move(id));
    return matching.size() <= near_runs_max;
  });
  if (matching.size() == 1) return *found;
  if (matching.size() > 1)
    throw Stop(exit_not_found, fmt::format("{} means more than one run:{}", printable(text), list(matching)));
  if (newest.empty())
    throw Stop(exit_not_found, fmt::format("there is no run {}: the folder holds none", printable(text)));
  if (auto near = nearest(text, newest); !near.empty())
    throw Stop(exit_not_found,
               fmt::format("there is no run {}; did you mean this one?{}", printable(text), list({near})));
  newest.resize(std::min(newest.size(), near_runs_max));
  throw Stop(exit_not_found, fmt::format("there is no run {}; the newest are:{}", printable(text), list(newest)));
}

Actor this_person() {
  const passwd* user = ::getpwuid(::getuid());
  return Actor{"person:" + (user ? std::string(user->pw_name) : std::to_string(::getuid()))};
}

}  // namespace pawl
