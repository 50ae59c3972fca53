#include "core/json.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <charconv>
#include <cmath>
#include <vector>

#include "core/invariant.h"

namespace pawl {
namespace {

// UTF-8 sorts by code point. UTF-16 sorts the characters above U+FFFF, written as surrogates (D800..), before
// U+E000..U+FFFF; in UTF-8 those begin with EE and EF, which therefore move behind F0..F4.
bool less_in_utf16(std::string_view a, std::string_view b) {
  auto rank = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == 0xEE || byte == 0xEF ? byte + 0x10 : int{byte};
  };
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [&](char x, char y) { return rank(x) < rank(y); });
}

template <class Integer>
void append_integer(std::string& out, Integer number) {
  char digits[24];
  const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
  out.append(digits, end);
}

void append_canonical(std::string& out, const Json& value);

void append_object(std::string& out, const boost::json::object& object) {
  std::vector<const boost::json::key_value_pair*> sorted;
  sorted.reserve(object.size());
  for (const auto& member : object) sorted.push_back(&member);
  std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return less_in_utf16(a->key(), b->key()); });
  out += '{';
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i > 0) out += ',';
    append_json_string(out, sorted[i]->key());
    out += ':';
    append_canonical(out, sorted[i]->value());
  }
  out += '}';
}

void append_array(std::string& out, const boost::json::array& array) {
  out += '[';
  for (std::size_t i = 0; i < array.size(); ++i) {
    if (i > 0) out += ',';
    append_canonical(out, array[i]);
  }
  out += ']';
}

void append_canonical(std::string& out, const Json& value) {
  switch (value.kind()) {
    case boost::json::kind::null:
      out += "null";
      return;
    case boost::json::kind::bool_:
      out += value.get_bool() ? "true" : "false";
      return;
    case boost::json::kind::int64:
      append_integer(out, value.get_int64());
      return;
    case boost::json::kind::uint64:
      append_integer(out, value.get_uint64());
      return;
    case boost::json::kind::double_:
      append_json_double(out, value.get_double());
      return;
    case boost::json::kind::string:
      append_json_string(out, value.get_string());
      return;
    case boost::json::kind::array:
      append_array(out, value.get_array());
      return;
    case boost::json::kind::object:
      append_object(out, value.get_object());
      return;
  }
}

// Builds the value from the parser's events. Boost's own handler keeps the last of two equal keys and rounds some
// doubles to a neighbour; here a key that comes twice is refused and digits are read exactly.
class ValueBuilder {
 public:
  using View = boost::json::string_view;
  using Error = boost::json::error_code;
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

  Json take() { return std::move(root_); }
  // Why this builder, not the parser, stopped.
  const std::string& refusal() const { return refusal_; }

  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }
  bool on_object_begin(Error&) { return open(boost::json::object()); }
  bool on_object_end(std::size_t, Error&) { return close(); }
  bool on_array_begin(Error&) { return open(boost::json::array()); }
  bool on_array_end(std::size_t, Error&) { return close(); }
  bool on_key_part(View part, std::size_t, Error&) { return gather(part); }
  bool on_key(View part, std::size_t, Error& error) {
    gather(part);
    Frame& frame = open_.back();
    frame.key.swap(text_);
    text_.clear();
    if (!frame.container.get_object().contains(frame.key)) return true;
    refusal_ = "duplicate key ";
    append_json_string(refusal_, frame.key);
    return stop(error);
  }
  bool on_string_part(View part, std::size_t, Error&) { return gather(part); }
  bool on_string(View part, std::size_t, Error&) {
    gather(part);
    put(boost::json::string(text_));
    text_.clear();
    return true;
  }
  bool on_number_part(View part, Error&) { return gather(part); }
  bool on_int64(std::int64_t number, View, Error&) { return put_number(number); }
  bool on_uint64(std::uint64_t number, View, Error&) { return put_number(number); }
  bool on_double(double rounded, View part, Error& error) {
    gather(part);
    double exact = 0;
    const auto read = std::from_chars(text_.data(), text_.data() + text_.size(), exact);
    // Out of range on the small side is zero, as everywhere; on the large side there is no such number.
    if (read.ec == std::errc::result_out_of_range && std::abs(rounded) < 1)
      exact = 0;
    else if (read.ec != std::errc()) {
      refusal_ = "number out of range";
      return stop(error);
    }
    return put_number(exact);
  }
  bool on_bool(bool value, Error&) { return put(value); }
  bool on_null(Error&) { return put(nullptr); }
  bool on_comment_part(View, Error&) { return true; }
  bool on_comment(View, Error&) { return true; }

 private:
  struct Frame {
    Json container;
    std::string key;
  };

  static bool stop(Error& error) {
    error = boost::json::error::exception;
    return false;
  }
  bool gather(View part) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool open(Json container) {
    open_.push_back({std::move(container), {}});
    return true;
  }
  bool close() {
    Json done = std::move(open_.back().container);
    open_.pop_back();
    return put(std::move(done));
  }
  bool put_number(Json value) {
    text_.clear();
    return put(std::move(value));
  }
  bool put(Json value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (auto* array = open_.back().container.if_array())
      array->push_back(std::move(value));
    else
      open_.back().container.get_object().emplace(open_.back().key, std::move(value));
    return true;
  }

  std::vector<Frame> open_;
  std::string text_;
  std::string refusal_;
  Json root_;
};

