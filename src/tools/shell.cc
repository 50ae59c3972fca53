// shell: runs a program with arguments, without a shell in between.
//
// The program gets its own session, nothing of pawl's descriptors, and an environment of a few names, what the step
// gives, and who it works for (PAWL_RUN_ID, PAWL_STEP_ID, PAWL_ATTEMPT, PAWL_IDEMPOTENCY_KEY). When the leader ends, so
// does everything it left running in its group; a process that moved to a session of its own escapes that, but cannot
// hold the step up.
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <system_error>

#include "process/process.h"
#include "tools/agent.h"
#include "tools/arguments.h"
#include "tools/confine.h"
#include "tools/environment.h"
#include "tools/outcome.h"
#include "tools/tools.h"

namespace pawl {
namespace {

using std::chrono::steady_clock;

constexpr auto shell_drain_time_max = std::chrono::milliseconds(200);
constexpr std::size_t message_stderr_bytes_max = 1000;

struct Command {
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::string cwd;
  std::optional<std::string> stdin_text;
  bool parse_json = false;
  SandboxRequest sandbox = {};
};

Command read_command(Arguments& with, const Lease& lease, const AgentContext* context, const ProgramTerms& terms) {
  Environment environment = read_environment(with, terms);
  name_lease(environment, lease);
  Command command{.argv = with.text_list("argv"),
                  .environment = environment.take(),
                  .cwd = with.text("cwd").value_or(""),
                  .stdin_text = with.text("stdin")};
  if (command.argv.empty()) with.refuse("argv", "is required, and must not be empty");
  for (const auto& argument : command.argv)
    if (has_nul(argument)) with.refuse("argv", "must not contain NUL");
  if (!command.argv.empty() && command.argv.front().empty()) with.refuse("argv", "must begin with a program");
  if (has_nul(command.cwd)) with.refuse("cwd", "must not contain NUL");
  const auto parse = with.text("parse").value_or("text");
  if (parse != "text" && parse != "json") with.refuse("parse", "must be text or json");
  command.parse_json = parse == "json";
  if (context) command.sandbox = read_sandbox(with, *context, terms, {});
  return command;
}

// Without a context nobody can be told apart from those who must not be seen.
std::expected<bool, Failed> decide_sandbox_of(const Command& command, const AgentContext* context, Arguments& with) {
  if (context) return decide_sandbox(command.sandbox, *context);
  if (!with.any("sandbox") || *with.any("sandbox") == Json("off") || *with.any("sandbox") == Json("auto")) return false;
  auto failed =
      failure("SANDBOX_UNAVAILABLE", "a sandbox is demanded and cannot be had: this worker has no data folder");
  failed.is_harmless = true;
  return std::unexpected(std::move(failed));
}

// What came out of one pipe.
struct Stream {
  Descriptor pipe;
  std::string bytes;

  // False when there is more than may be.
  bool read_some(std::size_t bytes_max) {
    char buffer[64 * 1024];
    const auto got = ::read(pipe.get(), buffer, sizeof buffer);
    if (got < 0) return true;  // EAGAIN, EINTR
    if (got == 0)
      pipe.close();
    else
      bytes.append(buffer, static_cast<std::size_t>(got));
    return bytes.size() <= bytes_max;
  }
};

enum class End { by_itself, stopped, flooded };

// Stays with a process until it and its output have ended, or until they are made to.
class Watch {
 public:
  Watch(Process& process, Stream& out, Stream& err, const ToolLimits& limits)
      : process_(process), out_(out), err_(err), limits_(limits) {}

  End until_end(const std::stop_token& stop) {
    const StopEvent stop_event(stop);
    while (!is_over()) {
      pollfd waits[] = {readable(end_ == End::by_itself && !has_ended_ ? stop_event.fd() : -1),
                        readable(has_ended_ ? -1 : process_.ended_fd()), readable(out_.pipe.get()),
                        readable(err_.pipe.get())};
      if (::poll(waits, std::size(waits), wait_ms()) < 0 && errno != EINTR)
        throw std::system_error(errno, std::generic_category(), "poll");
      if (waits[0].revents) terminate();
      if (waits[1].revents) leader_ended();
      if (waits[2].revents) take(out_);
      if (waits[3].revents) take(err_);
      if (!has_ended_ && steady_clock::now() >= kill_at_) process_.signal_group(SIGKILL);
    }
    return end_;
  }

