#include "core/task.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

struct BadSpec {
  std::string reason;
};

const Json* find(const object& in, std::string_view key) { return in.if_contains(key); }

std::string text_of(const object& in, std::string_view key) {
  const Json* value = find(in, key);
  if (!value) return {};
  if (!value->is_string()) throw BadSpec{"\"" + std::string(key) + "\" must be a string"};
  return std::string(value->get_string());
}

template <class T, class Parse>
std::optional<T> parsed(const object& in, std::string_view key, Parse parse) {
  if (!find(in, key)) return std::nullopt;
  std::optional<T> value = parse(text_of(in, key));
  if (!value) throw BadSpec{"\"" + std::string(key) + "\" cannot be read"};
  return value;
}

template <class Visit>
void each_text(const object& in, std::string_view key, Visit visit) {
  const Json* value = find(in, key);
  if (!value) return;
  if (!value->is_array()) throw BadSpec{"\"" + std::string(key) + "\" must be a list"};
  for (const Json& item : value->get_array()) {
    if (!item.is_string()) throw BadSpec{"\"" + std::string(key) + "\" must hold strings"};
    visit(std::string(item.get_string()));
  }
}

TaskSpec read_spec(const object& in) {
  TaskSpec out;
  out.title = text_of(in, "title");
  out.agent = parsed<TaskAgent>(in, "agent", parse_enum<TaskAgent>).value_or(TaskAgent::none);
  out.prompt = text_of(in, "prompt");
  if (const Json* settings = find(in, "settings")) out.settings = canonical(*settings);
  out.workflow.text = text_of(in, "workflow");
  if (const Json* input = find(in, "input")) out.input = canonical(*input);
  out.parent = parsed<TaskId>(in, "parent_task_id", TaskId::parse);
  each_text(in, "depends_on", [&](const std::string& text) {
    auto id = TaskId::parse(text);
    if (!id) throw BadSpec{"\"depends_on\" must hold ids of tasks"};
    out.depends_on.push_back(*id);
  });
  out.max_budget = parsed<Money>(in, "max_budget_usd", parse_money);
  out.timeout = parsed<Duration>(in, "timeout", parse_duration);
  out.priority = parsed<TaskPriority>(in, "priority", parse_enum<TaskPriority>).value_or(TaskPriority::normal);
  each_text(in, "tags", [&](std::string text) { out.tags.push_back(std::move(text)); });
  if (out.title.empty()) throw BadSpec{"a task has a title"};
  if ((out.agent == TaskAgent::none) == out.workflow.empty())
    throw BadSpec{"a task is carried out by an agent or by a workflow"};
  return out;
}

}  // namespace

JsonText print_task_spec(const TaskSpec& spec) {
  object out{{"title", spec.title}, {"priority", to_string(spec.priority)}};
  if (spec.agent != TaskAgent::none) {
    out["agent"] = to_string(spec.agent);
    out["prompt"] = spec.prompt;
    if (!spec.settings.empty()) out["settings"] = value_of(spec.settings);
  } else {
    out["workflow"] = spec.workflow.text;
    out["input"] = value_of(spec.input);
  }
  if (spec.parent) out["parent_task_id"] = spec.parent->str();
  if (!spec.depends_on.empty()) {
    array ids;
    for (TaskId id : spec.depends_on) ids.emplace_back(id.str());
    out["depends_on"] = std::move(ids);
  }
  if (spec.max_budget) out["max_budget_usd"] = print_money(*spec.max_budget);
  if (spec.timeout) out["timeout"] = print_duration(*spec.timeout);
  if (!spec.tags.empty()) {
    array tags;
    for (const std::string& tag : spec.tags) tags.emplace_back(tag);
    out["tags"] = std::move(tags);
  }
  return canonical(out);
}

std::expected<TaskSpec, std::string> parse_task_spec(std::string_view text) {
  auto value = parse_json(text);
  if (!value) return std::unexpected(value.error());
  if (!value->is_object()) return std::unexpected("a task is an object");
  try {
    return read_spec(value->get_object());
  } catch (const BadSpec& bad) {
    return std::unexpected(bad.reason);
  }
}

std::expected<TaskSpec, std::string> changed_spec(const TaskSpec& spec, std::string_view changes) {
  constexpr std::array changeable{std::string_view("prompt"), std::string_view("timeout"),
                                  std::string_view("max_budget_usd"), std::string_view("tags"),
                                  std::string_view("priority")};
  auto given = parse_json(changes);
  if (!given || !given->is_object()) return std::unexpected("changes are an object");
  object whole = value_of(print_task_spec(spec)).get_object();
  for (const auto& [key, value] : given->get_object()) {
    if (std::ranges::find(changeable, std::string_view(key)) == changeable.end())
      return std::unexpected("\"" + std::string(key) + "\" cannot be changed");
    if (key == "prompt" && spec.agent == TaskAgent::none)
      return std::unexpected("\"prompt\" is for agents, and this task is a workflow's");
    if (value.is_null())
      whole.erase(key);
    else
      whole[key] = value;
  }
  return parse_task_spec(canonical(whole));
}

WorkflowName carrying_workflow(const TaskSpec& spec) {
  if (spec.agent == TaskAgent::none) return spec.workflow;
  return {"pawl.agent." + std::string(to_string(spec.agent))};
}

bool Task::waits_for(TaskId subtask) const { return std::ranges::find(dropped, subtask) == dropped.end(); }

RunStatus run_status_of(TaskState state) {
  switch (state) {
    case TaskState::pending:
      return RunStatus::created;
    case TaskState::queued:
    case TaskState::running:
      return RunStatus::running;
    case TaskState::ready:
    case TaskState::blocked:
      return RunStatus::waiting;
    case TaskState::completed:
      return RunStatus::success;
    case TaskState::failed:
    case TaskState::budget_exceeded:
      return RunStatus::failed;
    case TaskState::timed_out:
      return RunStatus::timeout;
    case TaskState::cancelled:
      return RunStatus::canceled;
  }
  return RunStatus::created;
}

std::vector<std::string_view> possible_requests(TaskState state) {
  std::vector<std::string_view> out;
  for (const auto& row : task_table) {
    if (row.from != state) continue;
    switch (row.trigger) {
      case TaskTrigger::queue:
      case TaskTrigger::retry:
        out.emplace_back("run");
        break;
      case TaskTrigger::cancel:
      case TaskTrigger::accept:
      case TaskTrigger::reject:
      case TaskTrigger::resume:
      case TaskTrigger::answer:
        out.push_back(to_string(row.trigger));
        break;
      case TaskTrigger::start:
      case TaskTrigger::finish:
      case TaskTrigger::await_subtasks:
      case TaskTrigger::complete:
      case TaskTrigger::fail:
      case TaskTrigger::time_out:
      case TaskTrigger::exceed_budget:
      case TaskTrigger::block:
      case TaskTrigger::unblock:
        break;
    }
  }
  // Not rows of their own: one starts over where another one goes on, the other is a path.
  if (state == TaskState::timed_out) out.emplace_back("run");
  if (state == TaskState::blocked) out.emplace_back("cancel");
  if (!is_active(state) && !is_terminal(state)) out.emplace_back("change");
  if (!is_active(state)) out.emplace_back("delete");
  return out;
}

}  // namespace pawl
