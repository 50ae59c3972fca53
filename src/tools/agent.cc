// agent.claude and agent.command: see agent.h for what they are, docs/agents.md for how they are used.
//
//   request -> session (new, or resumed) -> sandbox -> live -> outcome
#include "tools/agent.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

#include "process/private_folder.h"
#include "tools/agent_door.h"
#include "tools/agent_outcome.h"
#include "tools/agent_request.h"
#include "tools/agent_run.h"
#include "tools/agent_session.h"
#include "tools/arguments.h"
#include "tools/confine.h"
#include "tools/outcome.h"
#include "tools/tools.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

class Agent final : public Tool {
 public:
  Agent(std::shared_ptr<const AgentContext> context, AgentDialect dialect)
      : context_(std::move(context)), dialect_(dialect), spec_(spec_of(dialect)) {}

  const ToolSpec& spec() const override { return spec_; }

  // A policy decides whether an agent may be let loose at all; what it does then passes the gate on its own. To run it
  // again is to resume it.
  std::expected<Plan, Failed> plan(const Lease& lease, std::stop_token stop) override {
    if (!context_) return std::unexpected(no_context());
    const auto terms = program_terms(context_.get(), lease);
    if (!terms) return std::unexpected(terms.error());
    Arguments with(lease.input);
    const AgentRequest wanted = read_agent_request(with, lease, *context_, *terms, dialect_);
    if (with.refusal()) return std::unexpected(*with.refusal());
    const auto sandboxed = decide_sandbox(wanted.sandbox, *context_);
    if (!sandboxed) return std::unexpected(sandboxed.error());
    auto plan = Tool::plan(lease, stop);
    plan->sandboxed = *sandboxed;
    plan->action.target = dialect_ == AgentDialect::claude ? "claude" : wanted.command.front();
    plan->idempotent = true;
    return plan;
  }

  ToolResult run(const Lease& lease, Instant, std::stop_token stop) override {
    if (!context_) return no_context();
    const auto terms = program_terms(context_.get(), lease);
    if (!terms) return terms.error();
    Arguments with(lease.input);
    AgentRequest wanted = read_agent_request(with, lease, *context_, *terms, dialect_);
    if (with.refusal()) return *with.refusal();
    const auto sandboxed = decide_sandbox(wanted.sandbox, *context_);
    if (!sandboxed) return sandboxed.error();
    const Turn turn(*this, lease, stop);
    if (!turn.is_ours()) return stopped();
    const LogPlace place{lease.run, lease.step, lease.attempt};
    const auto logs = context_->logs.begin(place);
    auto result = run({lease, wanted, *terms, *sandboxed, logs, stop});
    context_->logs.end(place);
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

  // A run that ran out of time ends before its agent has: until that one is gone it has the session and the folder, and
  // has not said what it was not permitted. False when we are to stop.
  bool await_end(RunId run, const StepId& step, const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    return step_ended_.wait(lock, stop, [&] { return !working_.contains({run, step}); });
  }

  Failed no_context() const {
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
                  .writes = ToolSpec::Writes::always,
                  .runs_programs = true};
    const auto add = [&](std::string name, Kind kind, bool required = false) {
      spec.keys.push_back({.name = std::move(name), .required = required, .kind = kind});
    };
    if (is_claude) {
      add("allowed_tools", Kind::text_list);
      add("disallowed_tools", Kind::text_list);
      add("permission_mode", Kind::text);
      add("project_settings", Kind::boolean);
      add("append_system_prompt", Kind::text);
      add("max_turns", Kind::number);
    } else {
      add("command", Kind::text_list, true);
    }
    return spec;
  }

  // An attempt at a step, once it is known what it wants and where.
  struct Attempt {
    const Lease& lease;
    AgentRequest& wanted;
    const ProgramTerms& terms;
    bool sandboxed = false;
    const fs::path& logs;
    const std::stop_token& stop;
    std::optional<AgentAccess> access = {};
    std::optional<Money> left = {};  // of the step's budget
  };

