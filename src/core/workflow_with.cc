#include "core/workflow_with.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>

#include "core/expression.h"

namespace pawl {
namespace {

using Kind = ToolKey::Kind;

std::string wanted(Kind kind) {
  switch (kind) {
    case Kind::any:
      return "a value";
    case Kind::text:
      return "text";
    case Kind::number:
      return "a number";
    case Kind::boolean:
      return "true or false";
    case Kind::list:
      return "a list";
    case Kind::map:
      return "a map";
    case Kind::text_list:
      return "a list of texts";
    case Kind::text_map:
      return "a map of texts";
    case Kind::duration:
      return "a duration such as 90s, 15m or 4h of at most " + print_duration(duration_max);
  }
  return {};
}

// One whole expression keeps the type of what it names, which only the run will know. One that cannot be read is
// refused elsewhere.
bool may_be_anything(const Json& value) {
  const auto* text = value.if_string();
  if (!text || !has_expression(*text)) return false;
  const auto pieces = parse_template(*text);
  return !pieces || pieces->size() == 1;  // of a text that has an expression, the one piece is it
}

bool is_duration(const Json& value) {
  const auto* text = value.if_string();
  return text && (has_expression(*text) || parse_duration(*text));
}

bool fits(Kind kind, const Json& value) {
  switch (kind) {
    case Kind::any:
      return true;
    case Kind::text:
      return value.is_string();
    case Kind::number:
      return value.is_number();
    case Kind::boolean:
      return value.is_bool();
    case Kind::list:
    case Kind::text_list:
      return value.is_array();
    case Kind::map:
    case Kind::text_map:
      return value.is_object();
    case Kind::duration:
      return is_duration(value);
  }
  return false;
}

void check_value(SourceReader& reader, const SourceNode& node, const Json& value, std::string_view name, Kind kind) {
  if (may_be_anything(value)) return;
  if (!fits(kind, value)) {
    if (value.is_string() && has_expression(value.get_string())) {
      reader.refuse(node.place, quote(name) + " must be " + wanted(kind) + "; text around an expression makes it text");
    } else {
      const bool needs_quotes = kind == Kind::text && node.kind == SourceNode::Kind::scalar;
      reader.refuse_kind(node, name, wanted(kind) + (needs_quotes ? " in quotes" : ""));
    }
    return;
  }
  if (kind == Kind::text_list)
    for (std::size_t i = 0; i < node.items.size(); ++i)
      check_value(reader, node.items[i], value.get_array()[i], name, Kind::text);
  if (kind == Kind::text_map)
    for (const auto& entry : node.entries)
      check_value(reader, entry.value, value.get_object().at(entry.key), entry.key, Kind::text);
}

template <class See>
void for_each_expression(const SourceNode& node, const See& see) {
  for (const auto& item : node.items) for_each_expression(item, see);
  for (const auto& entry : node.entries) for_each_expression(entry.value, see);
  const auto found = find_expressions(node.scalar);
  if (!found) return;  // refused elsewhere
  for (const auto& [expression, offset] : *found) see(expression, place_inside(node, offset));
}

void check_keys(SourceReader& reader, const SourceNode& with, Place place, const ToolSpec& spec) {
  std::vector<std::string_view> known;
  for (const auto& key : spec.keys) known.push_back(key.name);
  reader.only_keys(with, {.owner = quote(spec.name.str()), .here = known});
  for (const auto& key : spec.keys)
    if (key.required && !find_entry(with, key.name))
      reader.refuse(place, quote(spec.name.str()) + " needs " + quote(key.name) + " in `with`: " + wanted(key.kind));
}

}  // namespace

Json read_with(SourceReader& reader, const SourceNode& step, const ToolSpec* spec) {
  boost::json::object out;
  const auto* with = find_entry(step, "with");
  if (with && !reader.is_map(with->value, "with")) return out;
  const SourceNode nothing;
  const SourceNode& map = with ? with->value : nothing;
  if (spec) check_keys(reader, map, with ? with->place : step.place, *spec);
  for (const auto& entry : map.entries) {
    const std::size_t errors_before = reader.error_count();
    Json value = reader.json(entry.value);
    if (spec && reader.error_count() == errors_before)
      for (const auto& key : spec->keys)
        if (key.name == entry.key) check_value(reader, entry.value, value, entry.key, key.kind);
    out.emplace(entry.key, std::move(value));
  }
  return out;
}

void for_each_secret(const SourceNode& node, const std::function<void(const std::string& secret, Place place)>& see) {
  for_each_expression(node, [&](const Expression& expression, Place place) {
    if (expression.root == Expression::Root::secret) see(expression.secret, place);
  });
}

void refuse_response(SourceReader& reader, const SourceNode& node) {
  for_each_expression(node, [&](const Expression& expression, Place place) {
    if (expression.root == Expression::Root::response && !reader.is_full())
      reader.refuse(place, "`response` is what a call answered; it can stand only in the `undo` of `http.request`");
  });
}

void refuse_secrets(SourceReader& reader, const SourceNode& node, std::string_view reason) {
  for_each_secret(node, [&](const std::string&, Place place) {
    if (!reader.is_full()) reader.refuse(place, std::string(reason));
  });
}

void check_secret_keys(SourceReader& reader, const SourceNode& with, const ToolSpec& spec) {
  std::string takers;
  for (const auto& key : spec.keys)
    if (key.secrets) takers += (takers.empty() ? "" : ", ") + quote(key.name);
  for (const auto& entry : with.entries) {
    const auto key = std::ranges::find(spec.keys, entry.key, &ToolKey::name);
    if (key != spec.keys.end() && key->secrets) continue;
    refuse_secrets(reader, entry.value,
                   "no secret can stand in " + quote(entry.key) + " of " + quote(spec.name.str()) +
                       ", where it would be seen; " +
                       (takers.empty() ? "this tool takes none" : "it can in " + takers));
  }
}

bool has_template_inside(const Json& value) {
  if (const auto* text = value.if_string()) return is_template(*text);
  if (const auto* array = value.if_array()) return std::any_of(array->begin(), array->end(), has_template_inside);
  if (const auto* object = value.if_object())
    return std::any_of(object->begin(), object->end(), [](const auto& m) { return has_template_inside(m.value()); });
  return false;
}

}  // namespace pawl
