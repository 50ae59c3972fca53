// The simulator: many simulations, each drawn from a seed (see simulation.h).
//
//   simulator --seeds 4000 --jobs 2           as CI runs it
//   simulator --seed 4711 --trace             one simulation, every step printed
//   simulator --plant-all                     every planted bug must be found
//   simulator --plant-all --known FILE        the same, beginning with the seeds that found them last
//   tests/postgres/cluster simulator --postgres --seconds 60          the same simulations on a real PostgreSQL
//
// Simulations run in child processes, one a job: planted bugs and real ones may well end a process.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/failure.h"
#include "simulator/known_seeds.h"
#include "simulator/planted.h"
#include "simulator/simulation.h"

namespace pawl::simulator {
namespace {

constexpr int last_lines_printed = 60;
// Every so many seeds one is run twice, and must do the same. A database has a mind of its own.
constexpr std::uint64_t repeat_every = 64;

struct Options {
  std::uint64_t first = 1;
  std::uint64_t seeds = 1000;
  std::optional<std::uint64_t> only;
  bool trace = false;
  bool plant_all = false;
  const char* known = nullptr;  // a file with lines `BUG SEED`
  Bug plant = Bug::none;
  int jobs = 1;
  int seconds = 24 * 3600;
};

bool on_postgres = false;

// In the process that uses it: a connection is not inherited.
const MakeGround& make_ground() {
  static const MakeGround make = [] {
    if (!on_postgres) return disks(make_empty_disk());
    static cluster::Stage stage;
    return databases(stage, beginning);
  }();
  return make;
}

struct Finding {
  std::string rule;
  std::string what;
  int step = 0;
};

struct Outcome {
  std::optional<Finding> finding;
  std::uint64_t hash = 0;
  std::vector<std::string> lines;
};

Outcome run_simulation(std::uint64_t seed, bool keep_lines) {
  Outcome out;
  Simulation simulation(seed, make_ground(), keep_lines);
  try {
    simulation.run();
  } catch (const Broken& broken) {
    out.finding = {broken.rule(), broken.what(), simulation.steps_done()};
  } catch (const std::exception& unexpected) {
    out.finding = {"nothing is thrown that the engine does not name", unexpected.what(), simulation.steps_done()};
  }
  out.hash = simulation.trace().hash();
  out.lines = simulation.trace().lines();
  return out;
}

void print_finding(std::uint64_t seed, const Finding& finding, const std::vector<std::string>& lines) {
  std::size_t from = lines.size() > last_lines_printed ? lines.size() - last_lines_printed : 0;
  for (std::size_t i = from; i < lines.size(); ++i) std::printf("%s\n", lines[i].c_str());
  std::printf("\nFOUND in seed %llu at step %d: %s\n", static_cast<unsigned long long>(seed), finding.step,
              finding.what.c_str());
  std::printf("replay: simulator --seed %llu --trace%s%s%s\n", static_cast<unsigned long long>(seed),
              on_postgres ? " --postgres" : "", planted_bug == Bug::none ? "" : " --plant ",
              planted_bug == Bug::none ? "" : std::string(name_of(planted_bug)).c_str());
  std::fflush(stdout);
}

// Shared by a parent and its jobs.
struct Board {
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> done{0};
  std::atomic<std::uint64_t> found_seed{0};  // the first one found, in no particular order
  char rule[512] = {};
  std::atomic<std::uint64_t> current[64] = {};
};

// Takes seeds until there are none, or one is found.
void do_job(Board& board, int job, const Options& options, bool quiet) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  for (;;) {
    std::uint64_t seed = options.first + board.next++;
    if (seed >= options.first + options.seeds || board.found_seed || std::chrono::steady_clock::now() > end) return;
    board.current[job] = seed;
    Outcome outcome = run_simulation(seed, false);
    if (!outcome.finding && !on_postgres && seed % repeat_every == 0 &&
        run_simulation(seed, false).hash != outcome.hash)
      outcome.finding = {"the same seed gives the same history", "the same seed gives the same history: it did not", 0};
    ++board.done;
    if (!outcome.finding) continue;
    std::uint64_t none = 0;
    if (!board.found_seed.compare_exchange_strong(none, seed)) return;
    std::snprintf(board.rule, sizeof board.rule, "%s", outcome.finding->what.c_str());
    if (!quiet) print_finding(seed, *outcome.finding, run_simulation(seed, true).lines);
    return;
  }
}

struct Search {
  std::uint64_t seeds = 0;
  std::optional<std::uint64_t> found;
  std::string rule;
  double seconds = 0;
};

Search search(const Options& options, bool quiet) {
  auto begin = std::chrono::steady_clock::now();
  void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto& board = *new (memory) Board;
  std::vector<pid_t> jobs;
  std::fflush(stdout);
  for (int job = 0; job < options.jobs; ++job) {
    pid_t child = fork();
    if (child == 0) {
      if (quiet && !freopen("/dev/null", "w", stderr)) _exit(1);
      do_job(board, job, options, quiet);
      std::fflush(stdout);
      _exit(0);
    }
    jobs.push_back(child);
  }
  Search out;
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    int status = 0;
    waitpid(jobs[job], &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    std::uint64_t seed = board.current[job];
    board.found_seed = seed;
    std::snprintf(board.rule, sizeof board.rule, "the process ends by signal %d",
                  WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    if (!quiet) print_finding(seed, {"", board.rule, 0}, {});
  }
  out.seeds = board.done;
  if (board.found_seed) out.found = board.found_seed;
  out.rule = board.rule;
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  munmap(memory, sizeof(Board));
  return out;
}

int run_one(const Options& options) {
  Outcome outcome = run_simulation(*options.only, options.trace);
  for (const auto& line : outcome.lines) std::printf("%s\n", line.c_str());
  std::printf("seed %llu, hash %016llx\n", static_cast<unsigned long long>(*options.only),
              static_cast<unsigned long long>(outcome.hash));
  if (!outcome.finding) return 0;
  print_finding(*options.only, *outcome.finding, {});
  return 1;
}

int run_many(const Options& options) {
  Search result = search(options, false);
  std::printf("%llu simulations in %.1f s, %.0f a second%s\n", static_cast<unsigned long long>(result.seeds),
              result.seconds, static_cast<double>(result.seeds) / result.seconds,
              result.found ? "; one is broken" : "; all hold");
  return result.found ? 1 : 0;
}

int plant_all(Options options) {
  KnownSeeds known;
  if (options.known) known = read_known_seeds(options.known);
  int missed = 0;
  for (std::size_t i = 1; i < bug_names.size(); ++i) {
    planted_bug = static_cast<Bug>(i);
    if (needs_servers(planted_bug)) continue;
    Search result;
    if (auto seed = known.find(name_of(planted_bug)); seed != known.end()) {
      Options one = options;
      one.first = seed->second;
      one.seeds = one.jobs = 1;
      result = search(one, true);
    }
    if (!result.found) {
      result = search(options, true);
      if (result.found && options.known)
        std::printf("%s: the line of this bug should be: %s %llu\n", options.known,
                    std::string(name_of(planted_bug)).c_str(), static_cast<unsigned long long>(*result.found));
    }
    if (result.found)
      std::printf("%-28s found after %4llu simulations (%.1f s), seed %llu: %s\n",
                  std::string(name_of(planted_bug)).c_str(), static_cast<unsigned long long>(result.seeds),
                  result.seconds, static_cast<unsigned long long>(*result.found), result.rule.c_str());
    else
      std::printf("%-28s NOT FOUND in %llu simulations\n", std::string(name_of(planted_bug)).c_str(),
                  static_cast<unsigned long long>(result.seeds));
    std::fflush(stdout);
    missed += !result.found;
  }
  return missed;
}

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "simulator [--seeds N] [--first SEED] [--seconds N] [--jobs N] [--postgres] [--plant BUG]\n"
               "simulator --plant-all [--known FILE] [--seeds N] [--first SEED] [--seconds N] [--jobs N]\n"
               "simulator --seed SEED [--trace] [--postgres] [--plant BUG]\nbugs:");
  for (std::size_t i = 1; i < bug_names.size(); ++i) std::fprintf(stderr, " %s", std::string(bug_names[i]).c_str());
  std::fprintf(stderr, "\n");
  std::exit(2);
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    auto value = [&]() -> const char* {
      if (++i >= argc) usage();
      return argv[i];
    };
    if (word == "--seeds")
      options.seeds = std::strtoull(value(), nullptr, 10);
    else if (word == "--first")
      options.first = std::strtoull(value(), nullptr, 10);
    else if (word == "--seed")
      options.only = std::strtoull(value(), nullptr, 10);
    else if (word == "--jobs")
      options.jobs = std::min(64, std::max(1, std::atoi(value())));
    else if (word == "--seconds")
      options.seconds = std::atoi(value());
    else if (word == "--postgres")
      on_postgres = true;
    else if (word == "--trace")
      options.trace = true;
    else if (word == "--plant-all")
      options.plant_all = true;
    else if (word == "--known")
      options.known = value();
    else if (word == "--plant") {
      options.plant = find_bug(value());
      if (options.plant == Bug::none) usage();
    } else
      usage();
  }
  return options;
}

}  // namespace
}  // namespace pawl::simulator

int main(int argc, char** argv) {
  using namespace pawl::simulator;
  Options options = parse(argc, argv);
  if (options.plant_all) return plant_all(options);
  pawl::planted_bug = options.plant;
  return options.only ? run_one(options) : run_many(options);
}
