// What an agent says on stdout while it works: one JSON object a line. Reads them as they come, in bounded memory, and
// keeps what decides the outcome: who it is, what it has cost, how it ended.
//
// Two dialects of one idea. That of the Claude Code CLI (--output-format stream-json) has some forty types of line;
// only `result`, what bears a session and what says why a call failed matter here. That of any other program
// (docs/agents.md) has `session`, `cost` and `result`. Whatever is not understood is skipped: a line that is no JSON
// ends nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/money.h"

namespace pawl {

// A result may be as long as a step's output; what is longer than this is no result.
inline constexpr std::size_t agent_line_bytes_max = std::size_t{4} << 20;

// Cuts a stream into lines. Holds at most one unfinished line, and of one that is too long nothing.
class LineSplitter {
 public:
  explicit LineSplitter(std::size_t line_bytes_max = agent_line_bytes_max) : line_bytes_max_(line_bytes_max) {}

  // Calls `take` with every line that ends in these bytes, without its end, and `skip` with every piece of a line that
  // is too long, and whether the line ends with it. The views are good during the call.
  template <class Take, class Skip>
  void feed(std::string_view bytes, Take take, Skip skip) {
    while (!bytes.empty()) {
      const auto end = bytes.find('\n');
      const auto part = bytes.substr(0, end);
      const bool is_end = end != bytes.npos;
      if (!is_skipping_ && unfinished_.size() + part.size() > line_bytes_max_) {
        is_skipping_ = true;
        ++lines_skipped_;
        skip(std::string_view(unfinished_), false);
        forget();
      }
      if (is_skipping_)
        skip(part, is_end);
      else if (is_end && unfinished_.empty())
        take(part);
      else
        unfinished_.append(part);
      if (!is_end) return;
      if (!unfinished_.empty()) take(std::string_view(unfinished_));
      is_skipping_ = false;
      forget();
      bytes.remove_prefix(end + 1);
    }
  }
  template <class Take>
  void feed(std::string_view bytes, Take take) {
    feed(bytes, take, [](std::string_view, bool) {});
  }
  // What a stream ends with that has no end of line: a whole line of a program that is sloppy, or half of one.
  template <class Take>
  void finish(Take take) {
    if (!unfinished_.empty()) take(std::string_view(unfinished_));
    forget();
  }
  std::uint64_t lines_skipped() const { return lines_skipped_; }

 private:
  void forget() {
    constexpr std::size_t kept_capacity_max = 64 << 10;
    unfinished_.clear();
    if (unfinished_.capacity() > kept_capacity_max) unfinished_.shrink_to_fit();
  }

  const std::size_t line_bytes_max_;
  std::string unfinished_;
  bool is_skipping_ = false;
  std::uint64_t lines_skipped_ = 0;
};

// What the CLI is told that pawl's own tools are called.
inline constexpr std::string_view own_mcp_server = "pawl";

enum class AgentDialect { claude, plain };

// A call of a tool that the agent was not permitted.
struct AgentDenial {
  std::string tool;
  JsonText input;  // cut to something short when it is long
};
inline constexpr std::size_t agent_denials_max = 20;

// All that the lines have said so far.
struct AgentStory {
  std::string session_id;
  bool has_begun = false;           // the session is there: it does more than say that it is not
  std::optional<Money> total_cost;  // as last reported, of the whole session as far as it reports it
  JsonText usage;                   // of the last report; empty when there was none
  std::int64_t turns = 0;

  struct Result {
    bool is_error = false;
    std::string subtype;
    std::string terminal_reason;
    std::string stop_reason;
    std::string text;
    JsonText output;         // plain dialect: what the program gives instead of text
    JsonText deferred_tool;  // a call that waits for a person
    std::int64_t api_error_status = 0;
    std::string error_code;  // plain dialect: in its own words
    std::optional<bool> retryable;
    std::vector<AgentDenial> denials;  // at most agent_denials_max
    std::size_t denials_left_out = 0;
  };
  std::optional<Result> result;  // the last one
  // Calls that were not permitted, as they came and without their input: all that a life without a result says of them.
  std::vector<AgentDenial> denials;  // at most agent_denials_max
  std::string last_error;            // of a call to the model: rate_limit, overloaded, ...
  bool has_lost_tools = false;       // it says that it could not connect to pawl's tools
  std::uint64_t lines = 0;
  std::uint64_t lines_broken = 0;
};

class AgentStream {
 public:
  explicit AgentStream(AgentDialect dialect) : dialect_(dialect) {}

  void feed(std::string_view bytes) {
    lines_.feed(bytes, [this](std::string_view line) { take(line); });
  }
  void finish() {
    lines_.finish([this](std::string_view line) { take(line); });
  }
  const AgentStory& story() const { return story_; }
  std::uint64_t lines_skipped() const { return lines_.lines_skipped(); }

 private:
  void take(std::string_view line);
  void take_object(const boost::json::object& line);

  const AgentDialect dialect_;
  LineSplitter lines_;
  AgentStory story_;
};

// 0.0123 or "0.0123"; nothing when it is neither, or negative.
std::optional<Money> reported_money(const Json& value);

}  // namespace pawl
