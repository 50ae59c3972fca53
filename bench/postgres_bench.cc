// bench/run postgres: what one engine, and one, two and four `pawl serve` processes do on one PostgreSQL, beside what
// pgbench makes of the same server. Everything shares the cores: PostgreSQL, servers, client. All figures of one call
// belong together; compare the ratios.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "arguments.h"
#include "bench/disk.h"
#include "bench/figures.h"
#include "bench/fixture.h"
#include "database.h"
#include "measure.h"
#include "served.h"

namespace {

using namespace pawl;
using namespace pawl::bench;
namespace fs = std::filesystem;

constexpr std::uint64_t in_flight = 8192;
constexpr std::uint64_t steps = 5;
constexpr std::array pgbench_clients{16, 32};

struct Scale {
  int rounds = 3;
  int pgbench_seconds = 5;
  std::uint64_t runs = 20'000;  // a round
};

struct Bench {
  DatabaseServer& database;
  fs::path pawl;
  fs::path parent;
  Scale scale;
};

// What the rounds of one row gave.
struct Series {
  std::vector<RoundFigure> rounds;
  std::string rows_a_run;
};

double per_s(const Bench& bench, double took) { return static_cast<double>(bench.scale.runs * steps) / took; }

void engine_round(const Bench& bench, Series& out) {
  FreshDatabase fresh(bench.database, "bench_engine");
  {
    Fixture fixture({.database = fresh.url()});
    WorkflowName five = fixture.publish(steps_workflow("five", steps));
    fixture.run_many(five, bench.scale.runs / 10, in_flight);
    settle_disk();
    double cpu = cpu_seconds_now();
    DatabaseMeanwhile meanwhile(bench.database);
    double took = fixture.run_many(five, bench.scale.runs, in_flight);
    double cores = (cpu_seconds_now() - cpu) / took;
    out.rounds.push_back(
        {per_s(bench, took), fmt::format("engine {:.2f}, {}", cores, meanwhile.text(bench.scale.runs))});
  }
  out.rows_a_run = fresh.rows_a_run();
}

void served_round(const Bench& bench, int count, Series& out) {
  FreshDatabase fresh(bench.database, "bench_served");
  {
    std::vector<std::unique_ptr<Served>> servers;
    std::vector<const Served*> all;
    std::vector<std::uint16_t> ports;
    for (int i = 0; i < count; ++i) {
      ServedOptions options{fmt::format("served-{}", i), fresh.url(), i > 0 ? servers[0].get() : nullptr};
      servers.push_back(std::make_unique<Served>(bench.pawl, bench.parent, options));
      all.push_back(servers.back().get());
      ports.push_back(servers.back()->port());
    }
    Client client(servers[0]->port(), servers[0]->key());
    publish(client, "five", steps_workflow("five", steps));
    BatchWork work(client, ports, "five", steps);
    work.run(bench.scale.runs / 10);
    settle_disk();
    Meanwhile meanwhile(all);
    DatabaseMeanwhile database(bench.database);
    double took = work.run(bench.scale.runs);
    std::string database_text = database.text(bench.scale.runs);
    out.rounds.push_back({per_s(bench, took), fmt::format("{}; {}", meanwhile.text(), database_text)});
  }
  out.rows_a_run = fresh.rows_a_run();
}

struct Row {
  std::string_view name;
  int servers;  // 0: the engine in this process
  const char* what;
  const char* aim;
};
constexpr std::array rows{
    Row{"engine", 0, "5-step runs, one engine, workers in its process", "15,000"},
    Row{"one", 1, "5-step runs, one `pawl serve`, four remote workers, batches of 500", "15,000"},
    Row{"two", 2, "the same, two of `pawl serve`, four workers each", "more than one's"},
    Row{"four", 4, "the same, four of `pawl serve`, four workers each", "no less than two's"},
};

// In turns, because what the machine gives changes from one minute to the next.
void measure(const Bench& bench, const Report& report, const std::vector<const Row*>& wanted) {
  std::array<std::vector<double>, pgbench_clients.size()> pgbench;
  std::vector<Series> series(wanted.size());
  for (int round = 0; round < bench.scale.rounds; ++round) {
    for (std::size_t i = 0; i < pgbench_clients.size(); ++i)
      pgbench[i].push_back(bench.database.simple_updates_per_s(pgbench_clients[i], bench.scale.pgbench_seconds));
    for (std::size_t i = 0; i < wanted.size(); ++i)
      wanted[i]->servers == 0 ? engine_round(bench, series[i]) : served_round(bench, wanted[i]->servers, series[i]);
  }
  double best = 0;
  for (std::size_t i = 0; i < pgbench_clients.size(); ++i) {
    double updates = percentile(pgbench[i], 0.5);
    best = std::max(best, updates);
    report.add({fmt::format("pgbench's simple update, prepared, {} clients", pgbench_clients[i]),
                updates,
                "transactions/s",
                {},
                "",
                ""});
  }
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    RoundFigure reached = middle(series[i].rounds);
    report.add({wanted[i]->what, reached.per_s, "steps/s", reached.per_s / best, "the better pgbench", wanted[i]->aim});
    report.note("meanwhile: cores busy", reached.meanwhile);
    report.note("rows that a run writes", series[i].rows_a_run);
  }
}

std::string conditions(DatabaseServer& database) {
  std::string out = "servers, client and PostgreSQL on the same cores; ";
  for (const char* name : {"server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers",
                           "max_wal_size", "wal_compression"})
    out += fmt::format("{} {}, ", name, database.setting(name));
  return out.substr(0, out.size() - 2);
}

constexpr const char* usage =
    "usage: tests/postgres/cluster postgres_bench [--json] [--quick] [--folder DIR] [--pawl FILE] "
    "[engine|one|two|four]...\n"
    "Without names, all of them. --quick takes a quarter of the runs, once; its figures are for trying things out.\n";

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string_view> names;
  for (const Row& row : rows) names.push_back(row.name);
  auto arguments = read_arguments(argc, argv, names, usage);
  if (!arguments) return 2;
  std::vector<const Row*> wanted;
  for (const Row& row : rows)
    if (arguments->wants(row.name)) wanted.push_back(&row);
  Scale scale;
  if (arguments->quick) scale = {1, 2, 5'000};
  fs::create_directories(arguments->parent);
  Report report(arguments->style);
  int status = 0;
  try {
    DatabaseServer database;
    report.heading(conditions(database));
    measure({database, arguments->pawl, arguments->parent, scale}, report, wanted);
  } catch (const std::exception& error) {
    fmt::print(stderr, "postgres_bench: {}\n{}", error.what(), what_servers_said(arguments->parent));
    status = 1;
  }
  fs::remove_all(arguments->parent);
  return status;
}
