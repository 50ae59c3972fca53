#include "providers/stepfunctions_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>

#include "core/json.h"

namespace pawl::providers::stepfunctions {
namespace {

using boost::json::object;
using Kind = Outcome::Kind;

constexpr std::array throttlings{std::string_view("ThrottlingException"), std::string_view("Throttling"),
                                 std::string_view("TooManyRequestsException"),
                                 std::string_view("RequestLimitExceeded")};
// Not now, but perhaps later.
constexpr std::array passing{std::string_view("ExecutionLimitExceeded"), std::string_view("KmsThrottlingException"),
                             std::string_view("ServiceUnavailable"), std::string_view("InternalFailure"),
                             std::string_view("RequestExpired")};

bool is_one_of(std::string_view name, const auto& names) { return std::ranges::find(names, name) != names.end(); }

std::int64_t number_in(const object& in, std::string_view key) {
  const Json* value = in.if_contains(key);
  return value && value->is_int64() ? value->get_int64() : 0;
}

std::optional<object> object_of(std::string_view body) {
  auto value = parse_json(body);
  return value && value->is_object() ? std::optional(std::move(value->get_object())) : std::nullopt;
}

std::string joined(const std::string& error, const std::string& cause) {
  return error + (error.empty() || cause.empty() ? "" : ": ") + cause;
}

// Which member holds the details depends on the type: taskFailedEventDetails, activityTimedOutEventDetails.
std::string failure_of(const object& event) {
  for (const auto& [key, value] : event)
    if (value.is_object() && (key.ends_with("FailedEventDetails") || key.ends_with("TimedOutEventDetails")))
      return joined(text_in(value.get_object(), "error"), text_in(value.get_object(), "cause"));
  return {};
}

}  // namespace

// "com.amazonaws.states#ExecutionDoesNotExist:http://..." is ExecutionDoesNotExist.
std::string error_of(const Response& response) {
  if (response.is_ok()) return {};
  auto body = object_of(response.body);
  std::string type = body ? text_in(*body, "__type") : std::string();
  if (auto hash = type.find('#'); hash != type.npos) type.erase(0, hash + 1);
  return type.substr(0, type.find(':'));
}

std::string message_of(const Response& response) {
  if (response.status == 0) return "Step Functions: " + response.problem;
  auto body = object_of(response.body);
  std::string said = body ? text_in(*body, "message") : std::string();
  if (said.empty() && body) said = text_in(*body, "Message");
  return fmt::format("Step Functions: {} {}{}{}", response.status, error_of(response), said.empty() ? "" : ": ", said);
}

bool is_throttling(const Response& response) {
  return response.status == 429 || is_one_of(error_of(response), throttlings);
}

bool may_be_asked_again(const Response& response) {
  return response.status == 0 || response.status >= 500 || is_throttling(response) ||
         is_one_of(error_of(response), passing);
}

Outcome outcome_of(const Response& response) {
  if (response.is_ok()) return {};
  return {may_be_asked_again(response) ? Kind::unreachable : Kind::refused, message_of(response)};
}

std::string read_started(std::string_view body) {
  auto answer = object_of(body);
  return answer ? text_in(*answer, "executionArn") : std::string();
}

std::optional<Execution> read_execution(std::string_view body) {
  auto answer = object_of(body);
  Execution out;
  if (answer) out.status = text_in(*answer, "status");
  if (out.status.empty()) return std::nullopt;
  out.input = text_in(*answer, "input");
  // A string that holds JSON, as they come.
  std::string output = text_in(*answer, "output");
  out.output = output.size() <= foreign_output_bytes_max && parse_json(output) ? std::move(output) : "null";
  out.failure = joined(text_in(*answer, "error"), text_in(*answer, "cause"));
  return out;
}

std::optional<HistoryPage> read_history_page(std::string_view body) {
  auto answer = object_of(body);
  const Json* events = answer ? answer->if_contains("events") : nullptr;
  if (!events || !events->is_array()) return std::nullopt;
  HistoryPage out{.events = {}, .next = text_in(*answer, "nextToken")};
  for (const Json& each : events->get_array()) {
    if (!each.is_object()) continue;
    const object& event = each.get_object();
    out.events.push_back(
        {number_in(event, "id"), number_in(event, "previousEventId"), text_in(event, "type"), failure_of(event)});
  }
  return out;
}

std::optional<ExecutionsPage> read_executions_page(std::string_view body) {
  auto answer = object_of(body);
  const Json* executions = answer ? answer->if_contains("executions") : nullptr;
  if (!executions || !executions->is_array()) return std::nullopt;
  ExecutionsPage out{.executions = {}, .next = text_in(*answer, "nextToken")};
  for (const Json& each : executions->get_array())
    if (each.is_object()) out.executions.push_back(text_in(each.get_object(), "executionArn"));
  return out;
}

ListedText cut_token(std::string_view body) {
  constexpr std::string_view key = "\"nextToken\"";
  auto at = body.rfind(key);
  if (at == body.npos) return {body, {}, {}};
  at = body.find_first_not_of(": \t\r\n", at + key.size());
  if (at == body.npos || body[at] != '"') return {body, {}, {}};
  const auto end = body.find('"', ++at);
  if (end == body.npos) return {body, {}, {}};
  return {body.substr(0, at), body.substr(at, end - at), body.substr(end)};
}

std::size_t ListedText::hash() const {
  const std::hash<std::string_view> hash;
  return hash(before) * 31 + hash(after);
}

bool is_same_json(const std::string& a, const std::string& b) {
  auto one = parse_json(a), other = parse_json(b);
  return one && other && canonical(*one) == canonical(*other);
}

}  // namespace pawl::providers::stepfunctions
