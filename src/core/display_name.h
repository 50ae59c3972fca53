// Actors as people read them.
#pragma once

#include <string>
#include <string_view>

#include "core/id.h"

namespace pawl {

// "ada" for person:ada, other actors as they are.
inline std::string display_name(const Actor& actor) {
  constexpr std::string_view person = "person:";
  return actor.text.starts_with(person) ? actor.text.substr(person.size()) : actor.text;
}

}  // namespace pawl
