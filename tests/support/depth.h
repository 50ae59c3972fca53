// How often a test repeats what it repeats: `./test deep` sets PAWL_TEST_DEEP.
#pragma once

#include <cstdlib>

namespace pawl {

inline bool is_deep() {
  const char* value = std::getenv("PAWL_TEST_DEEP");
  return value && *value;
}

// `repeats(100, 1000)`: 100 times, and 1000 times in a deep run.
template <class Count>
Count repeats(Count usual, Count deep) {
  return is_deep() ? deep : usual;
}

}  // namespace pawl
