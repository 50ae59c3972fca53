#include "tools/agent_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace pawl {
namespace {

using boost::json::object;

constexpr std::array passed_to_claude{"ANTHROPIC_API_KEY",
                                      "ANTHROPIC_AUTH_TOKEN",
                                      "ANTHROPIC_BASE_URL",
                                      "CLAUDE_CODE_OAUTH_TOKEN",
                                      "CLAUDE_CONFIG_DIR",
                                      "HTTPS_PROXY",
                                      "NO_PROXY"};
// Of these, what must not stand in a log.
constexpr std::array secrets_of_claude{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"};
constexpr std::array<std::string_view, 7> permission_modes{
    "acceptEdits", "auto", "bypassPermissions", "manual", "dontAsk", "plan", "default"};

constexpr std::string_view continue_prompt =
    "You were interrupted before you had finished. Continue where you left off. If an action that you proposed was "
    "held "
    "back for a decision, propose exactly it again: it has been decided.";
constexpr std::string_view base_prompt =
    "You work for pawl, which keeps a record of what you do. When you cannot go on without a person, {}write your "
    "question "
    "as JSON, such as {{\"text\": \"...\", \"options\": [\"...\"]}}, to the file that the environment variable "
    "PAWL_QUESTION_FILE names, and end your turn: you will be resumed with the answer.";
// The CLI reads neither when settings of the folder do not count.
constexpr std::string_view instructions_prompt =
    "\n\nBefore you begin, read the file CLAUDE.md or AGENTS.md in your folder if there is one: it says how to work "
    "there.";
constexpr std::string_view base_prompt_mcp =
    "call the tool ask_human of the MCP server pawl, and before any effect outside of your folder call propose_action "
    "and "
    "afterwards record_outcome. Without that server, ";

// Text as it is, anything else as JSON.
std::string as_text(const Json& value) {
  if (const auto* text = value.if_string()) return std::string(std::string_view(*text));
  return boost::json::serialize(value);
}

// What `env` holds where the template has an expression is a secret.
void note_secrets(AgentRequest& wanted, Arguments& with, const Lease& lease) {
  if (!lease.shown.empty()) {
    const auto shown = parse_json(lease.shown);
    const Json* names = shown && shown->is_object() ? shown->get_object().if_contains("env") : nullptr;
    for (const auto& [name, value] : with.text_map("env")) {
      const Json* as_shown = names && names->is_object() ? names->get_object().if_contains(name) : nullptr;
      if (as_shown && as_shown->is_string() && as_shown->get_string() != value) wanted.secrets.add(name, value);
    }
  }
  for (const char* name : secrets_of_claude)
    for (const std::string& entry : wanted.environment.entries())
      if (entry.starts_with(std::string(name) + "=") && entry.size() > std::string_view(name).size() + 1)
        wanted.secrets.add(name, std::string_view(entry).substr(std::string_view(name).size() + 1));
}

struct ClaudePermissions {
  std::string mode;
  std::vector<std::string> allowed_tools;
};

// A step that lists tools may use those and no others. One that says nothing can edit files in its folder, and, since a
// sandbox keeps commands there too, run commands in one: commands outside of a sandbox are somebody's explicit choice.
ClaudePermissions permissions_for(const AgentRequest& wanted, bool sandboxed) {
  if (wanted.permission_mode) return {*wanted.permission_mode, wanted.allowed_tools};
  if (!wanted.allowed_tools.empty()) return {"dontAsk", wanted.allowed_tools};
  std::vector<std::string> allowed;
  if (sandboxed) allowed.emplace_back("Bash");
  return {"acceptEdits", std::move(allowed)};
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : ",") + word;
  return out;
}

}  // namespace

std::string as_text(const JsonText& json) {
  const auto parsed = parse_json(json);
  return parsed ? as_text(*parsed) : json;
}

bool is_permission_mode(std::string_view text) {
  return std::ranges::find(permission_modes, text) != permission_modes.end();
}

