#include "tools/arguments.h"

#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <limits>

#include "tools/outcome.h"

namespace pawl {

Arguments::Arguments(const JsonText& input) {
  auto parsed = parse_json(input);
  if (!parsed)
    refusal_ = invalid_arguments(fmt::format("the input is not JSON: {}", parsed.error()));
  else if (!parsed->is_object())
    refusal_ = invalid_arguments("the input must be a map");
  else
    values_ = std::move(*parsed);
}

const Json* Arguments::any(std::string_view key) const {
  const auto* map = values_.if_object();
  const Json* value = map ? map->if_contains(key) : nullptr;
  return value && !value->is_null() ? value : nullptr;
}

std::optional<std::string> Arguments::text(std::string_view key) {
  const Json* value = any(key);
  if (!value) return std::nullopt;
  if (const auto* text = value->if_string()) return std::string(std::string_view(*text));
  refuse(key, "must be text");
  return std::nullopt;
}

std::string Arguments::required_text(std::string_view key) {
  auto value = text(key);
  if (!value) refuse(key, "is required");
  return std::move(value).value_or("");
}

std::optional<bool> Arguments::boolean(std::string_view key) {
  const Json* value = any(key);
  if (!value) return std::nullopt;
  if (const auto* boolean = value->if_bool()) return *boolean;
  refuse(key, "must be true or false");
  return std::nullopt;
}

std::optional<int> Arguments::count(std::string_view key) {
  const Json* value = any(key);
  if (!value) return std::nullopt;
  const auto* number = value->if_int64();
  if (number && *number >= 0 && *number <= std::numeric_limits<int>::max()) return static_cast<int>(*number);
  refuse(key, "must be a whole number, not negative");
  return std::nullopt;
}

std::optional<Duration> Arguments::duration(std::string_view key) {
  const Json* value = any(key);
  if (!value) return std::nullopt;
  const auto* text = value->if_string();
  const auto span = text ? parse_duration(*text) : std::nullopt;
  if (!span) refuse(key, "must be a duration such as 90s, 15m or 1h30m of at most " + print_duration(duration_max));
  return span;
}

std::optional<Money> Arguments::money(std::string_view key) {
  const Json* value = any(key);
  if (!value) return std::nullopt;
  const auto* text = value->if_string();
  const auto amount = text ? parse_money(*text) : std::nullopt;
  if (!amount) refuse(key, "must be a decimal in quotes such as \"0.25\"");
  return amount;
}

std::vector<std::string> Arguments::text_list(std::string_view key) {
  const Json* value = any(key);
  if (!value) return {};
  std::vector<std::string> texts;
  if (const auto* list = value->if_array()) {
    for (const Json& item : *list) {
      const auto* text = item.if_string();
      if (!text) break;
      texts.emplace_back(std::string_view(*text));
    }
    if (texts.size() == list->size()) return texts;
  }
  refuse(key, "must be a list of texts");
  return {};
}

TextMap Arguments::text_map(std::string_view key) {
  const Json* value = any(key);
  if (!value) return {};
  TextMap texts;
  if (const auto* map = value->if_object()) {
    for (const auto& [name, item] : *map) {
      const auto* text = item.if_string();
      if (!text) break;
      texts.emplace_back(std::string_view(name), std::string_view(*text));
    }
    if (texts.size() == map->size()) return texts;
  }
  refuse(key, "must be a map of texts");
  return {};
}

void Arguments::refuse(std::string_view key, std::string_view reason) {
  if (!refusal_) refusal_ = invalid_arguments(fmt::format("`{}` {}", key, reason));
}

}  // namespace pawl
