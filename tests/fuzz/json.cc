// JSON as it comes from anybody, and its canonical text.
#include "core/json.h"

#include <boost/json/serialize.hpp>
#include <charconv>

#include "core/characters.h"
#include "fuzz.h"

namespace pawl::fuzz {
namespace {

void check_refusal(const std::string& reason, std::size_t size) {
  constexpr std::string_view mark = " at offset ";
  const auto at = reason.rfind(mark);
  check(at != std::string::npos && at > 0, "a refusal says why, and where");
  std::size_t offset = 0;
  const char* end = reason.data() + reason.size();
  const auto read = std::from_chars(reason.data() + at + mark.size(), end, offset);
  check(read.ptr == end && offset <= size, "the place of a refusal is in the text");
}

void check_same(std::string_view text, std::string_view canonical_text, const char* property) {
  const auto value = parse_json(text);
  check(value.has_value(), property);
  check_equal(canonical(*value), canonical_text, property);
}

}  // namespace

FUZZ_TARGET(json) {
  if (!find_invalid_utf8(input)) {
    std::string quoted;
    append_json_string(quoted, input);
    const auto value = parse_json(quoted);
    check(value && value->is_string(), "any text can be written as a JSON string");
    check_equal(std::string_view(value->get_string()), input, "a JSON string says what was written");
    check(plain_json_prefix(input) < input.size() || quoted.size() == input.size() + 2, "plain text stands as it is");
  }
  const auto value = parse_json(input);
  if (!value) return check_refusal(value.error(), input.size());
  const std::string text = canonical(*value);
  check(!find_invalid_utf8(text), "canonical text is UTF-8");
  check_same(text, text, "canonical text is its own canonical text");
  check_same(boost::json::serialize(*value), text, "another writer's text has the same canonical text");
}

}  // namespace pawl::fuzz
