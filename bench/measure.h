// Figures, and what the operating system says about this process.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pawl::bench {

double seconds_now();
// Of the whole process, user and system.
double cpu_seconds_now();
double resident_mib();
// Calls of fsync and fdatasync by this process so far: measure.cc stands in for both.
std::uint64_t syncs();

double percentile(std::vector<double> values, double fraction);

struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  // The figure's relation to another one of the same run: "0.72 of raw ceiling".
  std::optional<double> ratio;
  std::string ratio_to;
  std::string aim;  // what the project promises, in words
};

// As a table that people read and docs/benchmarks.md shows, or one JSON object a line.
class Report {
 public:
  explicit Report(bool json) : json_(json) {}
  void heading(const std::string& text) const;
  void add(const Figure& figure) const;
  void note(const std::string& name, const std::string& text) const;

 private:
  void row(const std::string& name, const std::string& value, const std::string& relation,
           const std::string& aim) const;

  bool json_;
};

}  // namespace pawl::bench
