// bench/run engine: what the engine does on this disk, beside what the disk allows. All figures of one call come from
// one machine at one time; compare the ratios, not the absolute figures of different days.
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "arguments.h"
#include "bench/disk.h"
#include "bench/figures.h"
#include "bench/fixture.h"
#include "bench/latency.h"
#include "measure.h"
#include "recorded.h"

namespace {

using namespace pawl;
using namespace pawl::bench;
namespace fs = std::filesystem;

struct Scale {
  std::uint64_t throughput_runs = 60'000;  // a round
  std::uint64_t latency_runs = 3'000;
  std::uint64_t grown_runs = 1'000'000;
  std::uint64_t queued_few = 1'000;
  std::uint64_t queued_many = 1'000'000;
  std::uint64_t waiting_runs = 1'000'000;
};

constexpr std::uint64_t in_flight = 8192;

// What is left when there is no engine.
double raw_steps_per_s(const fs::path& parent, std::uint64_t runs) {
  Record record;
  {
    Folder folder(parent, "record");
    Fixture fixture({.folder = folder.path(),
                     .between = [&](Store& store) { return std::make_unique<RecordingStore>(store, record); }});
    fixture.run_many(fixture.publish(steps_workflow("five", 5)), runs, in_flight);
  }
  return static_cast<double>(runs * 5) / commit_again(parent, record);
}

// In turns, because what the disk gives changes from one second to the next; the middle one of each is told.
void throughput(const Report& report, const fs::path& parent, const Scale& scale) {
  report.heading("5-step runs, in-process no-op workers, synchronous=FULL");
  constexpr int rounds = 5;
  std::vector<double> raw, pawl, cores, per_sync;
  for (int round = 0; round < rounds; ++round) {
    raw.push_back(raw_steps_per_s(parent, scale.throughput_runs));
    Folder folder(parent, "throughput");
    Fixture fixture({.folder = folder.path()});
    WorkflowName five = fixture.publish(steps_workflow("five", 5));
    fixture.run_many(five, scale.throughput_runs / 10, in_flight);
    settle_disk();
    double cpu = cpu_seconds_now();
    std::uint64_t synced = syncs();
    double took = fixture.run_many(five, scale.throughput_runs, in_flight);
    double steps = static_cast<double>(scale.throughput_runs * 5);
    pawl.push_back(steps / took);
    cores.push_back((cpu_seconds_now() - cpu) / took);
    per_sync.push_back(steps / static_cast<double>(syncs() - synced));
  }
  double ceiling = percentile(raw, 0.5), reached = percentile(pawl, 0.5);
  report.add({"raw ceiling (same bytes, same frames)", ceiling, "steps/s", {}, "", ""});
  report.add({"pawl", reached, "steps/s", reached / ceiling, "raw ceiling", "0.60, order of 100,000"});
  report.add({"cores busy", percentile(cores, 0.5), "cores", {}, "", ""});
  report.add({"steps per sync", percentile(per_sync, 0.5), "steps", {}, "", ""});
}

void latency(const Report& report, const fs::path& parent, const Scale& scale) {
  report.heading("one run of one step, nothing else going on: submit to durable result");
  Folder folder(parent, "latency");
  std::uint64_t synced = 0;
  Latency times = measure_latency(folder.path(), [&](std::size_t done) {
    if (done == 0) {
      settle_disk();
      synced = syncs();
    }
    return done < scale.latency_runs;
  });
  double p50 = percentile(times.run_ms, 0.5), p99 = percentile(times.run_ms, 0.99);
  double disk_p50 = percentile(times.disk_ms, 0.5), disk_p99 = percentile(times.disk_ms, 0.99);
  double runs = static_cast<double>(scale.latency_runs);
  double syncs_of_runs = static_cast<double>(syncs() - synced) - 2 * runs;
  report.add({"syncs a run", syncs_of_runs / runs, "syncs", {}, "", "at most 3"});
  report.add({"p50", p50, "ms", {}, "", ""});
  report.add({"p99", p99, "ms", p99 / p50, "p50", "at most 2.00"});
  report.add({"the disk alone, two syncs: p50", disk_p50, "ms", {}, "", ""});
  report.add({"the disk alone, two syncs: p99", disk_p99, "ms", disk_p99 / disk_p50, "its p50", ""});
}

void growth(const Report& report, const fs::path& parent, const Scale& scale) {
  report.heading(fmt::format("growth: {} finished runs in the file", scale.grown_runs));
  Folder folder(parent, "growth");
  Fixture fixture({.folder = folder.path()});
  WorkflowName five = fixture.publish(steps_workflow("five", 5));
  fixture.run_many(five, 20'000, in_flight);
  // The grown one and an empty one in turns, as the disk gives and takes.
  auto steps_per_s = [&](Fixture& any) {
    settle_disk();
    return static_cast<double>(scale.throughput_runs * 5) / any.run_many(five, scale.throughput_runs, in_flight);
  };
  fixture.run_many(five, scale.grown_runs, in_flight);
  std::vector<double> empty, full;
  for (int round = 0; round < 3; ++round) {
    Folder fresh_folder(parent, "fresh");
    Fixture fresh({.folder = fresh_folder.path()});
    fresh.publish(steps_workflow("five", 5));
    fresh.run_many(five, 6'000, in_flight);
    empty.push_back(steps_per_s(fresh));
    full.push_back(steps_per_s(fixture));
  }
  double none = percentile(empty, 0.5), grown = percentile(full, 0.5);
  report.add({"with none", none, "steps/s", {}, "", ""});
  report.add({"with " + std::to_string(scale.grown_runs), grown, "steps/s", grown / none, "with none", "0.90"});
}

// Claims per second out of a backlog of one-step runs that lay there when the workers came.
double claims_per_s(const fs::path& parent, std::uint64_t queued, std::uint64_t rounds) {
  double claimed = 0, took = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    Folder folder(parent, "backlog");
    Fixture fixture({.folder = folder.path(), .slots = 0});
    fixture.create_many(fixture.publish(steps_workflow("one", 1)), queued);
    if (rounds == 1) settle_disk();
    double begin = seconds_now();
    fixture.start_workers();
    std::uint64_t goal = std::min<std::uint64_t>(queued, 200'000);
    fixture.wait_for_finished(goal);
    took += seconds_now() - begin;
    claimed += static_cast<double>(goal);
  }
  return claimed / took;
}

void backlog(const Report& report, const fs::path& parent, const Scale& scale) {
  report.heading("backlog of queued one-step runs");
  std::vector<double> few, many;
  for (int round = 0; round < 3; ++round) {
    few.push_back(claims_per_s(parent, scale.queued_few, 20));
    many.push_back(claims_per_s(parent, scale.queued_many, 1));
  }
  double shallow = percentile(few, 0.5), deep = percentile(many, 0.5);
  std::string name = std::to_string(scale.queued_few) + " queued";
  report.add({name, shallow, "claims/s", {}, "", ""});
  report.add({std::to_string(scale.queued_many) + " queued", deep, "claims/s", deep / shallow, name, "0.90"});
}

// In a process of its own, so that memory and time are a fresh start's.
void look_at_start(const fs::path& folder, double settle_seconds) {
  double begin = seconds_now();
  Fixture fixture({.folder = folder, .slots = 1024});
  double ready = seconds_now() - begin;
  std::this_thread::sleep_for(std::chrono::duration<double>(settle_seconds));
  double cpu = cpu_seconds_now();
  std::this_thread::sleep_for(std::chrono::seconds(3));
  cpu = (cpu_seconds_now() - cpu) / 3;
  fmt::print("{} {} {}\n", ready, resident_mib(), cpu);
  std::fflush(stdout);
}

struct StartFigures {
  double ready_s = 0, resident_mib = 0, idle_cores = 0;
};

StartFigures start_in_child(const char* self, const fs::path& folder) {
  std::string command = fmt::format("{} --look-at-start {}", self, folder.string());
  FILE* pipe = popen(command.c_str(), "r");
  StartFigures out;
  if (!pipe || std::fscanf(pipe, "%lf %lf %lf", &out.ready_s, &out.resident_mib, &out.idle_cores) != 3)
    throw std::runtime_error("the child process gave no figures");
  pclose(pipe);
  return out;
}

void waiting(const Report& report, const fs::path& parent, const Scale& scale, const char* self) {
  report.heading(fmt::format("{} runs waiting on approvals", scale.waiting_runs));
  Folder folder(parent, "waiting");
  double took, resident;
  {
    Fixture fixture({.folder = folder.path()});
    took = fixture.create_many(fixture.publish(gate_workflow("gate")), scale.waiting_runs);
    std::this_thread::sleep_for(std::chrono::seconds(1));
    resident = resident_mib();
  }
  StartFigures start = start_in_child(self, folder.path());
  report.add({"created and parked", static_cast<double>(scale.waiting_runs) / took, "runs/s", {}, "", ""});
  report.add({"resident after creating them", resident, "MiB", {}, "", "at most 1024"});
  report.add({"restart to ready", start.ready_s, "s", {}, "", "at most 5"});
  report.add({"resident after restart", start.resident_mib, "MiB", {}, "", "at most 1024"});
  report.add({"idle", start.idle_cores, "cores", {}, "", "about 0"});
}

void start(const Report& report, const fs::path& parent, const char* self) {
  report.heading("an empty folder");
  Folder folder(parent, "start");
  StartFigures figures = start_in_child(self, folder.path());
  report.add({"start to ready", figures.ready_s * 1e3, "ms", {}, "", "at most 100"});
  report.add({"idle memory", figures.resident_mib, "MiB", {}, "", "at most 30"});
  report.add({"idle", figures.idle_cores, "cores", {}, "", "about 0"});
}

constexpr const char* usage =
    "usage: engine_bench [--json] [--quick] [--folder DIR] [throughput|latency|growth|backlog|waiting|start]...\n"
    "Without names, all of them. --quick takes a tenth of the runs; its figures are for trying things out.\n";

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && argv[1] == std::string_view("--look-at-start")) {
    look_at_start(argv[2], 1.0);
    return 0;
  }
  constexpr std::array<std::string_view, 6> names{"throughput", "latency", "growth", "backlog", "waiting", "start"};
  auto arguments = read_arguments(argc, argv, names, usage);
  if (!arguments) return 2;
  Scale scale;
  if (arguments->quick) scale = {10'000, 300, 100'000, 1'000, 100'000, 100'000};
  const fs::path& parent = arguments->parent;
  fs::create_directories(parent);
  Report report(arguments->style);
  if (arguments->wants("start")) start(report, parent, argv[0]);
  if (arguments->wants("latency")) latency(report, parent, scale);
  if (arguments->wants("throughput")) throughput(report, parent, scale);
  if (arguments->wants("backlog")) backlog(report, parent, scale);
  if (arguments->wants("growth")) growth(report, parent, scale);
  if (arguments->wants("waiting")) waiting(report, parent, scale, argv[0]);
  fs::remove_all(parent);
}
