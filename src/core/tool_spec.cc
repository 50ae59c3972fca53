#include "core/tool_spec.h"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>

#include "core/characters.h"
#include "core/invariant.h"

namespace pawl {
namespace {

// True when a key was absent or null, and is not any more.
bool add_fallbacks(const ToolSpec& spec, boost::json::object& with) {
  bool is_changed = false;
  for (const ToolKey& key : spec.keys) {
    const Json* given = key.fallback.empty() ? nullptr : with.if_contains(key.name);
    if (key.fallback.empty() || (given && !given->is_null())) continue;
    auto fallback = parse_json(key.fallback);
    invariant(fallback.has_value(), "the fallback of a key is JSON");
    with[key.name] = std::move(*fallback);
    is_changed = true;
  }
  return is_changed;
}

bool is_read(const ToolSpec& spec, const JsonText& input) {
  constexpr std::array<std::string_view, 3> reads{"get", "head", "options"};
  auto value = parse_json(input);
  auto* object = value ? value->if_object() : nullptr;
  if (object) add_fallbacks(spec, *object);
  // Declared to write, whatever its method. The other way round it counts for nothing: what is declared not to write
  // passes the gate all the same, since a policy cannot judge what it does not see.
  if (const auto* writes = object ? object->if_contains("writes") : nullptr;
      writes && !writes->is_null() && *writes != Json(false))
    return false;
  const auto* method = object ? object->if_contains("method") : nullptr;
  const auto* word = method ? method->if_string() : nullptr;
  return word && std::ranges::find(reads, lower_case(*word)) != reads.end();
}

}  // namespace

bool may_write(const ToolSpec& spec, const JsonText& input) {
  switch (spec.writes) {
    case ToolSpec::Writes::never:
      return false;
    case ToolSpec::Writes::by_method:
      return !is_read(spec, input);
    case ToolSpec::Writes::always:
      return true;
  }
  return true;
}

JsonText with_fallbacks(const ToolSpec& spec, JsonText input) {
  if (std::ranges::all_of(spec.keys, [](const ToolKey& key) { return key.fallback.empty(); })) return input;
  auto value = parse_json(input);
  auto* object = value ? value->if_object() : nullptr;
  return object && add_fallbacks(spec, *object) ? canonical(*value) : input;
}

void ToolCatalog::add(ToolSpec spec) {
  invariant(find(spec.name) == nullptr, "a tool is listed once");
  specs_.push_back(std::move(spec));
}

void ToolCatalog::expect_remote_tools(std::vector<ToolName> tools) {
  remote_ = true;
  knows_remote_ = true;
  remote_tools_ = std::move(tools);
}

bool ToolCatalog::may_be_remote(const ToolName& name) const {
  if (!remote_ || !is_valid_name(name.text)) return false;
  if (knows_remote_) return std::find(remote_tools_.begin(), remote_tools_.end(), name) != remote_tools_.end();
  auto space = [](std::string_view text) { return text.substr(0, text.find('.')); };
  return std::none_of(specs_.begin(), specs_.end(), [&](const ToolSpec& spec) {
    return spec.name.text.find('.') != std::string::npos && space(spec.name.text) == space(name.text);
  });
}

const ToolSpec* ToolCatalog::find(const ToolName& name) const {
  const auto at = std::find_if(specs_.begin(), specs_.end(), [&](const ToolSpec& spec) { return spec.name == name; });
  return at == specs_.end() ? nullptr : &*at;
}

}  // namespace pawl
