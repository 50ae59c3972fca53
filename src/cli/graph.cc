// pawl graph: a lifecycle from its table, or a workflow's steps and what they need.
#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <filesystem>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/recorded_run.h"
#include "cli/session.h"
#include "cli/text.h"

namespace pawl {
namespace {

// Step ids hold dots and dashes that Mermaid would take for its own; nodes are numbered and the ids are labels.
std::string workflow_mermaid(const Workflow& workflow) {
  std::string out = fmt::format("---\ntitle: {}\n---\nflowchart TD\n", workflow.name.text);
  for (std::size_t i = 0; i < workflow.steps.size(); ++i) {
    const StepDefinition& step = workflow.steps[i];
    auto label = fmt::format("\"{}<br/><small>{}</small>\"", step.id.text, step.tool.text);
    out += step.is_gate() ? fmt::format("  s{}{{{{{}}}}}\n", i, label) : fmt::format("  s{}[{}]\n", i, label);
  }
  for (std::size_t i = 0; i < workflow.steps.size(); ++i)
    for (StepIndex need : workflow.steps[i].needs) out += fmt::format("  s{} --> s{}\n", need, i);
  return out;
}

std::string workflow_dot(const Workflow& workflow) {
  std::string out =
      fmt::format("digraph \"{}\" {{\n  rankdir=TB;\n  node [shape=box, style=rounded];\n", workflow.name.text);
  for (const StepDefinition& step : workflow.steps)
    out += fmt::format("  \"{}\" [label=\"{}\\n{}\"{}];\n", step.id.text, step.id.text, step.tool.text,
                       step.is_gate() ? ", shape=hexagon, style=solid" : "");
  for (const StepDefinition& step : workflow.steps)
    for (StepIndex need : step.needs)
      out += fmt::format("  \"{}\" -> \"{}\";\n", workflow.steps[need].id.text, step.id.text);
  return out + "}\n";
}

std::string names() {
  std::string out;
  for (std::string_view name : enum_names<LifecycleName>) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

// A file, or else the name of a published one.
Workflow workflow_of(const GraphOptions& options) {
  bool is_file = options.what == "-" || std::filesystem::exists(options.what);
  if (is_file && options.version) throw Stop(exit_usage, "--version is for published workflows, and this is a file");
  if (is_file) {
    Toolbox toolbox;
    toolbox.catalog.expect_remote_tools();
    auto workflow = compile_workflow(read_whole_file(options.what), options.what, &toolbox.catalog);
    if (!workflow) throw Stop(exit_usage, workflow.error());
    return std::move(*workflow);
  }
  try {
    auto source = read_workflow(options.server, data_folder(options.data), options.what, options.version);
    auto workflow = compile_workflow(source.text, source.name, nullptr);
    if (!workflow) throw Stop(exit_ended_badly, workflow.error());
    return std::move(*workflow);
  } catch (const Stop& stop) {
    if (stop.code() != exit_not_found) throw;
    throw Stop(exit_not_found, fmt::format("{} is neither a lifecycle ({}) nor a file nor a published workflow: {}",
                                           printable(options.what), names(), stop.what()));
  }
}

}  // namespace

ExitCode print_graph(const GraphOptions& options) {
  if (auto lifecycle = parse_enum<LifecycleName>(options.what)) {
    fmt::print("{}", diagram(*lifecycle, options.format));
    return exit_success;
  }
  Workflow workflow = workflow_of(options);
  fmt::print("{}", options.format == DiagramFormat::dot ? workflow_dot(workflow) : workflow_mermaid(workflow));
  return exit_success;
}

}  // namespace pawl
