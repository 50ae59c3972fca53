#include "core/action.h"

#include <algorithm>
#include <boost/json/object.hpp>

namespace pawl {
namespace {

std::unexpected<std::string> wrong(std::string_view member, std::string_view reason) {
  return std::unexpected("`" + std::string(member) + "` " + std::string(reason));
}

std::expected<void, std::string> check_name(std::string_view member, const std::string& name) {
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const auto may_stand = [&](char c) { return is_word(c) || c == '.' || c == '_' || c == '-'; };
  if (!name.empty() && is_word(name.front()) && std::ranges::all_of(name, may_stand)) return {};
  return wrong(member,
               "may only have the letters a-z in lower case, digits, . _ and -, and begins with one of the first "
               "two: rules and freezes compare it exactly");
}

std::expected<void, std::string> check_text(std::string_view member, const std::string& text, std::size_t chars_max) {
  if (text.empty()) return wrong(member, "must not be empty");
  if (text.size() > chars_max) return wrong(member, "is longer than " + std::to_string(chars_max) + " bytes");
  return {};
}

std::expected<void, std::string> check_sizes(const Action& action) {
  if (auto checked = check_text("connector", action.connector, action_name_chars_max); !checked) return checked;
  if (auto checked = check_text("operation", action.operation, action_name_chars_max); !checked) return checked;
  if (auto checked = check_text("target", action.target, action_target_chars_max); !checked) return checked;
  if (auto checked = check_text("idempotency_key", action.idempotency_key, action_key_chars_max); !checked)
    return checked;
  if (action.fields.size() > action_fields_bytes_max)
    return wrong("fields", "are larger than " + std::to_string(action_fields_bytes_max) + " bytes");
  return {};
}

}  // namespace

JsonText print_action(const Action& action) {
  std::string out;
  out.reserve(128 + action.target.size() + action.fields.size() + action.idempotency_key.size());
  out += R"({"connector":)";
  append_json_string(out, action.connector);
  out += R"(,"fields":)";
  out += action.fields;
  out += R"(,"idempotency_key":)";
  append_json_string(out, action.idempotency_key);
  out += R"(,"operation":)";
  append_json_string(out, action.operation);
  out += R"(,"risk":")";
  out += to_string(action.risk);
  out += R"(","target":)";
  append_json_string(out, action.target);
  out += '}';
  return out;
}

std::expected<Action, std::string> read_action(const Json& value) {
  if (!value.is_object()) return std::unexpected("an action is an object");
  Action action;
  for (const auto& [key, member] : value.get_object()) {
    auto text = [&]() -> std::expected<std::string, std::string> {
      if (!member.is_string()) return wrong(key, "must be text");
      return std::string(member.get_string());
    };
    std::string* into = key == "connector"         ? &action.connector
                        : key == "operation"       ? &action.operation
                        : key == "target"          ? &action.target
                        : key == "idempotency_key" ? &action.idempotency_key
                                                   : nullptr;
    if (into) {
      auto given = text();
      if (!given) return std::unexpected(given.error());
      *into = std::move(*given);
    } else if (key == "risk") {
      auto given = text();
      auto risk = given ? parse_enum<Tier>(*given) : std::nullopt;
      if (!risk) return wrong(key, "must be low, med or high");
      action.risk = *risk;
    } else if (key == "fields") {
      if (!member.is_object()) return wrong(key, "must be an object");
      action.fields = canonical(member);
    } else {
      return wrong(key, "is not a member of an action");
    }
  }
  if (auto checked = check_sizes(action); !checked) return std::unexpected(checked.error());
  return action;
}

bool is_same_effect(const Action& a, const Action& b) {
  return a.connector == b.connector && a.operation == b.operation && a.target == b.target && a.fields == b.fields &&
         a.idempotency_key == b.idempotency_key;
}

std::expected<void, std::string> check_action(const Action& action) {
  if (auto checked = check_sizes(action); !checked) return checked;
  if (auto checked = check_name("connector", action.connector); !checked) return checked;
  return check_name("operation", action.operation);
}

}  // namespace pawl
