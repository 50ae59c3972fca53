// Enumerators and their words: one constexpr array an enum, used for printing, parsing and the docs.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace pawl {

// Specialise with one std::string_view per enumerator, in declaration order, starting at zero.
template <class Enum>
inline constexpr std::array<std::string_view, 0> enum_names{};

template <class Enum>
inline constexpr std::size_t enum_count = enum_names<Enum>.size();

template <class Enum>
constexpr std::string_view to_string(Enum value) {
  static_assert(enum_count<Enum> > 0, "specialise enum_names for this enum");
  return enum_names<Enum>[static_cast<std::size_t>(value)];
}

template <class Enum>
constexpr std::optional<Enum> parse_enum(std::string_view word) {
  for (std::size_t i = 0; i < enum_count<Enum>; ++i)
    if (enum_names<Enum>[i] == word) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace pawl