 private:
  static pollfd readable(int fd) { return {.fd = fd, .events = POLLIN, .revents = 0}; }

  bool is_over() const {
    if (has_ended_ && !out_.pipe.is_open() && !err_.pipe.is_open()) return true;
    return steady_clock::now() >= give_up_at_;
  }

  int wait_ms() const {
    const auto now = steady_clock::now();
    const auto next = has_ended_ || now >= kill_at_ ? give_up_at_ : std::min(kill_at_, give_up_at_);
    if (next == steady_clock::time_point::max()) return -1;
    return static_cast<int>(std::max(std::chrono::ceil<Duration>(next - now), Duration::zero()).count());
  }

  void terminate() {
    end_ = End::stopped;
    process_.signal_group(SIGTERM);
    kill_at_ = steady_clock::now() + limits_.shell_kill_grace;
    give_up_at_ = kill_at_ + reap_time_max;
  }

  // The rest of the group dies before the pipes are drained: it holds their other ends.
  void leader_ended() {
    has_ended_ = true;
    process_.signal_group(SIGKILL);
    give_up_at_ = steady_clock::now() + shell_drain_time_max;
  }

  void take(Stream& stream) {
    if (stream.read_some(limits_.shell_stream_bytes_max)) return;
    stream.pipe.close();
    if (end_ == End::stopped) return;
    end_ = End::flooded;
    process_.signal_group(SIGKILL);
    give_up_at_ = std::min(give_up_at_, steady_clock::now() + reap_time_max);
  }

  Process& process_;
  Stream& out_;
  Stream& err_;
  const ToolLimits& limits_;
  End end_ = End::by_itself;
  bool has_ended_ = false;
  steady_clock::time_point kill_at_ = steady_clock::time_point::max();
  steady_clock::time_point give_up_at_ = steady_clock::time_point::max();
};

Failed could_not_start(const SpawnError& error, const Command& command) {
  const auto reason = std::generic_category().message(error.error);
  switch (error.stage) {
    case SpawnError::Stage::directory:
      return invalid_arguments(fmt::format("`cwd` {}: {}", command.cwd, reason));
    case SpawnError::Stage::program:
      if (error.error == ENOMEM || error.error == EAGAIN || error.error == ETXTBSY) break;
      return invalid_arguments(fmt::format("{} cannot be run: {}", command.argv.front(), reason));
    case SpawnError::Stage::resources:
      break;
  }
  auto failed = failure("TOOL_FAILED", fmt::format("could not start {}: {}", command.argv.front(), reason));
  failed.is_harmless = true;
  return failed;
}

Failed ended_badly(int status, const Command& command, const std::string& stderr_text) {
  const auto how = WIFSIGNALED(status) ? fmt::format("was killed by signal {}", WTERMSIG(status))
                                       : fmt::format("exited with {}", WEXITSTATUS(status));
  auto message = fmt::format("{} {}", command.argv.front(), how);
  if (!stderr_text.empty()) message += ": " + tail_of(stderr_text, message_stderr_bytes_max);
  // What shells say when the program is not there or cannot be run: no further attempt will find it.
  const bool never_ran = WIFEXITED(status) && (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127);
  if (never_ran) return invalid_arguments(std::move(message));
  auto failed = failure("TOOL_FAILED", std::move(message));
  // A program that ends by itself and says that it failed is believed. One that was killed said nothing.
  failed.is_harmless = WIFEXITED(status);
  return failed;
}

ToolResult ended_well(const Command& command, const std::string& stdout_text, const std::string& stderr_text) {
  std::string output = R"({"exit_code":0,)";
  if (command.parse_json) {
    const auto parsed = parse_json(stdout_text);
    if (!parsed || !nests_within(*parsed, json_depth_max - 1)) {
      auto failed = failure("TOOL_FAILED", fmt::format("stdout is not JSON: {}",
                                                       parsed ? std::string("nested too deep") : parsed.error()));
      failed.retryable = false;  // it did its work; only what it says is of no use
      return failed;
    }
    output += R"("json":)" + boost::json::serialize(*parsed);
  } else {
    output += R"("stdout":)";
    append_json_string(output, stdout_text);
  }
  output += R"(,"stderr":)";
  append_json_string(output, stderr_text);
  output += "}";
  return Completed{.output = std::move(output), .cost = {}};
}

struct Ran {
  std::optional<Failed> failed;
  std::optional<int> status;  // as waitpid gives it; absent when it never ran, or was stopped
  std::string stdout_text;
  std::string stderr_text;
};

// `wrap` puts the plan into its sandbox, where it has one.
using Wrap = std::function<std::expected<ProcessPlan, Failed>(ProcessPlan plan)>;

Ran run_command(const Command& command, const ToolLimits& limits, std::stop_token stop, const Wrap& wrap = {}) {
  Ran ran;
  auto out_pipe = make_pipe();
  auto err_pipe = make_pipe();
  // A file rather than a pipe: nothing to pump, nothing to block on, whether the program reads it or not.
  const auto in = command.stdin_text ? file_in_memory(*command.stdin_text) : open_null_device();
  ProcessPlan plan{.argv = command.argv,
                   .environment = command.environment,
                   .directory = command.cwd,
                   .stdin_fd = in.get(),
                   .stdout_fd = out_pipe.write_end.get(),
                   .stderr_fd = err_pipe.write_end.get(),
                   .dies_with_thread = true};
  if (wrap) {
    auto wrapped = wrap(std::move(plan));
    if (!wrapped) {
      ran.failed = std::move(wrapped.error());
      return ran;
    }
    plan = std::move(*wrapped);
  }
  auto process = Process::spawn(plan);
  if (!process) {
    ran.failed = could_not_start(process.error(), command);
    return ran;
  }
  out_pipe.write_end.close();
  err_pipe.write_end.close();

  Stream out{.pipe = std::move(out_pipe.read_end), .bytes = {}};
  Stream err{.pipe = std::move(err_pipe.read_end), .bytes = {}};
  const End end = Watch(*process, out, err, limits).until_end(stop);
  const auto status = process->kill_and_reap();
  ran.stdout_text = repaired_utf8(std::move(out.bytes));
  ran.stderr_text = repaired_utf8(std::move(err.bytes));
  if (end == End::stopped) {
    ran.failed = stopped();
  } else if (end == End::flooded) {
    ran.failed = failure("TOOL_OUTPUT_TOO_LARGE", fmt::format("{} wrote more than {} bytes to stdout or stderr",
                                                              command.argv.front(), limits.shell_stream_bytes_max));
  } else {
    ran.status = status.value_or(SIGKILL);
    if (*ran.status != 0) ran.failed = ended_badly(*ran.status, command, ran.stderr_text);
  }
  return ran;
}

class Shell final : public Tool {
 public:
  explicit Shell(const ToolLimits& limits) : limits_(limits) {}

