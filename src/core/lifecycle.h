// A lifecycle is a table of (from, trigger, to). This file holds what every such table must prove while compiling,
// and the one function that says whether a move is legal.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "core/names.h"

namespace pawl {

template <class State, class Trigger>
struct Transition {
  State from;
  Trigger trigger;
  State to;
};

template <class State, class Trigger, std::size_t N>
using Lifecycle = std::array<Transition<State, Trigger>, N>;

// The state that `trigger` leads to, or nothing when the table has no such row.
template <class State, class Trigger, std::size_t N>
constexpr std::optional<State> next(const Lifecycle<State, Trigger, N>& table, State from, Trigger trigger) {
  for (const auto& row : table)
    if (row.from == from && row.trigger == trigger) return row.to;
  return std::nullopt;
}

template <class State, class Trigger, std::size_t N>
constexpr bool is_terminal(const Lifecycle<State, Trigger, N>& table, State state) {
  for (const auto& row : table)
    if (row.from == state) return false;
  return true;
}

// No two rows share (from, trigger).
template <class State, class Trigger, std::size_t N>
constexpr bool unambiguous(const Lifecycle<State, Trigger, N>& table) {
  for (std::size_t i = 0; i < N; ++i)
    for (std::size_t j = i + 1; j < N; ++j)
      if (table[i].from == table[j].from && table[i].trigger == table[j].trigger) return false;
  return true;
}

namespace lifecycle_detail {

// Which states can be reached from `start`, following rows forwards.
template <class State, class Trigger, std::size_t N>
constexpr auto reached(const Lifecycle<State, Trigger, N>& table, State start) {
  std::array<bool, enum_count<State>> seen{};
  seen[static_cast<std::size_t>(start)] = true;
  for (std::size_t round = 0; round < enum_count<State>; ++round)
    for (const auto& row : table)
      if (seen[static_cast<std::size_t>(row.from)]) seen[static_cast<std::size_t>(row.to)] = true;
  return seen;
}

}  // namespace lifecycle_detail

// Every state can be reached from `start`.
template <class State, class Trigger, std::size_t N>
constexpr bool all_reachable(const Lifecycle<State, Trigger, N>& table, State start) {
  for (bool seen : lifecycle_detail::reached(table, start))
    if (!seen) return false;
  return true;
}

// From every state some terminal state can be reached: nothing can be stuck for ever by construction.
template <class State, class Trigger, std::size_t N>
constexpr bool all_can_end(const Lifecycle<State, Trigger, N>& table) {
  for (std::size_t i = 0; i < enum_count<State>; ++i) {
    auto seen = lifecycle_detail::reached(table, static_cast<State>(i));
    bool ends = false;
    for (std::size_t j = 0; j < enum_count<State>; ++j)
      ends = ends || (seen[j] && is_terminal(table, static_cast<State>(j)));
    if (!ends) return false;
  }
  return true;
}

// Every trigger stands in some row: a verb that moves nothing would be a trap.
template <class State, class Trigger, std::size_t N>
constexpr bool all_triggers_used(const Lifecycle<State, Trigger, N>& table) {
  for (std::size_t i = 0; i < enum_count<Trigger>; ++i) {
    bool used = false;
    for (const auto& row : table) used = used || row.trigger == static_cast<Trigger>(i);
    if (!used) return false;
  }
  return true;
}

template <class State, class Trigger, std::size_t N>
constexpr bool proven(const Lifecycle<State, Trigger, N>& table, State start) {
  return unambiguous(table) && all_reachable(table, start) && all_can_end(table) && all_triggers_used(table);
}

}  // namespace pawl
