// Bugs on purpose, which show that the simulators would find real ones. planted_bugs.txt describes them; the simulators
// compile copies of the sources in which `plant` has planted them all, and switch on at most one.
#pragma once

#include <cstddef>
#include <string_view>

#include "planted/bugs.h"

namespace pawl {

inline Bug planted_bug = Bug::none;

inline bool planted(Bug bug) { return planted_bug == bug; }

}  // namespace pawl

namespace pawl::simulator {

inline std::string_view name_of(Bug bug) { return bug_names[static_cast<std::size_t>(bug)]; }

// Bug::none when there is no such bug.
inline Bug find_bug(std::string_view name) {
  for (std::size_t bug = 1; bug < bug_names.size(); ++bug)
    if (bug_names[bug] == name) return static_cast<Bug>(bug);
  return Bug::none;
}

// Only the simulation of several servers can find it (tests/cluster).
constexpr bool needs_servers(Bug bug) { return bug == Bug::forget_lost_extension; }

}  // namespace pawl::simulator
