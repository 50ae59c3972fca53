// pawl bench: how fast is pawl on this machine and disk?
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "bench/figures.h"
#include "bench/fixture.h"
#include "bench/latency.h"
#include "cli/commands.h"
#include "cli/folder.h"
#include "cli/signals.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

constexpr double latency_seconds = 4;
constexpr std::size_t latency_runs_max = 3000;
constexpr double throughput_seconds = 4;
constexpr std::uint64_t runs_a_round = 4000;
constexpr std::uint64_t runs_in_flight = 4000;
constexpr std::uint64_t free_mib_min = 512;

// On the data folder's disk, whether or not there is such a folder yet.
class ScratchFolder {
 public:
  explicit ScratchFolder(const fs::path& data) {
    fs::path parent = fs::absolute(data);
    std::error_code ignored;
    while (!fs::is_directory(parent, ignored) && parent.has_relative_path()) parent = parent.parent_path();
    std::string name = (parent / "pawl-bench-XXXXXX").string();
    if (!::mkdtemp(name.data()))
      throw Stop(exit_store_failure,
                 fmt::format("cannot make a folder in {}: {}", parent.string(), std::strerror(errno)));
    path_ = name;
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Bench {
 public:
  Bench(const fs::path& folder, bool json)
      : folder_(folder), report_(json ? bench::ReportStyle::json : bench::ReportStyle::lines) {}

  void latency() {
    double begin = bench::seconds_now();
    bench::Latency times = bench::measure_latency(folder_ / "latency", [&](std::size_t done) {
      stop_if_interrupted();
      if (done == 0) begin = bench::seconds_now();
      return done < latency_runs_max && bench::seconds_now() - begin < latency_seconds;
    });
    double disk = bench::percentile(times.disk_ms, 0.5), p50 = bench::percentile(times.run_ms, 0.5);
    report_.heading("the disk alone: two syncs, what one run asks of it");
    report_.add({"disk p50", disk, "ms", {}, "", ""});
    report_.add({"disk p99", bench::percentile(times.disk_ms, 0.99), "ms", {}, "", ""});
    report_.heading("one run of one step: from the request to its durable result");
    report_.add({"latency p50", p50, "ms", p50 / disk, "the disk's", ""});
    report_.add({"latency p99", bench::percentile(times.run_ms, 0.99), "ms", {}, "", ""});
  }

  void throughput() {
    bench::Fixture fixture({.folder = folder_ / "throughput"});
    WorkflowName five = fixture.publish(bench::steps_workflow("five", 5));
    fixture.run_many(five, runs_a_round, runs_in_flight);  // to warm up
    std::vector<double> rounds;
    for (double begin = bench::seconds_now(); bench::seconds_now() - begin < throughput_seconds;) {
      stop_if_interrupted();
      rounds.push_back(static_cast<double>(runs_a_round * 5) / fixture.run_many(five, runs_a_round, runs_in_flight));
    }
    report_.heading("many runs of five steps, as fast as they go");
    report_.add({"throughput", bench::percentile(rounds, 0.5), "steps/s", {}, "", ""});
  }

 private:
  void stop_if_interrupted() {
    if (signals_.take().interrupted) throw Stop(exit_interrupted, "interrupted; nothing is left behind");
  }

  fs::path folder_;
  bench::Report report_;
  Signals signals_;
};

}  // namespace

ExitCode measure(const BenchOptions& options) {
  block_signals();
  ScratchFolder folder(data_folder(options.data));
  struct statvfs disk {};
  if (::statvfs(folder.path().c_str(), &disk) == 0 && disk.f_bavail * disk.f_frsize < free_mib_min << 20)
    throw Stop(exit_store_failure,
               fmt::format("{} has less than {} MiB free", folder.path().parent_path().string(), free_mib_min));
  if (!options.json) fmt::print("measuring in {} for about ten seconds\n", folder.path().parent_path().string());
  std::fflush(stdout);
  Bench bench(folder.path(), options.json);
  bench.latency();
  bench.throughput();
  return exit_success;
}

}  // namespace pawl
