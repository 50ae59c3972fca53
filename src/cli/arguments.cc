#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/declared_commands.h"
#include "cli/settings.h"
#include "cli/text.h"
#include "core/tenant.h"
#include "engine/clock.h"

namespace pawl {
namespace {

constexpr const char* run_help = "the run: its id, the beginning, or the last six characters";
constexpr std::string_view exit_code_hint = "How it ended is in the exit code: pawl help exit-codes";

template <class Enum>
std::string words_of() {
  std::string out;
  for (std::string_view word : enum_names<Enum>) out += (out.empty() ? "" : ", ") + std::string(word);
  return out;
}

template <class Enum>
CLI::Option* add_word(CLI::App& command, const std::string& flag, const std::string& placeholder,
                      const std::string& help, std::function<void(Enum)> set) {
  return command
      .add_option_function<std::string>(
          flag,
          [flag, set](const std::string& word) {
            auto value = parse_enum<Enum>(word);
            if (!value)
              throw CLI::ValidationError(flag, fmt::format("{} is none of: {}", printable(word), words_of<Enum>()));
            set(*value);
          },
          fmt::format("{}: {}", help, words_of<Enum>()))
      ->type_name(placeholder);
}

CLI::Option* last_wins(CLI::Option* option) { return option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast); }

void add_data(CLI::App& command, std::string& data) {
  last_wins(command.add_option("--data", data,
                               "the data folder [$PAWL_DATA, else $XDG_DATA_HOME/pawl, else "
                               "~/.local/share/pawl]"))
      ->type_name("DIR");
}

void add_server(CLI::App& command, std::string& server) {
  last_wins(
      command.add_option("--server", server, "a server's URL [$PAWL_SERVER, else the one that serves the data folder]"))
      ->type_name("URL");
}

constexpr std::string_view help_of(Limit limit) {
  switch (limit) {
    case Limit::max_concurrency:
      return "steps that run at once";
    case Limit::max_runs_per_min:
      return "runs that start in any 60 seconds; others wait for their turn";
    case Limit::max_writes_per_run:
      return "writes of one run; one that wants more is denied";
    case Limit::max_stored_bytes:
      return "bytes of the tenant's journal; once reached, no new run or task begins";
    case Limit::max_connections:
      return "open connections of the tenant's keys";
    case Limit::max_feed_streams:
      return "open feeds and long polls of the tenant's keys";
    case Limit::max_requests_per_min:
      return "requests of the tenant's keys in a minute";
  }
  return {};
}

// In the API a limit has its flag's name.
void add_limits(CLI::App& command, LimitChanges& changes) {
  for (std::size_t i = 0; i < enum_count<Limit>; ++i) {
    const auto limit = static_cast<Limit>(i);
    std::string flag = "--" + std::string(to_string(limit));
    std::ranges::replace(flag, '_', '-');
    auto read = [&changes, flag, limit](const std::string& text) {
      std::int64_t value = 0;
      const char* end = text.data() + text.size();
      auto [stopped, error] = std::from_chars(text.data(), end, value);
      if (text != "none" && (error != std::errc() || stopped != end || value < least(limit)))
        throw CLI::ValidationError(
            flag, fmt::format("{} is neither a number from {} on nor none", printable(text), least(limit)));
      changes.emplace_back(to_string(limit), text == "none" ? std::nullopt : std::optional(value));
    };
    last_wins(command.add_option_function<std::string>(flag, read, std::string(help_of(limit))))->type_name("N|none");
  }
}

void add_setting(CLI::App& command, const Setting& setting, GivenSettings& given) {
  std::string name(setting.name), help(setting.help), flag = setting.flag();
  if (std::holds_alternative<setting::Flag>(setting.target)) {
    command.add_flag_function(
        flag + ",!--no-" + flag.substr(2),
        [&given, name](std::int64_t times) {
          given.emplace_back(name, std::vector<std::string>{times > 0 ? "true" : "false"});
        },
        help);
    return;
  }
  if (std::holds_alternative<setting::Texts>(setting.target)) {
    command
        .add_option_function<std::vector<std::string>>(
            flag, [&given, name](const std::vector<std::string>& texts) { given.emplace_back(name, texts); }, help)
        ->type_name(std::string(setting.shape))
        ->allow_extra_args(false);
    return;
  }
  std::string usual = print_setting(setting, ServeSettings{});
  last_wins(command.add_option_function<std::string>(
                flag, [&given, name](const std::string& text) { given.emplace_back(name, std::vector{text}); },
                help + (usual.empty() ? "" : fmt::format(" [{}]", usual))))
      ->type_name(std::string(setting.shape));
}

}  // namespace

