// Our own bugs. An invariant that does not hold stops the process: a wrong journal is worse than none.
#pragma once

#include <source_location>
#include <string_view>

namespace pawl {

[[noreturn]] void invariant_failed(std::string_view what, std::source_location where);

inline void invariant(bool holds, std::string_view what, std::source_location where = std::source_location::current()) {
  if (!holds) [[unlikely]]
    invariant_failed(what, where);
}

}  // namespace pawl
