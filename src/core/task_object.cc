#include "core/task_object.h"

#include <algorithm>
#include <boost/json/array.hpp>

#include "core/characters.h"
#include "core/run_object.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

Json text_or_null(std::string_view text) { return text.empty() ? Json(nullptr) : Json(text); }

array ids_of(const std::vector<TaskId>& ids) {
  array out;
  for (TaskId id : ids) out.emplace_back(id.str());
  return out;
}

object execution_object(const TaskExecution& execution) {
  return {{"number", execution.number},
          {"run_id", execution.run.str()},
          {"session_id", execution.session},
          {"resumes", execution.resumes},
          {"message", value_of(execution.message)},
          {"log_folder", "logs/" + execution.run.str()},
          {"queued_at", time_of(execution.queued_at)},
          {"started_at", time_of(execution.started_at)},
          {"ended_at", time_of(execution.ended_at)},
          {"outcome", execution.outcome ? Json(to_string(*execution.outcome)) : Json(nullptr)},
          {"cost_usd", print_money(execution.cost)},
          {"result", value_of(execution.result)}};
}

constexpr std::size_t summary_text_bytes_max = 400;

// Enough to know what was done.
Json result_summary(const JsonText& result) {
  Json out = value_of(result);
  if (!out.is_object()) return nullptr;
  object& map = out.get_object();
  if (Json& text = map["text"]; text.is_string() && text.get_string().size() > summary_text_bytes_max) {
    map["is_cut"] = true;
    text = Json(first_characters(std::string(text.get_string()), summary_text_bytes_max));
  }
  if (!map["output"].is_null()) map["is_cut"] = true;
  map["output"] = nullptr;
  if (Json& denials = map["permission_denials"]; denials.is_array())
    for (Json& each : denials.get_array())
      if (each.is_object()) each.get_object()["input"] = nullptr;
  return out;
}

}  // namespace

object task_summary(const Run& run) {
  const Task& task = *run.task;
  const TaskSpec& spec = task.spec;
  array tags, possible;
  for (const std::string& tag : spec.tags) tags.emplace_back(tag);
  // One that waits for its subtasks only has no question.
  for (std::string_view request : possible_requests(task.state))
    if (request != "answer" || !task.question.empty()) possible.emplace_back(request);
  return {{"id", task_of_stream(run.id).str()},
          {"title", spec.title},
          {"state", to_string(task.state)},
          {"agent", spec.agent == TaskAgent::none ? Json(nullptr) : Json(to_string(spec.agent))},
          {"workflow", text_or_null(spec.workflow.text)},
          {"workspace", run.workspace.text},
          {"parent_task_id", spec.parent ? Json(spec.parent->str()) : Json(nullptr)},
          {"depends_on", ids_of(spec.depends_on)},
          {"subtasks", ids_of(task.subtasks)},
          {"priority", to_string(spec.priority)},
          {"tags", std::move(tags)},
          {"question", value_of(task.question)},
          {"result", task.latest() ? result_summary(task.latest()->result) : Json(nullptr)},
          {"run_id", task.latest() ? Json(task.latest()->run.str()) : Json(nullptr)},
          {"error_code", run.diagnostic ? Json(run.diagnostic->error_code) : Json(nullptr)},
          {"cost_usd", print_money(run.cost)},
          {"created_at", time_of(run.created_at)},
          {"updated_at", time_of(task.updated_at)},
          {"possible", std::move(possible)}};
}

object task_object(const Run& run) {
  const Task& task = *run.task;
  const TaskSpec& spec = task.spec;
  bool is_agents = spec.agent != TaskAgent::none;
  object out = task_summary(run);
  array executions, runs;
  for (const TaskExecution& each : task.executions) {
    executions.push_back(execution_object(each));
    Json id(each.run.str());
    if (runs.empty() || runs.back() != id) runs.push_back(std::move(id));  // an answer goes on with the run before
  }
  out["prompt"] = is_agents ? Json(spec.prompt) : Json(nullptr);
  out["settings"] = value_of(spec.settings);
  out["input"] = is_agents ? Json(nullptr) : value_of(spec.input);
  out["max_budget_usd"] = spec.max_budget ? Json(print_money(*spec.max_budget)) : Json(nullptr);
  out["timeout"] = spec.timeout ? Json(print_duration(*spec.timeout)) : Json(nullptr);
  out["answer"] = value_of(task.answer);
  out["result"] = task.latest() ? value_of(task.latest()->result) : Json(nullptr);
  out["rejection_comment"] = text_or_null(task.rejection_comment);
  out["session_id"] = task.latest() ? Json(task.latest()->session) : Json(nullptr);
  out["dropped"] = ids_of(task.dropped);
  out["executions"] = std::move(executions);
  out["runs"] = std::move(runs);
  out["created_by"] = run.created_by.text;
  out["diagnostic"] = run.diagnostic ? Json(diagnostic_object(*run.diagnostic)) : Json(nullptr);
  out["seq"] = run.seq;
  return out;
}

}  // namespace pawl