  ToolResult run(Attempt attempt) {
    const Lease& lease = attempt.lease;
    const AgentRequest& wanted = attempt.wanted;
    auto session = AgentSession::load(*context_, lease, wanted.session);
    const bool is_first = !session.has_begun;
    if (!session.is_recorded && context_->resumption)
      if (auto earlier = context_->resumption(lease)) {
        if (!await_end(earlier->run, lease.step, attempt.stop)) return stopped();
        session.go_on_with(*context_, lease, earlier->run);
        if (session.has_begun && !attempt.wanted.answer && !earlier->message.empty())
          attempt.wanted.answer = as_text(earlier->message);
      }
    // One that asked has a session, even if this server knows nothing of it.
    bool resumes = session.has_begun || wanted.resume || (!lease.question.empty() && asked_in(lease, session));
    // The server died before the CLI had said a word. It may have taken the name for good all the same.
    if (dialect_ == AgentDialect::claude && session.was_started && !resumes) session.begin_anew(*context_, lease);
    attempt.left = wanted.budget;
    if (attempt.left && session.spent >= *attempt.left)
      return with_cost(over_budget(session.spent, wanted.budget), session, lease);
    if (attempt.left) attempt.left->micros -= session.spent.micros;
    auto access = access_for(lease, wanted, attempt.sandboxed);
    if (!access) return access.error();
    attempt.access = std::move(*access);
    std::optional<AgentDoor> door;
    if (auto problem = open_door(attempt, door)) return std::move(*problem);

    CostMeter meter(context_->charge, lease);
    const bool may_be_anothers = lease.token > 1 && !session.is_recorded && !resumes;
    auto end = live_once(attempt, session, resumes, is_first && wanted.resume, meter);
    if (end && may_be_anothers && has_no_session(*end)) {
      // The step was claimed before, and this server knows nothing of that: one that is gone has begun the session.
      resumes = true;
      end = live_once(attempt, session, resumes, false, meter);
    }
    if (end && resumes && has_no_session(*end)) {
      // It is not there any more: another one is told everything from the beginning.
      session.begin_anew(*context_, lease);
      resumes = false;
      end = live_once(attempt, session, resumes, false, meter);
    }
    if (!end) return end.error();
    learn(session, *end, resumes);
    session.note_denials(*context_, lease, end->story, wanted.secrets);
    const AgentOutcome outcome{.wanted = wanted,
                               .session = session,
                               .end = *end,
                               .logs = attempt.logs,
                               .log_name = fs::relative(attempt.logs, context_->data).string(),
                               .program = program_of(wanted),
                               .own_program = context_->program};
    // Stopped, its lease is over, be it by a time-out: nobody listens, and what it has cost since it last said so is
    // told by the attempt that follows.
    const bool was_stopped = end->how == AgentEnd::How::stopped;
    ToolResult result = was_stopped ? stopped() : outcome.decide();
    if (std::holds_alternative<Asked>(result)) meter.note_last(end->cost);
    session.untold.micros -= std::min(session.untold, meter.finish()).micros;
    if (!was_stopped) return with_cost(std::move(result), session, lease);
    session.save(*context_, lease);
    return result;
  }

  std::string program_of(const AgentRequest& wanted) const {
    return dialect_ == AgentDialect::claude ? context_->claude : wanted.command.front();
  }

  // One process, from its beginning to its end.
  std::expected<AgentEnd, Failed> live_once(Attempt& attempt, AgentSession& session, bool resumes, bool is_first,
                                            CostMeter& meter) const {
    const SandboxLimits& limits = attempt.wanted.sandbox.limits;
    auto entry = context_->ledger.enter(attempt.sandboxed ? ControlLimits{limits.memory_bytes_max, limits.processes_max}
                                                          : ControlLimits{});
    auto plan = plan_for(attempt, session, resumes, entry);
    if (!plan) return std::unexpected(plan.error());
    session.was_started = true;
    session.save(*context_, attempt.lease);
    const AgentOrder order{.dialect = dialect_,
                           .plan = std::move(*plan),
                           .input = message_for(attempt.wanted, attempt.lease, resumes, is_first),
                           .spent_before = dialect_ == AgentDialect::claude ? session.total : Money{},
                           .budget_left = attempt.left,
                           .needs_tools = attempt.access.has_value(),
                           .log_folder = attempt.logs,
                           .meter = &meter,
                           .on_session = [&](const std::string& id) {
                             session.id = id;
                             session.has_begun = true;
                             session.save(*context_, attempt.lease);
                           }};
    AgentEnd end = live(order, *context_, attempt.wanted.secrets, entry, attempt.stop);
    if (end.not_started) return std::unexpected(could_not_start(*end.not_started, program_of(attempt.wanted)));
    return end;
  }

  // Whether a session that was to be resumed does not exist, or one that was to be begun does. Only of the CLI it is
  // known how it says that.
  bool has_no_session(const AgentEnd& end) const {
    const bool has_failed = end.status && WIFEXITED(*end.status) && WEXITSTATUS(*end.status) != 0;
    return dialect_ == AgentDialect::claude && end.how == AgentEnd::How::by_itself && has_failed &&
           !end.story.has_begun && end.cost == Money{};
  }

  static bool asked_in(const Lease& lease, const AgentSession& session) {
    const auto question = parse_json(lease.question);
    const Json* id = question && question->is_object() ? question->get_object().if_contains("session_id") : nullptr;
    return id && id->is_string() && id->get_string() == session.id;
  }

  std::expected<std::optional<AgentAccess>, Failed> access_for(const Lease& lease, const AgentRequest& wanted,
                                                               bool sandboxed) const {
    if (wanted.mcp == false) return std::nullopt;
    auto access = context_->access ? context_->access(lease, wanted.task) : std::nullopt;
    if (!access && wanted.mcp == true)
      return std::unexpected(invalid_arguments("`mcp` needs a server: start the run with one, or say mcp: false"));
    if (access && !context_->mcp && sandboxed && !wanted.sandbox.network)
      return std::unexpected(invalid_arguments("`mcp` needs a network: say sandbox: {network: true}, or mcp: false"));
    return access;
  }

  // The folder of an attempt that its agent can write: for a question, and for the socket.
  static fs::path ask_folder(const Attempt& attempt) { return attempt.sandboxed ? attempt.logs / "ask" : attempt.logs; }

