// bench/run http: what a client on this machine gets out of a real `pawl serve` on a fresh folder, beside what the HTTP
// server, the engine and the disk give alone. Client and server share the cores. All figures of one call belong
// together; compare the ratios.
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "arguments.h"
#include "bench/disk.h"
#include "bench/figures.h"
#include "bench/fixture.h"
#include "child.h"
#include "client.h"
#include "constant.h"
#include "http/server.h"
#include "measure.h"
#include "served.h"

namespace {

using namespace pawl;
using namespace pawl::bench;
namespace fs = std::filesystem;

constexpr std::size_t many_connections = 256;
constexpr std::size_t singles_in_flight = 64;

struct Scale {
  int rounds = 5;
  std::uint64_t constants = 100'000;  // a round, as all of these
  std::uint64_t creations = 40'000;
  std::uint64_t batch_runs = 30'000;
  std::uint64_t one_step_runs = 60'000;
  std::uint64_t single_runs = 5'000;
  std::uint64_t approvals = 20'000;
  std::uint64_t latency_runs = 3'000;  // in all
};

struct Bench {
  const Report& report;
  fs::path self;
  fs::path pawl;
  fs::path parent;
  Scale scale;
};

// ---- The constant answer: this program, started once more.

void serve_constant(std::size_t bytes) {
  sigset_t end;
  sigemptyset(&end);
  sigaddset(&end, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &end, nullptr);
  Constant constant(std::string(bytes, 'x'));
  http::Server server({.port = 0}, constant);
  server.start();
  fmt::print("{}\n", server.port());
  std::fflush(stdout);
  int signal = 0;
  sigwait(&end, &signal);
}

void connect_many(Client& client, std::size_t count) {
  while (client.size() < count) client.connect();
}

Post new_run(const std::string& workflow) { return {"/runs", fmt::format(R"({{"workflow":"{}"}})", workflow)}; }

RoundFigure constant_round(const Bench& bench, std::size_t bytes) {
  Child server({bench.self.string(), "--serve-constant", std::to_string(bytes)}, bench.parent / "constant.errors");
  Client client(static_cast<std::uint16_t>(std::stoi(server.read_line())), std::string(70, 'k'));
  connect_many(client, many_connections);
  auto request = [post = new_run("one")](std::uint64_t) { return post; };
  post_many(client, bench.scale.constants / 10, 201, request);
  Cores cores({&server});
  double took = post_many(client, bench.scale.constants, 201, request);
  return {static_cast<double>(bench.scale.constants) / took, cores.text()};
}

RoundFigure creation_round(const Bench& bench) {
  Served served(bench.pawl, bench.parent);
  Client client(served.port(), served.key());
  publish(client, "one", steps_workflow("one", 1));
  connect_many(client, many_connections);
  auto request = [post = new_run("one")](std::uint64_t) { return post; };
  post_many(client, bench.scale.creations / 10, 201, request);
  settle_disk();
  Meanwhile meanwhile({&served});
  double took = post_many(client, bench.scale.creations, 201, request);
  return {static_cast<double>(bench.scale.creations) / took, meanwhile.text()};
}

std::size_t creation_answer_bytes(const Bench& bench) {
  Served served(bench.pawl, bench.parent);
  Client client(served.port(), served.key());
  publish(client, "one", steps_workflow("one", 1));
  Post post = new_run("one");
  return client.ask("POST", post.path, post.body, 201).size();
}

void creation(const Bench& bench) {
  std::size_t bytes = creation_answer_bytes(bench);
  std::vector<RoundFigure> constant, created;
  for (int i = 0; i < bench.scale.rounds; ++i) {
    constant.push_back(constant_round(bench, bytes));
    created.push_back(creation_round(bench));
  }
  RoundFigure ceiling = middle(constant), reached = middle(created);
  bench.report.add({fmt::format("a constant answer of {} bytes, {} connections", bytes, many_connections),
                    ceiling.per_s,
                    "requests/s",
                    {},
                    "",
                    ""});
  bench.report.note("meanwhile: cores busy", ceiling.meanwhile);
  bench.report.add({"`POST /runs`, one a request, as many connections", reached.per_s, "runs/s",
                    reached.per_s / ceiling.per_s, "the constant answer", "0.30"});
  bench.report.note("meanwhile: cores busy; commits", reached.meanwhile);
}

// ---- Runs in batches, beside the engine in this process without HTTP.

double engine_steps_per_s(const Bench& bench, std::uint64_t steps, std::uint64_t runs) {
  constexpr std::uint64_t in_flight = 8192;
  Folder folder(bench.parent, "engine");
  Fixture fixture({.folder = folder.path()});
  WorkflowName workflow = fixture.publish(steps_workflow("bench", static_cast<int>(steps)));
  fixture.run_many(workflow, runs / 10, in_flight);
  settle_disk();
  return static_cast<double>(runs * steps) / fixture.run_many(workflow, runs, in_flight);
}

RoundFigure batch_round(const Bench& bench, std::uint64_t steps, std::uint64_t runs) {
  Served served(bench.pawl, bench.parent);
  Client client(served.port(), served.key());
  publish(client, "bench", steps_workflow("bench", static_cast<int>(steps)));
  BatchWork work(client, {served.port()}, "bench", steps);
  work.run(runs / 10);
  settle_disk();
  Meanwhile meanwhile({&served});
  double took = work.run(runs);
  return {static_cast<double>(runs * steps) / took, meanwhile.text()};
}

void batches(const Bench& bench, std::uint64_t steps, std::uint64_t runs, const char* unit) {
  std::vector<double> engine;
  std::vector<RoundFigure> served;
  for (int i = 0; i < bench.scale.rounds; ++i) {
    engine.push_back(engine_steps_per_s(bench, steps, runs));
    served.push_back(batch_round(bench, steps, runs));
  }
  double inside = percentile(engine, 0.5);
  RoundFigure reached = middle(served);
  bench.report.add(
      {fmt::format("{}-step runs, the engine alone, workers in its process", steps), inside, unit, {}, "", ""});
  bench.report.add({fmt::format("{}-step runs, four remote workers, batches of 500", steps), reached.per_s, unit,
                    reached.per_s / inside, "the engine alone", "30,000"});
  bench.report.note("meanwhile: cores busy; commits", reached.meanwhile);
}

// ---- Runs one by one

void singles(const Bench& bench) {
  constexpr std::uint64_t steps = 5;
  std::vector<RoundFigure> rounds;
  for (int i = 0; i < bench.scale.rounds; ++i) {
    Served served(bench.pawl, bench.parent);
    Client client(served.port(), served.key());
    publish(client, "five", steps_workflow("five", steps));
    connect_many(client, singles_in_flight);
    run_singles(client, "five", steps, bench.scale.single_runs / 10);
    settle_disk();
    Meanwhile meanwhile({&served});
    double took = run_singles(client, "five", steps, bench.scale.single_runs);
    rounds.push_back({static_cast<double>(bench.scale.single_runs * steps) / took, meanwhile.text()});
  }
  RoundFigure reached = middle(rounds);
  bench.report.add({fmt::format("5-step runs, {} in flight, each lease and completion a request", singles_in_flight),
                    reached.per_s,
                    "steps/s",
                    {},
                    "",
                    "10,000"});
  bench.report.note("meanwhile: cores busy; commits", reached.meanwhile);
}

void approvals(const Bench& bench) {
  std::vector<RoundFigure> rounds;
  for (int i = 0; i < bench.scale.rounds; ++i) {
    Served served(bench.pawl, bench.parent);
    Client client(served.port(), served.key());
    publish(client, "gate", gate_workflow("gate"));
    connect_many(client, many_connections);
    auto waiting = create_many(client, "gate", bench.scale.approvals);
    settle_disk();
    Meanwhile meanwhile({&served});
    double took = post_many(client, waiting.size(), 200, [&](std::uint64_t run) {
      return Post{"/runs/" + waiting[run] + "/approve", ""};
    });
    rounds.push_back({static_cast<double>(waiting.size()) / took, meanwhile.text()});
  }
  RoundFigure reached = middle(rounds);
  bench.report.add(
      {fmt::format("`POST /runs/ID/approve`, {} connections, {} runs waiting", many_connections, bench.scale.approvals),
       reached.per_s,
       "approvals/s",
       {},
       "",
       "10,000"});
  bench.report.note("meanwhile: cores busy; commits", reached.meanwhile);
}

void latency(const Bench& bench) {
  Served served(bench.pawl, bench.parent);
  Client client(served.port(), served.key());
  publish(client, "one", steps_workflow("one", 1));
  LatencyWork work(client, "one");
  DiskProbe disk(bench.parent);
  for (int i = 0; i < 200; ++i) work.run_one();
  settle_disk();
  std::vector<double> times, disk_times;
  for (std::uint64_t i = 0; i < bench.scale.latency_runs; ++i) {
    times.push_back(work.run_one() * 1e3);
    disk_times.push_back(disk.seconds(2) * 1e3);
  }
  auto add = [&](const char* name, double fraction, const char* aim) {
    double served_ms = percentile(times, fraction), disk_ms = percentile(disk_times, fraction);
    bench.report.add({fmt::format("`POST /runs` to the run's end in the feed, one step: {}", name), served_ms, "ms",
                      served_ms / disk_ms, "the two syncs'", aim});
    bench.report.add({fmt::format("two plain syncs of as many bytes: {}", name), disk_ms, "ms", {}, "", ""});
  };
  add("p50", 0.5, "2");
  add("p99", 0.99, "5");
}

struct Part {
  std::string_view name;
  void (*measure)(const Bench& bench);
};
constexpr Part parts[] = {
    {"creation", creation},
    {"batches", [](const Bench& bench) { batches(bench, 5, bench.scale.batch_runs, "steps/s"); }},
    {"singles", singles},
    {"one-step", [](const Bench& bench) { batches(bench, 1, bench.scale.one_step_runs, "runs/s"); }},
    {"approvals", approvals},
    {"latency", latency},
};

constexpr const char* usage =
    "usage: http_bench [--json] [--quick] [--folder DIR] [--pawl FILE]\n"
    "                  [creation|batches|singles|one-step|approvals|latency]...\n"
    "Without names, all of them. --quick takes a tenth of the work, once; its figures are for trying things out.\n";

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && argv[1] == std::string_view("--serve-constant")) {
    serve_constant(static_cast<std::size_t>(std::stoul(argv[2])));
    return 0;
  }
  std::vector<std::string_view> names;
  for (const Part& part : parts) names.push_back(part.name);
  auto arguments = read_arguments(argc, argv, names, usage);
  if (!arguments) return 2;
  Scale scale;
  if (arguments->quick) scale = {1, 10'000, 4'000, 3'000, 6'000, 500, 2'000, 300};
  fs::create_directories(arguments->parent);
  Report report(arguments->style);
  report.heading("pawl serve, client and server on the same cores");
  int status = 0;
  try {
    for (const Part& part : parts)
      if (arguments->wants(part.name))
        part.measure({report, arguments->self, arguments->pawl, arguments->parent, scale});
  } catch (const std::exception& error) {
    fmt::print(stderr, "http_bench: {}\n{}", error.what(), what_servers_said(arguments->parent));
    status = 1;
  }
  fs::remove_all(arguments->parent);
  return status;
}
