// Clusters, each drawn from a seed (cluster.h), on a real PostgreSQL:
//
//   tests/postgres/cluster build/release/tests/cluster_simulator --seconds 20          as CI runs it
//   tests/postgres/cluster build/release/tests/cluster_simulator --first 17 --seeds 1  one again
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "cluster/cluster.h"
#include "simulator/workflow_maker.h"

int main(int argc, char** argv) {
  using namespace pawl;
  std::uint64_t first = 1, seeds = 1'000'000;
  int seconds = 600;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--first") == 0) first = value;
    if (std::strcmp(argv[i], "--seeds") == 0) seeds = value;
    if (std::strcmp(argv[i], "--seconds") == 0) seconds = static_cast<int>(value);
  }
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  ToolCatalog tools = simulator::simulated_tools();
  cluster::Stage stage;
  std::uint64_t seed = first, losses = 0;
  for (; seed < first + seeds && std::chrono::steady_clock::now() < end; ++seed) {
    // Before it is tried: a broken invariant of pawl's own ends the process.
    fmt::print("\rseed {}", seed);
    std::fflush(stdout);
    try {
      cluster::Cluster cluster(seed, stage, tools);
      cluster.run();
      losses += static_cast<std::uint64_t>(cluster.losses_seen());
    } catch (const std::exception& error) {
      fmt::print("\nFOUND in seed {}: {}\nreplay: tests/postgres/cluster {} --first {} --seeds 1\n", seed, error.what(),
                 argv[0], seed);
      return 1;
    }
  }
  fmt::print("\n{} clusters, all hold; {} times one server was faster than another\n", seed - first, losses);
  return losses > 0 || seeds < 5 ? 0 : 1;
}
