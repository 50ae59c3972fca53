// What a person must know before deciding something: labels, and values beside them that are wrapped and never cut.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "cli/text.h"

namespace pawl {

class Card {
 public:
  Card(std::size_t columns, const Look& look) : columns_(columns), look_(look) {}

  void fact(std::string_view label, std::string_view text);
  // Line by line. Of a long text the first `lines_max` lines, and `more` where it goes on.
  void text(std::string_view label, std::string_view text, std::size_t lines_max, std::string_view more);
  // Words of somebody else, marked as such.
  void quote(std::string_view text);
  std::vector<Line> take() &&;

 private:
  void add(std::string_view label, std::string_view words);
  std::size_t value_columns() const;

  const std::size_t columns_;
  const Look& look_;
  std::vector<Line> lines_;
};

}  // namespace pawl
