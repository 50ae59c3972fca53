// How long one run takes when nothing else goes on, beside what the disk takes for as many syncs.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <vector>

namespace pawl::bench {

// Without the first runs of a process, which find everything cold.
struct Latency {
  std::vector<double> run_ms;   // submit to durable result
  std::vector<double> disk_ms;  // two syncs, each after as many bytes as a run's: what it asks of the disk
};

// In turns, one after the other, in a new folder, for as long as `go_on` says; it is told how many there were.
Latency measure_latency(const std::filesystem::path& folder, const std::function<bool(std::size_t done)>& go_on);

}  // namespace pawl::bench
