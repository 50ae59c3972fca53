#include "core/event_object.h"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>

#include "core/event.h"

namespace pawl {
namespace {

constexpr std::array maybe_payload_keys{
    std::string_view("answer"),   std::string_view("before"),   std::string_view("changes"),
    std::string_view("input"),    std::string_view("message"),  std::string_view("output"),
    std::string_view("question"), std::string_view("response"), std::string_view("result")};

// Whether the field holds JSON as text in events of this type. Some hold plain text in others.
bool is_payload(std::string_view type, std::string_view key) {
  if (key == "answer") return type == event_name(StepTrigger::answer);
  if (key == "message") return type == event_name(TaskTrigger::answer) || type == event_name(TaskTrigger::resume);
  return std::ranges::find(maybe_payload_keys, key) != maybe_payload_keys.end();
}

}  // namespace

Json shown_event(std::string_view line) {
  auto value = parse_json(line);
  if (!value || !value->is_object()) return Json(line);
  boost::json::object& event = value->get_object();
  const std::string type = text_in(event, "type");
  for (auto& [key, member] : event) {
    if (!member.is_string() || !is_payload(type, key)) continue;
    if (auto payload = parse_json(member.get_string())) member = std::move(*payload);
  }
  return std::move(*value);
}

std::string shown_event_text(std::string_view line) {
  // Most events carry no payload, and stand as they are.
  const bool may_have_payload = std::ranges::any_of(
      maybe_payload_keys, [&](std::string_view key) { return line.contains("\"" + std::string(key) + "\":\""); });
  return may_have_payload ? canonical(shown_event(line)) : std::string(line);
}

}  // namespace pawl
