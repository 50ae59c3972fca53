#include "core/tool_spec.h"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>

#include "core/invariant.h"

namespace pawl {
namespace {

bool is_read(const JsonText& input) {
  constexpr std::array<std::string_view, 3> reads{"GET", "HEAD", "OPTIONS"};
  const auto value = parse_json(input);
  const auto* object = value ? value->if_object() : nullptr;
  // Declared to write, whatever its method. The other way round it counts for nothing: what is declared not to write
  // passes the gate all the same, since a policy cannot judge what it does not see.
  if (const auto* writes = object ? object->if_contains("writes") : nullptr;
      writes && !writes->is_null() && *writes != Json(false))
    return false;
  const auto* method = object ? object->if_contains("method") : nullptr;
  const auto* word = method ? method->if_string() : nullptr;
  return word && std::find(reads.begin(), reads.end(), std::string_view(*word)) != reads.end();
}

}  // namespace

bool may_write(const ToolSpec& spec, const JsonText& input) {
  switch (spec.writes) {
    case ToolSpec::Writes::never:
      return false;
    case ToolSpec::Writes::by_method:
      return !is_read(input);
    case ToolSpec::Writes::always:
      return true;
  }
  return true;
}

void ToolCatalog::add(ToolSpec spec) {
  invariant(find(spec.name) == nullptr, "a tool is listed once");
  specs_.push_back(std::move(spec));
}

bool ToolCatalog::may_be_remote(const ToolName& name) const {
  if (!remote_ || !is_valid_name(name.text)) return false;
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
