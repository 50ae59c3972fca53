#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "cli/terminal.h"
#include "cli/text.h"

namespace pawl {

std::string text_of(const Json& item, std::string_view key) {
  const Json& value = item.at(key);
  return value.is_null() ? "-" : value.is_string() ? printable(value.as_string()) : boost::json::serialize(value);
}

void print_json(const Json& value) { fmt::print("{}\n", boost::json::serialize(value)); }

namespace {

constexpr std::size_t column_gap = 2;
constexpr std::size_t column_width_min = 8;

// What is there to be copied is never cut.
bool is_copied(std::string_view column) {
  return column == "id" || column.ends_with("_id") || column == "name" || column == "command";
}

// Takes from the widest, until the table fits or nothing is left to take.
void fit_columns(std::vector<std::size_t>& widths, const std::vector<std::string>& columns, std::size_t room) {
  auto total = [&] {
    std::size_t sum = column_gap * (widths.size() - 1);
    for (std::size_t width : widths) sum += width;
    return sum;
  };
  while (total() > room) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (!is_copied(columns[i]) && widths[i] > std::max(column_width_min, columns[i].size()) &&
          (!widest || widths[i] > *widest))
        widest = &widths[i];
    if (!widest) return;
    --*widest;
  }
}

}  // namespace

void print_table(const Json& list, bool json, const std::vector<std::string>& columns, std::string_view nothing) {
  const auto& items = list.at("items").as_array();
  if (json) {
    for (const Json& item : items) print_json(item);
    return;
  }
  if (items.empty()) return fmt::print("{}\n", nothing);
  const TerminalTraits traits = terminal_traits(true);
  std::vector<std::size_t> widths;
  for (const auto& column : columns) {
    std::size_t width = column.size();
    for (const Json& item : items) width = std::max(width, columns_of(text_of(item, column)));
    widths.push_back(width);
  }
  // A program that reads it gets all of it.
  if (traits.can_move) fit_columns(widths, columns, terminal_size().columns);
  auto row = [&](auto cell) {
    Line line;
    std::size_t column = 0;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) line.to_column(column);
      line.add(shorten(cell(columns[i]), widths[i], traits.look));
      column += widths[i] + column_gap;
    }
    std::string text = line.print(traits.look);
    while (text.ends_with(' ')) text.pop_back();
    fmt::print("{}\n", text);
  };
  row([](const std::string& column) { return column; });
  for (const Json& item : items) row([&](const std::string& column) { return text_of(item, column); });
}

std::string joined_texts(const Json& list) {
  std::string out;
  for (const Json& item : list.as_array()) (out += out.empty() ? "" : " ") += std::string_view(item.as_string());
  return out;
}

}  // namespace pawl
