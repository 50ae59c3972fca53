// The functions that conditions may call: each gives the same for the same arguments, reaches nothing outside them, and
// makes nothing much larger than they are.
#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

namespace pawl {

inline constexpr std::array<std::string_view, 30> condition_functions{"->",
                                                                      "->>",
                                                                      "abs",
                                                                      "ceil",
                                                                      "ceiling",
                                                                      "coalesce",
                                                                      "count",
                                                                      "floor",
                                                                      "glob",
                                                                      "ifnull",
                                                                      "iif",
                                                                      "instr",
                                                                      "json_array_length",
                                                                      "json_extract",
                                                                      "json_type",
                                                                      "json_valid",
                                                                      "length",
                                                                      "like",
                                                                      "lower",
                                                                      "max",
                                                                      "min",
                                                                      "nullif",
                                                                      "number",
                                                                      "round",
                                                                      "sign",
                                                                      "substr",
                                                                      "substring",
                                                                      "sum",
                                                                      "typeof",
                                                                      "upper"};
static_assert(std::ranges::is_sorted(condition_functions));

// How much LIKE, GLOB and instr may still compare in this decision. SQLite's own take time in proportion to the product
// of their arguments' lengths, inside one operation, where nothing else would stop them.
struct ComparisonBudget {
  std::uint64_t left = 0;
  bool exceeded = false;
};

// Puts this module's like, glob and instr in the place of SQLite's, and adds number(X): X when it is a number, its
// value when it is the text of one as JSON writes it, NULL for all else. A CAST gives 5 for "5,000" and 0 for [5000],
// which a rule on large amounts would let pass; NULL makes it speak. `budget` outlives the connection.
void use_bounded_functions(sqlite3* connection, ComparisonBudget& budget);

}  // namespace pawl
