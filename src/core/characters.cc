#include "core/characters.h"

#include <algorithm>

namespace pawl {
namespace {

constexpr bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// How many bytes the well-formed character at the start of `bytes` has; 0 when there is none. Table 3-7 of Unicode.
std::size_t character_bytes(std::string_view bytes) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  std::size_t size = 0;
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    size = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    size = 3;
    if (lead == 0xE0) second_min = 0xA0;
    if (lead == 0xED) second_max = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    size = 4;
    if (lead == 0xF0) second_min = 0x90;
    if (lead == 0xF4) second_max = 0x8F;
  }
  if (size == 0 || bytes.size() < size || byte(1) < second_min || byte(1) > second_max) return 0;
  for (std::size_t i = 2; i < size; ++i)
    if (!continues(bytes[i])) return 0;
  return size;
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = character_bytes(bytes.substr(at));
    if (size == 0) return at;
    at += size;
  }
  return std::nullopt;
}

std::size_t count_characters(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::count_if(text.begin(), text.end(), continues));
}

std::string_view first_characters(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  while (bytes_max > 0 && continues(text[bytes_max])) --bytes_max;
  return text.substr(0, bytes_max);
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace pawl
