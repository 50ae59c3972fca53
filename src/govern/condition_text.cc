#include "govern/condition_text.h"

#include <algorithm>
#include <vector>

#include "core/source_reader.h"

namespace pawl {
namespace {

// What ends what begins with this character; 0 when nothing does.
constexpr char closing(char opening) {
  switch (opening) {
    case '\'':
    case '"':
    case '`':
      return opening;
    case '[':
      return ']';
    default:
      return 0;
  }
}

constexpr std::string_view parameters = "?:@$#;";

std::unexpected<ConditionError> wrong(std::size_t offset, std::string reason) {
  return std::unexpected(ConditionError{offset, std::move(reason)});
}

}  // namespace

std::expected<void, ConditionError> check_condition_text(std::string_view text) {
  if (const std::size_t nul = text.find('\0'); nul != text.npos)
    return wrong(nul, "a condition cannot hold a NUL character");
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const std::string_view rest = text.substr(i);
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r' && c != '\t')
      return wrong(i, "a control character has no meaning in a condition");
    if (const char end = closing(c)) {
      // A doubled quote ends one text and begins the next: for where it all ends, that is the same.
      const std::size_t closed = text.find(end, i + 1);
      if (closed == text.npos) return wrong(i, "this " + quote(text.substr(i, 1)) + " is not closed");
      i = closed;
    } else if (rest.starts_with("--")) {
      i = std::min(text.find('\n', i), text.size());
    } else if (rest.starts_with("/*")) {
      const std::size_t closed = text.find("*/", i + 2);
      if (closed == text.npos) return wrong(i, "this comment is not closed; end it with `*/`");
      i = closed + 1;
    } else if (c == '(') {
      open.push_back(i);
    } else if (c == ')') {
      if (open.empty()) return wrong(i, "this `)` closes nothing");
      open.pop_back();
    } else if (parameters.find(c) != parameters.npos) {
      return wrong(i, quote(text.substr(i, 1)) + " has no meaning here; text stands in single quotes");
    }
  }
  if (!open.empty()) return wrong(open.back(), "this `(` is not closed");
  return {};
}

}  // namespace pawl
