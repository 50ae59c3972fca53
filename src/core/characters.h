// UTF-8: whether bytes are text, and where its characters begin.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace pawl {

// The offset of the first byte that is not part of a well-formed character (overlong forms and surrogates are not).
std::optional<std::size_t> find_invalid_utf8(std::string_view bytes);

// The number of characters in well-formed text.
std::size_t count_characters(std::string_view text);

// The longest beginning of at most `bytes_max` bytes that does not cut a character in two.
std::string_view first_characters(std::string_view text, std::size_t bytes_max);

// With A to Z in lower case; other characters stay as they are.
std::string lower_case(std::string_view text);

}  // namespace pawl
