#include "core/json.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <cmath>
#include <fstream>
#include <limits>

namespace pawl {
namespace {

std::string recanonical(std::string_view text) {
  const auto value = parse_json(text);
  return value ? canonical(*value) : "refused: " + value.error();
}

void append_utf8(std::string& out, std::uint32_t code) {
  auto push = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xC0 | code >> 6);
    push(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    push(0xE0 | code >> 12);
    push(0x80 | (code >> 6 & 0x3F));
    push(0x80 | (code & 0x3F));
  } else {
    push(0xF0 | code >> 18);
    push(0x80 | (code >> 12 & 0x3F));
    push(0x80 | (code >> 6 & 0x3F));
    push(0x80 | (code & 0x3F));
  }
}

std::u32string draw_characters() {
  const auto ranges =
      rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(0, 0x80), rc::gen::inRange<std::uint32_t>(0x80, 0xD800),
                     rc::gen::inRange<std::uint32_t>(0xE000, 0x110000));
  std::u32string out;
  for (const auto code : *rc::gen::container<std::vector<std::uint32_t>>(ranges)) out += static_cast<char32_t>(code);
  return out;
}

std::string to_utf8(const std::u32string& text) {
  std::string out;
  for (const char32_t code : text) append_utf8(out, code);
  return out;
}

