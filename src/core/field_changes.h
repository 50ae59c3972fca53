// What an action would write, field by field: for people who decide about it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/json.h"

namespace pawl {

struct FieldChange {
  std::string path;            // "body.total"
  std::optional<Json> before;  // nothing when nobody looked
  Json after;
};

// `fields` of an action and what was there before, as far as that is known: by the names of the fields, wherever those
// stand in the action. What says which action it is comes first (method, url), then other short values at the top
// level, then the rest: where a reader sees only the beginning, it is the important part.
std::vector<FieldChange> field_changes(const Json& fields, const Json& before);

}  // namespace pawl
