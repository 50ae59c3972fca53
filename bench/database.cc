#include "database.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "bench/figures.h"

namespace pawl::bench {
namespace {

namespace fs = std::filesystem;

constexpr int pgbench_scale = 20;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  if (!value) throw std::runtime_error(fmt::format("{} is not set: run this under tests/postgres/cluster", name));
  return value;
}

// What /proc says of a process behind its name, which may hold anything.
struct ProcessTimes {
  pid_t parent = 0;
  double own = 0, ended_children = 0;  // seconds
};

std::optional<ProcessTimes> process_times(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  std::size_t end_of_name = text.rfind(')');
  if (end_of_name == text.npos) return std::nullopt;
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string state, skipped;
  double user = 0, system = 0, user_ended = 0, system_ended = 0;
  ProcessTimes out;
  fields >> state >> out.parent;
  for (int field = 5; field < 14; ++field) fields >> skipped;
  fields >> user >> system >> user_ended >> system_ended;
  double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  out.own = (user + system) * tick;
  out.ended_children = (user_ended + system_ended) * tick;
  return out;
}

std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (!pipe) throw std::runtime_error("cannot execute " + command);
  std::string out;
  char buffer[4096];
  while (std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe)) out.append(buffer, got);
  if (pclose(pipe) != 0) throw std::runtime_error(command + ": " + out);
  return out;
}

}  // namespace

DatabaseServer::DatabaseServer() : host_(environment("PAWL_PG_HOST")), port_(environment("PAWL_PG_PORT")) {
  address_.emplace(url("postgres", "postgres"));
  connection_.emplace(*address_, given_up_);
  postmaster_ = process_times(std::to_string(ask("SELECT pg_backend_pid()").i32(0, 0)))->parent;
}

std::string DatabaseServer::url(const std::string& user, const std::string& database) const {
  return fmt::format("postgres://{}@127.0.0.1:{}/{}", user, port_, database);
}

std::string DatabaseServer::setting(const std::string& name) {
  return ask(("SELECT current_setting('" + name + "')").c_str()).text(0, 0);
}

double DatabaseServer::cpu_seconds() const {
  auto all = process_times(std::to_string(postmaster_));
  double seconds = all ? all->own + all->ended_children : 0;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    auto times = process_times(name);
    if (times && times->parent == postmaster_) seconds += times->own;
  }
  return seconds;
}

double DatabaseServer::simple_updates_per_s(int clients, int seconds) {
  std::string where = fmt::format("-h {} -p {} -U postgres pgbench", host_, port_);
  if (!std::exchange(has_pgbench_, true)) {
    run("DROP DATABASE IF EXISTS pgbench");
    run("CREATE DATABASE pgbench");
    output_of(fmt::format("pgbench -i -q -s {} {}", pgbench_scale, where));
  }
  std::string said = output_of(fmt::format("pgbench -N -M prepared -c {} -j 2 -T {} {}", clients, seconds, where));
  std::size_t at = said.find("tps = ");
  if (at == said.npos) throw std::runtime_error("pgbench did not say how fast it was: " + said);
  return std::strtod(said.c_str() + at + 6, nullptr);
}

FreshDatabase::FreshDatabase(DatabaseServer& server, std::string name) : server_(server), name_(std::move(name)) {
  server_.run("CREATE DATABASE " + name_ + " OWNER pawl");
  server_.run("CHECKPOINT");
}

FreshDatabase::~FreshDatabase() { server_.run("DROP DATABASE " + name_ + " WITH (FORCE)"); }

std::string FreshDatabase::rows_a_run() {
  std::atomic<bool> given_up{false};
  postgres::Address address(server_.url("postgres", name_));
  postgres::Connection connection(address, given_up);
  auto rows = connection.call(
      "SELECT relname::text, (100 * n_tup_ins / n.runs)::bigint, (100 * n_tup_upd / n.runs)::bigint, "
      "(100 * n_tup_hot_upd / n.runs)::bigint, (100 * n_tup_del / n.runs)::bigint, "
      "(pg_total_relation_size(relid) / n.runs)::bigint "
      "FROM pg_stat_user_tables, (SELECT count(*) AS runs FROM pawl.runs) n "
      "WHERE relname IN ('runs', 'events', 'ready', 'requests') ORDER BY relname",
      {});
  std::string out;
  for (int row = 0; row < rows.size(); ++row) {
    auto count = [&](int column) { return static_cast<double>(rows.i64(row, column)) / 100; };
    if (count(1) + count(2) + count(4) < 0.01) continue;
    if (!out.empty()) out += "; ";
    out += fmt::format("{} {:.2f} new", rows.text(row, 0), count(1));
    if (count(2) >= 0.01) out += fmt::format(", {:.2f} changed ({:.2f} in place)", count(2), count(3));
    if (count(4) >= 0.01) out += fmt::format(", {:.2f} deleted", count(4));
    out += fmt::format(", {} bytes", rows.i64(row, 5));
  }
  return out;
}

DatabaseMeanwhile::DatabaseMeanwhile(DatabaseServer& server)
    : server_(server), cpu_(server.cpu_seconds()), wal_(server.wal_bytes()), begin_(seconds_now()) {}

std::string DatabaseMeanwhile::text(std::uint64_t runs) const {
  double took = seconds_now() - begin_;
  return fmt::format("postgres {:.2f}; {:.1f} kB of its log a run", (server_.cpu_seconds() - cpu_) / took,
                     (server_.wal_bytes() - wal_) / 1e3 / static_cast<double>(runs));
}

}  // namespace pawl::bench
