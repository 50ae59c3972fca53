// What people want of tasks, and what follows of itself: the engine is asked to look at a task whenever the dice say
// so, as its follower asks when something around the task has moved.
#include <algorithm>
#include <array>

#include "simulator/failure.h"
#include "simulator/simulation.h"

namespace pawl::simulator {
namespace {

constexpr std::size_t tasks_max = 12;

// What a request that was taken leaves the task in, where that is certain.
std::optional<TaskState> state_after(const TaskCommand& command) {
  if (std::holds_alternative<RunTask>(command) || std::holds_alternative<ResumeTask>(command)) return TaskState::queued;
  if (std::holds_alternative<AcceptTask>(command)) return TaskState::completed;
  if (std::holds_alternative<RejectTask>(command)) return TaskState::pending;
  return std::nullopt;
}

}  // namespace

const TaskModel* Simulation::any_task(std::optional<TenantId> tenant) {
  std::vector<const TaskModel*> tasks;
  for (const auto& [id, task] : checker_.tasks())
    if (!tenant || task.tenant == *tenant) tasks.push_back(&task);
  return tasks.empty() ? nullptr : dice_.one_of(tasks);
}

void Simulation::create_task() {
  NewTask request;
  request.tenant = dice_.one_of(tenants_);
  const auto& known = published_[request.tenant];
  if (known.empty()) return;
  request.by = anyone();
  request.spec.title = "task " + std::to_string(checker_.tasks().size());
  request.spec.workflow.text = std::next(known.begin(), static_cast<std::ptrdiff_t>(dice_.below(known.size())))->first;
  request.spec.input = "{\"about\":1}";
  if (dice_.percent(20)) request.spec.timeout = dice_.between(Duration(500), Duration(120'000));
  if (dice_.percent(25)) request.spec.max_budget = Money{dice_.between(0, 50'000)};
  const TaskModel* other = any_task(request.tenant);
  if (other && dice_.percent(40)) request.spec.depends_on = {other->id};
  other = any_task(request.tenant);
  if (other && dice_.percent(is_active(other->state) || other->state == TaskState::pending ? 60 : 5)) {
    request.spec.parent = other->id;
    if (other->spec.max_budget && dice_.percent(80)) request.spec.max_budget = Money{dice_.between(0, 40'000)};
  }
  note([&] { return "create " + request.spec.title; });
  asked().request(request, expect<RunAnswer>([this, tenant = request.tenant](const auto& answer) {
                    if (!answer) return;
                    const TaskModel* made = checker_.find(task_of_stream(answer->run));
                    demand(made && made->tenant == tenant && made->seq >= answer->seq,
                           "no answer before the commit is durable", "a task");
                  }));
}

void Simulation::command_task() {
  const TaskModel* task = any_task();
  if (!task) return;
  TenantId tenant = dice_.percent(habits_.foreign) ? dice_.one_of(tenants_) : task->tenant;
  std::array<TaskCommand, 7> commands{RunTask{anyone()},    AcceptTask{anyone()},     RejectTask{anyone(), "no"},
                                      ResumeTask{anyone()}, CancelTask{anyone(), ""}, AnswerTask{anyone(), "\"yes\""},
                                      DeleteTask{anyone()}};
  TaskCommand command = commands[dice_.below(dice_.percent(5) ? 7 : 6)];
  if (task->state == TaskState::pending && dice_.percent(70)) command = RunTask{anyone()};
  if (task->state == TaskState::blocked && dice_.percent(80))
    command = AnswerTask{anyone(), dice_.one_of({"\"yes\"", "\"retry\"", "\"drop\"", "\"cancel\""})};
  note([&] { return "request " + std::to_string(command.index()) + " of " + task->id.str(); });
  asked().request(
      TaskRequest{tenant, task->id, command},
      expect<RunAnswer>([this, tenant, id = task->id, command](const std::expected<RunAnswer, Refusal>& answer) {
        const TaskModel& model = *checker_.find(id);
        if (!answer) return;
        demand(model.tenant == tenant, "no tenant sees another's", id.str());
        demand(answer->seq > 0 && model.seq >= answer->seq, "no answer before the commit is durable", id.str());
        if (auto wanted = state_after(command))
          demand(model.state_after[answer->seq - 1] == *wanted, "a request that is taken stands in the journal",
                 id.str());
        if (std::holds_alternative<DeleteTask>(command))
          demand(model.deleted, "a request that is taken stands in the journal", id.str());
      }));
}

void Simulation::follow_task(const TaskModel& task) {
  asked().request(UpdateTask{task.tenant, task.id},
                  expect<TaskView>([](const std::expected<TaskView, Refusal>& answer) {
                    demand(answer.has_value(), "a task can always be looked at", "it was refused");
                  }));
}

void Simulation::attend_to_tasks() {
  if (checker_.tasks().size() < tasks_max && dice_.percent(15)) return create_task();
  if (dice_.percent(50)) return command_task();
  if (const TaskModel* task = any_task()) follow_task(*task);
}

bool Simulation::serve_tasks() {
  bool any = false;
  for (const auto& [id, task] : checker_.tasks()) {
    // One that is gone or canceled may still have a run.
    follow_task(task);
    if (task.is_at_rest()) continue;
    std::optional<TaskCommand> command;
    if (task.state == TaskState::pending) command = RunTask{anyone()};
    // One that has no budget left does not run.
    if (task.state == TaskState::pending && task.spec.max_budget && dice_.percent(30))
      command = CancelTask{anyone(), "the end"};
    if (task.state == TaskState::ready) command = AcceptTask{anyone()};
    if (task.has_question) command = AnswerTask{anyone(), task.asked_about ? "\"drop\"" : "\"yes\""};
    if (!command) continue;
    asked().request(TaskRequest{task.tenant, id, *command});
    any = true;
  }
  return any;
}

}  // namespace pawl::simulator
