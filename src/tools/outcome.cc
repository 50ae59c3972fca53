#include "tools/outcome.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <utility>

#include "core/characters.h"

namespace pawl {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";
constexpr std::string_view ellipsis = "...";

bool continues_character(char c) { return (static_cast<std::uint8_t>(c) & 0xC0) == 0x80; }

}  // namespace

Failed failure(std::string_view code, std::string message) {
  Failed failed;
  failed.error_code = code;
  failed.message = std::move(message);
  return failed;
}

Failed invalid_arguments(std::string message) {
  Failed failed = failure("TOOL_INVALID_ARGUMENTS", std::move(message));
  failed.is_harmless = true;
  return failed;
}

Failed stopped() { return failure("TOOL_FAILED", "stopped"); }

std::string repaired_utf8(std::string bytes) {
  auto bad = find_invalid_utf8(bytes);
  if (!bad) return bytes;
  std::string repaired;
  std::string_view rest = bytes;
  for (; bad; bad = find_invalid_utf8(rest)) {
    repaired.append(rest.substr(0, *bad)).append(replacement);
    rest.remove_prefix(*bad + 1);
  }
  return repaired.append(rest);
}

std::string head_of(std::string_view utf8, std::size_t bytes_max) {
  if (utf8.size() <= bytes_max) return std::string(utf8);
  return std::string(first_characters(utf8, bytes_max)).append(ellipsis);
}

std::string tail_of(std::string_view utf8, std::size_t bytes_max) {
  if (utf8.size() <= bytes_max) return std::string(utf8);
  std::size_t begin = utf8.size() - bytes_max;
  while (begin < utf8.size() && continues_character(utf8[begin])) ++begin;
  return std::string(ellipsis).append(utf8.substr(begin));
}

bool nests_within(const Json& value, std::size_t levels) {
  const auto fits = [levels](const Json& inner) { return nests_within(inner, levels - 1); };
  if (const auto* list = value.if_array()) return levels > 0 && std::ranges::all_of(*list, fits);
  if (const auto* map = value.if_object())
    return levels > 0 && std::ranges::all_of(*map, [&](const auto& entry) { return fits(entry.value()); });
  return true;
}

}  // namespace pawl
