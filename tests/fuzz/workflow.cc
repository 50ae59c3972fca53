// Definitions: YAML, and what a workflow makes of it.
#include "core/workflow.h"

#include <algorithm>
#include <optional>

#include "core/characters.h"
#include "core/expression.h"
#include "core/source_reader.h"
#include "fuzz.h"
#include "yaml/yaml.h"

namespace pawl::fuzz {
namespace {

ToolCatalog make_tools() {
  using Kind = ToolKey::Kind;
  ToolCatalog tools;
  tools.add({.name = {"noop"}, .keys = {}, .writes = ToolSpec::Writes::never});
  tools.add({.name = {"http.request"},
             .keys = {{"url", true, Kind::text},
                      {"method", false, Kind::text},
                      {"headers", false, Kind::text_map},
                      {"body", false, Kind::any}},
             .writes = ToolSpec::Writes::by_method});
  tools.add({.name = {"shell"},
             .keys = {{"run", true, Kind::text},
                      {"args", false, Kind::text_list},
                      {"env", false, Kind::map},
                      {"quiet", false, Kind::boolean},
                      {"nice", false, Kind::number},
                      {"items", false, Kind::list},
                      {"after", false, Kind::duration}}});
  return tools;
}

void check_error(const SourceError& error, std::string_view input) {
  check(!error.reason.empty(), "an error says why");
  check(!find_invalid_utf8(error.reason), "an error is text");
  check(error.reason.find('\n') == std::string::npos, "an error is one line");
  check(error.place.line >= 1 && error.place.column >= 1, "an error has a place");
  const auto lines = 1 + std::count_if(input.begin(), input.end(), [](char c) { return c == '\n' || c == '\r'; });
  check(error.place.line <= lines, "an error's line is in the document");
  check(static_cast<std::size_t>(error.place.column) <= input.size() + 1, "an error's column is in the document");
}

void check_nodes(const SourceNode& node, std::size_t depth) {
  check(depth <= YamlLimits{}.depth_max, "a document is as flat as its limit says");
  check(node.place.line >= 1 && node.place.column >= 1, "a value has a place");
  check(!find_invalid_utf8(node.scalar), "a value is text");
  for (const SourceNode& item : node.items) check_nodes(item, depth + 1);
  for (std::size_t i = 0; i < node.entries.size(); ++i) {
    check(find_entry(node, node.entries[i].key) == &node.entries[i], "a key comes once");
    check_nodes(node.entries[i].value, depth + 1);
  }
}

// JSON is YAML: where both readers take a text, they must see the same.
void check_as_json(const SourceNode& document, std::string_view input) {
  const auto expected = parse_json(input);
  if (!expected) return;
  SourceReader reader;
  const Json value = reader.json(document);
  if (reader.error_count() == 0) check_equal(canonical(value), canonical(*expected), "JSON means the same as YAML");
}

void check_workflow(const Workflow& workflow, bool with_catalogue) {
  check(is_valid_name(workflow.name.text), "a workflow has a name");
  check(!workflow.steps.empty() && workflow.steps.size() <= steps_max, "a workflow has steps, and not too many");
  std::vector<bool> reachable(workflow.steps.size());
  for (std::size_t found = 1; found > 0;) {
    found = 0;
    for (std::size_t i = 0; i < workflow.steps.size(); ++i) {
      const auto& needs = workflow.steps[i].needs;
      check(std::ranges::all_of(needs, [&](StepIndex need) { return need < workflow.steps.size(); }),
            "needs are steps");
      if (reachable[i] || !std::ranges::all_of(needs, [&](StepIndex need) { return reachable[need]; })) continue;
      reachable[i] = true;
      ++found;
    }
  }
  check(std::ranges::all_of(reachable, [](bool is) { return is; }), "every step's turn comes");
  for (std::size_t i = 0; i < workflow.steps.size(); ++i) {
    const StepDefinition& step = workflow.steps[i];
    check(is_valid_name(step.id.text), "a step has a name");
    check(is_valid_name(step.tool.text) || !with_catalogue, "a tool has a name");
    check(workflow.find(step.id) == std::optional(static_cast<StepIndex>(i)), "a step's id is its own");
    check(step.timeout.count() > 0 && step.lease.count() > 0, "spans are not empty");
    check(step.retry.max_attempts >= 1, "a step is tried");
    check(step.approval.quorum >= 1, "somebody decides");
    check(find_expressions(step.idempotency_key).has_value(), "templates are sound");
    if (step.with_is_constant) check(parse_json(step.with_text).has_value(), "a constant input is JSON");
    check(parse_json(canonical(step.with)).has_value(), "an input is JSON");
  }
}

}  // namespace

FUZZ_TARGET(workflow) {
  static const ToolCatalog tools = make_tools();
  const auto document = read_yaml(input);
  if (!document) return check_error(document.error(), input);
  check_nodes(*document, 0);
  check_as_json(*document, input);
  std::optional<std::size_t> steps;
  for (const ToolCatalog* known : {&tools, static_cast<const ToolCatalog*>(nullptr)}) {
    const auto workflow = read_workflow(*document, known);
    if (workflow) {
      check_workflow(*workflow, known != nullptr);
      check(!steps || *steps == workflow->steps.size(), "the catalogue only refuses");
      steps = workflow->steps.size();
      continue;
    }
    check(!steps, "what passes with the catalogue passes without");
    const auto& errors = workflow.error();
    check(!errors.empty() && errors.size() <= source_errors_max, "a refusal has reasons, and not too many");
    for (const SourceError& error : errors) check_error(error, input);
    check(std::ranges::is_sorted(errors, {},
                                 [](const SourceError& e) { return std::pair(e.place.line, e.place.column); }),
          "errors come in the document's order");
  }
}

}  // namespace pawl::fuzz
