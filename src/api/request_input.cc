#include "api/request_input.h"

#include <algorithm>
#include <charconv>

#include "core/characters.h"

namespace pawl::api {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string listed(std::span<const std::string_view> words) {
  std::string out;
  for (std::string_view word : words) (out += out.empty() ? "" : ", ") += word;
  return out.empty() ? "none" : out;
}

}  // namespace

void refuse_input(std::string where, std::string detail) {
  throw Problem{.status = 400, .code = "INVALID_REQUEST", .detail = std::move(detail), .where = std::move(where)};
}

void refuse_cursor() { refuse_input("cursor", "It must be the next_cursor of an earlier page of this list."); }

std::optional<std::string> percent_decode(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

std::optional<std::string> idempotency_key(const Request& request) {
  auto found = std::ranges::find(request.headers, "idempotency-key", &Headers::value_type::first);
  if (found == request.headers.end()) return std::nullopt;
  // Whoever sends one that is empty, by a variable that was not set as a rule, believes that a repeat is safe.
  std::string_view key = found->second;
  bool printable = std::ranges::all_of(key, [](char c) { return c >= 0x20 && c < 0x7f; });
  if (key.empty() || key.size() > idempotency_key_chars_max || !printable)
    refuse_input("idempotency-key", "The key must be 1 to 255 visible ASCII characters.");
  return std::string(key);
}

Query::Query(std::string_view text) {
  while (!text.empty()) {
    std::string_view pair = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), pair.size() + 1));
    if (pair.empty()) continue;
    std::size_t equals = std::min(pair.find('='), pair.size());
    std::string raw(pair.substr(std::min(pair.size(), equals + 1)));
    std::ranges::replace(raw, '+', ' ');
    auto key = percent_decode(pair.substr(0, equals));
    auto value = percent_decode(raw);
    if (!key || !value || find_invalid_utf8(*key) || find_invalid_utf8(*value))
      refuse_input("query", "The query must be UTF-8, with two hexadecimal digits after each %.");
    if (!values_.emplace(*key, *value).second) refuse_input(*key, "The parameter is given twice.");
  }
}

void Query::only(std::initializer_list<std::string_view> known) const {
  for (const auto& [name, value] : values_)
    if (std::ranges::find(known, name) == known.end())
      refuse_input(name, "There is no such parameter here; there are: " + listed({known.begin(), known.size()}) + ".");
}

const std::string* Query::find(std::string_view name) const {
  auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

bool Query::flag(std::string_view name) const {
  const std::string* text = find(name);
  if (text && *text != "true" && *text != "false") refuse_input(std::string(name), "It must be true or false.");
  return text && *text == "true";
}

std::uint64_t Query::number(std::string_view name, std::uint64_t otherwise, std::uint64_t max) const {
  const std::string* text = find(name);
  if (!text) return otherwise;
  std::uint64_t value = 0;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value == 0 || value > max)
    refuse_input(std::string(name), "It must be a whole number from 1 to " + std::to_string(max) + ".");
  return value;
}

Input Input::parse(const Request& request) {
  static const boost::json::object nothing;
  if (request.body.empty()) return Input(nothing, "");
  auto value = parse_json(request.body);
  if (!value)
    throw Problem{.status = 400, .code = "INVALID_JSON", .detail = "The body is not JSON: " + value.error() + "."};
  if (!value->is_object()) refuse_input("", "The body must be a JSON object.");
  auto owned = std::make_shared<Json>(std::move(*value));
  Input out(owned->get_object(), "");
  out.owned_ = std::move(owned);
  return out;
}

void Input::refuse(std::string_view key, std::string_view why) const {
  refuse_input(place_ + "/" + std::string(key), "`" + std::string(key) + "` " + std::string(why) + ".");
}

void Input::refuse_word(std::string_view key, std::span<const std::string_view> words) const {
  refuse(key, "must be one of " + listed(words));
}

