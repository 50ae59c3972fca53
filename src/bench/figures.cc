#include "bench/figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace pawl::bench {

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
  if (!json_) fmt::print("\n{}\n", text);
}

void Report::add(const Figure& figure) const {
  if (json_) {
    fmt::print(R"({{"name":"{}","value":{:.6g},"unit":"{}")", figure.name, figure.value, figure.unit);
    if (figure.ratio) fmt::print(R"(,"ratio":{:.4g},"ratio_to":"{}")", *figure.ratio, figure.ratio_to);
    fmt::print("}}\n");
  } else {
    std::string value = figure.value >= 1000 ? fmt::format("{:.0f}", figure.value) : fmt::format("{:.3g}", figure.value);
    std::string ratio = figure.ratio ? fmt::format("{:.2f} of {}", *figure.ratio, figure.ratio_to) : "";
    fmt::print("  {:<44} {:>12} {:<9} {:<32} {}\n", figure.name, value, figure.unit, ratio, figure.aim);
  }
  std::fflush(stdout);
}

}  // namespace pawl::bench