  // An agent that cannot reach the gate would work around it: it is not started.
  std::optional<Failed> open_door(Attempt& attempt, std::optional<AgentDoor>& door) const {
    if (!attempt.access || !context_->mcp) return std::nullopt;
    std::error_code error;
    make_private_folders(ask_folder(attempt), error);
    try {
      door.emplace(ask_folder(attempt),
                   [this, key = attempt.access->key](const std::string& line) { return context_->mcp(key, line); });
    } catch (const std::system_error& problem) {
      auto failed =
          failure("AGENT_FAILED", fmt::format("the agent cannot be given the server's tools: {}; free what is "
                                              "missing, or say mcp: false",
                                              problem.what()));
      failed.is_harmless = true;
      return failed;
    }
    attempt.access->socket = door->path();
    return std::nullopt;
  }

  std::expected<ProcessPlan, Failed> plan_for(Attempt& attempt, AgentSession& session, bool resumes,
                                              ProcessLedger::Entry& entry) const {
    const Lease& lease = attempt.lease;
    const ProgramTerms& terms = attempt.terms;
    const fs::path& logs = attempt.logs;
    const bool sandboxed = attempt.sandboxed;
    AgentRequest& wanted = attempt.wanted;
    std::error_code error;
    auto folder = wanted.folder.empty() ? session.workspace : wanted.folder;
    if (folder.empty() || (wanted.folder.empty() && !fs::is_directory(folder, error)))
      folder = terms.make_workspace().string();
    session.workspace = folder;
    if (auto problem = folder_problem(folder, terms)) return std::unexpected(std::move(*problem));
    if (!fs::is_directory(folder, error))
      return std::unexpected(invalid_arguments(fmt::format("`folder` {} is not there", folder)));
    // Its own, for what is left from an attempt of the same number says nothing of this one.
    const auto ask = ask_folder(attempt);
    make_private_folders(ask, error);
    fs::remove(logs / question_file, error);
    fs::remove(logs / "ask" / question_file, error);

    Environment& environment = wanted.environment;
    if (sandboxed) {
      const auto home = session.folder / "home";
      make_private_folders(home, error);
      environment.set("HOME", home.string());
      environment.set("TMPDIR", "/tmp");
      if (dialect_ == AgentDialect::claude) {
        environment.set("CLAUDE_CONFIG_DIR", (home / ".claude").string());
        // Without it the CLI refuses bypassPermissions to root.
        environment.set("IS_SANDBOX", "1");
      }
    }
    name_lease(environment, lease);
    environment.set("PAWL_LOG_FOLDER", ask.string());
    environment.set("PAWL_QUESTION_FILE", (ask / question_file).string());
    environment.set("PAWL_SESSION_ID", session.id);
    environment.set("PAWL_RESUME", resumes ? "1" : "0");
    environment.set("PAWL_TASK_ID", wanted.task);
    environment.set("PAWL_MODEL", wanted.model);
    if (attempt.left) environment.set("PAWL_MAX_BUDGET_USD", print_money(*attempt.left));
    if (const auto& access = attempt.access) {
      if (!sandboxed || wanted.sandbox.network) {
        environment.set("PAWL_MCP_URL", access->url);
        environment.set("PAWL_LEASE_KEY", access->key);
      }
      if (!access->socket.empty()) environment.set("PAWL_MCP_SOCKET", access->socket.string());
      wanted.secrets.add("PAWL_LEASE_KEY", access->key);
    }
    environment.set(mark_variable, entry.mark());
    ProcessPlan plan{
        .argv = dialect_ == AgentDialect::claude
                    ? claude_command(*context_, wanted, {session, resumes, sandboxed, attempt.left, attempt.access})
                    : wanted.command,
        .environment = environment.entries(),
        .directory = folder};
    plan.control_groups = entry.group().entrances();
    if (!sandboxed) return plan;
    return in_sandbox(std::move(plan), wanted.sandbox,
                      {.context = *context_,
                       .terms = terms,
                       .group = entry.group(),
                       .writable = {ask.string(), (session.folder / "home").string()},
                       .readable = attempt.access && !attempt.access->socket.empty() ? std::vector{context_->program}
                                                                                     : std::vector<std::string>{},
                       .shows_program = dialect_ == AgentDialect::claude});
  }

  static void learn(AgentSession& session, const AgentEnd& end, bool resumed) {
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
    session.save(*context_, lease);
    return result;
  }

  const std::shared_ptr<const AgentContext> context_;
  const AgentDialect dialect_;
  const ToolSpec spec_;
  std::mutex mutex_;
  std::condition_variable_any step_ended_;
  std::set<std::pair<RunId, StepId>> working_;
};

}  // namespace

std::unique_ptr<Tool> make_agent_claude(std::shared_ptr<const AgentContext> context) {
  return std::make_unique<Agent>(std::move(context), AgentDialect::claude);
}

std::unique_ptr<Tool> make_agent_command(std::shared_ptr<const AgentContext> context) {
  return std::make_unique<Agent>(std::move(context), AgentDialect::plain);
}

}  // namespace pawl
