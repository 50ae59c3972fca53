#include "core/id.h"

namespace pawl {
namespace {

constexpr std::string_view alphabet = "0123456789abcdefghjkmnpqrstvwxyz";
constexpr std::size_t id_digits = 26;

// What each character is worth as a digit; no_digit for those that are none.
constexpr std::uint8_t no_digit = 255;
constexpr std::array<std::uint8_t, 256> digit_values = [] {
  std::array<std::uint8_t, 256> out{};
  out.fill(no_digit);
  for (std::size_t i = 0; i < alphabet.size(); ++i)
    out[static_cast<unsigned char>(alphabet[i])] = static_cast<std::uint8_t>(i);
  return out;
}();

__extension__ using Wide = unsigned __int128;

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

std::string print_id(std::string_view prefix, IdBits bits) {
  std::string out;
  out.resize(prefix.size() + 1 + id_digits);
  prefix.copy(out.data(), prefix.size());
  out[prefix.size()] = '_';
  Wide rest = (static_cast<Wide>(bits.high) << 64) | bits.low;
  for (std::size_t i = 0; i < id_digits; ++i) {
    out[out.size() - 1 - i] = alphabet[static_cast<std::size_t>(rest & 31)];
    rest >>= 5;
  }
  return out;
}

std::optional<IdBits> parse_id(std::string_view prefix, std::string_view text) {
  if (text.size() != prefix.size() + 1 + id_digits || !text.starts_with(prefix) || text[prefix.size()] != '_')
    return std::nullopt;
  text.remove_prefix(prefix.size() + 1);
  // 26 digits hold 130 bits; a first digit over 7 would overflow and give one id two spellings.
  if (text[0] > '7') return std::nullopt;
  Wide value = 0;
  for (char c : text) {
    auto digit = digit_values[static_cast<unsigned char>(c)];
    if (digit == no_digit) return std::nullopt;
    value = (value << 5) | digit;
  }
  return IdBits{static_cast<std::uint64_t>(value >> 64), static_cast<std::uint64_t>(value)};
}

IdBits derive_id(IdBits parent, std::uint64_t ordinal) {
  return {parent.high, mix(parent.low ^ mix(ordinal)) >> 2 | 0x8000000000000000ULL};
}

bool is_valid_name(std::string_view text) {
  if (text.empty() || text.size() > name_chars_max) return false;
  auto word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); };
  if (!word(text[0])) return false;
  for (char c : text)
    if (!word(c) && c != '.' && c != '_' && c != '-') return false;
  return true;
}

}  // namespace pawl
