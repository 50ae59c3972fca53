#include "cli/startup_check.h"

#include <fmt/format.h>

#include "cli/folder.h"
#include "cli/verification.h"
#include "store/stream.h"

namespace pawl {
namespace {

// Of each tenant, in a store that keeps no frames. A start must not take minutes.
constexpr std::size_t newest_runs_checked = 100;

void check_run_now(Store& store, StreamReader& streams, const PublishedWorkflows& workflows, StreamKey key,
                   const Found& found) {
  const RunId run{key.stream};
  const WholeStream stream = streams.read(key);
  if (auto row = store.load(key.tenant, run)) {
    check_run_alone(store, stream, *row, workflows, found);
    return;
  }
  for (const std::string& problem : stream.problems) found({run.str(), 0, problem});
}

void check_all_now(Store& store, const Found& found) {
  StreamReader streams(store, StreamReader::Frames::kept);
  const std::vector<Tenant> tenants = store.tenants();
  std::map<TenantId, WorkflowDigests> published;
  for (const Tenant& tenant : tenants)
    published[tenant.id] = check_tenant_alone(streams.read(StreamKey::of(tenant.id)), tenant, found);
  check_workflow_rows(store, std::move(published), found);
  const PublishedWorkflows workflows(store);
  for (const std::string& problem : workflows.problems()) found({"workflows", 0, problem});
  for (StreamKey key : streams.unfolded()) {
    check_tenant_is_there(key, tenants, found);
    if (!key.is_tenant()) check_run_now(store, streams, workflows, key, found);
  }
  if (store.shared())
    for (const Tenant& tenant : tenants)
      for (const RunRow& row : store.list_runs(tenant.id, {.limit = newest_runs_checked}))
        check_run_now(store, streams, workflows, StreamKey::of(tenant.id, row.id), found);
}

}  // namespace

void check_at_start(Store& store, const std::string& where, const std::string& look) {
  std::string first;
  std::size_t count = 0;
  const Found found = [&](const Problem& problem) {
    if (++count == 1) first = fmt::format("{}: {}", problem.subject, problem.what);
  };
  try {
    check_all_now(store, found);
  } catch (const StoreFailure& failure) {
    found({where, 0, failure.what()});
  }
  if (count == 0) return;
  throw Stop(exit_store_failure,
             fmt::format("{} is damaged, or another program changed it, so nothing of it is served. {}{}. `{}` names "
                         "everything that is wrong; then restore a backup.",
                         where, first, count > 1 ? fmt::format(" ({} problems in all)", count) : "", look));
}

}  // namespace pawl
