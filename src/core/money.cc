#include "core/money.h"

namespace pawl {
namespace {

constexpr std::int64_t micros_a_dollar = 1'000'000;
constexpr std::size_t decimals_max = 6;
constexpr std::int64_t micros_max = 1'000'000'000 * micros_a_dollar;

}  // namespace

std::string print_money(Money amount) {
  std::string out;
  auto micros = static_cast<std::uint64_t>(amount.micros);
  if (amount.micros < 0) {
    out += '-';
    micros = 0 - micros;
  }
  out += std::to_string(micros / micros_a_dollar);
  std::string decimals = std::to_string(micros % micros_a_dollar);
  decimals.insert(0, decimals_max - decimals.size(), '0');
  while (decimals.size() > 2 && decimals.back() == '0') decimals.pop_back();
  return out + '.' + decimals;
}

std::optional<Money> parse_money(std::string_view text) {
  const auto point = text.find('.');
  const std::string_view dollars = text.substr(0, point);
  const std::string_view decimals = point == std::string_view::npos ? "0" : text.substr(point + 1);
  if (dollars.empty() || decimals.empty() || decimals.size() > decimals_max) return std::nullopt;
  std::int64_t micros = 0;
  auto push = [&](char digit) {
    if (digit < '0' || digit > '9' || micros > micros_max) return false;
    micros = micros * 10 + (digit - '0');
    return true;
  };
  for (char c : dollars)
    if (!push(c)) return std::nullopt;
  for (char c : decimals)
    if (!push(c)) return std::nullopt;
  for (std::size_t i = decimals.size(); i < decimals_max; ++i)
    if (!push('0')) return std::nullopt;
  if (micros > micros_max) return std::nullopt;
  return Money{micros};
}

}  // namespace pawl
