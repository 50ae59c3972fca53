// Text for people: lines made of coloured pieces, that know how wide they are and can be cut to fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pawl {

enum class Ink { plain, bold, dim, green, red, yellow, blue, cyan };

// What the place that text goes to can show.
struct Look {
  bool colour = false;
  bool unicode = true;
};

// Safe to show: control characters (escape sequences, line ends) become spaces, broken UTF-8 a replacement character.
std::string printable(std::string_view text);

// Columns that well-formed, printable text takes.
std::size_t columns_of(std::string_view text);

// The longest beginning that is at most `columns` wide.
std::string_view fitting(std::string_view text, std::size_t columns);

// At most `columns` wide; what is cut ends in an ellipsis.
std::string shorten(std::string_view text, std::size_t columns, const Look& look);

class Line {
 public:
  Line() = default;
  Line(Ink ink, std::string_view text) { add(ink, text); }

  Line& add(Ink ink, std::string_view text);
  Line& add(std::string_view text) { return add(Ink::plain, text); }
  // Spaces up to this column; at least one when the line is there already.
  Line& to_column(std::size_t column);
  Line& add_right(Ink ink, std::string_view text, std::size_t width);
  Line& append(const Line& other);

  std::size_t columns() const { return columns_; }
  // Cut to `columns_max`; 0 = not cut.
  std::string print(const Look& look, std::size_t columns_max = 0) const;

 private:
  struct Piece {
    Ink ink;
    std::string text;
  };
  std::vector<Piece> pieces_;
  std::size_t columns_ = 0;
};

// 12,345
std::string print_count(std::uint64_t count);
// 1 run, 12,345 runs
std::string print_count(std::uint64_t count, std::string_view what);

// The word among `known` that was probably meant; empty when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace pawl
