#include "core/source_reader.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <charconv>
#include <numeric>

#include "core/characters.h"
#include "core/expression.h"
#include "core/id.h"

namespace pawl {
namespace {

constexpr std::size_t quoted_bytes_max = 60;
// Longer words are no slips of the pen, and comparing them would be slow.
constexpr std::size_t suggested_bytes_max = name_chars_max;

// How many letters to insert, drop, replace or swap with a neighbour to get from one word to the other.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  using Row = std::array<std::size_t, suggested_bytes_max + 1>;
  Row before_last{};
  Row last{};
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    Row row{i};
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({row[j - 1] + 1, last[j] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last = last;
    last = row;
  }
  return last[b.size()];
}

std::string describe(const SourceNode& node) {
  switch (node.kind) {
    case SourceNode::Kind::null:
      return "empty";
    case SourceNode::Kind::list:
      return "a list";
    case SourceNode::Kind::map:
      return "a map";
    case SourceNode::Kind::scalar:
      return (node.quoted ? "the text " : "") + quote(node.scalar);
  }
  return {};
}

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t count_digits(std::string_view text) {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
}

std::string_view without_sign(std::string_view text) {
  return text.starts_with('-') || text.starts_with('+') ? text.substr(1) : text;
}

// [-+]? ( \. [0-9]+ | [0-9]+ ( \. [0-9]* )? ) ( [eE] [-+]? [0-9]+ )?
bool is_float(std::string_view text) {
  text = without_sign(text);
  const std::size_t whole = count_digits(text);
  text.remove_prefix(whole);
  std::size_t decimals = 0;
  if (text.starts_with('.')) {
    decimals = count_digits(text.substr(1));
    text.remove_prefix(1 + decimals);
  }
  if (whole + decimals == 0) return false;
  if (text.empty()) return true;
  if (text[0] != 'e' && text[0] != 'E') return false;
  text = without_sign(text.substr(1));
  return !text.empty() && count_digits(text) == text.size();
}

template <class Number>
std::optional<Number> read_number(std::string_view digits, int base) {
  Number out = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out, base);
  return read.ec == std::errc() && read.ptr == digits.data() + digits.size() ? std::optional(out) : std::nullopt;
}

struct Integer {
  std::string_view digits;
  int base = 10;
};

// [-+]? [0-9]+ | 0o [0-7]+ | 0x [0-9a-fA-F]+; the digits without a plus sign.
std::optional<Integer> find_integer(std::string_view text) {
  if (text.starts_with("0o") && text.size() > 2 && text.find_first_not_of("01234567", 2) == std::string_view::npos)
    return Integer{text.substr(2), 8};
  if (text.starts_with("0x") && text.size() > 2 &&
      text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string_view::npos)
    return Integer{text.substr(2), 16};
  const std::string_view digits = without_sign(text);
  if (digits.empty() || count_digits(digits) != digits.size()) return std::nullopt;
  return Integer{text.starts_with('+') ? digits : text, 10};
}

bool is_infinite_or_nan(std::string_view text) {
  if (text == ".nan" || text == ".NaN" || text == ".NAN") return true;
  text = without_sign(text);
  return text == ".inf" || text == ".Inf" || text == ".INF";
}

}  // namespace

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return text;
}

std::string quote(std::string_view text) {
  std::string out = "`";
  out += first_characters(text, quoted_bytes_max);
  out = one_line(std::move(out));
  if (text.size() > quoted_bytes_max) out += "...";
  return out + '`';
}

std::string list_words(std::span<const std::string_view> words, std::string_view last) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? ' ' + std::string(last) + ' ' : ", ";
    out += words[i];
  }
  return out;
}

std::string suggest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.size() > suggested_bytes_max) return {};
  std::string_view best;
  std::size_t best_distance = std::min<std::size_t>(4, word.size() / 2 + 1);
  for (const auto candidate : candidates) {
    if (candidate.size() > suggested_bytes_max) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance) continue;
    best = candidate;
    best_distance = distance;
  }
  return best.empty() ? std::string() : "; did you mean " + quote(best) + "?";
}

const SourceNode::Entry* find_entry(const SourceNode& map, std::string_view key) {
  const auto at = std::find_if(map.entries.begin(), map.entries.end(), [&](const auto& e) { return e.key == key; });
  return at == map.entries.end() ? nullptr : &*at;
}

