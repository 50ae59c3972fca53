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

// As a table for people, or one JSON object a line.
class Report {
 public:
  explicit Report(bool json) : json_(json) {}
  void heading(const std::string& text) const;
  void add(const Figure& figure) const;

 private:
  bool json_;
};

}  // namespace pawl::bench
