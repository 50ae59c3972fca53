#include "tools/jq_modules.h"

#include <algorithm>

namespace pawl {
namespace {

std::string_view first_word(std::string_view text) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return text.substr(0, static_cast<std::size_t>(std::ranges::find_if_not(text, is_letter) - text.begin()));
}

// Without the white space and comments before its first word. Newer versions of jq continue a comment that ends with a
// backslash on the next line.
std::string_view without_comments(std::string_view text, bool are_continued) {
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with('#')) return text;
    for (bool goes_on = true; goes_on;) {
      const auto end = std::min(text.find('\n'), text.size());
      const auto line = text.substr(0, end);
      const auto slashes = line.size() - std::min(line.find_last_not_of("\\\r") + 1, line.size());
      goes_on = are_continued && slashes > 0 && end < text.size();
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
}

}  // namespace

bool reads_modules(std::string_view program) {
  for (const bool are_continued : {false, true})
    for (const std::string_view directive : {"import", "include", "module"})
      if (first_word(without_comments(program, are_continued)) == directive) return true;
  return program.contains("modulemeta");
}

}  // namespace pawl
