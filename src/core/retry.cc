#include "core/retry.h"

#include <algorithm>

namespace pawl {

Duration retry_delay(const RetryPolicy& policy, int attempts, double draw) {
  double wait_ms;
  if (!policy.schedule.empty()) {
    auto last = static_cast<int>(policy.schedule.size()) - 1;
    wait_ms = static_cast<double>(policy.schedule[static_cast<std::size_t>(std::clamp(attempts - 1, 0, last))].count());
  } else {
    double limit = static_cast<double>(policy.max.count());
    wait_ms = static_cast<double>(policy.base.count());
    for (int i = 0; i < attempts && wait_ms < limit; ++i) wait_ms *= 2;
    wait_ms = std::min(wait_ms, limit);
  }
  wait_ms *= 1 + policy.jitter * std::clamp(draw, -1.0, 1.0);
  return Duration(static_cast<std::int64_t>(std::max(0.0, wait_ms)));
}

}  // namespace pawl
