#include "cli/text.h"

#include <fmt/format.h>
#include <wchar.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "core/characters.h"

namespace pawl {
namespace {

std::string_view escape_of(Ink ink) {
  switch (ink) {
    case Ink::plain:
      return "";
    case Ink::bold:
      return "\x1b[1m";
    case Ink::dim:
      return "\x1b[2m";
    case Ink::green:
      return "\x1b[32m";
    case Ink::red:
      return "\x1b[31m";
    case Ink::yellow:
      return "\x1b[33m";
    case Ink::blue:
      return "\x1b[34m";
    case Ink::cyan:
      return "\x1b[36m";
  }
  return "";
}

struct Character {
  std::string_view bytes;
  char32_t code = 0;
};

// The first character of well-formed text.
Character first_of(std::string_view text) {
  auto lead = static_cast<std::uint8_t>(text[0]);
  std::size_t size = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  size = std::min(size, text.size());
  char32_t code = size == 1 ? lead : lead & (0xFFu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) code = code << 6 | (static_cast<std::uint8_t>(text[i]) & 0x3F);
  return {text.substr(0, size), code};
}

// Controls, and the marks that turn the direction of text around: what they hide must not be hidden in a terminal.
bool is_treacherous(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x200B && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

std::size_t columns_of(char32_t code) {
  int width = ::wcwidth(static_cast<wchar_t>(code));
  return width < 0 ? 1 : static_cast<std::size_t>(width);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    auto bad = find_invalid_utf8(text);
    std::string_view good = text.substr(0, bad.value_or(text.size()));
    while (!good.empty()) {
      Character character = first_of(good);
      out += is_treacherous(character.code) ? std::string_view(" ") : character.bytes;
      good.remove_prefix(character.bytes.size());
    }
    if (!bad) break;
    out += "\xEF\xBF\xBD";
    text.remove_prefix(*bad + 1);
  }
  return out;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) {
    Character character = first_of(text);
    columns += columns_of(character.code);
    text.remove_prefix(character.bytes.size());
  }
  return columns;
}

std::string_view fitting(std::string_view text, std::size_t columns) {
  std::size_t bytes = 0;
  for (std::size_t used = 0; bytes < text.size();) {
    Character character = first_of(text.substr(bytes));
    used += columns_of(character.code);
    if (used > columns) break;
    bytes += character.bytes.size();
  }
  return text.substr(0, bytes);
}

std::string shorten(std::string_view text, std::size_t columns, const Look& look) {
  if (columns_of(text) <= columns) return std::string(text);
  std::string_view ellipsis = look.unicode ? "…" : "...";
  std::size_t taken = columns_of(ellipsis);
  if (columns <= taken) return std::string(fitting(text, columns));
  return std::string(fitting(text, columns - taken)).append(ellipsis);
}

Line& Line::add(Ink ink, std::string_view text) {
  if (text.empty()) return *this;
  pieces_.push_back({ink, std::string(text)});
  columns_ += columns_of(text);
  return *this;
}

Line& Line::to_column(std::size_t column) {
  return add(Ink::plain, std::string(columns_ < column ? column - columns_ : 1, ' '));
}

Line& Line::add_right(Ink ink, std::string_view text, std::size_t width) {
  std::size_t taken = columns_of(text);
  if (taken < width) add(Ink::plain, std::string(width - taken, ' '));
  return add(ink, text);
}

Line& Line::append(const Line& other) {
  for (const Piece& piece : other.pieces_) add(piece.ink, piece.text);
  return *this;
}

std::string Line::print(const Look& look, std::size_t columns_max) const {
  std::string out;
  std::size_t left = columns_max == 0 ? SIZE_MAX : columns_max;
  for (const Piece& piece : pieces_) {
    if (left == 0) break;
    // A piece that does not fit ends the line with its ellipsis.
    std::string text = shorten(piece.text, left, look);
    left -= std::min(left, columns_of(text));
    if (text != piece.text) left = 0;
    std::string_view escape = look.colour ? escape_of(piece.ink) : "";
    out.append(escape).append(text);
    if (!escape.empty()) out += "\x1b[0m";
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string print_count(std::uint64_t count) {
  if (count < 1000) return std::to_string(count);
  return fmt::format("{},{:03}", print_count(count / 1000), count % 1000);
}

std::string print_count(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", print_count(count), what, count == 1 ? "" : "s");
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = std::exchange(row[0], i);
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        std::size_t replaced = diagonal + (word[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
      }
    }
    // Letters in the wrong order are one slip.
    std::size_t distance =
        std::ranges::is_permutation(word, candidate) ? std::min<std::size_t>(row.back(), 1) : row.back();
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return std::string(best);
}

}  // namespace pawl
