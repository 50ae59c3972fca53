#include "core/event_header.h"

#include <array>

#include "core/event.h"

namespace pawl {
namespace {

// Takes values off the front of canonical JSON without looking into them. At the end of the text everything is empty.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  char next() const { return rest_.empty() ? '\0' : rest_.front(); }
  void skip(std::size_t count) { rest_.remove_prefix(std::min(count, rest_.size())); }

  // What stands between the quotes, escapes as they are written.
  std::string_view take_string() {
    skip(1);
    std::size_t end = rest_.find('"');
    while (end != rest_.npos && is_escaped(end)) end = rest_.find('"', end + 1);
    const std::string_view out = rest_.substr(0, end);
    skip(out.size() + 1);
    return out;
  }

  void skip_value() {
    if (next() == '"') {
      take_string();
    } else if (next() == '{' || next() == '[') {
      skip_nested();
    } else {
      skip(rest_.find_first_of(",}"));
    }
  }

 private:
  // By an odd number of backslashes before it.
  bool is_escaped(std::size_t at) const {
    std::size_t first = at;
    while (first > 0 && rest_[first - 1] == '\\') --first;
    return (at - first) % 2 == 1;
  }

  void skip_nested() {
    int depth = 0;
    do {
      skip(rest_.find_first_of("\"{}[]"));
      const char c = next();
      if (c == '"') {
        take_string();
        continue;
      }
      depth += c == '{' || c == '[' ? 1 : -1;
      skip(1);
    } while (depth > 0 && !rest_.empty());
  }

  std::string_view rest_;
};

}  // namespace

EventHeader read_event_header(std::string_view line) {
  EventHeader out;
  Scanner scanner(line);
  if (scanner.next() != '{') return out;
  do {
    scanner.skip(1);  // { or ,
    if (scanner.next() != '"') return {};
    const std::string_view key = scanner.take_string();
    if (scanner.next() != ':') return {};
    scanner.skip(1);
    if (scanner.next() != '"') {
      scanner.skip_value();
      continue;
    }
    const std::string_view text = scanner.take_string();
    if (key == "provider") out.provider = parse_enum<Provider>(text);
    if (key == "tells") out.tells = parse_enum<Provider>(text);
    if (key == "type") {
      out.type = text;
      return out;  // canonical: the keys above sort before it
    }
  } while (scanner.next() == ',');
  return {};
}

bool ends_run(std::string_view type) {
  using enum RunTrigger;
  return std::ranges::any_of(std::array{succeed, fail, deny, time_out, cancel},
                             [&](RunTrigger trigger) { return event_name(trigger) == type; });
}

}  // namespace pawl