std::string describe(const boost::json::error_code& code) {
  using boost::json::error;
  if (code == error::syntax) return "unexpected character";
  if (code == error::incomplete) return "the text ends too early";
  if (code == error::extra_data) return "more text after the value";
  if (code == error::too_deep) return "nested deeper than " + std::to_string(json_depth_max);
  return code.message();
}

}  // namespace

std::string canonical(const Json& value) {
  std::string out;
  append_canonical(out, value);
  return out;
}

std::expected<Json, std::string> parse_json(std::string_view text) {
  boost::json::parse_options options;
  options.max_depth = json_depth_max;
  boost::json::basic_parser<ValueBuilder> parser(options);
  boost::json::error_code error;
  const std::size_t offset = parser.write_some(false, text.data(), text.size(), error);
  if (!error && offset < text.size()) error = boost::json::error::extra_data;
  if (!error) return parser.handler().take();
  const std::string& refusal = parser.handler().refusal();
  return std::unexpected((refusal.empty() ? describe(error) : refusal) + " at offset " + std::to_string(offset));
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  out += '"';
  while (true) {
    std::size_t plain = plain_json_prefix(text);
    out += text.substr(0, plain);
    if (plain == text.size()) break;
    const char c = text[plain];
    text.remove_prefix(plain + 1);
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        out += "\\u00";
        out += hex[static_cast<unsigned char>(c) >> 4];
        out += hex[static_cast<unsigned char>(c) & 15];
    }
  }
  out += '"';
}

// ECMA-262 Number::toString. The shortest digits that read back as the same double are d1 d2 .. dk, with the decimal
// point n places after their beginning.
void append_json_double(std::string& out, double number) {
  invariant(std::isfinite(number), "JSON has no NaN and no infinity");
  if (number == 0) {
    out += '0';
    return;
  }
  char buffer[32];
  const auto end =
      std::to_chars(std::begin(buffer), std::end(buffer), std::abs(number), std::chars_format::scientific).ptr;
  const std::string_view shortest(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t mark = shortest.find('e');
  std::string digits(shortest.substr(0, mark));
  if (digits.size() > 1) digits.erase(1, 1);
  int exponent = 0;
  const bool down = shortest[mark + 1] == '-';
  std::from_chars(shortest.data() + mark + 2, end, exponent);
  const int point = (down ? -exponent : exponent) + 1;
  const int count = static_cast<int>(digits.size());

  if (number < 0) out += '-';
  if (point >= count && point <= 21) {
    out += digits;
    out.append(static_cast<std::size_t>(point - count), '0');
  } else if (point > 0 && point <= 21) {
    out.append(digits, 0, static_cast<std::size_t>(point));
    out += '.';
    out.append(digits, static_cast<std::size_t>(point));
  } else if (point > -6 && point <= 0) {
    out += "0.";
    out.append(static_cast<std::size_t>(-point), '0');
    out += digits;
  } else {
    out += digits[0];
    if (count > 1) out += '.';
    out.append(digits, 1);
    out += down ? "e-" : "e+";
    append_integer(out, exponent);
  }
}

Json value_of(const JsonText& text) {
  if (text.empty()) return nullptr;
  auto value = parse_json(text);
  return value ? std::move(*value) : Json(text);
}

std::string text_in(const boost::json::object& in, std::string_view key) {
  const Json* value = in.if_contains(key);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

}  // namespace pawl
