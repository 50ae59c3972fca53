// agent.claude and agent.command: see agent.h for what they are, docs/agents.md for how they are used.
//
//   read -> session (new, or resumed) -> sandbox -> live -> outcome
//
// The outcome is decided by what the agent said last, before how it exited: see `outcome_of`.
#include "tools/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <set>

#include "core/diagnostic.h"
#include "tools/agent_run.h"
#include "tools/agent_session.h"
#include "tools/arguments.h"
#include "tools/confine.h"
#include "tools/environment.h"
#include "tools/outcome.h"
#include "tools/tools.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;
using boost::json::object;

constexpr std::size_t result_bytes_max = step_output_bytes_max / 2;
constexpr std::size_t message_bytes_max = 1000;
constexpr std::string_view question_name = "question.json";
constexpr std::array passed_to_claude{"ANTHROPIC_API_KEY",
                                      "ANTHROPIC_AUTH_TOKEN",
                                      "ANTHROPIC_BASE_URL",
                                      "CLAUDE_CODE_OAUTH_TOKEN",
                                      "CLAUDE_CONFIG_DIR",
                                      "HTTPS_PROXY",
                                      "NO_PROXY"};
// Of these, what must not stand in a log.
constexpr std::array secrets_of_claude{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"};
constexpr std::array permission_modes{"acceptEdits", "auto",   "bypassPermissions", "manual", "dontAsk",
                                      "plan",        "default"};

constexpr std::string_view continue_prompt =
    "You were interrupted before you had finished. Continue where you left off. If an action that you proposed was "
    "held "
    "back for a decision, propose exactly it again: it has been decided.";
constexpr std::string_view house_prompt =
    "You work for pawl, which keeps a record of what you do. When you cannot go on without a person, {}write your "
    "question "
    "as JSON, such as {{\"text\": \"...\", \"options\": [\"...\"]}}, to the file that the environment variable "
    "PAWL_QUESTION_FILE names, and end your turn: you will be resumed with the answer.";
constexpr std::string_view house_prompt_mcp =
    "call the tool ask_human of the MCP server pawl, and before any effect outside of your folder call propose_action "
    "and "
    "afterwards record_outcome. Without that server, ";

struct Wanted {
  std::string prompt;
  std::string session;
  bool resume = false;
  std::optional<std::string> answer;
  std::optional<Money> budget;
  std::string task;
  std::string folder;
  std::string model;
  std::optional<bool> mcp;
  SandboxWish sandbox;
  Environment environment;
  LogSecrets secrets;
  // agent.command
  std::vector<std::string> command;
  // agent.claude
  std::vector<std::string> allowed_tools;
  std::vector<std::string> disallowed_tools;
  std::string permission_mode = "dontAsk";
  std::string system_prompt;
  std::optional<int> turns_max;
};

// Text as it is, anything else as JSON.
std::string as_text(const Json& value) {
  if (const auto* text = value.if_string()) return std::string(std::string_view(*text));
  return boost::json::serialize(value);
}

std::string as_text(const JsonText& json) {
  const auto parsed = parse_json(json);
  return parsed ? as_text(*parsed) : json;
}

// What `env` holds where the template has an expression is a secret.
void note_secrets(Wanted& wanted, Arguments& with, const Lease& lease) {
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

Wanted read_wanted(Arguments& with, const Lease& lease, const AgentHouse& house, AgentDialect dialect) {
  const bool is_claude = dialect == AgentDialect::claude;
  Wanted wanted;
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
  wanted.sandbox = read_sandbox(with, house, SandboxUse::auto_, is_claude);
  wanted.environment = read_environment(
      with, is_claude ? std::span<const char* const>(passed_to_claude) : std::span<const char* const>());
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
    wanted.permission_mode = with.text("permission_mode").value_or(wanted.permission_mode);
    wanted.system_prompt = with.text("append_system_prompt").value_or("");
    wanted.turns_max = with.count("max_turns");
    if (std::ranges::find(permission_modes, std::string_view(wanted.permission_mode)) == permission_modes.end())
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

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : ",") + word;
  return out;
}

std::vector<std::string> claude_command(const AgentHouse& house, const Wanted& wanted, const AgentSession& session,
                                        bool resumes, std::optional<Money> budget_left,
                                        const std::optional<AgentAccess>& access) {
  std::vector<std::string> argv{house.claude, "-p", "--output-format", "stream-json", "--verbose"};
  const auto add = [&](std::string_view flag, std::string value) {
    argv.emplace_back(flag);
    argv.push_back(std::move(value));
  };
  add(resumes ? "--resume" : "--session-id", session.id);
  if (budget_left) add("--max-budget-usd", print_money(*budget_left));
  if (!wanted.model.empty()) add("--model", wanted.model);
  add("--permission-mode", wanted.permission_mode);
  if (wanted.turns_max) add("--max-turns", std::to_string(*wanted.turns_max));
  auto allowed = wanted.allowed_tools;
  object servers;
  if (access) {
    allowed.push_back("mcp__pawl");
    // The key itself stands in the environment only: arguments can be read by everybody on the machine.
    servers["pawl"] = object{
        {"type", "http"}, {"url", access->url}, {"headers", object{{"Authorization", "Bearer ${PAWL_LEASE_KEY}"}}}};
  }
  if (!allowed.empty()) add("--allowedTools", joined(allowed));
  if (!wanted.disallowed_tools.empty()) add("--disallowedTools", joined(wanted.disallowed_tools));
  add("--mcp-config", boost::json::serialize(object{{"mcpServers", std::move(servers)}}));
  argv.emplace_back("--strict-mcp-config");
  auto system = fmt::format(fmt::runtime(house_prompt), access ? house_prompt_mcp : std::string_view());
  if (!wanted.system_prompt.empty()) system += "\n\n" + wanted.system_prompt;
  add("--append-system-prompt", std::move(system));
  return argv;
}

// What the agent is told on stdin.
std::string message_for(const Wanted& wanted, const Lease& lease, bool resumes, bool is_first) {
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
  std::optional<std::string> text = read_question_file(logs / question_name);
  if (!text) text = read_question_file(logs / "ask" / question_name);
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

Failed agent_failed(std::string message, std::optional<bool> retryable, const AgentEnd& end) {
  auto failed = failure("AGENT_FAILED", std::move(message));
  failed.retryable = retryable;
  // One that ends by itself and says that it failed is believed. One that was killed said nothing.
  failed.is_harmless = end.status && WIFEXITED(*end.status);
  return failed;
}

Failed over_budget(const Money& spent, const std::optional<Money>& budget) {
  return failure(
      "AGENT_BUDGET_EXCEEDED",
      budget ? fmt::format("the agent has spent {} USD; {} were allowed", print_money(spent), print_money(*budget))
             : fmt::format("the agent has spent {} USD and says that its budget is exhausted", print_money(spent)));
}

Failed could_not_start(const SpawnError& error, const std::string& program) {
  const auto reason = std::generic_category().message(error.error);
  const bool is_ours = error.stage == SpawnError::Stage::resources || error.error == ENOMEM || error.error == EAGAIN;
  auto failed = is_ours ? failure("AGENT_FAILED", fmt::format("could not start {}: {}", program, reason))
                        : invalid_arguments(fmt::format("{} cannot be run: {}", program, reason));
  failed.is_harmless = true;
  return failed;
}

struct Outcome {
  const Wanted& wanted;
  const AgentSession& session;
  const AgentEnd& end;
  const fs::path& logs;
  std::string log_name;  // below the data folder
  std::string program;

  ToolResult completed(const AgentStory::Result& result) const {
    object output{{"result", head_of(result.text, result_bytes_max)},
                  {"session_id", session.id},
                  {"cost_usd", print_money(end.cost)},
                  {"num_turns", end.story.turns},
                  {"logs", object{{"folder", log_name}, {"streams", boost::json::array{"stdout", "stderr"}}}}};
    const auto usage = parse_json(end.story.usage);
    output["usage"] = usage ? *usage : Json(object{});
    if (!result.output.empty())
      if (auto given = parse_json(result.output); given && nests_within(*given, json_depth_max - 2))
        output["output"] = std::move(*given);
    if (result.text.size() > result_bytes_max) output["result_is_cut"] = true;
    return Completed{.output = wanted.secrets.scrubber.json(canonical(Json(std::move(output)))), .cost = {}};
  }

  // In this order: what we did to it, what it said, how it went.
  ToolResult decide() const {
    using How = AgentEnd::How;
    const auto& result = end.story.result;
    if (end.how == How::stopped) return stopped();
    if (end.how == How::over_budget || (result && is_over_budget(*result)))
      return over_budget(session.spent, wanted.budget);
    const bool exited_well =
        end.how == How::lingered || (end.status && WIFEXITED(*end.status) && WEXITSTATUS(*end.status) == 0);
    if (result && result->is_error) return said_error(*result);
    if (exited_well)
      if (auto question = find_question(logs, session)) return Asked{wanted.secrets.scrubber.json(*question)};
    if (!result) return no_result();
    if (!exited_well)
      return agent_failed(with_stderr(fmt::format("{} said that it succeeded and {}", program, how_it_ended(end))),
                          true, end);
    if (!result->deferred_tool.empty() || result->terminal_reason == "tool_deferred" ||
        result->stop_reason == "tool_deferred")
      return deferred(*result);
    return completed(*result);
  }

  ToolResult said_error(const AgentStory::Result& result) const {
    std::string message = result.text.empty() ? fmt::format("{} ended with {}", program, result.subtype) : result.text;
    if (result.api_error_status > 0) message += fmt::format(" (status {})", result.api_error_status);
    if (!end.story.last_error.empty()) message += fmt::format(" ({})", end.story.last_error);
    auto failed = agent_failed(wanted.secrets.scrubber.text(head_of(message, message_bytes_max)),
                               result.retryable ? *result.retryable : may_pass(end.story), end);
    if (!result.error_code.empty()) failed.error_code = result.error_code.substr(0, diagnostic_code_chars_max);
    return failed;
  }

  ToolResult no_result() const {
    const bool never_ran = end.status && WIFEXITED(*end.status) && end.story.lines == 0 &&
                           (WEXITSTATUS(*end.status) == 126 || WEXITSTATUS(*end.status) == 127);
    auto message = with_stderr(fmt::format("{} {} without a result", program, how_it_ended(end)));
    if (never_ran) return invalid_arguments(std::move(message));
    return agent_failed(std::move(message), true, end);
  }

  // A call that somebody must allow before the session goes on.
  ToolResult deferred(const AgentStory::Result& result) const {
    const auto tool = parse_json(result.deferred_tool);
    return Asked{wanted.secrets.scrubber.json(canonical(object{{"kind", "tool_deferred"},
                                                               {"text", "The agent waits for a decision on this call."},
                                                               {"tool", tool ? *tool : Json(nullptr)},
                                                               {"session_id", session.id}}))};
  }

  std::string with_stderr(std::string message) const {
    if (!end.stderr_tail.empty()) message += ": " + tail_of(end.stderr_tail, message_bytes_max);
    return message;
  }
};

class Agent final : public Tool {
 public:
  Agent(std::shared_ptr<const AgentHouse> house, AgentDialect dialect)
      : house_(std::move(house)), dialect_(dialect), spec_(spec_of(dialect)) {}

  const ToolSpec& spec() const override { return spec_; }

  // A policy decides whether an agent may be let loose at all; what it does then passes the gate on its own. To run it
  // again is to resume it.
  std::expected<Plan, Failed> plan(const Lease& lease, std::stop_token stop) override {
    if (!house_) return std::unexpected(no_house());
    Arguments with(lease.input);
    const Wanted wanted = read_wanted(with, lease, *house_, dialect_);
    if (with.refusal()) return std::unexpected(*with.refusal());
    if (auto sandboxed = decide_sandbox(wanted.sandbox, *house_); !sandboxed) return std::unexpected(sandboxed.error());
    auto plan = Tool::plan(lease, stop);
    plan->action.target = dialect_ == AgentDialect::claude ? "claude" : wanted.command.front();
    plan->idempotent = true;
    return plan;
  }

  ToolResult run(const Lease& lease, Instant, std::stop_token stop) override {
    if (!house_) return no_house();
    Arguments with(lease.input);
    Wanted wanted = read_wanted(with, lease, *house_, dialect_);
    if (with.refusal()) return *with.refusal();
    const auto sandboxed = decide_sandbox(wanted.sandbox, *house_);
    if (!sandboxed) return sandboxed.error();
    const Turn turn(*this, lease, stop);
    if (!turn.is_ours()) return stopped();
    const LogPlace place{lease.run, lease.step, lease.attempt};
    const auto logs = house_->logs.begin(place);
    auto result = run(lease, wanted, *sandboxed, logs, stop);
    house_->logs.end(place);
    return result;
  }

 private:
  // A lease that was lost ends its process, which may take a moment; the step's next attempt may come sooner. Two of
  // them at once would share a session and a folder.
  class Turn {
   public:
    Turn(Agent& agent, const Lease& lease, const std::stop_token& stop) : agent_(agent), key_(lease.run, lease.step) {
      std::unique_lock lock(agent_.mutex_);
      is_ours_ = agent_.step_ended_.wait(lock, stop, [this] { return !agent_.working_.contains(key_); });
      if (is_ours_) agent_.working_.insert(key_);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      if (!is_ours_) return;
      const std::lock_guard lock(agent_.mutex_);
      agent_.working_.erase(key_);
      agent_.step_ended_.notify_all();
    }
    bool is_ours() const { return is_ours_; }

   private:
    Agent& agent_;
    const std::pair<RunId, StepId> key_;
    bool is_ours_ = false;
  };

  Failed no_house() const {
    auto failed = failure("TOOL_NOT_IMPLEMENTED",
                          fmt::format("{} needs a data folder, and this worker has none", spec_.name.str()));
    failed.is_harmless = true;
    return failed;
  }

  static ToolSpec spec_of(AgentDialect dialect) {
    using Kind = ToolKey::Kind;
    const bool is_claude = dialect == AgentDialect::claude;
    ToolSpec spec{.name = {is_claude ? "agent.claude" : "agent.command"},
                  .keys = {{.name = "prompt", .required = true, .kind = Kind::text},
                           {.name = "session_id", .kind = Kind::text},
                           {.name = "resume", .kind = Kind::boolean},
                           {.name = "answer", .kind = Kind::any},
                           {.name = "max_budget_usd", .kind = Kind::text},
                           {.name = "task_id", .kind = Kind::text},
                           {.name = "folder", .kind = Kind::text},
                           {.name = "model", .kind = Kind::text},
                           {.name = "mcp", .kind = Kind::boolean},
                           {.name = "sandbox", .kind = Kind::any},
                           {.name = "env", .kind = Kind::text_map, .secrets = true},
                           {.name = "pass_env", .kind = Kind::text_list}},
                  .writes = ToolSpec::Writes::always};
    const auto add = [&](std::string name, Kind kind, bool required = false) {
      spec.keys.push_back({.name = std::move(name), .required = required, .kind = kind});
    };
    if (is_claude) {
      add("allowed_tools", Kind::text_list);
      add("disallowed_tools", Kind::text_list);
      add("permission_mode", Kind::text);
      add("append_system_prompt", Kind::text);
      add("max_turns", Kind::number);
    } else {
      add("command", Kind::text_list, true);
    }
    return spec;
  }

  ToolResult run(const Lease& lease, Wanted& wanted, bool sandboxed, const fs::path& logs,
                 const std::stop_token& stop) {
    auto session = AgentSession::load(*house_, lease, wanted.session);
    const bool is_first = !session.has_begun;
    // One that asked has a session, even if this server knows nothing of it.
    const bool resumes = session.has_begun || wanted.resume || (!lease.question.empty() && asked_in(lease, session));
    std::optional<Money> left = wanted.budget;
    if (left && session.spent >= *left) return with_cost(over_budget(session.spent, wanted.budget), session, lease);
    if (left) left->micros -= session.spent.micros;

    const auto access = access_for(lease, wanted, sandboxed);
    if (!access) return access.error();
    auto entry = house_->ledger.enter(
        sandboxed ? ControlLimits{wanted.sandbox.limits.memory_bytes_max, wanted.sandbox.limits.processes_max}
                  : ControlLimits{});
    auto plan = plan_for(lease, wanted, session, sandboxed, resumes, left, *access, logs, entry);
    if (!plan) return plan.error();
    const AgentOrder order{.dialect = dialect_,
                           .plan = std::move(*plan),
                           .input = message_for(wanted, lease, resumes, is_first && wanted.resume),
                           .spent_before = dialect_ == AgentDialect::claude ? session.total : Money{},
                           .budget_left = left,
                           .log_folder = logs,
                           .on_session = [&](const std::string& id) {
                             session.id = id;
                             session.has_begun = true;
                             session.save(*house_, lease);
                           }};
    const auto program = dialect_ == AgentDialect::claude ? house_->claude : wanted.command.front();
    const AgentEnd end = live(order, *house_, wanted.secrets, entry, stop);
    if (end.not_started) return could_not_start(*end.not_started, program);
    learn(session, end, resumes);
    const Outcome outcome{.wanted = wanted,
                          .session = session,
                          .end = end,
                          .logs = logs,
                          .log_name = fs::relative(logs, house_->data).string(),
                          .program = program};
    // Its lease is over, be it by a time-out: nobody listens, and what it has cost is told by the attempt that follows.
    if (end.how == AgentEnd::How::stopped) {
      session.save(*house_, lease);
      return stopped();
    }
    return with_cost(outcome.decide(), session, lease);
  }

  static bool asked_in(const Lease& lease, const AgentSession& session) {
    const auto question = parse_json(lease.question);
    const Json* id = question && question->is_object() ? question->get_object().if_contains("session_id") : nullptr;
    return id && id->is_string() && id->get_string() == session.id;
  }

  std::expected<std::optional<AgentAccess>, Failed> access_for(const Lease& lease, const Wanted& wanted,
                                                               bool sandboxed) const {
    const bool unreachable = sandboxed && !wanted.sandbox.network;
    if (wanted.mcp == false || (unreachable && !wanted.mcp)) return std::nullopt;
    if (unreachable)
      return std::unexpected(invalid_arguments("`mcp` needs a network: say sandbox: {network: true}, or mcp: false"));
    auto access = house_->access ? house_->access(lease, wanted.task) : std::nullopt;
    if (!access && wanted.mcp == true)
      return std::unexpected(invalid_arguments("`mcp` needs a server: start the run with one, or say mcp: false"));
    return access;
  }

  std::expected<ProcessPlan, Failed> plan_for(const Lease& lease, Wanted& wanted, const AgentSession& session,
                                              bool sandboxed, bool resumes, std::optional<Money> left,
                                              const std::optional<AgentAccess>& access, const fs::path& logs,
                                              ProcessLedger::Entry& entry) const {
    std::error_code error;
    auto folder = wanted.folder;
    if (folder.empty()) {
      folder = (house_->data / "workspaces" / lease.run.str()).string();
      fs::create_directories(folder, error);
    }
    if (!fs::is_directory(folder, error))
      return std::unexpected(invalid_arguments(fmt::format("`folder` {} is not there", folder)));
    // Its own, for what is left from an attempt of the same number says nothing of this one.
    const auto ask = sandboxed ? logs / "ask" : logs;
    fs::create_directories(ask, error);
    fs::remove(logs / question_name, error);
    fs::remove(logs / "ask" / question_name, error);

    Environment& environment = wanted.environment;
    if (sandboxed) {
      const auto home = session.folder / "home";
      fs::create_directories(home, error);
      environment.set("HOME", home.string());
      environment.set("TMPDIR", "/tmp");
    }
    name_lease(environment, lease);
    environment.set("PAWL_LOG_FOLDER", ask.string());
    environment.set("PAWL_QUESTION_FILE", (ask / question_name).string());
    environment.set("PAWL_SESSION_ID", session.id);
    environment.set("PAWL_RESUME", resumes ? "1" : "0");
    environment.set("PAWL_TASK_ID", wanted.task);
    environment.set("PAWL_MODEL", wanted.model);
    if (left) environment.set("PAWL_MAX_BUDGET_USD", print_money(*left));
    if (access) {
      environment.set("PAWL_MCP_URL", access->url);
      environment.set("PAWL_LEASE_KEY", access->key);
      wanted.secrets.add("PAWL_LEASE_KEY", access->key);
    }
    environment.set(mark_variable, entry.mark());
    ProcessPlan plan{.argv = dialect_ == AgentDialect::claude
                                 ? claude_command(*house_, wanted, session, resumes, left, access)
                                 : wanted.command,
                     .environment = environment.entries(),
                     .directory = folder};
    plan.control_groups = entry.group().entrances();
    if (!sandboxed) return plan;
    return in_sandbox(std::move(plan), wanted.sandbox, *house_, entry.group(),
                      {ask.string(), (session.folder / "home").string()});
  }

  void learn(AgentSession& session, const AgentEnd& end, bool resumed) const {
    session.spent = session.spent + end.cost;
    session.untold = session.untold + end.cost;
    session.total = session.total + end.cost;
    if (!end.story.session_id.empty()) {
      session.id = end.story.session_id;
      session.has_begun = true;
    } else if (resumed && !end.story.result && end.how == AgentEnd::How::by_itself) {
      // It could not be resumed, so it is not there any more: the next attempt begins anew.
      session.id = random_uuid();
      session.has_begun = false;
    }
  }

  // What is reported now, with what was spent by attempts that could not report.
  ToolResult with_cost(ToolResult result, AgentSession session, const Lease& lease) const {
    if (auto* completed = std::get_if<Completed>(&result)) completed->cost = std::exchange(session.untold, {});
    if (auto* failed = std::get_if<Failed>(&result)) failed->cost = std::exchange(session.untold, {});
    session.save(*house_, lease);
    return result;
  }

  const std::shared_ptr<const AgentHouse> house_;
  const AgentDialect dialect_;
  const ToolSpec spec_;
  std::mutex mutex_;
  std::condition_variable_any step_ended_;
  std::set<std::pair<RunId, StepId>> working_;
};

}  // namespace

std::unique_ptr<Tool> make_agent_claude(std::shared_ptr<const AgentHouse> house) {
  return std::make_unique<Agent>(std::move(house), AgentDialect::claude);
}

std::unique_ptr<Tool> make_agent_command(std::shared_ptr<const AgentHouse> house) {
  return std::make_unique<Agent>(std::move(house), AgentDialect::plain);
}

}  // namespace pawl
