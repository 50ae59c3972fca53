#include <algorithm>

#include "store/store.h"

namespace pawl {
namespace {

// A run's id is drawn before the run is created, by the same clock.
constexpr Duration id_age_max = std::chrono::hours(24);

}  // namespace

IdBits oldest_id_since(Instant since) {
  auto ms = std::max<std::int64_t>(0, since.ms < 0 ? 0 : (since - id_age_max).ms);
  return {static_cast<std::uint64_t>(ms) << 16, 0};
}

}  // namespace pawl
