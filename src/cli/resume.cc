// pawl resume: goes on where a process that ended left off.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/recorded_run.h"
#include "cli/served_run.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "core/decide.h"

namespace pawl {
namespace {

// What one process goes on with at once; the rest waits for the next call.
constexpr std::size_t resumed_runs_max = 10'000;

std::vector<FoundRun> unfinished(Store& store, TenantId tenant) {
  std::vector<FoundRun> out;
  for (RunStatus status : {RunStatus::running, RunStatus::created, RunStatus::waiting}) {
    RunFilter filter{.status = status,
                     .workflow = {},
                     .workspace = {},
                     .since = {},
                     .before = {},
                     .limit = resumed_runs_max - out.size()};
    if (filter.limit == 0) break;
    for (const RunRow& row : store.list_runs(tenant, filter)) out.push_back({tenant, row.id});
  }
  std::ranges::sort(out, {}, &FoundRun::id);
  return out;
}

std::optional<TenantId> tenant_of(Store& store) {
  for (const Tenant& tenant : store.tenants())
    if (tenant.name == "default") return tenant.id;
  return std::nullopt;
}

void say_it_has_ended(const Run& run, const ResumeOptions& options) {
  if (is_terminal(run.status) && !options.progress.json && !options.is_new)
    fmt::print("nothing to resume: {} has ended already\n", run.id.str());
}

// The server goes on by itself: there is only to be with it again.
ExitCode follow_on_server(const Remote& remote, const ResumeOptions& options) {
  refuse_settings_of_runs(options.progress);
  if (options.run.empty()) {
    if (!options.progress.json)
      fmt::print(
          "nothing to resume: {} goes on with its runs by itself\nname one to follow it, or see them all with: {} runs "
          "--watch {}\n",
          remote.url(), this_program(), remote.location().flags);
    return exit_success;
  }
  RecordedRun recorded = read_run(remote, options.run);
  std::vector<Run> runs{recorded.unborn()};
  for (const StreamLine& line : recorded.stream.lines) {
    auto event = parse_run_event(line.text);
    if (!event) throw Stop(exit_ended_badly, fmt::format("{} seq {}: {}", recorded.id.str(), line.seq, event.error()));
    evolve(runs[0], *event);
  }
  say_it_has_ended(runs[0], options);
  block_signals();
  ServedRun carrier(remote, recorded.id, runs[0].seq);
  return follow(carrier, std::move(runs), follow_options(remote.location(), options.progress));
}

}  // namespace

ExitCode resume_runs(const ResumeOptions& options) {
  auto folder = data_folder(options.progress.data);
  if (auto remote = Remote::find(options.progress.server, folder)) return follow_on_server(*remote, options);
  block_signals();
  Toolbox toolbox = toolbox_for(options.progress);
  open_to_read(folder);  // a folder that is not there is no reason to make one
  auto store = open_folded(folder, toolbox);
  std::vector<FoundRun> found;
  if (!options.run.empty())
    found.push_back(find_run(*store, options.run));
  else if (auto tenant = tenant_of(*store))
    found = unfinished(*store, *tenant);
  if (found.empty()) {
    if (!options.progress.json) fmt::print("nothing to resume in {}: every run has ended\n", folder.string());
    return exit_success;
  }
  std::set<RunId> ids;
  for (const FoundRun& run : found) ids.insert(run.id);
  Session session(*store, toolbox, std::move(ids));
  std::vector<Run> runs;
  for (const FoundRun& each : found) {
    auto run = session.runtime().ask(InspectRun{each.tenant, each.id});
    if (!run) throw Stop(exit_not_found, run.error().message);
    runs.push_back(**run);
  }
  if (runs.size() == 1) say_it_has_ended(runs[0], options);
  return follow(session, std::move(runs), follow_options(location_of(folder), options.progress));
}

}  // namespace pawl
