#include "notify/envelope.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "core/event.h"
#include "core/run_lifecycle.h"
#include "core/task.h"
#include "crypto/sha256.h"

namespace pawl::notify {
namespace {

using boost::json::array;
using boost::json::object;

// Wherever they stand in an event: content, and not metadata.
constexpr std::array content_keys{
    std::string_view("input"),    std::string_view("output"), std::string_view("question"),
    std::string_view("answer"),   std::string_view("fields"), std::string_view("before"),
    std::string_view("response"), std::string_view("result"), std::string_view("changes")};

Json without_content(const Json& value) {
  if (const array* list = value.if_array()) {
    array out;
    for (const Json& each : *list) out.push_back(without_content(each));
    return out;
  }
  const object* map = value.if_object();
  if (!map) return value;
  object out;
  for (const auto& [key, each] : *map) {
    if (std::ranges::find(content_keys, std::string_view(key)) == content_keys.end()) {
      out[key] = without_content(each);
      continue;
    }
    std::string text = canonical(each);
    out[key] = object{{"bytes", text.size()}, {"sha256", sha256(text).hex()}};
  }
  return out;
}

// What the run's status is after its own move; nothing for events that do not move it.
std::optional<RunStatus> status_after(std::string_view type) {
  if (type == "run.created") return RunStatus::created;
  for (const auto& row : run_table)
    if (event_name(row.trigger) == type) return row.to;
  return std::nullopt;
}

// The task's state after its own move; what moves nothing leaves it as it is.
TaskState state_after(std::string_view type, TaskState now) {
  if (type == "task.created") return TaskState::pending;
  if (type == "task.asked" || type == "task.question_closed") return TaskState::blocked;
  for (const auto& row : task_table)
    if (event_name(row.trigger) == type) return row.to;
  return now;
}

// The requests that this event asks people for.
array requests_after(std::string_view type, const std::optional<TaskState>& state) {
  array out;
  if (type == "approval.requested" || type == "approval.reminded" || type == "approval.escalated")
    out = {"approve", "reject"};
  if (type == "step.asked") out = {"answer"};
  // These leave a task BLOCKED, by its subtasks only.
  const bool has_question = type != "task.subtasks_awaited" && type != "task.question_closed";
  if (state)
    for (std::string_view request : possible_requests(*state))
      if (request != "answer" || has_question) out.emplace_back(request);
  return out;
}

}  // namespace

std::string envelope_id(RunId run, std::uint64_t seq) {
  std::string id = run.str();
  return "evt_" + id.substr(id.find('_') + 1) + "_" + std::to_string(seq);
}

object envelope_of(const JournalEvent& event, const object& parsed, std::string_view workflow, const Task* task) {
  bool is_task = workflow == task_workflow_name;
  std::string run = is_task ? task_of_stream(event.run()).str() : event.run().str();
  std::string_view type = parsed.at("type").get_string();
  object data{{"tenant", event.tenant.name}, {is_task ? "task_id" : "run_id", run}, {"seq", event.seq}};
  if (!is_task) data["workflow"] = workflow;
  if (auto status = status_after(type); status && !is_task) data["status"] = to_string(*status);
  std::optional<TaskState> state;
  if (task) {
    state = state_after(type, task->state);
    data["title"] = task->spec.title;
    data["state"] = to_string(*state);
  }
  if (array requests = requests_after(type, state); !requests.empty()) data["requests"] = std::move(requests);
  object details = without_content(parsed).as_object();
  // An answer, a comment: what people and agents say to each other.
  if (const Json* message = details.if_contains("message"); message && is_task)
    details["message"] = object{{"bytes", message->as_string().size()}, {"sha256", sha256(message->as_string()).hex()}};
  data["event"] = details;
  object out{{"specversion", "1.0"},
             {"id", envelope_id(event.run(), event.seq)},
             {"source", "/tenants/" + event.tenant.name + (is_task ? "/tasks/" : "/runs/") + run},
             {"type", std::string("pawl.") + std::string(type)},
             {"subject", run},
             {"time", print_time({parsed.at("at").to_number<std::int64_t>()})},
             {"datacontenttype", "application/json"},
             // Deliveries may overtake each other; within a run this says which was first.
             {"sequence", std::to_string(event.seq)},
             {"sequencetype", "Integer"},
             {"data", data}};
  if (canonical(out).size() > envelope_bytes_max) {
    data.erase("event");
    data["event_omitted_bytes"] = canonical(details).size();
    out["data"] = data;
  }
  return out;
}

}  // namespace pawl::notify