std::u16string to_utf16(const std::u32string& text) {
  std::u16string out;
  for (const char32_t code : text) {
    if (code < 0x10000) {
      out += static_cast<char16_t>(code);
    } else {
      out += static_cast<char16_t>(0xD800 + ((code - 0x10000) >> 10));
      out += static_cast<char16_t>(0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }
  return out;
}

double draw_double() {
  const double number = std::bit_cast<double>(*rc::gen::arbitrary<std::uint64_t>());
  return std::isfinite(number) ? number : 0.5;
}

Json draw_json(int depth) {
  switch (*rc::gen::inRange(0, depth > 0 ? 8 : 6)) {
    case 0:
      return nullptr;
    case 1:
      return *rc::gen::arbitrary<bool>();
    case 2:
      return *rc::gen::arbitrary<std::int64_t>();
    case 3:
      return *rc::gen::arbitrary<std::uint64_t>();
    case 4:
      return draw_double();
    case 5:
      return Json(to_utf8(draw_characters()));
    case 6: {
      boost::json::array out;
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) out.push_back(draw_json(depth - 1));
      return out;
    }
    default: {
      boost::json::object out;
      for (int i = *rc::gen::inRange(0, 4); i > 0; --i) out[to_utf8(draw_characters())] = draw_json(depth - 1);
      return out;
    }
  }
}

struct Number {
  double value;
  std::string_view text;
};

// RFC 8785, appendix B, and the thresholds of ECMAScript.
constexpr Number numbers[] = {
    {0.0, "0"},
    {-0.0, "0"},
    {5e-324, "5e-324"},
    {-5e-324, "-5e-324"},
    {1.7976931348623157e308, "1.7976931348623157e+308"},
    {-1.7976931348623157e308, "-1.7976931348623157e+308"},
    {9007199254740992, "9007199254740992"},
    {-9007199254740992, "-9007199254740992"},
    {295147905179352830000.0, "295147905179352830000"},
    {9.999999999999997e22, "9.999999999999997e+22"},
    {1e23, "1e+23"},
    {1.0000000000000001e23, "1.0000000000000001e+23"},
    {999999999999999700000.0, "999999999999999700000"},
    {999999999999999900000.0, "999999999999999900000"},
    {1e21, "1e+21"},
    {9.999999999999997e-7, "9.999999999999997e-7"},
    {1e-6, "0.000001"},
    {1e-7, "1e-7"},
    {333333333.3333332, "333333333.3333332"},
    {333333333.33333325, "333333333.33333325"},
    {0.1, "0.1"},
    {-1.5, "-1.5"},
    {100, "100"},
    {1424953923781206.2, "1424953923781206.2"},
};

TEST(Json, prints_numbers_as_ecmascript_does) {
  for (const auto& row : numbers) {
    std::string out;
    append_json_double(out, row.value);
    EXPECT_EQ(out, row.text);
  }
}

TEST(Json, prints_whole_numbers_exactly) {
  EXPECT_EQ(canonical(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(canonical(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(recanonical("9007199254740993"), "9007199254740993");
}

TEST(Json, prints_the_example_of_rfc_8785) {
  EXPECT_EQ(recanonical(R"({
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
    "literals": [null, true, false]
  })"),
            "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],"
            "\"string\":\"\u20ac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}");
}

// Third parties write their own canonical form by these.
TEST(Json, keeps_the_vectors_of_docs_evidence) {
  std::ifstream in(std::string(PAWL_SOURCE_DIR) + "/docs/evidence.md");
  std::string line, wanted;
  while (std::getline(in, line) && line != "```canonical-json") continue;
  int vectors = 0;
  while (std::getline(in, line) && line != "```") {
    if (line.empty()) continue;
    ASSERT_TRUE(std::getline(in, wanted));
    EXPECT_EQ(recanonical(line), wanted);
    ++vectors;
  }
  EXPECT_GT(vectors, 5);
}

TEST(Json, sorts_keys_by_utf16_code_units) {
  // The order that RFC 8785 gives in section 3.2.3: the emoji, a surrogate pair, comes before U+FB33.
  EXPECT_EQ(recanonical(R"({"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7})"),
            "{\"\\r\":2,\"1\":4,\"\u0080\":6,\"\u00f6\":7,\"\u20ac\":1,\"\U0001F600\":5,\"\uFB33\":3}");
}

RC_GTEST_PROP(Json, key_order_is_that_of_utf16, ()) {
  const std::u32string a = draw_characters();
  const std::u32string b = draw_characters();
  RC_PRE(a != b);
  boost::json::object object;
  object[to_utf8(a)] = 1;
  object[to_utf8(b)] = 2;
  std::string first = "{";
  append_json_string(first, to_utf8(to_utf16(a) < to_utf16(b) ? a : b));
  RC_ASSERT(canonical(object).starts_with(first + ":"));
}

RC_GTEST_PROP(Json, canonical_text_survives_parsing, ()) {
  const std::string text = canonical(draw_json(4));
  RC_ASSERT(recanonical(text) == text);
}

RC_GTEST_PROP(Json, every_double_reads_back_as_itself, ()) {
  const double number = draw_double();
  std::string text;
  append_json_double(text, number);
  RC_ASSERT(parse_json(text)->to_number<double>() == number);
}

struct BadJson {
  std::string text;
  std::string reason;
};

TEST(Json, refuses_with_an_offset) {
  const BadJson rows[] = {
      {"", "the text ends too early at offset 0"},
      {"{\"a\": 1", "the text ends too early at offset 7"},
      {"{\"a\": x}", "unexpected character at offset 6"},
      {"[1, 2] 3", "more text after the value at offset 7"},
      {"{\"a\": 1, \"a\": 2}", "duplicate key \"a\" at offset 11"},
      {"{\"a\": {\"b\": 1, \"\\u0062\": 2}}", "duplicate key \"b\" at offset 22"},
      {"[1e400]", "number out of range at offset 6"},
      {"\"\xff\"", "unexpected character at offset 1"},
      {"\"\xed\xa0\x80\"", "unexpected character at offset 1"},
      {"\"\\ud800\"", "unexpected character at offset 7"},
      {"\"\n\"", "unexpected character at offset 1"},
      {"[1,]", "unexpected character at offset 3"},
      {"// no\n1", "unexpected character at offset 0"},
      {"NaN", "unexpected character at offset 0"},
      {"01", "more text after the value at offset 1"},
  };
  for (const auto& row : rows) {
    const auto value = parse_json(row.text);
    ASSERT_FALSE(value) << row.text;
    EXPECT_EQ(value.error(), row.reason) << row.text;
  }
}

TEST(Json, nests_to_the_limit_and_no_further) {
  auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(json_depth_max)));
  EXPECT_FALSE(parse_json(nested(json_depth_max + 1)));
  EXPECT_FALSE(parse_json(std::string(1'000'000, '[')));
}

TEST(Json, takes_what_is_too_small_for_a_double_as_zero) {
  EXPECT_EQ(recanonical("1e-400"), "0");
  EXPECT_EQ(recanonical("-0.0"), "0");
  EXPECT_EQ(recanonical("4.9e-324"), "5e-324");
}

}  // namespace
}  // namespace pawl
