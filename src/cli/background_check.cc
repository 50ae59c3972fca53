#include "cli/background_check.h"

#include <pthread.h>

namespace pawl {
namespace {

constexpr std::size_t runs_per_view = 256;

RunId after(RunId run) {
  IdBits bits = run.bits;
  if (++bits.low == 0) ++bits.high;
  return {bits};
}

}  // namespace

BackgroundCheck::BackgroundCheck(BackgroundCheckOptions options)
    : options_(std::move(options)), thread_([this](std::stop_token stop) { work(stop); }) {
  pthread_setname_np(thread_.native_handle(), "pawl-check");
}

void BackgroundCheck::wait(const std::stop_token& stop, std::chrono::nanoseconds span) {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, stop, span, [] { return false; });
}

void BackgroundCheck::work(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const auto began = std::chrono::steady_clock::now();
    try {
      pass(stop);
    } catch (const StoreFailure& failure) {
      if (!stop.stop_requested()) options_.on_failure(failure.what());
    }
    wait(stop, began + options_.interval - std::chrono::steady_clock::now());
  }
}

void BackgroundCheck::pass(const std::stop_token& stop) {
  workflows_.reset();
  std::vector<Tenant> tenants;
  check_tenants(tenants);
  for (const Tenant& tenant : tenants)
    for (std::optional<RunId> place = RunId{}; place && !stop.stop_requested();) {
      std::size_t bytes = 0;
      place = check_some(tenant.id, *place, bytes);
      wait(stop, std::chrono::nanoseconds(std::chrono::seconds(1)) * bytes / options_.bytes_per_second);
    }
  if (!stop.stop_requested()) options_.on_pass();
}

// And what the feed shows: the frames that are kept, with the streams that are in them.
void BackgroundCheck::check_tenants(std::vector<Tenant>& tenants) {
  auto view = options_.open_view();
  StreamReader streams(*view, StreamReader::Frames::kept);
  tenants = view->tenants();
  std::map<TenantId, WorkflowDigests> published;
  for (const Tenant& tenant : tenants)
    published[tenant.id] =
        check_tenant_alone(streams.read(StreamKey::of(tenant.id)), tenant, options_.on_tenant_damage);
  check_workflow_rows(*view, std::move(published), options_.on_tenant_damage);
  for (StreamKey key : streams.unfolded()) {
    check_tenant_is_there(key, tenants, options_.on_tenant_damage);
    if (key.is_tenant()) continue;
    const RunId run{key.stream};
    for (const std::string& problem : streams.read(key).problems) options_.on_run_damage(run, {run.str(), 0, problem});
  }
}

std::optional<RunId> BackgroundCheck::check_some(TenantId tenant, RunId place, std::size_t& bytes) {
  auto view = options_.open_view();
  auto rows = view->load_from(tenant, place, runs_per_view);
  if (rows.empty()) return std::nullopt;
  StreamReader streams(*view);
  for (const RunRow& row : rows) {
    if (!workflows_ || !workflows_->find(tenant, row.workflow, row.version)) workflows_.emplace(*view);
    bytes += row.snapshot.size();
    const Found found = [&](const Problem& problem) { options_.on_run_damage(row.id, problem); };
    try {
      const WholeStream stream = streams.read(StreamKey::of(tenant, row.id));
      for (const StreamLine& line : stream.lines) bytes += line.text.size();
      for (const ReceiptRow& unfound : check_run_alone(*view, stream, row, *workflows_, found))
        options_.on_unfound_effect(unfound);
    } catch (const StoreFailure& failure) {
      found({row.id.str(), 0, failure.what()});
    }
  }
  return rows.size() < runs_per_view ? std::nullopt : std::optional(after(rows.back().id));
}

}  // namespace pawl
