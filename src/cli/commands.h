// What pawl can do: one function and one file a command. Options come read and checked for form (arguments.cc); an
// early end is a Stop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/exit_code.h"
#include "cli/runs_wanted.h"
#include "core/diagram.h"
#include "core/money.h"
#include "core/run_lifecycle.h"
#include "core/time.h"
#include "core/vocabulary.h"
#include "tools/run_logs.h"

namespace pawl {

// Settings (settings.h) as flags gave them.
using GivenSettings = std::vector<std::pair<std::string, std::vector<std::string>>>;

// For commands that stay with a run.
struct ProgressFlags {
  std::string data;
  std::string server;
  bool approve = false;
  bool reject = false;
  std::string reason;
  bool json = false;
  bool no_colour = false;
  GivenSettings given;
};

struct RunOptions {
  ProgressFlags progress;
  std::string file;            // or the name of a published workflow,
  std::optional<int> version;  // and which version of it; absent: the latest
  std::string input;           // JSON, @file or -
  std::string workspace = "default";
  std::optional<Money> budget;
  std::optional<Duration> timeout;
};
ExitCode run_workflow(const RunOptions& options);

struct ServeOptions {
  std::string config;
  bool print_config = false;
  GivenSettings given;
};
ExitCode serve(const ServeOptions& options);

struct MigrateOptions {
  std::string from;
  std::string to;
  std::string data;         // of a server on the database; empty = the old folder
  std::string signing_key;  // empty = in the old folder
};
ExitCode migrate(const MigrateOptions& options);

struct BackupOptions {
  std::string output;  // empty = named by the time
  std::string data;
  std::string store;
  std::string signing_key;
  std::string config;
};
ExitCode backup(const BackupOptions& options);

struct RestoreOptions {
  std::string file;
  std::string data;
  std::string store;  // empty = the journal stays in the folder
};
ExitCode restore(const RestoreOptions& options);

struct ResumeOptions {
  ProgressFlags progress;
  std::string run;      // empty = all unfinished
  bool is_new = false;  // the command has just made it: that it has ended needs no word
};
ExitCode resume_runs(const ResumeOptions& options);

struct DecideOptions {
  std::string data;
  std::string server;
  std::string run;
  std::string approval;  // empty = the only open one
  bool approve = true;
  std::string reason;
  bool yes = false;  // without asking
  bool json = false;
};
ExitCode decide_approval(const DecideOptions& options);

struct AnswerOptions {
  std::string data;
  std::string server;
  std::string run;
  std::string answer;  // empty = show what is asked
  std::string step;    // empty = the only one that asks
  bool json = false;
};
ExitCode answer_question(const AnswerOptions& options);

struct WorkersOptions {
  std::string data;
  std::string server;
  bool json = false;
};
ExitCode list_workers(const WorkersOptions& options);

struct CancelOptions {
  std::string data;
  std::string server;
  std::string run;
  std::string reason;
  bool json = false;
};
ExitCode cancel_run(const CancelOptions& options);

struct RunsOptions {
  std::string data;
  std::string server;
  RunsWanted wanted;
  std::size_t limit = 20;
  std::string watch;  // seconds between two looks; empty = look once
  bool json = false;
  bool no_colour = false;
};
ExitCode list_runs(const RunsOptions& options);

struct ShowOptions {
  std::string data;
  std::string server;
  std::string run;
  std::optional<std::uint64_t> at;
  bool events = false;
  Vocabulary vocabulary = Vocabulary::contract_v1;
  bool json = false;
  bool no_colour = false;
};
ExitCode show_run(const ShowOptions& options);

struct RetryOptions {
  std::string data;
  std::string server;
  std::string run;
  bool json = false;
};
ExitCode retry_run(const RetryOptions& options);

struct EventsOptions {
  std::string data;
  std::string server;
  std::string run;  // empty = the tenant's feed
  std::string after;
  bool follow = false;
  bool raw = false;
};
ExitCode print_events(const EventsOptions& options);

struct LogsOptions {
  std::string data;
  std::string server;
  std::string run;   // or a task
  std::string task;  // instead of it
  std::string step;
  LogStream stream = LogStream::stdout_;
  std::optional<int> attempt;         // absent = the last
  std::optional<std::uint64_t> tail;  // bytes
  bool follow = false;
};
ExitCode print_logs(const LogsOptions& options);

struct McpOptions {
  std::string data;
  std::string server;
  std::string socket;
};
ExitCode speak_mcp(const McpOptions& options);

struct WorkflowsOptions {
  std::string data;
  std::string server;
  std::string name;  // print this one; empty = list them
  std::optional<int> version;
  std::string publish;  // a file
  bool json = false;
};
ExitCode show_workflows(const WorkflowsOptions& options);

struct KeysOptions {
  std::string data;
  std::string server;
  enum class What { list, create, revoke, rotate, signing } what = What::list;
  std::string id;
  std::string name;
  std::string role;
  std::string tenant;
  std::string expires_in;
  std::string overlap;
  bool json = false;
};
ExitCode manage_keys(const KeysOptions& options);
// `pawl keys signing`: the id is "show" or "rotate".
ExitCode manage_signing_keys(const KeysOptions& options);

struct ReceiptsOptions {
  std::string data;
  std::string server;
  std::string id;
  std::string status;
  std::string happened;  // yes or no
  bool json = false;
};
ExitCode show_receipts(const ReceiptsOptions& options);

struct AuditOptions {
  std::string data;
  std::string server;
  std::string actor;
  std::vector<std::string> types;
  std::string object;
  std::optional<Instant> since;
  std::optional<Instant> until;
  std::size_t limit = 50;
  bool json = false;
};
ExitCode show_audit(const AuditOptions& options);

struct UndoOptions {
  ProgressFlags progress;
  std::string run;
  std::string receipt;
};
ExitCode undo_run(const UndoOptions& options);

enum class PeopleAction { list, set, remove };
template <>
inline constexpr std::array enum_names<PeopleAction>{std::string_view("list"), std::string_view("set"),
                                                     std::string_view("remove")};
struct PeopleOptions {
  std::string data;
  std::string server;
  PeopleAction what = PeopleAction::list;
  std::string name;
  std::vector<std::string> keys;
  std::vector<std::string> accounts;
  std::vector<std::string> groups;
  bool json = false;
};
ExitCode manage_people(const PeopleOptions& options);

// What to change, by its name in the API; no value = none: lift it.
using LimitChanges = std::vector<std::pair<std::string, std::optional<std::int64_t>>>;

struct TenantsOptions {
  std::string data;
  std::string server;
  std::string create;  // a name; empty = none is made
  std::string name;    // one of them; empty = list them
  LimitChanges limits;
  std::optional<int> weight;
  bool suspend = false;
  bool resume = false;
  std::string reason;
  bool json = false;
};
ExitCode manage_tenants(const TenantsOptions& options);

struct FreezeOptions {
  std::string data;
  std::string server;
  std::string tenant;
  std::string connector;
  std::string reason;
  bool list = false;
  bool lift = false;
  bool json = false;
};
ExitCode freeze_effects(const FreezeOptions& options);
// The same with `lift`.
ExitCode unfreeze_effects(const FreezeOptions& options);

struct CapsOptions {
  std::string data;
  std::string server;
  LimitChanges caps;
  std::optional<int> weight;
  std::string workspace;  // whose weight; empty = the tenant's
  bool json = false;
};
ExitCode manage_caps(const CapsOptions& options);

enum class PolicyAction { show, put, test, history, check };
template <>
inline constexpr std::array enum_names<PolicyAction>{std::string_view("show"), std::string_view("put"),
                                                     std::string_view("test"), std::string_view("history"),
                                                     std::string_view("check")};

struct PolicyOptions {
  std::string data;
  std::string server;
  PolicyAction what = PolicyAction::show;
  std::string file;
  std::optional<int> version;
  std::size_t limit = 200;
  bool json = false;
};
ExitCode manage_policy(const PolicyOptions& options);

enum class WebhooksAction { list, set, remove, deliveries, replay };
template <>
inline constexpr std::array enum_names<WebhooksAction>{std::string_view("list"), std::string_view("set"),
                                                       std::string_view("remove"), std::string_view("deliveries"),
                                                       std::string_view("replay")};

struct WebhooksOptions {
  std::string data;
  std::string server;
  WebhooksAction what = WebhooksAction::list;
  std::string name;
  std::string delivery;  // empty: all that failed
  std::string url;
  std::vector<std::string> events;
  std::string secret;
  std::string status;
  std::string since;
  std::size_t limit = 50;
  bool json = false;
};
ExitCode manage_webhooks(const WebhooksOptions& options);

enum class SlackAction { show, set, remove };
template <>
inline constexpr std::array enum_names<SlackAction>{std::string_view("show"), std::string_view("set"),
                                                    std::string_view("remove")};

struct SlackOptions {
  std::string data;
  std::string server;
  SlackAction what = SlackAction::show;
  std::string team;
  std::string channel;
  std::string token;
  std::string signing_secret;
  std::string api_base;
  bool json = false;
};
ExitCode manage_slack(const SlackOptions& options);

struct WorkerOptions {
  std::string data;
  std::string server;
  std::string tool;
  std::string name;
  int concurrency = 4;
  Duration grace = std::chrono::seconds(30);
  std::vector<std::string> command;
};
ExitCode work(const WorkerOptions& options);

struct EvidenceOptions {
  std::string data;
  std::string server;
  std::string run;
  std::string output;  // empty: <run>.zip; - is stdout
  bool partial = false;
};
ExitCode make_evidence(const EvidenceOptions& options);

struct CheckpointsOptions {
  std::string data;
  std::string server;
  enum class What { list, make, prove } what = What::list;
  std::optional<std::uint64_t> from;
  std::optional<std::uint64_t> to;
  std::size_t limit = 20;
  bool json = false;
};
template <>
inline constexpr std::array enum_names<CheckpointsOptions::What>{std::string_view("list"), std::string_view("make"),
                                                                 std::string_view("prove")};
ExitCode manage_checkpoints(const CheckpointsOptions& options);

struct VerifyOptions {
  std::string file;        // a bundle, or a proof; empty: a folder or a server
  std::string key;         // that is trusted: itself, or a file
  std::string checkpoint;  // a file: one that is held elsewhere
  std::string data;
  std::string server;
  std::string store;
  bool json = false;
  bool no_colour = false;
};
ExitCode verify(const VerifyOptions& options);

struct GraphOptions {
  std::string data;
  std::string server;
  std::string what;  // a lifecycle, a workflow's file, or the name of a published one
  std::optional<int> version;
  DiagramFormat format = DiagramFormat::mermaid;
};
ExitCode print_graph(const GraphOptions& options);

struct CheckOptions {
  std::vector<std::string> files;
  std::string tools;   // a file with the names of remote workers' tools; empty: any well-formed name may be one
  std::string server;  // whose connected workers' tools are known; empty: none
};
ExitCode check_files(const CheckOptions& options);

struct BenchOptions {
  std::string data;
  bool json = false;
};
ExitCode measure(const BenchOptions& options);

enum class Shell { bash, zsh, fish };
template <>
inline constexpr std::array enum_names<Shell>{std::string_view("bash"), std::string_view("zsh"),
                                              std::string_view("fish")};

struct CompletionOptions {
  Shell shell = Shell::bash;
};
ExitCode print_completion(const CompletionOptions& options);

struct VersionOptions {
  bool json = false;
};
ExitCode print_version(const VersionOptions& options);

enum class TaskAction { list, add, show, run, cancel, accept, reject, resume, answer, change, delete_, board, logs };
template <>
inline constexpr std::array enum_names<TaskAction>{
    std::string_view("list"),   std::string_view("add"),    std::string_view("show"),   std::string_view("run"),
    std::string_view("cancel"), std::string_view("accept"), std::string_view("reject"), std::string_view("resume"),
    std::string_view("answer"), std::string_view("change"), std::string_view("delete"), std::string_view("board"),
    std::string_view("logs")};

struct TaskOptions {
  TaskAction what = TaskAction::list;
  std::string data;
  std::string server;
  bool json = false;
  std::string task;   // or, for add, its title
  std::string text;   // a prompt, an answer, a comment, a reason
  std::string value;  // an answer that is not text: JSON
  // add
  std::string workflow;
  std::string input;
  std::string agent;
  std::string model;
  std::vector<std::string> command;
  std::string folder;
  bool mcp = false;     // fail without pawl's tools
  bool no_mcp = false;  // do not give them
  std::string sandbox;
  std::string permission_mode;
  std::vector<std::string> allowed_tools;
  std::vector<std::string> disallowed_tools;
  bool project_settings = false;
  std::string parent;
  std::vector<std::string> depends_on;
  std::string budget;
  std::string timeout;
  std::string priority;
  std::vector<std::string> tags;  // also a filter of lists
  std::string workspace;
  bool run = false;
  // list
  std::string state;
  // cancel, delete
  bool subtasks = false;
  // logs
  bool follow = false;
};
ExitCode manage_tasks(const TaskOptions& options);

struct InboxOptions {
  std::string data;
  std::string server;
  bool json = false;
};
ExitCode show_inbox(const InboxOptions& options);

}  // namespace pawl