Place place_inside(const SourceNode& node, std::size_t offset) {
  if (!node.verbatim) return node.place;
  const std::size_t before = count_characters(std::string_view(node.scalar).substr(0, offset));
  return {node.place.line, node.place.column + (node.quoted ? 1 : 0) + static_cast<int>(before)};
}

void SourceReader::refuse(Place place, std::string reason) {
  if (!is_full()) errors_.push_back({place, one_line(std::move(reason))});
}

void SourceReader::refuse_kind(const SourceNode& node, std::string_view name, std::string_view wanted) {
  std::string reason = quote(name) + " must be ";
  reason += wanted;
  reason += ", not " + describe(node);
  if (node.kind == SourceNode::Kind::scalar && has_expression(node.scalar))
    reason += "; only `with`, `idempotency_key` and `prompt` may hold an expression";
  refuse(node.place, std::move(reason));
}

std::vector<SourceError> SourceReader::take_errors(std::size_t errors_max) {
  std::stable_sort(errors_.begin(), errors_.end(), [](const SourceError& a, const SourceError& b) {
    return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
  });
  if (errors_.size() > errors_max) errors_.resize(errors_max);
  return std::move(errors_);
}

bool SourceReader::is_map(const SourceNode& node, std::string_view name) {
  if (node.kind == SourceNode::Kind::map) return true;
  refuse_kind(node, name, "a map");
  return false;
}

bool SourceReader::is_list(const SourceNode& node, std::string_view name) {
  if (node.kind == SourceNode::Kind::list) return true;
  refuse_kind(node, name, "a list");
  return false;
}

