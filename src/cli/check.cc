// pawl check: says everything that is wrong with definitions, each with its place.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <set>
#include <sstream>

#include "cli/commands.h"
#include "cli/files.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/text.h"
#include "core/expression.h"
#include "core/source_reader.h"
#include "tools/jq_modules.h"
#include "tools/jq_pool.h"
#include "tools/tools.h"
#include "yaml/yaml.h"

namespace pawl {
namespace {

// Names with white space or commas between them; what follows a # is for people. A list in YAML or JSON reads the same.
std::vector<ToolName> read_tool_names(const std::string& file) {
  std::vector<ToolName> out;
  std::istringstream lines(read_whole_file(file));
  for (std::string line; std::getline(lines, line);) {
    line.resize(std::min(line.find('#'), line.size()));
    std::ranges::replace_if(
        line, [](char c) { return c == ',' || c == '"' || c == '[' || c == ']'; }, ' ');
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word == "-") continue;
      if (!is_valid_name(word))
        throw Stop(exit_usage, fmt::format("{}: {} is not a tool's name", file, printable(word)));
      out.push_back(ToolName{word});
    }
  }
  return out;
}

std::vector<ToolName> tools_at(const std::string& server) {
  std::set<ToolName> out;
  const Json workers = Remote::require(server, data_folder("")).get("/workers");
  for (const Json& worker : workers.at("items").as_array())
    for (const Json& tool : worker.at("tools").as_array()) out.insert(ToolName{std::string(tool.as_string())});
  return {out.begin(), out.end()};
}

// The program of a step that is a `transform`; a program that is made of expressions is known when the run comes to it.
const SourceNode* jq_program_of(const SourceNode& step) {
  const auto* tool = find_entry(step, "tool");
  const auto* with = find_entry(step, "with");
  if (!tool || tool->value.scalar != "transform" || !with) return nullptr;
  const auto* program = find_entry(with->value, "jq");
  const bool is_text = program && program->value.kind == SourceNode::Kind::scalar;
  return is_text && !is_template(program->value.scalar) ? &program->value : nullptr;
}

// From the document and not from the workflow: those of a definition that has other errors too are looked at.
std::vector<SourceError> jq_errors(JqPool& jq, std::string_view source) {
  std::vector<SourceError> out;
  const auto document = read_yaml(source);
  const auto* steps = document ? find_entry(*document, "steps") : nullptr;
  if (!steps) return out;
  for (const SourceNode& step : steps->value.items) {
    const SourceNode* program = jq_program_of(step);
    if (!program) continue;
    if (reads_modules(program->scalar)) {
      out.push_back({program->place, "`jq` " + std::string(modules_refusal)});
      continue;
    }
    const auto compiled = jq.compile(program->scalar, {});
    if (!compiled && compiled.error().kind == JqError::Kind::program)
      out.push_back({program->place, "`jq` does not compile: " + printable(compiled.error().message)});
  }
  return out;
}

// " (did you mean `transform`?)" of "; did you mean `transform`?"
std::string hint_of(std::string_view suggestion) {
  return suggestion.empty() ? "" : fmt::format(" ({})", suggestion.substr(suggestion.find_first_not_of("; ")));
}

void print_summary(const std::string& file, const Workflow& workflow, const ToolCatalog& catalog) {
  fmt::print("{}: {} has {} step{}, no errors\n", file, workflow.name.text, workflow.steps.size(),
             workflow.steps.size() == 1 ? "" : "s");
  const std::string& description = workflow.description;
  if (!description.empty()) fmt::print("  {}\n", printable(description.substr(0, description.find('\n'))));
  std::vector<std::string_view> built_in{approval_tool.str(), wait_tool.str()};
  for (const ToolSpec& spec : catalog.all()) built_in.push_back(spec.name.str());
  std::set<std::string> remote;
  for (const StepDefinition& step : workflow.steps)
    if (!step.is_gate() && !step.is_wait() && !catalog.find(step.tool))
      remote.insert(step.tool.text + hint_of(suggest(step.tool.text, built_in)));
  if (!remote.empty()) fmt::print("  tools of remote workers: {}\n", fmt::join(remote, ", "));
}

}  // namespace

ExitCode check_files(const CheckOptions& options) {
  Toolbox toolbox;
  if (!options.tools.empty())
    toolbox.catalog.expect_remote_tools(read_tool_names(options.tools));
  else if (!options.server.empty())
    toolbox.catalog.expect_remote_tools(tools_at(options.server));
  else
    toolbox.catalog.expect_remote_tools();
  const ToolLimits limits;
  JqPool jq({.cpu_max = limits.transform_cpu_max,
             .wall_max = limits.transform_wall_max,
             .memory_bytes_max = limits.transform_memory_bytes_max,
             .output_bytes_max = 1 << 10});
  ExitCode out = exit_success;
  for (const std::string& file : options.files) {
    const std::string source = read_whole_file(file);
    auto workflow = compile_workflow(source, file, &toolbox.catalog);
    std::vector<std::string> problems;
    if (!workflow) problems.push_back(workflow.error());
    if (const auto errors = jq_errors(jq, source); !errors.empty()) problems.push_back(print_errors(file, errors));
    for (const std::string& problem : problems) fmt::print(stderr, "{}\n", problem);
    if (problems.empty())
      print_summary(file, *workflow, toolbox.catalog);
    else
      out = exit_usage;
  }
  return out;
}

}  // namespace pawl
