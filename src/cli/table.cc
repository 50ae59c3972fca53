#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "cli/describe.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "core/time.h"

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

bool is_time(std::string_view column) { return column.ends_with("_at"); }

// Lists that somebody looks something up in go on in further lines.
bool is_wrapped(std::string_view column) { return column == "tools"; }

// 2026-11-19 21:51:47 of 2026-11-19T21:51:47.023Z, and everything else as it is.
std::string short_time(std::string text) {
  const auto time = parse_time(text);
  if (!time) return text;
  std::string out = print_time(*time).substr(0, 19);
  out[10] = ' ';
  return out;
}

constexpr std::size_t minute_columns = 16;
constexpr std::size_t date_columns = 10;
constexpr std::size_t long_columns = 24;

std::size_t total_width(const std::vector<std::size_t>& widths) {
  std::size_t sum = column_gap * (widths.size() - 1);
  for (std::size_t width : widths) sum += width;
  return sum;
}

// Takes from the widest, until the table fits or none is wider than this.
void narrow_texts(std::vector<std::size_t>& widths, const std::vector<std::string>& columns, std::size_t room,
                  std::size_t width_min) {
  while (total_width(widths) > room) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (!is_copied(columns[i]) && !is_time(columns[i]) && widths[i] > std::max(width_min, columns[i].size()) &&
          (!widest || widths[i] > *widest))
        widest = &widths[i];
    if (!widest) return;
    --*widest;
  }
}

// Cuts long texts, then leaves out seconds, then the time of day, then cuts short texts, until the table fits.
void fit_columns(std::vector<std::size_t>& widths, const std::vector<std::string>& columns, std::size_t room) {
  narrow_texts(widths, columns, room, long_columns);
  for (const std::size_t columns_of_time : {minute_columns, date_columns})
    for (std::size_t i = 0; i < columns.size() && total_width(widths) > room; ++i)
      if (is_time(columns[i])) widths[i] = std::min(widths[i], std::max(columns_of_time, columns[i].size()));
  narrow_texts(widths, columns, room, column_width_min);
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
  // A program that reads it gets all of it.
  const auto cell_of = [&](const Json& item, const std::string& column) {
    std::string text = text_of(item, column);
    return traits.can_move && is_time(column) ? short_time(std::move(text)) : text;
  };
  std::vector<std::size_t> widths;
  for (const auto& column : columns) {
    std::size_t width = column.size();
    for (const Json& item : items) width = std::max(width, columns_of(cell_of(item, column)));
    widths.push_back(width);
  }
  if (traits.can_move) fit_columns(widths, columns, terminal_size().columns);
  const auto print_line = [&](auto cell) {
    Line line;
    std::size_t column = 0;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) line.to_column(column);
      line.add(shorten(cell(i), widths[i], traits.look));
      column += widths[i] + column_gap;
    }
    std::string text = line.print(traits.look);
    while (text.ends_with(' ')) text.pop_back();
    fmt::print("{}\n", text);
  };
  print_line([&](std::size_t i) { return columns[i]; });
  for (const Json& item : items) {
    std::vector<std::vector<std::string>> cells;
    std::size_t lines = 1;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      std::string text = cell_of(item, columns[i]);
      if (is_time(columns[i]) && text.size() > widths[i])
        text.resize(widths[i] < minute_columns ? date_columns : minute_columns);
      cells.push_back(is_wrapped(columns[i]) ? wrap(text, widths[i]) : std::vector{std::move(text)});
      lines = std::max(lines, cells.back().size());
    }
    for (std::size_t n = 0; n < lines; ++n)
      print_line([&](std::size_t i) { return n < cells[i].size() ? cells[i][n] : std::string(); });
  }
}

std::string joined_texts(const Json& list) {
  std::string out;
  for (const Json& item : list.as_array()) (out += out.empty() ? "" : " ") += std::string_view(item.as_string());
  return out;
}

}  // namespace pawl
