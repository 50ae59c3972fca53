#include "tools/agent_outcome.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cerrno>
#include <system_error>

#include "core/diagnostic.h"
#include "tools/outcome.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;
using boost::json::object;

constexpr std::size_t agent_result_bytes_max = step_output_bytes_max / 2;
constexpr std::size_t agent_message_bytes_max = 1000;

// The file is the agent's: it may be anything, of any size, or lead elsewhere.
std::optional<std::string> read_question_file(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  std::string text(question_bytes_max + 1, '\0');
  const auto got = ::pread(file.get(), text.data(), text.size(), 0);
  if (got < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(got));
  return text;
}

std::optional<JsonText> find_question(const fs::path& logs, const AgentSession& session) {
  std::optional<std::string> text = read_question_file(logs / question_file);
  if (!text) text = read_question_file(logs / "ask" / question_file);
  if (!text) return std::nullopt;
  auto parsed = parse_json(*text);
  // Not JSON, or too long to be kept: the words are what counts.
  if (!parsed || parsed->is_null() || text->size() > question_bytes_max - 1024)
    parsed = object{{"text", head_of(repaired_utf8(*text), question_bytes_max / 8)}};
  if (auto* map = parsed->if_object(); map && !map->contains("session_id")) (*map)["session_id"] = session.id;
  return canonical(*parsed);
}

std::string how_it_ended(const AgentEnd& end) {
  if (!end.status) return "did not end";
  return WIFSIGNALED(*end.status) ? fmt::format("was killed by signal {}", WTERMSIG(*end.status))
                                  : fmt::format("exited with {}", WEXITSTATUS(*end.status));
}

bool may_pass(const AgentStory& story) {
  const auto status = story.result->api_error_status;
  if (status == 429 || (status >= 500 && status < 600)) return true;
  return status == 0 &&
         (story.last_error == "rate_limit" || story.last_error == "overloaded" || story.last_error == "server_error");
}

bool is_over_budget(const AgentStory::Result& result) {
  return result.subtype == "error_max_budget_usd" || result.terminal_reason == "budget_exhausted";
}

std::string denied_tools(const AgentSession& session) {
  std::string out;
  for (const AgentDenial& denial : session.denials) out += (out.empty() ? "" : ", ") + denial.tool;
  if (session.denials_left_out > 0) out += fmt::format(" and {} more", session.denials_left_out);
  return out;
}

boost::json::array denial_list(const AgentSession& session) {
  boost::json::array out;
  for (const AgentDenial& denial : session.denials)
    out.push_back(object{{"tool", denial.tool}, {"input", value_of(denial.input)}});
  return out;
}

Failed agent_failed(std::string message, std::optional<bool> retryable, const AgentEnd& end) {
  auto failed = failure("AGENT_FAILED", std::move(message));
  failed.retryable = retryable;
  // One that ends by itself and says that it failed is believed. One that was killed said nothing.
  failed.is_harmless = end.status && WIFEXITED(*end.status);
  return failed;
}

}  // namespace

Failed over_budget(const Money& spent, const std::optional<Money>& budget) {
  auto failed = failure(
      "AGENT_BUDGET_EXCEEDED",
      budget ? fmt::format("the agent has spent {} USD; {} were allowed", print_money(spent), print_money(*budget))
             : fmt::format("the agent has spent {} USD and says that its budget is exhausted", print_money(spent)));
  failed.is_harmless = true;  // it is known how it ended; what it was allowed to do has receipts of its own
  return failed;
}

Failed without_tools(const std::string& program, const std::string& server) {
  auto failed =
      failure("AGENT_FAILED",
              fmt::format("{} could not connect to pawl's tools, without which it would act unasked; see that {} "
                          "is there and can be run, or say mcp: false",
                          program, server));
  failed.retryable = true;
  failed.is_harmless = true;  // it is known how it ended
  return failed;
}

Failed could_not_start(const SpawnError& error, const std::string& program) {
  const auto reason = std::generic_category().message(error.error);
  const bool is_ours = error.stage == SpawnError::Stage::resources || error.error == ENOMEM || error.error == EAGAIN;
  auto failed = is_ours ? failure("AGENT_FAILED", fmt::format("could not start {}: {}", program, reason))
                        : invalid_arguments(fmt::format("{} cannot be run: {}", program, reason));
  failed.is_harmless = true;
  return failed;
}

