// What agents say, as it comes out of their pipes, and what clients say to /mcp.
#include "api/mcp.h"
#include "core/json.h"
#include "fuzz.h"
#include "tools/agent_stream.h"

namespace pawl::fuzz {
namespace {

std::string told(const AgentStory& story) {
  std::string out = story.session_id + "|" + story.usage + "|" + std::to_string(story.turns) + "|" + story.last_error +
                    "|" + std::to_string(story.lines) + "|" + std::to_string(story.lines_broken) + "|" +
                    (story.total_cost ? print_money(*story.total_cost) : "none");
  if (story.result) out += "|" + story.result->subtype + "|" + story.result->text + "|" + story.result->output;
  return out;
}

void check_stream(AgentDialect dialect, std::string_view input) {
  AgentStream whole(dialect);
  whole.feed(input);
  whole.finish();
  const auto& cost = whole.story().total_cost;
  check(!cost || cost->micros >= 0, "a cost is not negative");
  const std::string as_one = told(whole.story());
  for (const std::size_t piece : {1UL, 7UL, 64UL}) {
    AgentStream pieces(dialect);
    for (std::size_t at = 0; at < input.size(); at += piece) pieces.feed(input.substr(at, piece));
    pieces.finish();
    check_equal(told(pieces.story()), as_one, "a stream reads the same however it is cut");
  }
}

}  // namespace

FUZZ_TARGET(agents) {
  check_stream(AgentDialect::claude, input);
  check_stream(AgentDialect::plain, input);

  http::Request request;
  request.body = input;
  for (const auto* method : {"", "tools/call"}) {
    if (*method)
      request.headers = {{"mcp-protocol-version", "2026-07-28"}, {"mcp-method", method}, {"mcp-name", "get_status"}};
    const auto understood = api::mcp::understand(request);
    if (const auto* answer = std::get_if<api::mcp::Answer>(&understood)) {
      check(answer->status == 202 || answer->body.has_value(), "whoever asks is answered");
      if (answer->body)
        check(answer->body->contains("result") != answer->body->contains("error"), "an answer is one or the other");
    } else {
      check(!std::get<api::mcp::ToolCall>(understood).name.empty(), "a call names its tool");
    }
  }
}

}  // namespace pawl::fuzz
