// Answers as people and programs read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace pawl {

// A value of an object as it stands in a table; "-" for null.
std::string text_of(const Json& item, std::string_view key);
// The texts of a list, with spaces between them.
std::string joined_texts(const Json& list);
// On a line of its own.
void print_json(const Json& value);
// Of list's `items`. Columns as wide as their widest, cut where a terminal is narrower; one JSON object a line when
// that is asked for.
void print_table(const Json& list, bool json, const std::vector<std::string>& columns, std::string_view nothing);

}  // namespace pawl
