#include "bench/latency.h"

#include "bench/disk.h"
#include "bench/fixture.h"

namespace pawl::bench {
namespace {

constexpr int runs_to_warm = 200;
constexpr int syncs_of_a_run = 2;

}  // namespace

Latency measure_latency(const std::filesystem::path& folder, const std::function<bool(std::size_t done)>& go_on) {
  DiskProbe disk(folder);
  Fixture fixture({.folder = folder / "data", .slots = 4});
  WorkflowName one = fixture.publish(steps_workflow("one", 1));
  for (int i = 0; i < runs_to_warm; ++i) fixture.run_one(one);
  Latency out;
  while (go_on(out.run_ms.size())) {
    out.run_ms.push_back(fixture.run_one(one) * 1e3);
    out.disk_ms.push_back(disk.seconds(syncs_of_a_run) * 1e3);
  }
  return out;
}

}  // namespace pawl::bench
