#include "core/field_changes.h"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>

namespace pawl {
namespace {

void flatten(const Json& value, const std::string& path, std::vector<FieldChange>& out) {
  const boost::json::object* map = value.if_object();
  if (!map || map->empty()) return out.push_back({path, std::nullopt, value});
  for (const auto& [key, each] : *map)
    flatten(each, path.empty() ? std::string(key) : path + "." + std::string(key), out);
}

constexpr std::array identifying_fields{
    std::string_view("method"), std::string_view("url"),     std::string_view("operation"), std::string_view("action"),
    std::string_view("argv"),   std::string_view("program"), std::string_view("command"),   std::string_view("path")};
constexpr std::size_t short_value_bytes_max = 200;

// Lower comes earlier.
std::size_t rank_of(const FieldChange& change) {
  const auto found = std::ranges::find(identifying_fields, std::string_view(change.path));
  if (found != identifying_fields.end()) return static_cast<std::size_t>(found - identifying_fields.begin());
  const bool is_nested = change.path.contains('.');
  const bool is_short = !is_nested && canonical(change.after).size() <= short_value_bytes_max;
  return identifying_fields.size() + (is_short ? 0 : is_nested ? 2 : 1);
}

std::optional<Json> previous_of(const std::vector<FieldChange>& before, std::string_view path) {
  for (;;) {
    for (const FieldChange& leaf : before)
      if (leaf.path == path) return leaf.after;
    auto dot = path.find('.');
    if (dot == path.npos) return std::nullopt;
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

std::vector<FieldChange> field_changes(const Json& fields, const Json& before) {
  std::vector<FieldChange> out, then;
  flatten(fields, "", out);
  if (!before.is_null()) flatten(before, "", then);
  for (FieldChange& change : out) change.before = previous_of(then, change.path);
  std::ranges::stable_sort(out, {}, rank_of);
  return out;
}

}  // namespace pawl
