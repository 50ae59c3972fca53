// What Restate answers, read. Nothing here trusts what it reads: an answer that is none is nothing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "providers/provider.h"
#include "providers/transport.h"

namespace pawl::providers::restate {

// For people.
std::string message_of(const Response& response);
bool may_be_asked_again(const Response& response);
Outcome outcome_of(const Response& response, std::string done = {});

// inv_..., and nothing that would need to be quoted.
bool is_id(std::string_view text);

// One member of an object; empty when there is none that is text.
std::string read_text(std::string_view body, std::string_view key);

// A row of sys_invocation.
inline constexpr std::string_view columns =
    "id, status, retry_count, next_retry_at, last_failure, completion_result, completion_failure, modified_at";
struct Invocation {
  std::string id;
  std::string modified_at;
  Sighting sighting;  // whose run is for others to say
};
// Of a query; nothing when it is no answer to one.
std::optional<std::vector<Invocation>> read_rows(std::string_view body);

// An output is any bytes; what is JSON is kept as it is, other text as text.
JsonText read_output(const std::string& body);

}  // namespace pawl::providers::restate