void add_moment(CLI::App& command, const std::string& flag, std::optional<Instant>& at, const std::string& help) {
  command
      .add_option_function<std::string>(
          flag,
          [flag, &at](const std::string& text) {
            at = parse_time(text);
            if (auto span = parse_duration(text); span && !at) at = SystemClock().now() - *span;
            if (!at)
              throw CLI::ValidationError(flag, printable(text) +
                                                   " is neither a time like 2026-11-16T02:21:57Z nor a "
                                                   "duration like 90m or 2d");
          },
          help + ": a time, or how long ago (2d)")
      ->type_name("TIME");
}

void add_progress(CLI::App& command, ProgressFlags& flags) {
  add_data(command, flags.data);
  add_server(command, flags.server);
  auto* approve = command.add_flag("--approve", flags.approve, "approve whatever asks for it");
  auto* reject = command.add_flag("--reject", flags.reject, "reject whatever asks for approval");
  approve->excludes(reject);
  command.add_option("--reason", flags.reason, "why, for the journal")->type_name("TEXT");
  command.add_flag("--json", flags.json, "one JSON object an event, then one with the result");
  command.add_flag("--no-color,--no-colour", flags.no_colour, "no colours (NO_COLOR does the same)");
  for (const Setting& setting : serve_settings())
    if (setting.for_runs) add_setting(command, setting, flags.given);
}

namespace {

// One function a command: declares its flags and says what to execute with them.
class CommandTable {
 public:
  explicit CommandTable(CLI::App& app) : app_(app) {
    add_run();
    add_resume();
    add_serve();
    add_runs();
    add_show();
    add_decide("approve", true);
    add_decide("reject", false);
    add_answer();
    add_cancel();
    add_retry();
    add_workers();
    add_events();
    add_logs();
    add_mcp();
    add_workflows();
    add_policy();
    for (DeclaredCommand& command : declare_task_commands(app_)) commands_.push_back(std::move(command));
    for (DeclaredCommand& command : declare_governance_commands(app_)) commands_.push_back(std::move(command));
    for (DeclaredCommand& command : declare_notice_commands(app_)) commands_.push_back(std::move(command));
    add_keys();
    add_tenants();
    add_freeze();
    add_caps();
    add_worker();
    add_evidence();
    add_checkpoints();
    add_verify();
    for (DeclaredCommand& command : declare_backup_commands(app_)) commands_.push_back(std::move(command));
    add_graph();
    add_check();
    add_bench();
    add_completion();
    add_version();
  }

  std::vector<DeclaredCommand> take() { return std::move(commands_); }

 private:
  template <class Options, class Declare>
  void add(const std::string& name, const std::string& help, const std::string& examples,
           ExitCode (*execute)(const Options&), Declare declare) {
    auto options = std::make_shared<Options>();
    CLI::App* command = app_.add_subcommand(name, help);
    command->footer(examples);
    declare(*command, *options);
    commands_.push_back({command, [options, execute] { return execute(*options); }});
  }

  void add_run() {
    add<RunOptions>(
        "run", "Run a workflow, from its file or by its published name, to its result",
        "Examples:\n"
        "  pawl run examples/first-run.yaml\n"
        "  pawl run order.yaml --input '{\"order\": 4711}' --approve\n"
        "  pawl run order.yaml --input @order.json --data ./data --json | jq .type\n"
        "  pawl run ship-order --version 3           a published workflow: pawl workflows lists them\n\n" +
            std::string(exit_code_hint),
        run_workflow, [](CLI::App& command, RunOptions& options) {
          command
              .add_option("FILE", options.file, "the workflow (YAML or JSON; - is stdin), or a published one's name")
              ->required();
          command.add_option("--version", options.version, "of a published workflow; the latest unless told")
              ->type_name("N")
              ->check(CLI::Range(1, INT32_MAX));
          command.add_option("--input", options.input, "the run's input: JSON, @file, or - for stdin")
              ->type_name("JSON");
          command.add_option("--workspace", options.workspace, "the workspace it belongs to")->type_name("NAME");
          command
              .add_option_function<std::string>(
                  "--budget",
                  [&options](const std::string& text) {
                    options.budget = parse_money(text);
                    if (!options.budget)
                      throw CLI::ValidationError("--budget", printable(text) + " is not an amount like 2.50");
                  },
                  "the run fails when its recorded cost passes this")
              ->type_name("USD");
          command
              .add_option_function<std::string>(
                  "--timeout",
                  [&options](const std::string& text) {
                    options.timeout = parse_duration(text);
                    if (!options.timeout)
                      throw CLI::ValidationError("--timeout",
                                                 printable(text) + " is not a duration like 90s, 15m or 1h30m");
                  },
                  "the run ends as timeout when it takes longer")
              ->type_name("DURATION");
          add_progress(command, options.progress);
        });
  }