AgentRequest read_agent_request(Arguments& with, const Lease& lease, const AgentContext& context,
                                const ProgramTerms& terms, AgentDialect dialect) {
  const bool is_claude = dialect == AgentDialect::claude;
  AgentRequest wanted;
  wanted.prompt = with.required_text("prompt");
  wanted.session = with.text("session_id").value_or("");
  wanted.resume = with.boolean("resume").value_or(false);
  if (const Json* answer = with.any("answer")) wanted.answer = as_text(*answer);
  wanted.budget = with.money("max_budget_usd");
  wanted.task = with.text("task_id").value_or("");
  wanted.folder = with.text("folder").value_or("");
  wanted.model = with.text("model").value_or("");
  wanted.mcp = with.boolean("mcp");
  // An agent that cannot reach its model can do nothing; whoever wants that says so.
  wanted.sandbox = read_sandbox(with, context, terms, {SandboxUse::auto_, is_claude});
  wanted.environment = read_environment(
      with, terms, is_claude ? std::span<const char* const>(passed_to_claude) : std::span<const char* const>());
  if (!wanted.resume && wanted.prompt.find_first_not_of(" \t\r\n") == std::string::npos)
    with.refuse("prompt", "is empty: say what the agent is to do");
  if (wanted.resume && wanted.session.empty()) with.refuse("session_id", "is required to resume one");
  if (!wanted.session.empty() && is_claude && !is_uuid(wanted.session)) with.refuse("session_id", "must be a UUID");
  if (wanted.budget && wanted.budget->micros == 0) with.refuse("max_budget_usd", "must be more than nothing");
  if (!wanted.folder.empty() && (!wanted.folder.starts_with('/') || has_nul(wanted.folder)))
    with.refuse("folder", "must be an absolute path");
  if (has_nul(wanted.model) || has_nul(wanted.task) || has_nul(wanted.session))
    with.refuse("model", "must not contain NUL, nor task_id or session_id");
  if (is_claude) {
    wanted.allowed_tools = with.text_list("allowed_tools");
    wanted.disallowed_tools = with.text_list("disallowed_tools");
    wanted.permission_mode = with.text("permission_mode");
    wanted.system_prompt = with.text("append_system_prompt").value_or("");
    wanted.turns_max = with.count("max_turns");
    wanted.project_settings = with.boolean("project_settings").value_or(false);
    if (wanted.permission_mode && !is_permission_mode(*wanted.permission_mode))
      with.refuse("permission_mode", "must be acceptEdits, auto, bypassPermissions, manual, dontAsk or plan");
  } else {
    wanted.command = with.text_list("command");
    if (wanted.command.empty() || wanted.command.front().empty())
      with.refuse("command", "is required, and must name a program");
    if (std::ranges::any_of(wanted.command, has_nul)) with.refuse("command", "must not contain NUL");
  }
  if (!with.refusal()) note_secrets(wanted, with, lease);
  return wanted;
}

std::vector<std::string> claude_command(const AgentContext& context, const AgentRequest& wanted,
                                        const AgentStart& start) {
  std::vector<std::string> argv{context.claude, "-p", "--output-format", "stream-json", "--verbose"};
  const auto add = [&](std::string_view flag, std::string value) {
    argv.emplace_back(flag);
    argv.push_back(std::move(value));
  };
  add(start.resumes ? "--resume" : "--session-id", start.session.id);
  if (start.budget_left) add("--max-budget-usd", print_money(*start.budget_left));
  if (!wanted.model.empty()) add("--model", wanted.model);
  const ClaudePermissions permissions = permissions_for(wanted, start.sandboxed);
  add("--permission-mode", permissions.mode);
  if (wanted.turns_max) add("--max-turns", std::to_string(*wanted.turns_max));
  auto allowed = permissions.allowed_tools;
  object servers;
  if (const auto& access = start.access) {
    allowed.push_back(fmt::format("mcp__{}", own_mcp_server));
    // The key itself stands in the environment only: arguments can be read by everybody on the machine.
    if (access->socket.empty())
      servers[own_mcp_server] = object{
          {"type", "http"}, {"url", access->url}, {"headers", object{{"Authorization", "Bearer ${PAWL_LEASE_KEY}"}}}};
    else
      servers[own_mcp_server] = object{{"type", "stdio"},
                                       {"command", context.program},
                                       {"args", boost::json::array{"mcp", "--socket", access->socket.string()}}};
  }
  if (!allowed.empty()) add("--allowedTools", joined(allowed));
  if (!wanted.disallowed_tools.empty()) add("--disallowedTools", joined(wanted.disallowed_tools));
  add("--mcp-config", boost::json::serialize(object{{"mcpServers", std::move(servers)}}));
  argv.emplace_back("--strict-mcp-config");
  // With -p the CLI does not ask whether the folder is trusted. Settings that lie in it would run commands (hooks) and
  // send the key elsewhere, whatever the agent itself may do.
  add("--setting-sources", wanted.project_settings ? "user,project,local" : "user");
  auto system = fmt::format(fmt::runtime(base_prompt), start.access ? base_prompt_mcp : std::string_view());
  if (!wanted.project_settings) system += instructions_prompt;
  if (!wanted.system_prompt.empty()) system += "\n\n" + wanted.system_prompt;
  add("--append-system-prompt", std::move(system));
  return argv;
}

// What the agent is told on stdin.
std::string message_for(const AgentRequest& wanted, const Lease& lease, bool resumes, bool is_first) {
  const auto answer = !lease.answer.empty() ? std::optional(as_text(lease.answer)) : wanted.answer;
  if (resumes && answer) return *answer;
  if (resumes) return is_first ? wanted.prompt : std::string(continue_prompt);
  auto message = wanted.prompt;
  // The session that asked is lost: what was asked and answered is told to the new one.
  if (answer && !lease.question.empty())
    message += fmt::format("\n\nYou have asked before: {}\nThe answer is: {}", as_text(lease.question), *answer);
  else if (answer)
    message += "\n\n" + *answer;
  return message;
}

}  // namespace pawl