ToolResult AgentOutcome::completed(const AgentStory::Result& result) const {
  object output{{"result", head_of(result.text, agent_result_bytes_max)},
                {"session_id", session.id},
                {"cost_usd", print_money(end.cost)},
                {"num_turns", end.story.turns},
                {"logs", object{{"folder", log_name}, {"streams", boost::json::array{"stdout", "stderr"}}}}};
  const auto usage = parse_json(end.story.usage);
  output["usage"] = usage ? *usage : Json(object{});
  if (!result.output.empty())
    if (auto given = parse_json(result.output); given && nests_within(*given, json_depth_max - 2))
      output["output"] = std::move(*given);
  if (result.text.size() > agent_result_bytes_max) output["result_is_cut"] = true;
  if (!session.denials.empty()) output["permission_denials"] = denial_list(session);
  return Completed{.output = wanted.secrets.scrubber.json(canonical(Json(std::move(output)))), .cost = {}};
}

ToolResult AgentOutcome::decide() const {
  using How = AgentEnd::How;
  const auto& result = end.story.result;
  if (end.how == How::stopped) return stopped();
  if (end.how == How::over_budget || (result && is_over_budget(*result)))
    return over_budget(session.spent, wanted.budget);
  if (end.how == How::without_tools) return without_tools(program, own_program);
  const bool exited_well =
      end.how == How::lingered || (end.status && WIFEXITED(*end.status) && WEXITSTATUS(*end.status) == 0);
  if (result && result->is_error) return said_error(*result);
  if (exited_well)
    if (auto question = find_question(logs, session)) return Asked{wanted.secrets.scrubber.json(*question)};
  if (!result) return no_result();
  if (!exited_well)
    return agent_failed(with_stderr(fmt::format("{} said that it succeeded and {}", program, how_it_ended(end))), true,
                        end);
  if (!result->deferred_tool.empty() || result->terminal_reason == "tool_deferred" ||
      result->stop_reason == "tool_deferred")
    return deferred(*result);
  return completed(*result);
}

ToolResult AgentOutcome::said_error(const AgentStory::Result& result) const {
  std::string message = result.text.empty() ? fmt::format("{} ended with {}", program, result.subtype) : result.text;
  if (result.api_error_status > 0) message += fmt::format(" (status {})", result.api_error_status);
  if (!end.story.last_error.empty()) message += fmt::format(" ({})", end.story.last_error);
  if (!session.denials.empty()) message += fmt::format("; it was not permitted to use {}", denied_tools(session));
  auto failed = agent_failed(wanted.secrets.scrubber.text(head_of(message, agent_message_bytes_max)),
                             result.retryable ? *result.retryable : may_pass(end.story), end);
  if (!result.error_code.empty()) failed.error_code = result.error_code.substr(0, diagnostic_code_chars_max);
  return failed;
}

ToolResult AgentOutcome::no_result() const {
  const bool never_ran = end.status && WIFEXITED(*end.status) && end.story.lines == 0 &&
                         (WEXITSTATUS(*end.status) == 126 || WEXITSTATUS(*end.status) == 127);
  auto message = with_stderr(fmt::format("{} {} without a result", program, how_it_ended(end)));
  if (never_ran) return invalid_arguments(std::move(message));
  return agent_failed(std::move(message), true, end);
}

ToolResult AgentOutcome::deferred(const AgentStory::Result& result) const {
  const auto tool = parse_json(result.deferred_tool);
  return Asked{wanted.secrets.scrubber.json(canonical(object{{"kind", "tool_deferred"},
                                                             {"text", "The agent waits for a decision on this call."},
                                                             {"tool", tool ? *tool : Json(nullptr)},
                                                             {"session_id", session.id}}))};
}

std::string AgentOutcome::with_stderr(std::string message) const {
  if (!end.stderr_tail.empty()) message += ": " + tail_of(end.stderr_tail, agent_message_bytes_max);
  return message;
}

}  // namespace pawl
