#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>

#include "cli/text.h"

namespace pawl {

std::string text_of(const Json& item, std::string_view key) {
  const Json& value = item.at(key);
  return value.is_null() ? "-" : value.is_string() ? printable(value.as_string()) : boost::json::serialize(value);
}

void print_json(const Json& value) { fmt::print("{}\n", boost::json::serialize(value)); }

void print_table(const Json& list, bool json, const std::vector<std::string>& columns, std::string_view nothing) {
  const auto& items = list.at("items").as_array();
  if (json) {
    for (const Json& item : items) print_json(item);
    return;
  }
  std::vector<std::size_t> widths;
  for (const auto& column : columns) {
    std::size_t width = column.size();
    for (const Json& item : items) width = std::max(width, text_of(item, column).size());
    widths.push_back(width);
  }
  auto row = [&](auto cell) {
    std::string line;
    for (std::size_t i = 0; i < columns.size(); ++i) line += fmt::format("{:<{}}  ", cell(columns[i]), widths[i]);
    while (line.ends_with(' ')) line.pop_back();
    fmt::print("{}\n", line);
  };
  if (items.empty()) return fmt::print("{}\n", nothing);
  row([](const std::string& column) { return column; });
  for (const Json& item : items) row([&](const std::string& column) { return text_of(item, column); });
}

std::string joined_texts(const Json& list) {
  std::string out;
  for (const Json& item : list.as_array()) (out += out.empty() ? "" : " ") += std::string_view(item.as_string());
  return out;
}

}  // namespace pawl
