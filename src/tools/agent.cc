// agent.claude and agent.command: see agent.h for what they are, docs/agents.md for how they are used.
//
//   request -> session (new, or resumed) -> sandbox -> live -> outcome
#include "tools/agent.h"

#include <fmt/format.h>

#include <condition_variable>
#include <mutex>
#include <set>
#include <utility>

#include "process/private_folder.h"
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
    auto result = run(lease, wanted, *terms, *sandboxed, logs, stop);
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
      add("append_system_prompt", Kind::text);
      add("max_turns", Kind::number);
    } else {
      add("command", Kind::text_list, true);
    }
    return spec;
  }

  ToolResult run(const Lease& lease, AgentRequest& wanted, const ProgramTerms& terms, bool sandboxed,
                 const fs::path& logs, const std::stop_token& stop) {
    auto session = AgentSession::load(*context_, lease, wanted.session);
    const bool is_first = !session.has_begun;
    // One that asked has a session, even if this server knows nothing of it.
    const bool resumes = session.has_begun || wanted.resume || (!lease.question.empty() && asked_in(lease, session));
    std::optional<Money> left = wanted.budget;
    if (left && session.spent >= *left) return with_cost(over_budget(session.spent, wanted.budget), session, lease);
    if (left) left->micros -= session.spent.micros;

    const auto access = access_for(lease, wanted, sandboxed);
    if (!access) return access.error();
    auto entry = context_->ledger.enter(
        sandboxed ? ControlLimits{wanted.sandbox.limits.memory_bytes_max, wanted.sandbox.limits.processes_max}
                  : ControlLimits{});
    auto plan = plan_for(lease, wanted, terms, session, sandboxed, resumes, left, *access, logs, entry);
    if (!plan) return plan.error();
    CostMeter meter(context_->charge, lease);
    const AgentOrder order{.dialect = dialect_,
                           .plan = std::move(*plan),
                           .input = message_for(wanted, lease, resumes, is_first && wanted.resume),
                           .spent_before = dialect_ == AgentDialect::claude ? session.total : Money{},
                           .budget_left = left,
                           .log_folder = logs,
                           .meter = &meter,
                           .on_session = [&](const std::string& id) {
                             session.id = id;
                             session.has_begun = true;
                             session.save(*context_, lease);
                           }};
    const auto program = dialect_ == AgentDialect::claude ? context_->claude : wanted.command.front();
    const AgentEnd end = live(order, *context_, wanted.secrets, entry, stop);
    if (end.not_started) return could_not_start(*end.not_started, program);
    learn(session, end, resumes);
    const AgentOutcome outcome{.wanted = wanted,
                               .session = session,
                               .end = end,
                               .logs = logs,
                               .log_name = fs::relative(logs, context_->data).string(),
                               .program = program};
    // Stopped, its lease is over, be it by a time-out: nobody listens, and what it has cost since it last said so is
    // told by the attempt that follows.
    ToolResult result = end.how == AgentEnd::How::stopped ? stopped() : outcome.decide();
    if (std::holds_alternative<Asked>(result)) meter.note_last(end.cost);
    session.untold.micros -= std::min(session.untold, meter.finish()).micros;
    if (end.how != AgentEnd::How::stopped) return with_cost(std::move(result), session, lease);
    session.save(*context_, lease);
    return result;
  }

  static bool asked_in(const Lease& lease, const AgentSession& session) {
    const auto question = parse_json(lease.question);
    const Json* id = question && question->is_object() ? question->get_object().if_contains("session_id") : nullptr;
    return id && id->is_string() && id->get_string() == session.id;
  }

  std::expected<std::optional<AgentAccess>, Failed> access_for(const Lease& lease, const AgentRequest& wanted,
                                                               bool sandboxed) const {
    const bool unreachable = sandboxed && !wanted.sandbox.network;
    if (wanted.mcp == false || (unreachable && !wanted.mcp)) return std::nullopt;
    if (unreachable)
      return std::unexpected(invalid_arguments("`mcp` needs a network: say sandbox: {network: true}, or mcp: false"));
    auto access = context_->access ? context_->access(lease, wanted.task) : std::nullopt;
    if (!access && wanted.mcp == true)
      return std::unexpected(invalid_arguments("`mcp` needs a server: start the run with one, or say mcp: false"));
    return access;
  }

  std::expected<ProcessPlan, Failed> plan_for(const Lease& lease, AgentRequest& wanted, const ProgramTerms& terms,
                                              const AgentSession& session, bool sandboxed, bool resumes,
                                              std::optional<Money> left, const std::optional<AgentAccess>& access,
                                              const fs::path& logs, ProcessLedger::Entry& entry) const {
    std::error_code error;
    const auto folder = wanted.folder.empty() ? terms.make_workspace().string() : wanted.folder;
    if (auto problem = folder_problem(folder, terms)) return std::unexpected(std::move(*problem));
    if (!fs::is_directory(folder, error))
      return std::unexpected(invalid_arguments(fmt::format("`folder` {} is not there", folder)));
    // Its own, for what is left from an attempt of the same number says nothing of this one.
    const auto ask = sandboxed ? logs / "ask" : logs;
    make_private_folders(ask, error);
    fs::remove(logs / question_file, error);
    fs::remove(logs / "ask" / question_file, error);

    Environment& environment = wanted.environment;
    if (sandboxed) {
      const auto home = session.folder / "home";
      make_private_folders(home, error);
      environment.set("HOME", home.string());
      environment.set("TMPDIR", "/tmp");
    }
    name_lease(environment, lease);
    environment.set("PAWL_LOG_FOLDER", ask.string());
    environment.set("PAWL_QUESTION_FILE", (ask / question_file).string());
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
                                 ? claude_command(*context_, wanted, session, resumes, left, access)
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
                       .shows_program = dialect_ == AgentDialect::claude});
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
