// When a failed attempt may be tried again.
#pragma once

#include <vector>

#include "core/time.h"

namespace pawl {

struct RetryPolicy {
  int max_attempts = 3;
  Duration base = std::chrono::seconds(2);
  Duration max = std::chrono::minutes(10);
  double jitter = 0.2;
  // When not empty: the n-th retry waits for the n-th entry, the last one for all further. base and max are not used.
  std::vector<Duration> schedule;

  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};

inline constexpr int max_attempts_limit = 100;

// The wait after the `attempts`-th attempt failed (attempts >= 1): min(max, base * 2^attempts), or the schedule's
// entry, times 1 + jitter * draw. `draw` lies in [-1, 1] and comes from the engine's random source.
Duration retry_delay(const RetryPolicy& policy, int attempts, double draw);

}  // namespace pawl
