#include "cli/card.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "cli/describe.h"

namespace pawl {
namespace {

constexpr std::size_t label_column = 4;
constexpr std::size_t value_column = 18;
constexpr std::size_t value_columns_min = 10;
constexpr std::size_t card_lines_max = 200;

}  // namespace

void Card::fact(std::string_view label, std::string_view text) {
  for (const std::string& words : wrap(text, value_columns())) add(std::exchange(label, ""), words);
}

void Card::text(std::string_view label, std::string_view text, std::size_t lines_max, std::string_view more) {
  const auto lines = wrap_lines(text, value_columns());
  for (std::size_t i = 0; i < std::min(lines.size(), lines_max); ++i) add(std::exchange(label, ""), lines[i]);
  if (lines.size() > lines_max) fact("", more);
}

void Card::quote(std::string_view text) {
  for (const std::string& words : wrap(text, columns_ > 25 ? columns_ - 5 : 20)) {
    Line line(Ink::plain, "  ");
    line.add(Ink::yellow, look_.unicode ? "▌" : " ").add(" ").add(words);
    lines_.push_back(std::move(line));
  }
}

std::vector<Line> Card::take() && {
  if (lines_.size() > card_lines_max) {
    const std::size_t more = lines_.size() - card_lines_max;
    lines_.resize(card_lines_max);
    lines_.push_back(Line(Ink::yellow, fmt::format("    ({} more lines; all of it: pawl show --json)", more)));
  }
  return std::move(lines_);
}

void Card::add(std::string_view label, std::string_view words) {
  Line line(Ink::plain, std::string(label_column, ' '));
  line.add(Ink::dim, label).to_column(value_column).add(words);
  lines_.push_back(std::move(line));
}

std::size_t Card::value_columns() const {
  return std::max(value_columns_min, columns_ > value_column ? columns_ - value_column : 0);
}

}  // namespace pawl