  const ToolSpec& spec() const override { return spec_; }

  // `argv` holds no secrets, so it may be told.
  std::expected<Plan, Failed> plan(const Lease& lease, std::stop_token stop) override {
    const auto terms = program_terms(limits_.agents.get(), lease);
    if (!terms) return std::unexpected(terms.error());
    Arguments with(lease.input);
    const Command command = read_command(with, lease, limits_.agents.get(), *terms);
    const bool repeats = with.boolean("idempotent").value_or(false);
    if (with.refusal()) return std::unexpected(*with.refusal());
    const auto sandboxed = decide_sandbox_of(command, limits_.agents.get(), with);
    if (!sandboxed) return std::unexpected(sandboxed.error());
    auto plan = Tool::plan(lease, stop);
    plan->sandboxed = *sandboxed;
    plan->action.target = command.argv.front();
    plan->idempotent = repeats;
    return plan;
  }

  ToolResult run(const Lease& lease, Instant, std::stop_token stop) override {
    const auto terms = program_terms(limits_.agents.get(), lease);
    if (!terms) return terms.error();
    Arguments with(lease.input);
    Command command = read_command(with, lease, limits_.agents.get(), *terms);
    if (with.refusal()) return *with.refusal();
    const auto sandboxed = decide_sandbox_of(command, limits_.agents.get(), with);
    if (!sandboxed) return sandboxed.error();

    Ran ran = *sandboxed ? run_in_sandbox(command, *terms, stop) : run_command(command, limits_, stop);
    if (ran.failed) return std::move(*ran.failed);
    return ended_well(command, ran.stdout_text, ran.stderr_text);
  }

