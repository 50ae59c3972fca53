// What a task's run came to, cut to what a person reads before accepting it.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "core/characters.h"
#include "core/run.h"
#include "core/task.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

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

JsonText task_result_of(const StepDefinition& definition, const Json& output) {
  object out{{"step", definition.id.text}, {"text", nullptr}, {"output", nullptr}};
  out["permission_denials"] = array{};
  bool is_cut = value_in(output, "result_is_cut") != nullptr;
  const Json* said = definition.tool.text.starts_with("agent.") ? value_in(output, "result") : nullptr;
  const Json* given = said ? value_in(output, "output") : &output;
  if (given && canonical(*given).size() <= task_result_output_bytes_max)
    out["output"] = *given;
  else if (given)
    is_cut = true;
  if (said && said->is_string()) {
    const std::string_view whole = said->get_string();
    std::string text(first_characters(whole, task_result_text_bytes_max));
    is_cut = is_cut || text.size() < whole.size();
    const Json* denials = value_in(output, "permission_denials");
    if (denials && denials->is_array() && !denials->get_array().empty()) {
      out["permission_denials"] = *denials;
      text += denial_note(denials->get_array());
    }
    out["text"] = text;
  }
  out["is_cut"] = is_cut;
  return canonical(out);
}

}  // namespace

JsonText task_result_of(const Run& run) {
  for (auto i = static_cast<StepIndex>(run.steps.size()); i-- > 0;) {
    const Step& step = run.steps[i];
    if (step.status != StepStatus::succeeded || step.output.empty()) continue;
    const Json output = value_of(step.output);
    if (!output.is_null()) return task_result_of(run.definition(i), output);
  }
  return {};
}

}  // namespace pawl