  void add_resume() {
    add<ResumeOptions>("resume", "Go on with a run that was interrupted or waits; without RUN, with all of them",
                       "Examples:\n  pawl resume\n  pawl resume run_01kaw3v9m8f2hr4x6q0t7c5ezy --data ./data\n"
                       "  pawl resume 7c5ezy --approve\n\n" +
                           std::string(exit_code_hint),
                       resume_runs, [](CLI::App& command, ResumeOptions& options) {
                         command.add_option("RUN", options.run, run_help);
                         add_progress(command, options.progress);
                       });
  }

  void add_serve() {
    add<ServeOptions>(
        "serve", "Serve the HTTP interface, for as long as it is not stopped",
        "Examples:\n  pawl serve\n  pawl serve --data /var/lib/pawl --listen 0.0.0.0:7295 --tls-cert cert.pem "
        "--tls-key "
        "key.pem\nThe first start makes the tenant default and an admin key, which lies in admin.key in the data "
        "folder.\n"
        "Every setting may also stand in a file (listen: ...) or in the environment (PAWL_LISTEN); a flag goes first.\n"
        "SIGTERM stops in order and ends with 0; a second one ends at once with 130.",
        serve, [](CLI::App& command, ServeOptions& options) {
          command
              .add_option("--config", options.config,
                          "file with settings [$PAWL_CONFIG, else pawl.yaml in the data folder]")
              ->type_name("FILE");
          command.add_flag("--print-config", options.print_config,
                           "print every setting with where it comes from, and end");
          for (const Setting& setting : serve_settings()) add_setting(command, setting, options.given);
        });
  }

