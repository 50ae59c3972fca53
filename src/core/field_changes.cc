#include "core/field_changes.h"

#include <boost/json/object.hpp>

namespace pawl {
namespace {

void flatten(const Json& value, const std::string& path, std::vector<FieldChange>& out) {
  const boost::json::object* map = value.if_object();
  if (!map || map->empty()) return out.push_back({path, std::nullopt, value});
  for (const auto& [key, each] : *map)
    flatten(each, path.empty() ? std::string(key) : path + "." + std::string(key), out);
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
  return out;
}

}  // namespace pawl
