// JSON values (Boost.JSON) and their canonical text (RFC 8785): keys sorted by UTF-16 code units, no white space,
// numbers as ECMAScript prints them. Equal values have equal canonical text, so hashes of it mean something.
#pragma once

#include <boost/json/value.hpp>
#include <expected>
#include <string>
#include <string_view>

namespace pawl {

using Json = boost::json::value;

// JSON as text: what inputs and outputs are kept as, so that the engine's hot path never parses them.
using JsonText = std::string;

inline constexpr std::size_t json_depth_max = 64;

std::string canonical(const Json& value);

// The stored text as a value; null when it is empty.
Json value_of(const JsonText& text);

// The member's text; empty when the member is missing or not a string.
std::string text_in(const boost::json::object& in, std::string_view key);

// The reason comes with a byte offset: "unexpected character at offset 17".
std::expected<Json, std::string> parse_json(std::string_view text);

// Appends a JSON string with its quotes, escaped as RFC 8785 wants.
void append_json_string(std::string& out, std::string_view text);
// How many characters at the beginning stand in a JSON string as they are.
inline std::size_t plain_json_prefix(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size() && static_cast<unsigned char>(text[size]) >= 0x20 && text[size] != '"' &&
         text[size] != '\\')
    ++size;
  return size;
}
// Appends a number as ECMAScript's Number::toString would. Not for NaN or infinities.
void append_json_double(std::string& out, double number);

}  // namespace pawl
