// What a fuzz target is: a function of any bytes that must not crash, and that says what else must hold of them.
//
//   FUZZ_TARGET(json) { check(parse_json(canonical_text).has_value(), "canonical text is JSON"); }
//
// Each target is a file. All of them are in one program (main.cc).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace pawl::fuzz {

// Nobody above a target catches it: libFuzzer sees the end of the program, with the stack of the one who threw.
struct Broken : std::logic_error {
  using std::logic_error::logic_error;
};

inline void check(bool holds, const char* property) {
  if (!holds) throw Broken(std::string("does not hold: ") + property);
}

inline void check_equal(std::string_view a, std::string_view b, const char* property) {
  if (a != b)
    throw Broken(std::string("does not hold: ") + property + "\n  one:   " + std::string(a) +
                 "\n  other: " + std::string(b));
}

using Target = void (*)(std::string_view input);

inline std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

#define FUZZ_TARGET(name)                                                                            \
  static void fuzz_##name(std::string_view input);                                                   \
  [[maybe_unused]] static const bool name##_is_there = targets().emplace(#name, fuzz_##name).second; \
  static void fuzz_##name(std::string_view input)

}  // namespace pawl::fuzz