 private:
  Ran run_in_sandbox(Command& command, const ProgramTerms& terms, const std::stop_token& stop) const {
    const AgentContext& context = *limits_.agents;
    if (command.cwd.empty()) command.cwd = terms.make_workspace().string();
    if (terms.is_confined) {
      // The server's are not there.
      command.environment.push_back("HOME=" + command.cwd);
      command.environment.push_back("TMPDIR=/tmp");
    }
    auto entry = context.ledger.enter({command.sandbox.limits.memory_bytes_max, command.sandbox.limits.processes_max});
    command.environment.push_back(entry.variable());
    return run_command(command, limits_, stop, [&](ProcessPlan plan) {
      plan.control_groups = entry.group().entrances();
      return in_sandbox(std::move(plan), command.sandbox, {.context = context, .terms = terms, .group = entry.group()});
    });
  }

  using Kind = ToolKey::Kind;
  const ToolLimits limits_;
  const ToolSpec spec_{.name = {"shell"},
                       .keys = {{.name = "argv", .required = true, .kind = Kind::text_list},
                                {.name = "env", .kind = Kind::text_map, .secrets = true},
                                {.name = "pass_env", .kind = Kind::text_list},
                                {.name = "cwd", .kind = Kind::text},
                                {.name = "stdin", .kind = Kind::text, .secrets = true},
                                {.name = "parse", .kind = Kind::text},
                                {.name = "idempotent", .kind = Kind::boolean},
                                {.name = "sandbox"}},
                       .writes = ToolSpec::Writes::always,
                       .runs_programs = true};
};

// What a program said on stdout when it failed, if that is an object in our words.
Failed failure_in_its_words(const std::string& stdout_text, Failed otherwise) {
  auto said = parse_json(stdout_text);
  if (!said || !said->is_object()) return otherwise;
  const auto& object = said->get_object();
  auto text = [&](std::string_view key) -> std::optional<std::string> {
    const Json* value = object.if_contains(key);
    return value && value->is_string() ? std::optional(std::string(value->get_string())) : std::nullopt;
  };
  if (auto code = text("error_code")) otherwise.error_code = *code;
  if (auto message = text("message")) otherwise.message = *message;
  if (const Json* retryable = object.if_contains("retryable"); retryable && retryable->is_bool())
    otherwise.retryable = retryable->get_bool();
  if (auto after = text("retry_after")) otherwise.retry_after = parse_duration(*after);
  return otherwise;
}

// Any program as a tool: the input on stdin, the output on stdout, both JSON.
class ProgramTool final : public Tool {
 public:
  ProgramTool(ToolName name, std::vector<std::string> argv, const ToolLimits& limits)
      : argv_(std::move(argv)),
        limits_(limits),
        spec_{.name = std::move(name), .keys = {}, .writes = ToolSpec::Writes::always} {}

  const ToolSpec& spec() const override { return spec_; }

  ToolResult run(const Lease& lease, Instant, std::stop_token stop) override {
    Command command;
    command.argv = argv_;
    for (char** entry = environ; *entry; ++entry) command.environment.emplace_back(*entry);
    command.environment.push_back("PAWL_RUN_ID=" + lease.run.str());
    command.environment.push_back("PAWL_STEP_ID=" + lease.step.text);
    command.environment.push_back("PAWL_ATTEMPT=" + std::to_string(lease.attempt));
    command.environment.push_back("PAWL_IDEMPOTENCY_KEY=" + lease.idempotency_key);
    command.stdin_text = lease.input;
    Ran ran = run_command(command, limits_, stop);
    if (ran.failed && ran.status.value_or(0) != 0) return failure_in_its_words(ran.stdout_text, std::move(*ran.failed));
    if (ran.failed) return std::move(*ran.failed);
    if (ran.stdout_text.find_first_not_of(" \t\r\n") == std::string::npos) return Completed{};
    auto output = parse_json(ran.stdout_text);
    if (!output) {
      auto failed = failure("TOOL_FAILED", fmt::format("stdout is not JSON: {}", output.error()));
      failed.retryable = false;  // it did its work; only what it says is of no use
      return failed;
    }
    return Completed{.output = canonical(*output), .cost = {}};
  }

 private:
  const std::vector<std::string> argv_;
  const ToolLimits limits_;
  const ToolSpec spec_;
};

}  // namespace

std::unique_ptr<Tool> make_program(ToolName name, std::vector<std::string> argv, const ToolLimits& limits) {
  return std::make_unique<ProgramTool>(std::move(name), std::move(argv), limits);
}

std::unique_ptr<Tool> make_shell(const ToolLimits& limits) { return std::make_unique<Shell>(limits); }

}  // namespace pawl
