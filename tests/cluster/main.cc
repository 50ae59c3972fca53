// Clusters, each drawn from a seed (cluster.h), on a real PostgreSQL:
//
//   tests/postgres/cluster build/release/tests/cluster_simulator --seconds 20          as CI runs it
//   tests/postgres/cluster build/release/tests/cluster_simulator --first 17 --seeds 1  one again
//   tests/postgres/cluster build/release/tests/cluster_simulator --plant-all           every planted bug must be found
//   ... --plant-all --known FILE                        the same, beginning with the seeds that found them last
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <optional>

#include "cluster/cluster.h"
#include "simulator/known_seeds.h"
#include "simulator/planted.h"
#include "simulator/workflow_maker.h"

namespace pawl::cluster {
namespace {

// However slow the machine is: fewer would show little.
constexpr std::uint64_t seeds_min = 5;

struct Options {
  std::uint64_t first = 1, seeds = 1'000'000;
  int seconds = 24 * 3600;
  Bug plant = Bug::none;
  bool plant_all = false;
  const char* known = nullptr;  // a file with lines `BUG SEED`
};

struct Search {
  std::uint64_t clusters = 0;
  std::uint64_t losses = 0;
  std::optional<std::uint64_t> found;  // the seed
  std::string what;
};

Search search(const Options& options, Stage& stage, const ToolCatalog& tools) {
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  Search result;
  for (std::uint64_t seed = options.first; seed < options.first + options.seeds; ++seed) {
    if (seed >= options.first + seeds_min && std::chrono::steady_clock::now() >= end) break;
    try {
      Cluster cluster(seed, stage, tools);
      cluster.run();
      ++result.clusters;
      result.losses += static_cast<std::uint64_t>(cluster.losses_seen());
    } catch (const std::exception& error) {
      result.found = seed;
      result.what = error.what();
      break;
    }
  }
  return result;
}

int run_many(const Options& options, Stage& stage, const ToolCatalog& tools, const char* program) {
  Search result = search(options, stage, tools);
  if (result.found) {
    std::string plant = options.plant == Bug::none ? "" : fmt::format(" --plant {}", simulator::name_of(options.plant));
    fmt::print("FOUND in seed {}: {}\nreplay: tests/postgres/cluster {} --first {} --seeds 1{}\n", *result.found,
               result.what, program, *result.found, plant);
    return 1;
  }
  fmt::print("{} clusters, all hold; {} times one server was faster than another\n", result.clusters, result.losses);
  return result.losses > 0 || options.seeds < seeds_min ? 0 : 1;
}

// Those that only several servers show; simulator --plant-all finds the others.
int plant_all(const Options& options, Stage& stage, const ToolCatalog& tools) {
  simulator::KnownSeeds known;
  if (options.known) known = simulator::read_known_seeds(options.known);
  int missed = 0;
  for (std::size_t i = 1; i < bug_names.size(); ++i) {
    planted_bug = static_cast<Bug>(i);
    if (!simulator::needs_servers(planted_bug)) continue;
    Search result;
    if (auto seed = known.find(simulator::name_of(planted_bug)); seed != known.end()) {
      Options one = options;
      one.first = seed->second;
      one.seeds = 1;
      result = search(one, stage, tools);
    }
    if (!result.found) {
      result = search(options, stage, tools);
      if (result.found && options.known)
        fmt::print("{}: the line of this bug should be: {} {}\n", options.known, simulator::name_of(planted_bug),
                   *result.found);
    }
    missed += !result.found;
    if (result.found)
      fmt::print("{} found in seed {}: {}\n", simulator::name_of(planted_bug), *result.found, result.what);
    else
      fmt::print("{} NOT FOUND in {} clusters\n", simulator::name_of(planted_bug), result.clusters);
  }
  return missed;
}

}  // namespace
}  // namespace pawl::cluster

int main(int argc, char** argv) {
  using namespace pawl;
  cluster::Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--plant-all") {
      options.plant_all = true;
      continue;
    }
    if (++i == argc) break;
    if (word == "--known") options.known = argv[i];
    if (word == "--plant") options.plant = simulator::find_bug(argv[i]);
    std::uint64_t value = std::strtoull(argv[i], nullptr, 10);
    if (word == "--first") options.first = value;
    if (word == "--seeds") options.seeds = value;
    if (word == "--seconds") options.seconds = static_cast<int>(value);
  }
  ToolCatalog tools = simulator::simulated_tools();
  cluster::Stage stage;
  if (options.plant_all) return cluster::plant_all(options, stage, tools);
  planted_bug = options.plant;
  return cluster::run_many(options, stage, tools, argv[0]);
}
