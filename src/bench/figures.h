// Figures: taken, summed up, and told.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pawl::bench {

double seconds_now();
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

// As lines for people, as the table that docs/benchmarks.md shows, or one JSON object a line.
enum class ReportStyle { lines, markdown, json };

class Report {
 public:
  explicit Report(ReportStyle style) : style_(style) {}
  void heading(const std::string& text) const;
  void add(const Figure& figure) const;
  void note(const std::string& name, const std::string& text) const;

 private:
  void row(const std::string& name, const std::string& value, const std::string& relation,
           const std::string& aim) const;

  ReportStyle style_;
};

}  // namespace pawl::bench
