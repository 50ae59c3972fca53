// Moments and spans. Core never reads a clock: an Instant always comes in as an argument.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pawl {

using Duration = std::chrono::milliseconds;

// Milliseconds since 1970-01-01 UTC.
struct Instant {
  std::int64_t ms = 0;

  friend constexpr auto operator<=>(const Instant&, const Instant&) = default;
  friend constexpr Instant operator+(Instant at, Duration span) { return {at.ms + span.count()}; }
  friend constexpr Instant operator-(Instant at, Duration span) { return {at.ms - span.count()}; }
  friend constexpr Duration operator-(Instant a, Instant b) { return Duration(a.ms - b.ms); }
};

inline constexpr Instant end_of_time{INT64_MAX};

// Moments and spans that are read from bytes lie within this, some 285,000 years: sums of a few cannot overflow.
constexpr bool is_possible_time(std::int64_t ms) { return ms > -(1LL << 53) && ms < 1LL << 53; }

// 2026-11-16T02:21:57.123Z
std::string print_time(Instant at);
std::optional<Instant> parse_time(std::string_view rfc3339);

// 250ms, 90s, 15m, 4h, 2d; one number and one unit, or several of them, largest first: 1h30m. At most a year.
inline constexpr Duration duration_max = std::chrono::hours(24 * 366);
std::string print_duration(Duration span);
std::optional<Duration> parse_duration(std::string_view text);

}  // namespace pawl
