// pawl run: carries one workflow through, from its file to its result.
#include <fmt/format.h>

#include "cli/files.h"
#include "cli/follow.h"
#include "cli/verbs.h"
#include "core/json.h"

namespace pawl {
namespace {

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

}  // namespace

ExitCode run_workflow(const RunOptions& options) {
  if (options.file == "-" && options.input == "-")
    throw Stop(exit_usage, "stdin cannot be both the workflow and its input");
  std::string source = read_whole_file(options.file);
  JsonText input = read_input(options.input);
  Toolbox toolbox;
  // Before the folder is touched: a definition that does not validate leaves no trace.
  if (auto workflow = compile_workflow(source, options.file, &toolbox.catalog); !workflow)
    throw Stop(exit_usage, workflow.error());
  if (!is_valid_name(options.workspace))
    throw Stop(exit_usage, "--workspace: a name is letters, digits, . _ and -, at most 64 of them");

  block_signals();
  auto folder = data_folder(options.progress.data);
  auto store = open_folded(folder, toolbox);
  Session session(*store, toolbox, std::set<RunId>{});
  Runtime& runtime = session.runtime();
  auto published = or_stop(runtime.ask<WorkflowRef>([&](Engine& engine, Reply<WorkflowRef> reply) {
    engine.publish(session.tenant(), source, options.file, this_person(), std::move(reply));
  }));
  NewRun request{.tenant = session.tenant(),
                 .workflow = published.name,
                 .version = published.version,
                 .workspace = {options.workspace},
                 .input = input,
                 .by = this_person(),
                 .trigger_type = "cli",
                 .trigger_ref = options.file,
                 .budget = options.budget,
                 .timeout = options.timeout};
  auto created = or_stop(runtime.ask<RunAnswer>(
      [&](Engine& engine, Reply<RunAnswer> reply) { engine.create_run(std::move(request), std::move(reply)); }));
  auto state = or_stop(runtime.ask<std::shared_ptr<const Run>>(
      [&](Engine& engine, auto reply) { engine.inspect(session.tenant(), created.run, std::move(reply)); }));
  // From its first event on: they wait in the session's news.
  Run run;
  run.workflow = state->workflow;
  run.tenant = session.tenant();
  run.id = created.run;
  std::vector<Run> runs;
  runs.push_back(std::move(run));
  return follow(session, std::move(runs), follow_options(folder, options.progress));
}

}  // namespace pawl
