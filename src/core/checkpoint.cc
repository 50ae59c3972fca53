#include "core/checkpoint.h"

#include <boost/json/object.hpp>
#include <charconv>

#include "core/json.h"

namespace pawl {

std::string statement_of(TenantId tenant, const Checkpoint& checkpoint) {
  return canonical(boost::json::object{{"key", checkpoint.key},
                                       {"made_at", checkpoint.made_at.ms},
                                       {"number", checkpoint.number},
                                       {"previous", checkpoint.previous.hex()},
                                       {"root", checkpoint.root.hex()},
                                       {"size", checkpoint.size},
                                       {"tenant", tenant.str()},
                                       {"type", "pawl checkpoint"},
                                       {"v", 1}});
}

std::string key_statement_of(std::string_view public_key, std::string_view previous) {
  return canonical(
      boost::json::object{{"previous", previous}, {"public_key", public_key}, {"type", "pawl signing key"}, {"v", 1}});
}

std::string print_entry(const LogEntry& entry) {
  return entry.stream + " " + std::to_string(entry.seq) + " " + entry.head.hex();
}

std::optional<LogEntry> parse_entry(std::string_view text) {
  const auto first = text.find(' ');
  const auto second = first == text.npos ? text.npos : text.find(' ', first + 1);
  if (second == text.npos) return std::nullopt;
  LogEntry out{.stream = std::string(text.substr(0, first))};
  std::from_chars(text.data() + first + 1, text.data() + second, out.seq);
  auto head = Hash::parse(text.substr(second + 1));
  if (!head) return std::nullopt;
  out.head = *head;
  // Also what has zeros before it, or no number at all: an entry has one spelling, since it is hashed.
  return print_entry(out) == text ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace pawl
