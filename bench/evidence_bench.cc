// bench/run evidence: how long a bundle takes, and how long it takes to check what a folder holds.
#include <array>
#include <chrono>
#include <filesystem>

#include "arguments.h"
#include "bench/disk.h"
#include "bench/figures.h"
#include "bench/fixture.h"
#include "cli/folder.h"
#include "cli/verification.h"
#include "engine/clock.h"
#include "evidence/bundle_check.h"
#include "evidence/notary.h"
#include "measure.h"

namespace {

using namespace pawl;
using namespace pawl::bench;

constexpr std::uint64_t in_flight = 8192;
constexpr std::array<std::string_view, 2> names{"bundle", "verify"};

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The newest run of the folder's one tenant.
RunId newest(Store& store, TenantId tenant) { return store.list_runs(tenant, {.limit = 1}).at(0).id; }

void measure_bundle(const Arguments& arguments, const Report& report) {
  Folder folder(arguments.parent, "bundle");
  TenantId tenant;
  {
    Fixture fixture({.folder = folder.path()});
    fixture.run_many(fixture.publish(steps_workflow("hundred", 100)), 1, 1);
    tenant = fixture.tenant();
  }
  auto store = open_to_write(folder.path());
  SystemClock clock;
  ToolCatalog tools;
  tools.expect_remote_tools();
  Runtime runtime(*store, tools, clock);
  runtime.start();
  Notary notary({runtime, *store, clock, folder.path() / signing_key_file});
  const RunId run = newest(*store, tenant);
  std::string bytes = notary.bundle(tenant, run).bytes;  // and the checkpoint that covers it
  std::vector<double> built, checked;
  const std::set<std::string> trusted{notary.keys().current().id()};
  for (int i = 0; i < 100; ++i) {
    built.push_back(1e3 * seconds_of([&] { notary.bundle(tenant, run); }));
    checked.push_back(1e3 * seconds_of([&] {
                        check_bundle(bytes, trusted,
                                     [](const BundleFinding& finding) { throw std::runtime_error(finding.what); });
                      }));
  }
  runtime.stop();
  report.heading("evidence");
  report.add(
      {.name = "bundle of a 100-step run, p50", .value = percentile(built, 0.5), .unit = "ms", .aim = "at most 50 ms"});
  report.add({.name = "bundle of a 100-step run, p99", .value = percentile(built, 0.99), .unit = "ms"});
  report.add({.name = "checking it, p50", .value = percentile(checked, 0.5), .unit = "ms"});
}

void measure_verify(const Arguments& arguments, const Report& report) {
  Folder folder(arguments.parent, "verify");
  // Thirteen and more events a run of five steps.
  const std::uint64_t runs = arguments.quick ? 6'000 : 60'000;
  TenantId tenant;
  {
    Fixture fixture({.folder = folder.path()});
    fixture.run_many(fixture.publish(steps_workflow("five", 5)), runs, in_flight);
    tenant = fixture.tenant();
  }
  {
    auto store = open_to_write(folder.path());
    SystemClock clock;
    ToolCatalog tools;
    tools.expect_remote_tools();
    Runtime runtime(*store, tools, clock);
    runtime.start();
    Notary notary({runtime, *store, clock, folder.path() / signing_key_file});
    const double took = seconds_of([&] { notary.cover_all(tenant); });
    report.add(
        {.name = "checkpoints over all streams", .value = static_cast<double>(runs) / took, .unit = "streams/s"});
    runtime.stop();
  }
  auto store = open_to_read(folder.path());
  VerifyCounts counts;
  const double took = seconds_of([&] {
    Verification verification(
        *store, [](const Problem& problem) { throw std::runtime_error(problem.what); }, [](const VerifyCounts&) {});
    counts = verification.check();
  });
  const double per_million = took * 1e6 / static_cast<double>(counts.events);
  report.add({.name = "verifying 1,000,000 events", .value = per_million, .unit = "s", .aim = "at most 10 s"});
}

}  // namespace

int main(int argc, char** argv) {
  auto arguments =
      read_arguments(argc, argv, names, "evidence_bench [--json] [--quick] [--folder DIR] [bundle|verify]...");
  if (!arguments) return 2;
  std::filesystem::create_directories(arguments->parent);
  Report report(arguments->style);
  if (arguments->wants("bundle")) measure_bundle(*arguments, report);
  if (arguments->wants("verify")) measure_verify(*arguments, report);
  std::filesystem::remove_all(arguments->parent);
  return 0;
}