  void add_runs() {
    add<RunsOptions>(
        "runs", "List runs, newest first",
        "Examples:\n  pawl runs\n  pawl runs --status waiting --json\n  pawl runs --watch\n"
        "  pawl runs --provider restate --sub-state backing-off\n"
        "  pawl runs --workflow refund --status failed --error-code HTTP_404 --since 2d\n"
        "A run that does not move says why: no worker with its tool, a cap, a retry that is not due, an approval.\n"
        "  pawl runs --watch=0.5 --json | jq -r '.id + \" \" + .status'",
        list_runs, [](CLI::App& command, RunsOptions& options) {
          add_word<RunStatus>(command, "--status", "STATUS", "only these",
                              [&options](RunStatus status) { options.wanted.status = status; });
          add_word<SubState>(command, "--sub-state", "SUB_STATE", "only those that do this just now",
                             [&options](SubState state) { options.wanted.sub_state = state; });
          add_word<Provider>(command, "--provider", "PROVIDER", "only those that it carries",
                             [&options](Provider provider) { options.wanted.provider = provider; });
          command.add_option("--workflow", options.wanted.workflow, "only runs of this workflow")
              ->type_name("WORKFLOW");
          command.add_option("--workspace", options.wanted.workspace, "only runs of this workspace")->type_name("NAME");
          command.add_option("--error-code", options.wanted.error_code, "only those that ended with this code")
              ->type_name("CODE");
          command
              .add_option("-q,--search", options.wanted.text, "only those whose id, workflow or error code has this")
              ->type_name("TEXT");
          add_moment(command, "--since", options.wanted.since, "only those made then or later");
          add_moment(command, "--until", options.wanted.until, "only those made then or earlier");
          command
              .add_option("--retries", options.wanted.retries_min, "only those that were tried again so often, or more")
              ->type_name("N")
              ->check(CLI::Range(1, 1'000'000));
          command.add_option("--limit", options.limit, "how many at most")
              ->type_name("N")
              ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}))
              ->capture_default_str();
          command.add_flag("--watch{2}", options.watch,
                           "look again every so many seconds (--watch=5), until interrupted or q is pressed; "
                           "with --json, one line whenever a run has changed");
          add_data(command, options.data);
          add_server(command, options.server);
          command.add_flag("--json", options.json, "one JSON object a run");
          command.add_flag("--no-color,--no-colour", options.no_colour, "no colours");
        });
  }

  void add_show() {
    add<ShowOptions>(
        "show", "Show a run as it is, or as it was after any of its events",
        "Examples:\n  pawl show 7c5ezy\n  pawl show run_01kaw3 --at 7 --events\n  pawl show 7c5ezy --json | jq .steps\n"
        "Works beside a process that is writing the folder.",
        show_run, [](CLI::App& command, ShowOptions& options) {
          command.add_option("RUN", options.run, run_help)->required();
          command.add_option("--at", options.at, "as it was after this event")->type_name("SEQ");
          command.add_flag("--events", options.events, "also its events, with time and hash");
          add_word<Vocabulary>(command, "--vocabulary", "VOCABULARY", "whose words to use",
                               [&options](Vocabulary vocabulary) { options.vocabulary = vocabulary; });
          add_data(command, options.data);
          add_server(command, options.server);
          command.add_flag("--json", options.json, "as one JSON object; with --events, the journal's lines");
          command.add_flag("--no-color,--no-colour", options.no_colour, "no colours");
        });
  }

  void add_decide(const std::string& name, bool approve) {
    add<DecideOptions>(
        name,
        approve ? "Approve what a run waits for; go on with pawl resume"
                : "Reject what a run waits for, which denies it",
        fmt::format("Examples:\n  pawl {0} 7c5ezy --reason \"checked with the team\"\n  pawl {0} 7c5ezy --approval "
                    "apr_01kaw3v9m8f2hr4x6q0t7c5ezy",
                    name),
        decide_approval, [approve](CLI::App& command, DecideOptions& options) {
          options.approve = approve;
          command.add_option("RUN", options.run, run_help)->required();
          command.add_option("--approval", options.approval, "which one, when several are open")->type_name("ID");
          command.add_option("--reason", options.reason, "why, for the journal")->type_name("TEXT");
          command.add_flag("--yes,-y", options.yes, "decide without asking; asked for at a terminal only");
          add_data(command, options.data);
          add_server(command, options.server);
          command.add_flag("--json", options.json, "the answer as JSON, without asking");
        });
  }

  void add_answer() {
    add<AnswerOptions>(
        "answer", "Answer a question that a step of a run asks; go on with pawl resume",
        "Examples:\n  pawl answer 7c5ezy \"the second one\"\n  pawl answer 7c5ezy '{\"size\": 3}' --step choose\n"
        "  pawl answer 7c5ezy                        shows what is asked\nWhat is JSON is sent as JSON, anything else "
        "as "
        "text.",
        answer_question, [](CLI::App& command, AnswerOptions& options) {
          command.add_option("RUN", options.run, run_help)->required();
          command.add_option("ANSWER", options.answer, "JSON or text; - reads it from stdin; none: show the question");
          command.add_option("--step", options.step, "which one, when several ask")->type_name("STEP");
          add_data(command, options.data);
          add_server(command, options.server);
          command.add_flag("--json", options.json, "the answer of the server as JSON");
        });
  }

  void add_workers() {
    add<WorkersOptions>("workers", "List who is connected, for which tools, since when",
                        "Examples:\n  pawl workers\n  pawl workers --json | jq -r '.tools[]'", list_workers,
                        [](CLI::App& command, WorkersOptions& options) {
                          add_data(command, options.data);
                          add_server(command, options.server);
                          command.add_flag("--json", options.json, "one JSON object a worker");
                        });
  }

  void add_cancel() {
    add<CancelOptions>("cancel", "End a run for good", "Examples:\n  pawl cancel 7c5ezy --reason \"wrong customer\"",
                       cancel_run, [](CLI::App& command, CancelOptions& options) {
                         command.add_option("RUN", options.run, run_help)->required();
                         command.add_option("--reason", options.reason, "why, for the journal")->type_name("TEXT");
                         add_data(command, options.data);
                         add_server(command, options.server);
                         command.add_flag("--json", options.json, "the answer as JSON");
                       });
  }

  void add_retry() {
    add<RetryOptions>("retry", "Start a run anew that ended badly", "Examples:\n  pawl retry 7c5ezy", retry_run,
                      [](CLI::App& command, RetryOptions& options) {
                        command.add_option("RUN", options.run, run_help)->required();
                        add_data(command, options.data);
                        add_server(command, options.server);
                        command.add_flag("--json", options.json, "the answer as JSON");
                      });
  }

  void add_events() {
    add<EventsOptions>(
        "events", "Print a run's events, or follow those of the tenant as they happen",
        "Examples:\n  pawl events 7c5ezy\n  pawl events 7c5ezy --follow\n  pawl events --follow | jq .event.type\n"
        "Without RUN, and with --follow, this needs a server.",
        print_events, [](CLI::App& command, EventsOptions& options) {
          command.add_option("RUN", options.run, run_help);
          command.add_flag("--follow,-f", options.follow, "go on as they happen, until interrupted");
          command.add_option("--after", options.after, "go on after this position; 0 = all that is kept")
              ->type_name("POSITION");
          command.add_flag("--raw", options.raw, "as stored and hashed: JSON values are strings that hold JSON");
          add_data(command, options.data);
          add_server(command, options.server);
        });
  }

  void add_logs() {
    add<LogsOptions>(
        "logs", "Print what the agents of a run or a task say",
        "Examples:\n  pawl logs 7c5ezy\n  pawl logs 7c5ezy --step review --follow\n  pawl logs 7c5ezy --stream stderr "
        "--tail 2000",
        print_logs, [](CLI::App& command, LogsOptions& options) {
          command.add_option("RUN", options.run, "a run, or a task: its id, its beginning or its last six characters")
              ->required();
          command.add_option("--step", options.step, "of this step; needed when several have logs")->type_name("STEP");
          add_word<LogStream>(command, "--stream", "STREAM", "which",
                              [&options](LogStream stream) { options.stream = stream; });
          command.add_option("--attempt", options.attempt, "of this attempt, not the last")
              ->type_name("N")
              ->check(CLI::Range(1, INT32_MAX));
          command.add_option("--tail", options.tail, "at most the last so many bytes")->type_name("N");
          command.add_flag("--follow,-f", options.follow, "go on while the step does");
          add_data(command, options.data);
          add_server(command, options.server);
        });
  }

  void add_mcp() {
    add<McpOptions>(
        "mcp", "Give an agent the server's tools, on stdin and stdout (Model Context Protocol)",
        "Examples:\n  pawl mcp --server https://pawl.example:7295\n"
        "In an agent's configuration:\n  {\"mcpServers\": {\"pawl\": {\"command\": \"pawl\", \"args\": [\"mcp\"]}}}\n"
        "The key is $PAWL_KEY, else $PAWL_LEASE_KEY, else the data folder's.",
        speak_mcp, [](CLI::App& command, McpOptions& options) {
          command.add_option("--socket", options.socket, "that pawl made for an agent [$PAWL_MCP_SOCKET]")
              ->type_name("FILE");
          add_data(command, options.data);
          add_server(command, options.server);
        });
  }

  void add_workflows() {
    add<WorkflowsOptions>(
        "workflows", "List the published workflows, print one, or publish one",
        "Examples:\n  pawl workflows\n  pawl workflows order --version 3\n  pawl workflows --publish order.yaml",
        show_workflows, [](CLI::App& command, WorkflowsOptions& options) {
          auto* name = command.add_option("WORKFLOW", options.name, "print this one's definition");
          command.add_option("--version", options.version, "this version of it, not the latest")
              ->type_name("N")
              ->check(CLI::Range(1, INT32_MAX))
              ->needs(name);
          command.add_option("--publish", options.publish, "a new version, from this file")
              ->type_name("FILE")
              ->excludes(name);
          add_data(command, options.data);
          add_server(command, options.server);
          command.add_flag("--json", options.json, "as JSON");
        });
  }

  void add_policy() {
    add<PolicyOptions>(
        "policy", "Show, check, test and publish the policy that every side effect passes",
        "Examples:\n  pawl policy\n  pawl policy check production.yaml\n"
        "  pawl policy test production.yaml          what it would change, tried on actions that runs recorded\n"
        "  pawl policy put production.yaml\n  pawl policy history\n  pawl policy show --version 3\n"
        "docs/policy.md says how one is written. Version 0 is the one that pawl brings along.",
        manage_policy, [](CLI::App& command, PolicyOptions& options) {
          command
              .add_option_function<std::string>(
                  "ACTION",
                  [&options](const std::string& word) {
                    auto found = parse_enum<PolicyAction>(word);
                    if (!found)
                      throw CLI::ValidationError("ACTION",
                                                 printable(word) + " is none of: show, put, test, history, check");
                    options.what = *found;
                  },
                  "show (default), put, test, history or check")
              ->type_name("");
          command.add_option("FILE", options.file, "the policy (YAML or JSON; - is stdin), for put, test and check");
          command.add_option("--version", options.version, "show this version, not the one that holds")
              ->type_name("N")
              ->check(CLI::Range(0, INT32_MAX));
          command.add_option("--limit", options.limit, "test on so many recorded actions at most")
              ->type_name("N")
              ->check(CLI::Range(1, 1000))
              ->capture_default_str();
          add_data(command, options.data);
          add_server(command, options.server);
          command.add_flag("--json", options.json, "as JSON");
        });
  }

  void add_keys() {
    add<KeysOptions>(
        "keys", "Make, list, rotate and revoke API keys",
        "Examples:\n  pawl keys\n  pawl keys create --role worker --name builders --expires-in 90d\n"
        "  pawl keys rotate key_01kaw3v9m8f2hr4x6q0t7c5ezy --overlap 1h\n"
        "  pawl keys revoke key_01kaw3v9m8f2hr4x6q0t7c5ezy\n"
        "  pawl keys signing                         public keys, for those who check bundles\n  pawl keys signing "
        "rotate",
        manage_keys, [](CLI::App& command, KeysOptions& options) {
          command
              .add_option_function<std::string>(
                  "ACTION",
                  [&options](const std::string& word) {
                    using enum KeysOptions::What;
                    static const std::map<std::string, KeysOptions::What> words{{"list", list},
                                                                                {"create", create},
                                                                                {"revoke", revoke},
                                                                                {"rotate", rotate},
                                                                                {"signing", signing}};
                    auto found = words.find(word);
                    if (found == words.end())
                      throw CLI::ValidationError(
                          "ACTION", printable(word) + " is none of: list, create, revoke, rotate, signing");
                    options.what = found->second;
                  },
                  "list (default), create, revoke or rotate; signing, for the key that signs evidence")
              ->type_name("");
          command.add_option("KEY", options.id,
                             "the key's id, for revoke and rotate; show (default) or rotate, for signing");
          command.add_option("--role", options.role, "admin, operator, approver, worker, viewer or metrics")
              ->type_name("ROLE");
          command.add_option("--name", options.name, "what it is for")->type_name("NAME");
          command.add_option("--tenant", options.tenant, "for another tenant")->type_name("NAME");
          command.add_option("--expires-in", options.expires_in, "good for this long")->type_name("DURATION");
          command.add_option("--overlap", options.overlap, "how long the old one stays good [1h]")
              ->type_name("DURATION");
          add_data(command, options.data);
          add_server(command, options.server);
          command.add_flag("--json", options.json, "as JSON");
        });
  }

  void add_tenants() {
    add<TenantsOptions>(
        "tenants", "List a server's tenants, make one, limit it, suspend it",
        "Examples:\n  pawl tenants\n  pawl tenants --create acme\n  pawl tenants acme\n"
        "  pawl tenants acme --max-concurrency 20 --max-stored-bytes 10737418240\n"
        "  pawl tenants acme --suspend --reason 'unpaid'\n  pawl tenants acme --resume\n"
        "Limits set here are a ceiling: the tenant's own admins can set lower ones (pawl caps), not higher ones.\n"
        "A suspended tenant's keys are refused, nothing of it begins, and its workers are told to stop.",
        manage_tenants, [](CLI::App& command, TenantsOptions& options) {
          auto* create =
              command.add_option("--create", options.create, "make a tenant of this name")->type_name("NAME");
          auto* name = command.add_option("TENANT", options.name, "show this one, or change it")->excludes(create);
          add_limits(command, options.limits);
          command.add_option("--weight", options.weight, "the tenant's share of the turns, and the highest it can set")
              ->type_name("N")
              ->check(CLI::Range(1, weight_max))
              ->needs(name);
          auto* suspend = command.add_flag("--suspend", options.suspend, "suspend it at once")->needs(name);
          command.add_flag("--resume", options.resume, "let it go on")->needs(name)->excludes(suspend);
          command.add_option("--reason", options.reason, "why it is suspended, for people and the journal")
              ->type_name("TEXT")
              ->needs(suspend);
          add_data(command, options.data);
          add_server(command, options.server);
          command.add_flag("--json", options.json, "as JSON");
        });
  }

  void add_freeze() {
    auto declare = [](CLI::App& command, FreezeOptions& options) {
      command.add_option("--tenant", options.tenant, "of one tenant; for admins of the tenant default")
          ->type_name("TENANT");
      command.add_option("--connector", options.connector, "only of this connector: http, github, ...")
          ->type_name("NAME");
      add_data(command, options.data);
      add_server(command, options.server);
      command.add_flag("--json", options.json, "as one JSON object");
    };
    add<FreezeOptions>(
        "freeze", "Deny all effects at once, until pawl unfreeze",
        "Examples:\n  pawl freeze --reason 'incident 42'\n  pawl freeze --connector github\n"
        "  pawl freeze --tenant acme\n  pawl freeze --list\n  pawl freeze --lift\n"
        "An admin of the tenant default freezes every tenant, or the one that is named; other admins freeze their\n"
        "own. Runs that ask for an effect meanwhile end as denied (EFFECTS_FROZEN); retry them afterwards.",
        freeze_effects, [declare](CLI::App& command, FreezeOptions& options) {
          declare(command, options);
          auto* list = command.add_flag("--list", options.list, "show what is frozen, and change nothing");
          command.add_flag("--lift", options.lift, "as pawl unfreeze")->excludes(list);
          command.add_option("--reason", options.reason, "why, for people and the journal")->type_name("TEXT");
        });
    add<FreezeOptions>("unfreeze", "Lift what pawl freeze froze with the same flags",
                       "Examples:\n  pawl unfreeze\n  pawl unfreeze --connector github", unfreeze_effects, declare);
  }

  void add_caps() {
    add<CapsOptions>(
        "caps", "Show what a tenant may use at most and what that held back, or change it while it works",
        "Examples:\n  pawl caps\n  pawl caps --max-concurrency 20 --max-runs-per-min 600\n"
        "  pawl caps --max-concurrency none\n  pawl caps --weight 3\n  pawl caps --workspace europe --weight 2\n"
        "What is not named stays as it is. Caps of one workflow stand in its definition. A tenant cannot set more\n"
        "than the installation allows it (pawl tenants NAME).",
        manage_caps, [](CLI::App& command, CapsOptions& options) {
          add_limits(command, options.caps);
          command.add_option("--weight", options.weight, "the tenant's share of the turns, or the workspace's")
              ->type_name("N")
              ->check(CLI::Range(1, weight_max));
          command.add_option("--workspace", options.workspace, "give this workspace the weight")
              ->type_name("NAME")
              ->needs("--weight");
          add_data(command, options.data);
          add_server(command, options.server);
          command.add_flag("--json", options.json, "as one JSON object");
        });
  }

  void add_worker() {
    add<WorkerOptions>(
        "worker", "Offer a program as a tool to a server",
        "Examples:\n  pawl worker --tool resize -- ./resize.sh\n  pawl worker --tool ask --concurrency 16 -- python3 "
        "ask.py\n"
        "The program gets the step's input as JSON on stdin and prints its output as JSON. When it exits with "
        "anything\n"
        "but 0, the attempt failed; an object on stdout may say error_code, message, retryable and retry_after.\n"
        "SIGTERM stops in order and ends with 0; a second one ends at once with 130.",
        work, [](CLI::App& command, WorkerOptions& options) {
          command.add_option("--tool", options.tool, "the tool's name in workflows")->required()->type_name("NAME");
          command.add_option("--name", options.name, "the worker's own name [host-pid]")->type_name("NAME");
          command.add_option("--concurrency", options.concurrency, "how many at once")
              ->check(CLI::Range(1, 1000))
              ->capture_default_str();
          command
              .add_option_function<std::string>(
                  "--grace",
                  [&options](const std::string& text) {
                    auto grace = parse_duration(text);
                    if (!grace)
                      throw CLI::ValidationError("--grace", printable(text) + " is not a duration like 30s or 2m");
                    options.grace = *grace;
                  },
                  "how long programs may take to finish when the worker is told to stop; then they are stopped, and "
                  "their "
                  "steps given back [30s]")
              ->type_name("DURATION");
          command.add_option("PROGRAM", options.command, "the program and its arguments, after --")->required();
          add_data(command, options.data);
          add_server(command, options.server);
        });
  }

  void add_evidence() {
    add<EvidenceOptions>(
        "evidence", "Write a run's evidence bundle: what was done, by whom, who allowed it, signed",
        "Examples:\n  pawl evidence 7c5ezy -o run.zip\n  pawl verify run.zip --key ed25519:9f86d0...", make_evidence,
        [](CLI::App& command, EvidenceOptions& options) {
          command.add_option("RUN", options.run, run_help)->required();
          command.add_option("--output,-o", options.output, "where to; - is stdout [RUN.zip]")->type_name("FILE");
          command.add_flag("--partial", options.partial, "also of a run that has not ended");
          add_data(command, options.data);
          add_server(command, options.server);
        });
  }

  void add_checkpoints() {
    add<CheckpointsOptions>(
        "checkpoints", "List the signed checkpoints, make one, or prove that one goes on from another",
        "Examples:\n  pawl checkpoints\n  pawl checkpoints make\n  pawl checkpoints prove --from 3 > proof.json",
        manage_checkpoints, [](CLI::App& command, CheckpointsOptions& options) {
          command
              .add_option_function<std::string>(
                  "ACTION",
                  [&options](const std::string& word) {
                    auto found = parse_enum<CheckpointsOptions::What>(word);
                    if (!found)
                      throw CLI::ValidationError("ACTION", printable(word) + " is none of: list, make, prove");
                    options.what = *found;
                  },
                  "list (default), make or prove")
              ->type_name("");
          command.add_option("--from", options.from, "the number of the older one, for prove")->type_name("N");
          command.add_option("--to", options.to, "of the newer one [the latest]")->type_name("N");
          command.add_option("--limit", options.limit, "how many at most")->type_name("N")->check(CLI::Range(1, 500));
          add_data(command, options.data);
          add_server(command, options.server);
          command.add_flag("--json", options.json, "as JSON");
        });
  }

  void add_verify() {
    add<VerifyOptions>(
        "verify", "Check the journal, its hash chains and checkpoints, and the tables; or an evidence bundle",
        "Examples:\n  pawl verify --data ./data\n  pawl verify --store postgres://pawl@db/pawl\n"
        "  pawl verify --server https://pawl.example.org --json\n"
        "Of a server, what it hands out is checked: every run's stream, its hashes, and that the run is what it says.\n"
        "Of a folder or a database, everything, as it is at one moment; servers may go on meanwhile.\n"
        "Ends with 0 when clean, 1 when there are problems. Reads only.\n"
        "  pawl verify run.zip --key ed25519:9f86d0...        a bundle, with nothing but it and a key that you trust\n"
        "  pawl verify --data ./data --checkpoint held.json   and that the journal goes on from this checkpoint",
        verify, [](CLI::App& command, VerifyOptions& options) {
          auto* file = command.add_option("FILE", options.file, "an evidence bundle, or a consistency proof");
          command
              .add_option("--key", options.key,
                          "a public key or its id, or a file with either: what FILE must be signed by")
              ->type_name("KEY")
              ->needs(file);
          command.add_option("--checkpoint", options.checkpoint, "one that you hold: the folder must go on from it")
              ->type_name("FILE")
              ->excludes(file);
          add_data(command, options.data);
          add_server(command, options.server);
          last_wins(command.add_option("--store", options.store, "a database: postgres://user@host/database"))
              ->type_name("URL")
              ->excludes("--server", "--data");
          command.add_flag("--json", options.json, "one JSON object a problem, then a summary");
          command.add_flag("--no-color,--no-colour", options.no_colour, "no colours");
        });
  }

  void add_graph() {
    add<GraphOptions>("graph", "Draw a lifecycle from its table, or a workflow's steps",
                      "Examples:\n  pawl graph run\n  pawl graph step --format dot | dot -Tsvg > step.svg\n"
                      "  pawl graph examples/first-run.yaml\n  pawl graph order --version 2",
                      print_graph, [](CLI::App& command, GraphOptions& options) {
                        command
                            .add_option(
                                "WHAT", options.what,
                                words_of<LifecycleName>() + ", a workflow's file, or the name of a published one")
                            ->required();
                        command.add_option("--version", options.version, "this version of it, not the latest")
                            ->type_name("N")
                            ->check(CLI::Range(1, INT32_MAX));
                        add_word<DiagramFormat>(command, "--format", "FORMAT", "the language",
                                                [&options](DiagramFormat format) { options.format = format; });
                        add_data(command, options.data);
                        add_server(command, options.server);
                      });
  }

  void add_check() {
    add<CheckOptions>(
        "check", "Validate workflow definitions",
        "Examples:\n  pawl check examples/*.yaml\n  pawl check order.yaml --tools tools.txt\n"
        "  pawl check order.yaml --server https://pawl.example\n"
        "A tool that pawl does not bring along is taken for one of a remote worker. With --tools (names, one a line)\n"
        "or --server (the tools of the workers that are connected there) any other name is an error.",
        check_files, [](CLI::App& command, CheckOptions& options) {
          command.add_option("FILE", options.files, "the definitions")->required();
          auto* tools = command.add_option("--tools", options.tools, "file with the names of remote workers' tools")
                            ->type_name("FILE");
          command.add_option("--server", options.server, "the server whose workers' tools are known")
              ->type_name("URL")
              ->excludes(tools);
        });
  }

  void add_bench() {
    add<BenchOptions>(
        "bench", "Measure how fast pawl is on this machine and disk",
        "Examples:\n  pawl bench\n  pawl bench --data /var/lib/pawl --json\n"
        "Works in a new folder that lies where the data folder does, and is gone afterwards. Takes about ten seconds.",
        measure, [](CLI::App& command, BenchOptions& options) {
          add_data(command, options.data);
          command.add_flag("--json", options.json, "one JSON object a figure");
        });
  }

  void add_completion() {
    add<CompletionOptions>(
        "completion", "Print what makes a shell complete pawl's commands, flags and values",
        "Examples:\n  source <(pawl completion bash)                       # in ~/.bashrc\n"
        "  pawl completion zsh > ~/.zfunc/_pawl                  # a folder of $fpath, before compinit\n"
        "  pawl completion fish > ~/.config/fish/completions/pawl.fish",
        print_completion, [](CLI::App& command, CompletionOptions& options) {
          add_word<Shell>(command, "SHELL", "", "the shell", [&options](Shell shell) {
            options.shell = shell;
          })->required();
        });
  }

  void add_version() {
    add<VersionOptions>("version", "Print the version, and what pawl is made of",
                        "Examples:\n  pawl version\n  pawl version --json | jq -r .revision", print_version,
                        [](CLI::App& command, VersionOptions& options) {
                          command.add_flag("--json", options.json, "as one JSON object");
                        });
  }

  CLI::App& app_;
  std::vector<DeclaredCommand> commands_;
};

}  // namespace

std::vector<DeclaredCommand> declare_commands(CLI::App& app) { return CommandTable(app).take(); }

}  // namespace pawl
