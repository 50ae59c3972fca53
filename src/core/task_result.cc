// What a task's run came to, cut to what a person reads before accepting it.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "core/characters.h"
#include "core/run.h"
#include "core/task.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::size_t task_result_denials_max = 20;

const Json* value_in(const Json& in, std::string_view key) {
  const auto* map = in.if_object();
  const Json* value = map ? map->if_contains(key) : nullptr;
  return value && !value->is_null() ? value : nullptr;
}

// Whoever reads only the text must not miss it.
std::string denial_note(const array& denials) {
  std::string tools;
  for (const Json& each : denials)
    if (const Json* tool = value_in(each, "tool"); tool && tool->is_string() && !tools.contains(tool->get_string()))
      tools += (tools.empty() ? "" : ", ") + std::string(tool->get_string());
  return "\n\nThe agent was not permitted to use: " + tools + ".";
}

bool is_agent(const StepDefinition& definition) { return definition.tool.text.starts_with("agent."); }

// Of every agent of the run: the last step may be another one.
array denials_of(const Run& run) {
  array out;
  for (StepIndex i = 0; i < run.steps.size(); ++i) {
    if (!is_agent(run.definition(i)) || run.steps[i].status != StepStatus::succeeded) continue;
    const Json output = value_of(run.steps[i].output);
    const Json* denials = value_in(output, "permission_denials");
    if (!denials || !denials->is_array()) continue;
    for (const Json& each : denials->get_array())
      if (out.size() < task_result_denials_max) out.push_back(each);
  }
  return out;
}

JsonText task_result_of(const StepDefinition& definition, const Json& output, array denials) {
  object out{{"step", definition.id.text}, {"text", nullptr}, {"output", nullptr}};
  bool is_cut = value_in(output, "result_is_cut") != nullptr;
  const Json* said = is_agent(definition) ? value_in(output, "result") : nullptr;
  const Json* given = said ? value_in(output, "output") : &output;
  if (given && canonical(*given).size() <= task_result_output_bytes_max)
    out["output"] = *given;
  else if (given)
    is_cut = true;
  if (said && said->is_string()) {
    const std::string_view whole = said->get_string();
    std::string text(first_characters(whole, task_result_text_bytes_max));
    is_cut = is_cut || text.size() < whole.size();
    if (!denials.empty()) text += denial_note(denials);
    out["text"] = text;
  }
  out["permission_denials"] = std::move(denials);
  out["is_cut"] = is_cut;
  return canonical(out);
}

}  // namespace

JsonText task_result_of(const Run& run) {
  for (auto i = static_cast<StepIndex>(run.steps.size()); i-- > 0;) {
    const Step& step = run.steps[i];
    if (step.status != StepStatus::succeeded || step.output.empty()) continue;
    const Json output = value_of(step.output);
    if (!output.is_null()) return task_result_of(run.definition(i), output, denials_of(run));
  }
  return {};
}

}  // namespace pawl
