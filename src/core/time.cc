#include "core/time.h"

#include <algorithm>
#include <array>

namespace pawl {
namespace {

using std::chrono::milliseconds;

// RFC 3339 has years of four digits. `end_of_time` and everything else outside is printed as the nearest moment inside.
constexpr std::int64_t earliest_ms =
    milliseconds(std::chrono::sys_days(std::chrono::year(0) / 1 / 1).time_since_epoch()).count();
constexpr std::int64_t latest_ms =
    milliseconds(std::chrono::sys_days(std::chrono::year(9999) / 12 / 31).time_since_epoch()).count() + 86'399'999;

void append_padded(std::string& out, std::int64_t number, std::size_t width) {
  std::string digits = std::to_string(number);
  out.append(width - std::min(width, digits.size()), '0');
  out += digits;
}

// Takes exactly `width` digits off the front of `text`.
std::optional<int> take_digits(std::string_view& text, std::size_t width) {
  if (text.size() < width) return std::nullopt;
  int number = 0;
  for (char c : text.substr(0, width)) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + (c - '0');
  }
  text.remove_prefix(width);
  return number;
}

bool take(std::string_view& text, std::string_view any_of) {
  if (text.empty() || any_of.find(text[0]) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// ".123456" -> 123. What is finer than a millisecond is dropped.
std::optional<int> take_fraction_ms(std::string_view& text) {
  if (!take(text, ".")) return 0;
  int ms = 0;
  std::size_t digits = 0;
  for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1), ++digits)
    if (digits < 3) ms = ms * 10 + (text[0] - '0');
  if (digits == 0) return std::nullopt;
  for (; digits < 3; ++digits) ms *= 10;
  return ms;
}

// "Z" or "+02:00"; minutes east of UTC.
std::optional<int> take_zone(std::string_view& text) {
  if (take(text, "Zz")) return 0;
  const bool west = text.starts_with('-');
  if (!take(text, "+-")) return std::nullopt;
  const auto hours = take_digits(text, 2);
  if (!hours || *hours > 23 || !take(text, ":")) return std::nullopt;
  const auto minutes = take_digits(text, 2);
  if (!minutes || *minutes > 59) return std::nullopt;
  return (west ? -1 : 1) * (*hours * 60 + *minutes);
}

struct Unit {
  std::string_view name;
  std::int64_t ms;
};

// Largest first. "ms" and "m" are told apart by taking all the letters before looking.
constexpr std::array units{Unit{"d", 86'400'000}, Unit{"h", 3'600'000}, Unit{"m", 60'000}, Unit{"s", 1'000},
                           Unit{"ms", 1}};

}  // namespace

std::string print_time(Instant at) {
  using namespace std::chrono;
  const sys_time<milliseconds> time(milliseconds(std::clamp(at.ms, earliest_ms, latest_ms)));
  const auto midnight = floor<days>(time);
  const year_month_day date(midnight);
  const hh_mm_ss<milliseconds> clock(time - midnight);
  std::string out;
  append_padded(out, int{date.year()}, 4);
  out += '-';
  append_padded(out, unsigned{date.month()}, 2);
  out += '-';
  append_padded(out, unsigned{date.day()}, 2);
  out += 'T';
  append_padded(out, clock.hours().count(), 2);
  out += ':';
  append_padded(out, clock.minutes().count(), 2);
  out += ':';
  append_padded(out, clock.seconds().count(), 2);
  out += '.';
  append_padded(out, clock.subseconds().count(), 3);
  out += 'Z';
  return out;
}

std::optional<Instant> parse_time(std::string_view text) {
  using namespace std::chrono;
  const auto year_number = take_digits(text, 4);
  if (!year_number || !take(text, "-")) return std::nullopt;
  const auto month_number = take_digits(text, 2);
  if (!month_number || !take(text, "-")) return std::nullopt;
  const auto day_number = take_digits(text, 2);
  if (!day_number || !take(text, "Tt")) return std::nullopt;
  const year_month_day date(year(*year_number), month(static_cast<unsigned>(*month_number)),
                            day(static_cast<unsigned>(*day_number)));
  if (!date.ok()) return std::nullopt;

  const auto hour = take_digits(text, 2);
  if (!hour || *hour > 23 || !take(text, ":")) return std::nullopt;
  const auto minute = take_digits(text, 2);
  if (!minute || *minute > 59 || !take(text, ":")) return std::nullopt;
  const auto second = take_digits(text, 2);
  if (!second || *second > 59) return std::nullopt;
  const auto fraction_ms = take_fraction_ms(text);
  if (!fraction_ms) return std::nullopt;
  const auto zone_minutes = take_zone(text);
  if (!zone_minutes || !text.empty()) return std::nullopt;

  const auto time =
      sys_days(date) + hours(*hour) + minutes(*minute - *zone_minutes) + seconds(*second) + milliseconds(*fraction_ms);
  return Instant{time.time_since_epoch().count()};
}

std::string print_duration(Duration span) {
  if (span.count() == 0) return "0s";
  std::string out;
  // Away from zero, so that the smallest number there is has an opposite.
  auto left = static_cast<std::uint64_t>(span.count());
  if (span.count() < 0) {
    out += '-';
    left = 0 - left;
  }
  for (const auto& unit : units) {
    const auto ms = static_cast<std::uint64_t>(unit.ms);
    if (left < ms) continue;
    out += std::to_string(left / ms);
    out += unit.name;
    left %= ms;
  }
  return out;
}

std::optional<Duration> parse_duration(std::string_view text) {
  if (text.empty()) return std::nullopt;
  std::int64_t total = 0;
  auto next_unit = units.begin();
  while (!text.empty()) {
    std::int64_t number = 0;
    std::size_t digits = 0;
    for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits) {
      number = number * 10 + (text[digits] - '0');
      if (number > duration_max.count()) return std::nullopt;
    }
    if (digits == 0) return std::nullopt;
    text.remove_prefix(digits);
    const std::string_view letters = text.substr(0, text.find_first_of("0123456789"));
    const auto unit = std::find_if(next_unit, units.end(), [&](const Unit& u) { return u.name == letters; });
    if (unit == units.end() || number > duration_max.count() / unit->ms) return std::nullopt;
    total += number * unit->ms;
    if (total > duration_max.count()) return std::nullopt;
    text.remove_prefix(letters.size());
    next_unit = unit + 1;
  }
  return Duration(total);
}

}  // namespace pawl