void SourceReader::only_keys(const SourceNode& map, const KnownKeys& known) {
  auto contains = [](std::span<const std::string_view> words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  for (const auto& entry : map.entries) {
    if (is_full()) return;
    if (contains(known.here, entry.key)) continue;
    if (contains(known.elsewhere, entry.key)) {
      refuse(entry.place, quote(entry.key) + ' ' + std::string(known.why_elsewhere));
      continue;
    }
    if (refuse_advised(entry, known.advice)) continue;
    std::string hint = suggest(entry.key, known.here);
    if (hint.empty())
      hint =
          "; " + std::string(known.owner) + " takes " + (known.here.empty() ? "none" : list_words(known.here, "and"));
    refuse(entry.place, "unknown key " + quote(entry.key) + hint);
  }
}

bool SourceReader::refuse_advised(const SourceNode::Entry& entry, std::span<const KeyAdvice> advice) {
  const auto found = std::ranges::find(advice, entry.key, &KeyAdvice::key);
  if (found == advice.end()) return false;
  refuse(entry.place, "unknown key " + quote(entry.key) + ": " + std::string(found->instead));
  return true;
}

bool SourceReader::refuse_advised(const SourceNode& map, std::span<const KeyAdvice> advice) {
  bool is_any = false;
  for (const auto& entry : map.entries) is_any = refuse_advised(entry, advice) || is_any;
  return is_any;
}

const SourceNode::Entry* SourceReader::required(const SourceNode& map, std::string_view key, std::string_view owner,
                                                std::string_view example) {
  const auto* entry = find_entry(map, key);
  if (!entry) refuse(map.place, std::string(owner) + " has no " + quote(key) + "; add one, such as " + quote(example));
  return entry;
}

std::optional<std::string> SourceReader::text_template(const SourceNode& node, std::string_view name) {
  if (node.kind == SourceNode::Kind::scalar) return node.scalar;
  refuse_kind(node, name, "text");
  return std::nullopt;
}

std::optional<std::string> SourceReader::text(const SourceNode& node, std::string_view name, std::string_view wanted) {
  if (node.kind == SourceNode::Kind::scalar && !has_expression(node.scalar)) return literal_text(node.scalar);
  refuse_kind(node, name, wanted);
  return std::nullopt;
}

std::optional<std::string> SourceReader::valid_name(const SourceNode& node, std::string_view name) {
  auto out = text(node, name, "a name");
  if (!out || is_valid_name(*out)) return out;
  refuse(node.place, quote(name) + " must be a name, not " + quote(*out) +
                         ": a letter or digit first, then also `.`, `_` and `-`, at most " +
                         std::to_string(name_chars_max) + " characters");
  return std::nullopt;
}

std::optional<bool> SourceReader::boolean(const SourceNode& node, std::string_view name) {
  if (node.kind == SourceNode::Kind::scalar && !node.quoted) {
    if (node.scalar == "true" || node.scalar == "True" || node.scalar == "TRUE") return true;
    if (node.scalar == "false" || node.scalar == "False" || node.scalar == "FALSE") return false;
  }
  refuse_kind(node, name, "true or false");
  return std::nullopt;
}

std::optional<int> SourceReader::integer(const SourceNode& node, std::string_view name, IntegerRange range) {
  if (node.kind == SourceNode::Kind::scalar && !node.quoted) {
    const auto number = read_number<int>(node.scalar, 10);
    if (number && *number >= range.min && *number <= range.max) return number;
  }
  refuse_kind(node, name, "a whole number from " + std::to_string(range.min) + " to " + std::to_string(range.max));
  return std::nullopt;
}

std::optional<double> SourceReader::fraction(const SourceNode& node, std::string_view name) {
  if (node.kind == SourceNode::Kind::scalar && !node.quoted && is_float(node.scalar)) {
    double number = -1;
    std::from_chars(node.scalar.data(), node.scalar.data() + node.scalar.size(), number);
    if (number >= 0 && number <= 1) return number;
  }
  refuse_kind(node, name, "a number from 0 to 1");
  return std::nullopt;
}

std::optional<Duration> SourceReader::duration(const SourceNode& node, std::string_view name, Duration min) {
  if (node.kind == SourceNode::Kind::scalar)
    if (const auto span = parse_duration(node.scalar); span && *span >= min) return span;
  std::string wanted = "a duration such as 90s, 15m or 4h";
  if (node.kind == SourceNode::Kind::scalar) {
    wanted += " of at most " + print_duration(duration_max);
    if (min > Duration::zero()) wanted += " and at least " + print_duration(min);
  }
  refuse_kind(node, name, wanted);
  return std::nullopt;
}

std::optional<Money> SourceReader::money(const SourceNode& node, std::string_view name) {
  if (node.kind == SourceNode::Kind::scalar)
    if (const auto amount = parse_money(node.scalar)) return amount;
  refuse_kind(node, name, "an amount such as \"2.50\", with at most six decimals, from 0 to 1000000000");
  return std::nullopt;
}

std::optional<std::size_t> SourceReader::word_index(const SourceNode& node, std::string_view name,
                                                    std::span<const std::string_view> words) {
  if (node.kind == SourceNode::Kind::scalar) {
    const auto at = std::find(words.begin(), words.end(), node.scalar);
    if (at != words.end()) return static_cast<std::size_t>(at - words.begin());
  }
  refuse_kind(node, name, list_words(words));
  return std::nullopt;
}

Json SourceReader::json(const SourceNode& node) {
  switch (node.kind) {
    case SourceNode::Kind::null:
      return nullptr;
    case SourceNode::Kind::scalar:
      return node.quoted ? Json(std::string_view(node.scalar)) : plain_scalar(node);
    case SourceNode::Kind::list: {
      boost::json::array out;
      out.reserve(node.items.size());
      for (const auto& item : node.items) out.push_back(json(item));
      return out;
    }
    case SourceNode::Kind::map: {
      boost::json::object out;
      out.reserve(node.entries.size());
      for (const auto& entry : node.entries) out.emplace(entry.key, json(entry.value));
      return out;
    }
  }
  return nullptr;
}

Json SourceReader::plain_scalar(const SourceNode& node) {
  const std::string_view text = node.scalar;
  if (text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL") return nullptr;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (const auto integer = find_integer(text)) {
    if (const auto number = read_number<std::int64_t>(integer->digits, integer->base)) return *number;
    if (const auto number = read_number<std::uint64_t>(integer->digits, integer->base)) return *number;
    refuse(node.place, quote(text) + " is too large for a whole number; put it in quotes to keep it as text");
    return nullptr;
  }
  if (is_infinite_or_nan(text)) {
    refuse(node.place, quote(text) + " is not a number that JSON knows; put it in quotes to keep it as text");
    return nullptr;
  }
  if (!is_float(text)) return Json(text);
  const std::string_view digits = text.starts_with('+') ? text.substr(1) : text;
  double number = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (read.ec == std::errc()) return number;
  refuse(node.place, quote(text) + " is outside the range of numbers; put it in quotes to keep it as text");
  return nullptr;
}

}  // namespace pawl
