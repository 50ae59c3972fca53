#include "providers/restate_answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>

#include "core/json.h"
#include "core/time.h"

namespace pawl::providers::restate {
namespace {

using boost::json::object;
using Kind = Outcome::Kind;

constexpr std::size_t said_bytes_max = 500;

// Restate has one word for every end; how it ended stands beside it.
std::string word_of(const object& row) {
  std::string status = text_in(row, "status");
  if (status != "completed") return status;
  const std::string result = text_in(row, "completion_result");
  if (result == "success") return status;
  if (result != "failure") return "completed without a result";
  const std::string failure = text_in(row, "completion_failure");
  if (failure.starts_with("[409] Cancelled") || failure.starts_with("[409] canceled")) return "cancelled";
  if (failure.starts_with("[409] killed")) return "killed";
  return "failed";
}

Sighting read_row(const object& row) {
  Sighting out{.run = {}, .word = word_of(row)};
  out.last_failure = text_in(row, "last_failure");
  if (auto end = out.last_failure.find('\n'); end != std::string::npos) out.last_failure.resize(end);
  out.failure = text_in(row, "completion_failure");
  if (out.word == "running" && !out.last_failure.empty()) out.sign = Sign::after_failure;
  if (const Json* count = row.if_contains("retry_count"); count && count->is_int64() && count->get_int64() > 1)
    out.retries = static_cast<int>(std::min<std::int64_t>(count->get_int64() - 1, INT32_MAX));
  if (auto at = parse_time(text_in(row, "next_retry_at"))) out.next_retry_at = *at;
  return out;
}

}  // namespace

// What Restate says of a request that it did not do.
std::string message_of(const Response& response) {
  if (response.status == 0) return response.problem;
  auto value = parse_json(response.body);
  std::string said = value && value->is_object() ? text_in(value->get_object(), "message") : std::string();
  return fmt::format("{} {}", response.status, kept_text(said.empty() ? response.body : said, said_bytes_max));
}

bool may_be_asked_again(const Response& response) {
  return response.status == 0 || response.status >= 500 || response.status == 429 || response.status == 408;
}

Outcome outcome_of(const Response& response, std::string done) {
  if (response.is_ok()) return {Kind::done, std::move(done)};
  return {may_be_asked_again(response) ? Kind::unreachable : Kind::refused, "Restate: " + message_of(response)};
}

bool is_id(std::string_view text) {
  auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return text.starts_with("inv_") && std::ranges::all_of(text, is_plain);
}

std::string read_text(std::string_view body, std::string_view key) {
  auto value = parse_json(body);
  return value && value->is_object() ? text_in(value->get_object(), key) : std::string();
}

std::optional<std::vector<Invocation>> read_rows(std::string_view body) {
  auto value = parse_json(body);
  const Json* rows = value && value->is_object() ? value->get_object().if_contains("rows") : nullptr;
  if (!rows || !rows->is_array()) return std::nullopt;
  std::vector<Invocation> out;
  for (const Json& each : rows->get_array()) {
    if (!each.is_object()) continue;
    const object& row = each.get_object();
    out.push_back({text_in(row, "id"), text_in(row, "modified_at"), read_row(row)});
  }
  return out;
}

JsonText read_output(const std::string& body) {
  if (body.size() > foreign_output_bytes_max) return "null";
  if (parse_json(body)) return body;
  std::string text;
  append_json_string(text, body);
  return parse_json(text) ? text : "null";
}

}  // namespace pawl::providers::restate
