// pawl run: carries one workflow through, from its file to its result.
#include <fmt/format.h>

#include <boost/json/object.hpp>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/follow.h"
#include "cli/recorded_run.h"
#include "cli/served_run.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "core/json.h"
#include "crypto/hmac.h"

namespace pawl {
namespace {

// For a server that goes away while it is asked for the run.
constexpr auto creation_patience = std::chrono::seconds(20);

JsonText read_input(const std::string& text) {
  if (text.empty()) return "{}";
  bool is_file = text == "-" || text[0] == '@';
  std::string name = text == "-" ? "stdin" : is_file ? text.substr(1) : "--input";
  std::string content = is_file ? read_whole_file(text == "-" ? text : text.substr(1)) : text;
  if (content.size() > run_input_bytes_max)
    throw Stop(exit_usage, fmt::format("{}: an input may have {} bytes", name, run_input_bytes_max));
  auto value = parse_json(content);
  if (!value)
    throw Stop(exit_usage, fmt::format("{} is not JSON: {}{}", name, value.error(),
                                       is_file ? "" : "\n  (a file is named with @: --input @order.json)"));
  return canonical(*value);
}

template <class T>
T or_stop(std::expected<T, Refusal> answer) {
  if (answer) return std::move(*answer);
  throw Stop(answer.error().code == RefusalCode::not_found ? exit_not_found : exit_usage, answer.error().message);
}

struct RunSource {
  std::string source;
  JsonText input;
  std::optional<int> version;  // of a workflow that is published already; otherwise it is published first
};

// From its first event on: they come as news.
ExitCode follow_new(Carrier& carrier, TenantId tenant, RunId id, const Workflow& workflow,
                    const FollowOptions& options) {
  Run run;
  run.workflow = &workflow;
  run.tenant = tenant;
  run.id = id;
  std::vector<Run> runs;
  runs.push_back(std::move(run));
  return follow(carrier, std::move(runs), options);
}

std::string in_hex(std::string_view bytes) {
  std::string out;
  for (unsigned char byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

// What the server finds wrong with a definition, with the name that its author knows it by.
Json publish_or_stop(const Remote& remote, const Workflow& workflow, const RunSource& request,
                     const std::string& file) try {
  return remote.put("/workflows/" + percent_encode(workflow.name.text), request.source);
} catch (const Stop& stop) {
  std::string text = stop.what(), from = workflow.name.text + ":", out;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    std::string line = text.substr(begin, end - begin);
    out += line.starts_with(from) ? file + line.substr(from.size() - 1) : line;
    begin = end;
  }
  throw Stop(stop.code(), out);
}

ExitCode run_on_server(const Remote& remote, const RunSource& request, const RunOptions& options) {
  refuse_settings_of_runs(options.progress);
  // Its name and its shape; which tools there are, the server knows.
  auto workflow = compile_workflow(request.source, options.file, nullptr);
  if (!workflow) throw Stop(exit_usage, workflow.error());
  workflow->version =
      request.version
          ? *request.version
          : static_cast<int>(publish_or_stop(remote, *workflow, request, options.file).at("version").as_int64());
  boost::json::object body{{"workflow", workflow->name.text},
                           {"version", workflow->version},
                           {"workspace", options.workspace},
                           {"input", parse_json(request.input).value_or(nullptr)}};
  if (options.budget) body["budget_usd"] = print_money(*options.budget);
  if (options.timeout) body["timeout"] = print_duration(*options.timeout);
  std::string key = in_hex(random_bytes(16));
  Json created = insist([&] { return remote.post_once("/runs", body, key); }, creation_patience);
  const RunId id = RunId::parse(created.at("id").as_string()).value_or(RunId{});
  const TenantId tenant = TenantId::parse(created.at("tenant_id").as_string()).value_or(TenantId{});
  block_signals();
  ServedRun run(remote, id, 0);
  return follow_new(run, tenant, id, *workflow, follow_options(remote.location(), options.progress));
}

ExitCode run_here(const std::filesystem::path& folder, const RunSource& request, const RunOptions& options) {
  Toolbox toolbox = toolbox_for(options.progress);
  // Before the folder is touched: a definition that does not validate leaves no trace.
  const auto workflow = compile_workflow(request.source, options.file, &toolbox.catalog);
  if (!workflow) throw Stop(exit_usage, workflow.error());
  block_signals();
  auto store = open_folded(folder, toolbox);
  Session session(*store, toolbox, std::set<RunId>{});
  Runtime& runtime = session.runtime();
  WorkflowRef published{.name = workflow->name, .version = request.version.value_or(0)};
  if (!request.version)
    published = or_stop(runtime.ask(PublishWorkflow{session.tenant(), request.source, options.file, this_person()}));
  NewRun run{.tenant = session.tenant(),
             .workflow = published.name,
             .version = published.version,
             .workspace = {options.workspace},
             .input = request.input,
             .by = this_person(),
             .trigger_type = "cli",
             .trigger_ref = options.file,
             .budget = options.budget,
             .timeout = options.timeout};
  auto created = or_stop(runtime.ask(std::move(run)));
  auto state = or_stop(runtime.ask(InspectRun{session.tenant(), created.run}));
  return follow_new(session, session.tenant(), created.run, *state->workflow,
                    follow_options(location_of(folder), options.progress));
}

// A file is a file, whatever it is called; what is no file and has the form of a name is a published workflow's.
bool is_published_name(const RunOptions& options) {
  if (options.file == "-" || std::filesystem::exists(options.file)) return false;
  const bool looks_like_file =
      options.file.ends_with(".yaml") || options.file.ends_with(".yml") || options.file.ends_with(".json");
  return is_valid_name(options.file) && !looks_like_file;
}

}  // namespace

ExitCode run_workflow(const RunOptions& options) {
  if (options.file == "-" && options.input == "-")
    throw Stop(exit_usage, "stdin cannot be both the workflow and its input");
  RunSource request{.source = {}, .input = read_input(options.input), .version = {}};
  if (!is_valid_name(options.workspace))
    throw Stop(exit_usage, "--workspace: a name is letters, digits, . _ and -, at most 64 of them");
  auto folder = data_folder(options.progress.data);
  auto remote = Remote::find(options.progress.server, folder);
  if (is_published_name(options)) {
    WorkflowSource found = remote ? read_workflow(*remote, options.file, options.version)
                                  : read_workflow("", folder, options.file, options.version);
    request.source = std::move(found.text);
    request.version = found.version;
  } else {
    if (options.version) throw Stop(exit_usage, "--version is for a published workflow, by its name");
    request.source = read_whole_file(options.file);
  }
  if (remote) return run_on_server(*remote, request, options);
  return run_here(folder, request, options);
}

}  // namespace pawl
