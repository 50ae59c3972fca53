// Money is a decimal string in USD at every interface and a whole number of millionths inside.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pawl {

struct Money {
  std::int64_t micros = 0;

  friend constexpr auto operator<=>(const Money&, const Money&) = default;
  // Never less than either: a sum that is too large stays the largest there is.
  friend constexpr Money operator+(Money a, Money b) {
    return {a.micros > INT64_MAX - b.micros ? INT64_MAX : a.micros + b.micros};
  }
};

// At least two decimals, at most six: "0.00", "2.50", "0.000125".
std::string print_money(Money amount);
// Digits with at most six decimals, not negative, at most 1,000,000,000 USD.
std::optional<Money> parse_money(std::string_view text);

}  // namespace pawl
