#include "api/tenant_use.h"

#include <algorithm>

namespace pawl::api {

bool RequestRate::admit(std::int64_t per_minute, std::chrono::steady_clock::time_point now) {
  const double rate = static_cast<double>(per_minute) / 60;
  const auto at_once = static_cast<double>(per_minute);
  std::lock_guard lock(mutex_);
  const std::chrono::duration<double> passed = now - since_;
  left_ = std::min(at_once, left_ + passed.count() * rate);
  since_ = now;
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

}  // namespace pawl::api
