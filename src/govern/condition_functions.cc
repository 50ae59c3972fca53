#include "govern/condition_functions.h"

#include <charconv>
#include <optional>
#include <span>
#include <system_error>

#include "core/characters.h"
#include "core/invariant.h"

namespace pawl {
namespace {

// Of a value that is not NULL; without one SQLite has no memory, and the function must fail.
std::optional<std::string_view> text_of(sqlite3_context* context, sqlite3_value* value) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_value_text(value));
  if (text) return std::string_view(text, static_cast<std::size_t>(sqlite3_value_bytes(value)));
  sqlite3_result_error_nomem(context);
  return std::nullopt;
}

bool any_null(std::span<sqlite3_value*> values) {
  return std::ranges::any_of(values, [](sqlite3_value* value) { return sqlite3_value_type(value) == SQLITE_NULL; });
}

bool spend(sqlite3_context* context, std::string_view a, std::string_view b) {
  auto& budget = *static_cast<ComparisonBudget*>(sqlite3_user_data(context));
  const std::uint64_t cost = (std::uint64_t{a.size()} + 1) * (std::uint64_t{b.size()} + 1);
  budget.exceeded = budget.exceeded || cost > budget.left;
  if (budget.exceeded) {
    sqlite3_result_error(context, "compares too much", -1);
    return false;
  }
  budget.left -= cost;
  return true;
}

// X LIKE Y is like(Y, X); with ESCAPE Z it is like(Y, X, Z).
void like(sqlite3_context* context, int count, sqlite3_value** values) {
  std::span arguments(values, static_cast<std::size_t>(count));
  if (any_null(arguments)) return sqlite3_result_null(context);
  unsigned int escape = 0;
  if (count == 3) {
    const auto given = text_of(context, values[2]);
    if (!given) return;
    if (given->size() != 1) return sqlite3_result_error(context, "ESCAPE expression must be a single character", -1);
    escape = static_cast<unsigned char>((*given)[0]);
  }
  const auto pattern = text_of(context, values[0]), text = text_of(context, values[1]);
  if (pattern && text && spend(context, *pattern, *text))
    sqlite3_result_int(context, sqlite3_strlike(pattern->data(), text->data(), escape) == 0);
}

void glob(sqlite3_context* context, int count, sqlite3_value** values) {
  if (any_null({values, static_cast<std::size_t>(count)})) return sqlite3_result_null(context);
  const auto pattern = text_of(context, values[0]), text = text_of(context, values[1]);
  if (pattern && text && spend(context, *pattern, *text))
    sqlite3_result_int(context, sqlite3_strglob(pattern->data(), text->data()) == 0);
}

// The position of the second in the first, in characters from 1; 0 when it is not there.
void instr(sqlite3_context* context, int count, sqlite3_value** values) {
  if (any_null({values, static_cast<std::size_t>(count)})) return sqlite3_result_null(context);
  const auto text = text_of(context, values[0]), part = text_of(context, values[1]);
  if (!text || !part || !spend(context, *text, *part)) return;
  const std::size_t at = text->find(*part);
  sqlite3_result_int64(context,
                       at == text->npos ? 0 : static_cast<sqlite3_int64>(count_characters(text->substr(0, at))) + 1);
}

// -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?
bool is_json_number(std::string_view text) {
  const auto skip = [&](std::string_view any_of) {
    const bool found = !text.empty() && any_of.contains(text.front());
    if (found) text.remove_prefix(1);
    return found;
  };
  const auto skip_digits = [&] {
    const auto size = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(size);
    return size > 0;
  };
  skip("-");
  if (!skip("0") && !skip_digits()) return false;
  if (skip(".") && !skip_digits()) return false;
  if (skip("eE")) {
    skip("+-");
    if (!skip_digits()) return false;
  }
  return text.empty();
}

// number(X). `fields -> 'a'` is the JSON text of a value: that of a text has quotes, that of true is no number.
void number(sqlite3_context* context, int, sqlite3_value** values) {
  const int type = sqlite3_value_type(values[0]);
  if (type == SQLITE_INTEGER || type == SQLITE_FLOAT) return sqlite3_result_value(context, values[0]);
  if (type != SQLITE_TEXT) return sqlite3_result_null(context);
  auto text = text_of(context, values[0]);
  if (!text) return;
  if (text->size() >= 2 && text->starts_with('"') && text->ends_with('"')) *text = text->substr(1, text->size() - 2);
  if (!is_json_number(*text)) return sqlite3_result_null(context);
  const char* const end = text->data() + text->size();
  std::int64_t whole = 0;
  if (const auto read = std::from_chars(text->data(), end, whole); read.ec == std::errc() && read.ptr == end)
    return sqlite3_result_int64(context, whole);
  double value = 0;
  if (std::from_chars(text->data(), end, value).ec != std::errc()) return sqlite3_result_null(context);
  sqlite3_result_double(context, value);
}

}  // namespace

void use_bounded_functions(sqlite3* connection, ComparisonBudget& budget) {
  struct Row {
    const char* name;
    int arguments;
    void (*call)(sqlite3_context*, int, sqlite3_value**);
  };
  for (const Row& row : {Row{"like", 2, like}, Row{"like", 3, like}, Row{"glob", 2, glob}, Row{"instr", 2, instr},
                         Row{"number", 1, number}})
    invariant(sqlite3_create_function_v2(connection, row.name, row.arguments,
                                         SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS, &budget, row.call,
                                         nullptr, nullptr, nullptr) == SQLITE_OK,
              "SQLite takes no function");
}

}  // namespace pawl
