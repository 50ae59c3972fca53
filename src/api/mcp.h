// The Model Context Protocol, as far as a server of tools needs it: from a JSON-RPC message to what it asks for, and
// from the outcome to the answer. Knows no sockets and no engine.
//
// Two eras on one endpoint. A *legacy* client shakes hands (`initialize`, 2025-11-25 and before) and then asks; a
// *modern* one (2026-07-28) says with every request, in `_meta`, what it speaks, and asks `server/discover` when it is
// curious. No session is kept for either: each request stands for itself.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "core/json.h"
#include "http/message.h"

namespace pawl::api::mcp {

inline constexpr std::string_view modern_version = "2026-07-28";
inline constexpr std::string_view legacy_version = "2025-11-25";

enum class Era { legacy, modern };

// A request for a tool, or an answer that is ready.
struct ToolCall {
  Json id;
  Era era = Era::legacy;
  std::string name;
  boost::json::object arguments;
};

struct Answer {
  int status = 200;
  std::optional<boost::json::object> body;  // absent: nothing is said, as to a notification
};

// Tools that are `hidden` are not listed: whoever asks cannot use them. The arguments of a call fit the tool's schema;
// null for an optional one counts as left out.
std::variant<ToolCall, Answer> understand(const http::Request& request, std::span<const std::string_view> hidden = {});

// What became of a call.
struct ToolOutcome {
  bool is_error = false;
  boost::json::object content;
  std::string text;  // for the model; empty: the content
};
Answer answer_call(const ToolCall& call, ToolOutcome outcome);
// The arguments do not fit: a failure of the tool, which a model reads and can mend.
Answer refuse_arguments(const ToolCall& call, std::string_view why);
// The call itself does not fit: an unknown tool.
Answer refuse_call(const ToolCall& call, std::string_view why);

// For transports without headers, one message a line.
//
// What a client on HTTP says in headers, taken from the message.
http::Headers headers_for(std::string_view line);
// The answer as one line, without its end: what was answered to the line, be it by the protocol or before it came to
// that (a key that is not good). Empty when nothing is to be said.
std::string line_for(std::string_view line, int status, std::string_view body);
// Nobody could be asked.
std::string line_for_failure(std::string_view line, std::string_view why);

// In an order that never changes.
const boost::json::array& tools();

}  // namespace pawl::api::mcp
