#include "measure.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <fstream>

namespace {
std::atomic<std::uint64_t> sync_calls{0};

// Three digits that mean something: 31,400 or 0.62.
std::string for_people(double value) {
  if (value < 1000) return fmt::format("{:.3g}", value);
  double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  std::string digits = fmt::format("{:.0f}", std::round(value / unit) * unit);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

}  // namespace

// Linked before the C library's, so that SQLite's syncs are counted where they happen.
extern "C" int fsync(int fd) {
  sync_calls.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int>(syscall(SYS_fsync, fd));
}
extern "C" int fdatasync(int fd) {
  sync_calls.fetch_add(1, std::memory_order_relaxed);
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}

namespace pawl::bench {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double cpu_seconds_now() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  double size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

std::uint64_t syncs() { return sync_calls.load(); }

double percentile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  auto rank = static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1) + 0.5);
  return values[rank];
}

void Report::heading(const std::string& text) const {
  if (json_) return;
  fmt::print("\n{}\n\n", text);
  row("figure", "value", "in relation", "aim");
  row("---", "---", "---", "---");
}

void Report::row(const std::string& name, const std::string& value, const std::string& relation,
                 const std::string& aim) const {
  std::string line = "|";
  for (const std::string& cell : {name, value, relation, aim}) line += cell.empty() ? " |" : " " + cell + " |";
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Report::add(const Figure& figure) const {
  if (!json_) {
    std::string relation = figure.ratio ? fmt::format("{:.2f} of {}", *figure.ratio, figure.ratio_to) : "";
    return row(figure.name, fmt::format("{} {}", for_people(figure.value), figure.unit), relation, figure.aim);
  }
  fmt::print(R"({{"name":"{}","value":{:.6g},"unit":"{}")", figure.name, figure.value, figure.unit);
  if (figure.ratio) fmt::print(R"(,"ratio":{:.4g},"ratio_to":"{}")", *figure.ratio, figure.ratio_to);
  fmt::print("}}\n");
  std::fflush(stdout);
}

void Report::note(const std::string& name, const std::string& text) const {
  if (!json_) return row(name, text, "", "");
  fmt::print(R"({{"name":"{}","text":"{}"}})"
             "\n",
             name, text);
  std::fflush(stdout);
}

}  // namespace pawl::bench
