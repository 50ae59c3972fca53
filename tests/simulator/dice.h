// Choices, all drawn from the simulation's seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/time.h"
#include "engine/clock.h"

namespace pawl::simulator {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}

  std::uint64_t next() { return random_.next(); }
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_.below(bound)); }
  // Both ends are possible.
  int between(int low, int high) {
    return low + static_cast<int>(random_.below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool percent(int chance) { return between(1, 100) <= chance; }
  Duration between(Duration low, Duration high) {
    return low +
           Duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>((high - low).count() + 1))));
  }
  template <class Item>
  Item& one_of(std::vector<Item>& items) {
    return items[below(items.size())];
  }
  template <class Item>
  const Item& one_of(const std::vector<Item>& items) {
    return items[below(items.size())];
  }
  template <class Item>
  Item one_of(std::initializer_list<Item> items) {
    return items.begin()[below(items.size())];
  }

 private:
  Random random_;
};

}  // namespace pawl::simulator
