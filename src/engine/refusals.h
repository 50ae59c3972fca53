// Refusals that several handlers give.
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "core/decide.h"

namespace pawl {

inline std::unexpected<Refusal> no_such(std::string_view what) {
  return std::unexpected(Refusal{RefusalCode::not_found, "there is no such " + std::string(what)});
}

inline std::unexpected<Refusal> lease_over() { return std::unexpected(lease_lost_refusal()); }

}  // namespace pawl
