// How tests wait: for a condition, never for an amount of time.
#pragma once

#include <chrono>
#include <thread>

namespace pawl {

// Ends a hang, and decides nothing else: no machine is so busy that a test that passes comes near it.
inline constexpr std::chrono::seconds hang_limit{300};

// Polls until the condition holds; false when that looks like a hang.
template <class Condition>
bool eventually(Condition holds) {
  const auto end = std::chrono::steady_clock::now() + hang_limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace pawl
