// A rule's condition before SQLite sees it. A condition is put between parentheses into a larger statement; what is
// checked here is that it stays between them: every quote, comment and parenthesis that it opens it also closes, and it
// names no parameters, through which it would see what is bound for others.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>

namespace pawl {

struct ConditionError {
  std::size_t offset = 0;  // into the condition
  std::string reason;
};

std::expected<void, ConditionError> check_condition_text(std::string_view text);

}  // namespace pawl
