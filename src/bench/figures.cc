#include "bench/figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

namespace pawl::bench {
namespace {

// Three digits that mean something: 31,400 or 0.62.
std::string for_people(double value) {
  if (value < 1000) return fmt::format("{:.3g}", value);
  double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  std::string digits = fmt::format("{:.0f}", std::round(value / unit) * unit);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double percentile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  auto rank = static_cast<std::size_t>(fraction * static_cast<double>(values.size() - 1) + 0.5);
  return values[rank];
}

void Report::heading(const std::string& text) const {
  if (style_ == ReportStyle::json) return;
  fmt::print("\n{}\n", text);
  if (style_ == ReportStyle::lines) return;
  fmt::print("\n");
  row("figure", "value", "in relation", "aim");
  row("---", "---", "---", "---");
}

void Report::row(const std::string& name, const std::string& value, const std::string& relation,
                 const std::string& aim) const {
  if (style_ == ReportStyle::lines) {
    fmt::print("  {:<44} {:>16}  {:<32} {}\n", name, value, relation, aim);
  } else {
    std::string line = "|";
    for (const std::string& cell : {name, value, relation, aim}) line += cell.empty() ? " |" : " " + cell + " |";
    fmt::print("{}\n", line);
  }
  std::fflush(stdout);
}

void Report::add(const Figure& figure) const {
  if (style_ != ReportStyle::json) {
    std::string relation = figure.ratio ? fmt::format("{:.2f} of {}", *figure.ratio, figure.ratio_to) : "";
    return row(figure.name, fmt::format("{} {}", for_people(figure.value), figure.unit), relation, figure.aim);
  }
  fmt::print(R"({{"name":"{}","value":{:.6g},"unit":"{}")", figure.name, figure.value, figure.unit);
  if (figure.ratio) fmt::print(R"(,"ratio":{:.4g},"ratio_to":"{}")", *figure.ratio, figure.ratio_to);
  fmt::print("}}\n");
  std::fflush(stdout);
}

void Report::note(const std::string& name, const std::string& text) const {
  if (style_ != ReportStyle::json) return row(name, text, "", "");
  fmt::print(R"({{"name":"{}","text":"{}"}})"
             "\n",
             name, text);
  std::fflush(stdout);
}

}  // namespace pawl::bench