void Input::only(std::span<const std::string_view> known) const {
  for (const auto& member : *object_)
    if (std::ranges::find(known, std::string_view(member.key())) == known.end())
      refuse_input(place_ + "/" + std::string(member.key()),
                   "There is no such key here; there are: " + listed(known) + ".");
}

const Json* Input::find(std::string_view key) const {
  const Json* value = object_->if_contains(key);
  return value && !value->is_null() ? value : nullptr;
}

bool Input::is_null(std::string_view key) const {
  const Json* value = object_->if_contains(key);
  return value && value->is_null();
}

JsonText Input::json(std::string_view key, JsonText otherwise, std::size_t bytes_max,
                     std::string_view too_large) const {
  const Json* value = find(key);
  if (!value) return otherwise;
  JsonText text = canonical(*value);
  if (text.size() > bytes_max)
    throw Problem{.status = 413,
                  .code = std::string(too_large),
                  .detail = "`" + std::string(key) + "` has " + std::to_string(text.size()) + " bytes and may have " +
                            std::to_string(bytes_max) + ". Store it elsewhere, and say here where it lies.",
                  .where = place_ + "/" + std::string(key)};
  return text;
}

std::string Input::text(std::string_view key, std::size_t chars_max) const {
  const Json* value = find(key);
  if (!value) refuse(key, "is missing");
  if (!value->is_string()) refuse(key, "must be a string");
  if (value->get_string().size() > chars_max)
    refuse(key, "is longer than " + std::to_string(chars_max) + " characters");
  return std::string(value->get_string());
}

std::string Input::text_or(std::string_view key, std::string otherwise, std::size_t chars_max) const {
  return has(key) ? text(key, chars_max) : std::move(otherwise);
}

std::string Input::name(std::string_view key) const {
  std::string value = text(key);
  if (!is_valid_name(value))
    refuse(key, "must begin with a letter or digit, then may hold . _ and -, 64 characters at most");
  return value;
}

std::optional<bool> Input::flag(std::string_view key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_bool()) refuse(key, "must be true or false");
  return value->get_bool();
}

std::optional<std::int64_t> Input::number(std::string_view key, std::int64_t min, std::int64_t max) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_int64() || value->get_int64() < min || value->get_int64() > max)
    refuse(key, "must be a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  return value->get_int64();
}

std::optional<Duration> Input::duration(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  auto value = parse_duration(text(key));
  if (!value) refuse(key, "must be a duration like 90s, 15m or 4h");
  return value;
}

std::optional<Duration> Input::positive_duration(std::string_view key) const {
  auto value = duration(key);
  if (value && value->count() == 0) refuse(key, "must be longer than nothing, like 90s, 15m or 4h");
  return value;
}

std::optional<Money> Input::money(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  auto value = parse_money(text(key));
  if (!value) refuse(key, "must be an amount in a string, like \"2.50\"");
  return value;
}

std::optional<Instant> Input::moment(std::string_view key) const {
  if (!has(key)) return std::nullopt;
  auto value = parse_time(text(key));
  if (!value) refuse(key, "must be a time like 2026-11-16T02:21:57Z");
  return value;
}

void Input::each(std::string_view key, std::size_t count_max, const std::function<void(const Input&)>& visit,
                 const std::function<void(const Problem&, const Json& item)>& refused) const {
  const Json* value = find(key);
  if (!value) refuse(key, "is missing");
  if (!value->is_array()) refuse(key, "must be a list");
  const auto& items = value->get_array();
  if (items.size() > count_max) refuse(key, "has more than " + std::to_string(count_max) + " items");
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::string place = place_ + "/" + std::string(key) + "/" + std::to_string(i);
    try {
      if (!items[i].is_object()) refuse_input(place, "Each item must be an object.");
      visit(Input(items[i].get_object(), std::move(place)));
    } catch (const Problem& problem) {
      refused(problem, items[i]);
    }
  }
}

}  // namespace pawl::api
