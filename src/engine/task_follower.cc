#include "engine/task_follower.h"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <stdexcept>

#include "engine/countdown.h"

namespace pawl {
namespace {

constexpr std::size_t runs_remembered_max = 100'000;
constexpr std::size_t followed_at_once_max = 500;
constexpr std::size_t live_page = 500;

// Whether a task may have to follow what its run did.
bool may_concern_task(const EventHeader& event) {
  if (event.subject() == "run") return true;
  using enum StepTrigger;
  return std::ranges::any_of(std::array{ask, claim, answer},
                             [&](StepTrigger trigger) { return event_name(trigger) == event.type; });
}

std::optional<std::string> text_at(const boost::json::object& line, std::string_view key) {
  const Json* value = line.if_contains(key);
  return value && value->is_string() ? std::optional(std::string(value->get_string())) : std::nullopt;
}

}  // namespace

bool TaskFollower::wants(const Tenant& tenant) const {
  return tenant.workflows.contains(WorkflowName{std::string(task_workflow_name)});
}

void TaskFollower::took_over() {
  known_.clear();
  waiting_.clear();
  awaited_by_.clear();
}

// What they said can still be seen in the tables.
void TaskFollower::missed(Position, Position) {
  took_over();
  carried_.clear();
  oldest_.clear();
}

void TaskFollower::remember(RunId run, std::optional<TaskId> task) {
  if (!carried_.try_emplace(run, task).second) return;
  oldest_.push_back(run);
  if (oldest_.size() <= runs_remembered_max) return;
  carried_.erase(oldest_.front());
  oldest_.pop_front();
}

// The task that the run of this event carries.
std::optional<TaskId> TaskFollower::task_of(const JournalEvent& event) {
  if (auto known = carried_.find(event.run()); known != carried_.end()) return known->second;
  std::string type, ref;
  if (event.header.type == "run.created") {
    auto line = parse_json(event.line);
    if (!line || !line->is_object()) return std::nullopt;
    type = text_at(line->get_object(), "trigger_type").value_or("");
    ref = text_at(line->get_object(), "trigger_ref").value_or("");
  } else {
    auto run = runtime_.ask(InspectRun{event.stream.tenant, event.run()});
    if (!run) throw std::runtime_error(event.run().str() + ": " + run.error().message);
    type = (*run)->trigger_type;
    ref = (*run)->trigger_ref;
  }
  auto task = type == task_trigger ? TaskId::parse(ref.substr(0, ref.find('/'))) : std::nullopt;
  remember(event.run(), task);
  return task;
}

void TaskFollower::see(const JournalEvent& event) {
  if (event.stream.is_tenant()) return;
  TenantId tenant = event.stream.tenant;
  seen_.insert(tenant);
  if (event.header.subject() == "task") {
    TaskId task = task_of_stream(event.run());
    touched_.insert({tenant, task});
    if (event.header.type != "task.created") return;
    auto line = parse_json(event.line);
    auto input = line && line->is_object() ? text_at(line->get_object(), "input") : std::nullopt;
    auto spec = input ? parse_task_spec(*input) : std::unexpected(std::string());
    if (spec && spec->parent) added_.push_back({{tenant, *spec->parent}, task});
    return;
  }
  if (!may_concern_task(event.header)) return;
  if (auto task = task_of(event)) touched_.insert({tenant, *task});
}

std::vector<TaskFollower::Key> TaskFollower::find_live(TenantId tenant) {
  auto flushed = runtime_.ask(FlushRows{tenant, std::nullopt});
  if (!flushed) throw std::runtime_error(flushed.error().message);
  std::vector<Key> out;
  for (RunStatus status : {RunStatus::running, RunStatus::waiting}) {
    RunFilter filter;
    filter.status = status;
    filter.workflow = WorkflowName{std::string(task_workflow_name)};
    filter.limit = live_page;
    while (true) {
      auto rows = store_.list_runs(tenant, filter);
      for (const RunRow& row : rows) out.emplace_back(tenant, task_of_stream(row.id));
      if (rows.size() < filter.limit) break;
      filter.before = rows.back().id;
    }
  }
  return out;
}

void TaskFollower::forget_waiting(const Key& task) {
  auto found = waiting_.find(task);
  if (found == waiting_.end()) return;
  for (TaskId each : found->second.waits_for) {
    auto awaited = awaited_by_.find({task.first, each});
    if (awaited == awaited_by_.end()) continue;
    awaited->second.erase(task.second);
    if (awaited->second.empty()) awaited_by_.erase(awaited);
  }
  waiting_.erase(found);
}

void TaskFollower::note_waiting(const Key& task, const TaskView& view) {
  forget_waiting(task);
  if (view.waits_for.empty()) return;
  waiting_[task] = {{view.waits_for.begin(), view.waits_for.end()}, view.priority};
  for (TaskId each : view.waits_for) awaited_by_[{task.first, each}].insert(task.second);
}

std::vector<std::pair<TaskFollower::Key, TaskView>> TaskFollower::follow(std::vector<Key> tasks) {
  std::vector<std::pair<Key, TaskView>> out;
  while (!tasks.empty()) {
    std::vector<Key> some(tasks.begin(),
                          tasks.begin() + static_cast<std::ptrdiff_t>(std::min(tasks.size(), followed_at_once_max)));
    std::vector<Key> left(tasks.begin() + static_cast<std::ptrdiff_t>(some.size()), tasks.end());
    Countdown countdown;
    auto views = std::make_shared<std::vector<TaskView>>(some.size());
    for (std::size_t i = 0; i < some.size(); ++i)
      runtime_.post(
          [key = some[i], i, views, token = countdown.token()](Engine& engine) mutable {
            engine.request(UpdateTask{key.first, key.second},
                           [i, views, token = std::move(token)](std::expected<TaskView, Refusal> found) mutable {
                             token.end(found ? "" : found.error().message, [&] {
                               if (found) (*views)[i] = *found;
                             });
                           });
          },
          StreamKey::of(some[i].first, stream_of(some[i].second)));
    countdown.wait();
    for (std::size_t i = 0; i < some.size(); ++i) {
      if ((*views)[i].is_unsettled) {  // by the time of the answer, what was in the way is durable
        left.push_back(some[i]);
        continue;
      }
      note_waiting(some[i], (*views)[i]);
      out.emplace_back(some[i], std::move((*views)[i]));
    }
    tasks = std::move(left);
  }
  return out;
}

void TaskFollower::add_subtasks() {
  Countdown countdown;
  for (const auto& [parent, subtask] : added_)
    runtime_.post([parent, subtask, token = countdown.token()](Engine& engine) mutable {
      engine.request(TaskRequest{parent.first, parent.second,
                                 AddSubtask{subtask}},  // A parent that is gone has nothing to wait for.
                     [token = std::move(token)](std::expected<RunAnswer, Refusal>) mutable { token.end(""); });
    });
  countdown.wait();
  added_.clear();
}

void TaskFollower::settle() {
  try {
    follow_all();
  } catch (...) {
    took_over();  // who waits for whom may be half learned
    throw;
  }
}

void TaskFollower::follow_all() {
  for (TenantId tenant : seen_) {
    if (known_.contains(tenant)) continue;
    for (const Key& key : find_live(tenant)) touched_.insert(key);
    known_.insert(tenant);
  }
  add_subtasks();
  std::set<Key> relatives;
  for (const auto& [key, view] : follow({touched_.begin(), touched_.end()})) {
    if (view.parent) relatives.insert({key.first, *view.parent});
    bool is_gone = !view.exists || is_terminal(view.state) || has_failed(view.state);
    auto awaited = awaited_by_.find(key);
    if (!is_gone || awaited == awaited_by_.end()) continue;
    // One that waits for several is looked at when the last of them is completed, or one has failed.
    for (TaskId each : awaited->second) {
      auto waits = waiting_.find({key.first, each});
      bool completed = view.exists && view.state == TaskState::completed;
      if (waits == waiting_.end()) continue;
      if (completed) waits->second.waits_for.erase(key.second);
      if (!completed || waits->second.waits_for.empty()) relatives.insert({key.first, each});
    }
    awaited_by_.erase(awaited);
  }
  std::vector<Key> ordered(relatives.begin(), relatives.end());
  auto urgency = [&](const Key& key) {
    auto waits = waiting_.find(key);
    return waits == waiting_.end() ? TaskPriority::normal : waits->second.priority;
  };
  std::ranges::stable_sort(ordered, std::ranges::greater{}, urgency);
  follow(std::move(ordered));
  touched_.clear();
  seen_.clear();
}

}  // namespace pawl
