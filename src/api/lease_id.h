// A lease's id is its run and its step, so it needs no table: <run id>:<step id>.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/id.h"

namespace pawl::api {

inline constexpr std::size_t lease_id_chars_max = 256;
inline constexpr std::size_t lease_token_chars_max = 128;

struct LeaseRef {
  RunId run;
  StepId step;
};

inline std::string lease_id(RunId run, const StepId& step) { return run.str() + ":" + step.text; }

inline std::optional<LeaseRef> parse_lease_id(std::string_view text) {
  std::size_t colon = text.find(':');
  if (colon == text.npos || !is_valid_name(text.substr(colon + 1))) return std::nullopt;
  auto run = RunId::parse(text.substr(0, colon));
  return run ? std::optional(LeaseRef{*run, StepId{std::string(text.substr(colon + 1))}}) : std::nullopt;
}

}  // namespace pawl::api
