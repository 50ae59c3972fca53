#include "core/tool_spec.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
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

// Null counts as absent.
const Json* given(const boost::json::object& with, std::string_view key) {
  const Json* value = with.if_contains(key);
  return value && !value->is_null() ? value : nullptr;
}

// X-HTTP-Method-Override and its kin: frameworks execute the method that it names. Some servers make no difference
// between `-` and `_`. A browser's Access-Control-Request-Method asks what would be allowed.
bool may_name_a_method(std::string_view header) {
  std::string name = lower_case(header);
  std::ranges::replace(name, '_', '-');
  return name.contains("method") && name != "access-control-request-method";
}

// GET, HEAD or OPTIONS, in any case, without a body and without a header that may name another method.
bool is_plain_read(const boost::json::object& with) {
  constexpr std::array<std::string_view, 3> reads{"get", "head", "options"};
  // Declared to write, whatever its method. The other way round it counts for nothing: what is declared not to write
  // passes the gate all the same, since a policy cannot judge what it does not see.
  if (const auto* writes = given(with, "writes"); writes && *writes != Json(false)) return false;
  if (given(with, "body")) return false;
  if (const auto* headers = given(with, "headers")) {
    const auto* map = headers->if_object();
    if (!map || std::ranges::any_of(*map, [](const auto& entry) { return may_name_a_method(entry.key()); }))
      return false;
  }
  const auto* method = given(with, "method");
  const auto* word = method ? method->if_string() : nullptr;
  return word && std::ranges::find(reads, lower_case(*word)) != reads.end();
}

// One that the model can only ask the caller to call. Any other type is executed by the provider: it searches the web,
// runs code, or calls servers of the workflow's choice.
bool is_called_by_us(const Json& tool) {
  const auto* object = tool.if_object();
  if (!object) return false;
  const auto* type = given(*object, "type");
  return !type || *type == Json("function") || *type == Json("custom");
}

// To the provider's own address, with tools that the caller executes itself, and without `options`, in which the
// provider may be told to call others. Another spelling of the address is another address.
bool is_plain_question(const boost::json::object& with) {
  constexpr std::array<std::string_view, 4> providers{"https://api.anthropic.com", "https://api.anthropic.com/v1",
                                                      "https://api.openai.com", "https://api.openai.com/v1"};
  if (given(with, "options")) return false;
  if (const auto* tools = given(with, "tools")) {
    const auto* list = tools->if_array();
    if (!list || !std::ranges::all_of(*list, is_called_by_us)) return false;
  }
  const auto* endpoint = given(with, "base_url");
  if (!endpoint) return true;
  const auto* text = endpoint->if_string();
  return text && std::ranges::find(providers, std::string_view(*text)) != providers.end();
}

bool is_read(const ToolSpec& spec, const JsonText& input) {
  auto value = parse_json(input);
  auto* with = value ? value->if_object() : nullptr;
  if (!with) return false;
  add_fallbacks(spec, *with);
  const bool asks_a_model = std::ranges::any_of(spec.keys, [](const ToolKey& key) { return key.name == "base_url"; });
  return asks_a_model ? is_plain_question(*with) : is_plain_read(*with);
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
