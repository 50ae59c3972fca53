// Engine, the part for tasks.
//
// A task is decided on like a run: its stream is in the working set, its events are in the turn's frame. What it does
// because of its run, its subtasks or those it depends on, it does in follow_task(), which looks at all of them and
// takes the task to where they have it. TaskFollower (task_follower.h) calls that whenever the journal says that one of
// them moved, so a task gets there whatever crashes in between, and whoever asks twice changes nothing.
//
// With several servers each stream of a commit may be left out. A task therefore never follows what is not durable, and
// nothing is done for a task before the event that wants it is.
#include <algorithm>
#include <set>

#include "core/notices.h"
#include "engine/engine.h"
#include "engine/engine_actor.h"
#include "engine/refusals.h"
#include "engine/resident.h"
#include "engine/task_workflows.h"

namespace pawl {
namespace {

// A graph that is larger than this is not walked through in the middle of a request.
constexpr std::size_t tasks_walked_max = 10'000;
constexpr std::size_t completed_tasks_max = 100'000;
constexpr std::size_t tree_sizes_max = 10'000;

// A UUID version 4: what agents name their sessions by.
std::string make_session(Random& random) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::uint64_t high = (random.next() & ~0xf000ULL) | 0x4000ULL;
  std::uint64_t low = (random.next() >> 2) | 0x8000000000000000ULL;
  std::string out;
  for (std::uint64_t bits : {high, low})
    for (int shift = 60; shift >= 0; shift -= 4) out += digits[bits >> shift & 0xf];
  for (std::size_t at : {8u, 13u, 18u, 23u}) out.insert(at, 1, '-');
  return out;
}

}  // namespace

// ---- Making

bool Engine::can_make_tasks(TenantId tenant, TaskAgent agent) {
  auto is_there = [&](const InternalWorkflow& each) {
    const Workflow* latest = workflows_.latest(tenant, each.name);
    return latest && latest->source == each.source;
  };
  return std::ranges::all_of(task_workflows(agent), is_there);
}

Engine::Outcome<WorkflowRef> Engine::handle(PrepareTasks& request) {
  Outcome<WorkflowRef> last;
  for (const InternalWorkflow& each : task_workflows(request.agent)) {
    PublishWorkflow publishing{request.tenant, each.source, each.name.text, engine_actor, each.name};
    last = handle(publishing);
    if (!last.answer) return last;
  }
  return last;
}

// Whether one of these, or what they wait for, waits for the one that is wanted: for its end, or as for a subtask.
bool Engine::waits_for_any(TenantId tenant, std::vector<TaskId> from, TaskId wanted) {
  std::set<TaskId> seen(from.begin(), from.end());
  while (!from.empty() && seen.size() < tasks_walked_max) {
    TaskId id = from.back();
    from.pop_back();
    if (id == wanted) return true;
    Resident* resident = find_task(tenant, id);
    if (!resident || is_terminal(resident->run.task->state)) continue;
    const Task& task = *resident->run.task;
    for (const auto* next : {&task.spec.depends_on, &task.subtasks})
      for (TaskId each : *next)
        if (seen.insert(each).second) from.push_back(each);
  }
  return false;
}

std::optional<Refusal> Engine::task_problem(const NewTask& request) {
  const TaskSpec& spec = request.spec;
  if (auto problem = storage_problem(request.tenant)) return problem;
  for (TaskId id : spec.depends_on)
    if (!find_task(request.tenant, id))
      return Refusal{RefusalCode::unknown_task, "it depends on " + id.str() + ", and there is no such task",
                     "/depends_on"};
  if (spec.agent == TaskAgent::none) {
    if (!find_workflow(request.tenant, spec.workflow) || is_reserved_name(spec.workflow.text))
      return Refusal{RefusalCode::unknown_workflow,
                     "There is no workflow \"" + spec.workflow.text + "\". Publish it first.", "/workflow"};
  }
  if (!spec.parent) return std::nullopt;
  Resident* parent = find_task(request.tenant, *spec.parent);
  if (!parent)
    return Refusal{RefusalCode::unknown_task, "its parent is " + spec.parent->str() + ", and there is no such task",
                   "/parent_task_id"};
  TaskState state = parent->run.task->state;
  if (state == TaskState::ready || is_terminal(state) || has_failed(state))
    return Refusal{
        RefusalCode::task_transition,
        "the parent is " + std::string(to_string(state)) + " and takes no subtasks; create a task without a parent",
        "/parent_task_id"};
  if (waits_for_any(request.tenant, spec.depends_on, *spec.parent))
    return Refusal{RefusalCode::task_cycle, "it would wait for its parent, which waits for it", "/depends_on"};
  return subtask_problem_of(request.tenant, *parent, spec);
}

// ---- Budgets and trees

// What a task has cost with all beneath it, or may still cost: one that is over costs no more.
Money Engine::spoken_for(TenantId tenant, const Run& stream) {
  const Task& task = *stream.task;
  const bool is_over = task.deleted || is_terminal(task.state);
  Resident* run = task.latest() && !task.latest()->outcome ? find_verified(tenant, task.latest()->run) : nullptr;
  Money cost = own_cost(task, run ? &run->run : nullptr);
  for (TaskId id : task.subtasks)
    if (Resident* subtask = find_verified(tenant, stream_of(id)); subtask && subtask->run.task)
      cost = cost + spoken_for(tenant, subtask->run);
  return is_over || !task.spec.max_budget ? cost : std::max(cost, *task.spec.max_budget);
}

std::optional<Money> Engine::budget_left(TenantId tenant, const Run& stream) {
  const Task& task = *stream.task;
  if (!task.spec.max_budget) return std::nullopt;
  Resident* run = task.latest() && !task.latest()->outcome ? find_verified(tenant, task.latest()->run) : nullptr;
  Money left{task.spec.max_budget->micros - own_cost(task, run ? &run->run : nullptr).micros};
  for (TaskId id : task.subtasks)
    if (Resident* subtask = find_verified(tenant, stream_of(id)); subtask && subtask->run.task)
      left.micros -= spoken_for(tenant, subtask->run).micros;
  return left;
}

// Counted once, and then kept: a large tree is not walked through for each task that is added. Stops where there are
// too many.
std::size_t& Engine::count_tree(TenantId tenant, TaskId root) {
  if (tree_sizes_.size() >= tree_sizes_max) tree_sizes_.clear();
  std::size_t& count = tree_sizes_[root];
  if (count > 0) return count;
  std::vector<TaskId> open{root};
  while (!open.empty() && count < task_tree_tasks_max) {
    TaskId id = open.back();
    open.pop_back();
    ++count;
    Resident* resident = find_verified(tenant, stream_of(id));
    if (resident && resident->run.task) std::ranges::copy(resident->run.task->subtasks, std::back_inserter(open));
  }
  return count;
}

std::optional<Refusal> Engine::subtask_problem_of(TenantId tenant, Resident& parent, const TaskSpec& spec) {
  SubtaskRequest request{.budget = spec.max_budget, .left = {}, .siblings = parent.run.task->subtasks.size()};
  Resident* top = &parent;
  request.left = budget_left(tenant, top->run);
  // Trees that were made before there was a limit may be deeper.
  while (request.depth < task_depth_max && top->run.task->spec.parent) {
    Resident* above = find_verified(tenant, stream_of(*top->run.task->spec.parent));
    if (!above || !above->run.task) break;
    top = above;
    ++request.depth;
    if (!request.left) request.left = budget_left(tenant, top->run);
  }
  std::size_t& tree = count_tree(tenant, task_of_stream(top->run.id));
  request.tree = tree;
  auto problem = subtask_problem(request);
  if (!problem) ++tree;
  return problem;
}

Engine::Outcome<RunAnswer> Engine::handle(NewTask& request) {
  if (request.like_parent)
    if (const Resident* parent = find_task(request.tenant, *request.spec.parent);
        parent && parent->run.task->spec.agent != TaskAgent::none) {
      request.spec.agent = parent->run.task->spec.agent;
      request.spec.settings = parent->run.task->spec.settings;
    }
  NewRun stream;
  stream.tenant = request.tenant;
  stream.workflow.text = task_workflow_name;
  stream.workspace = request.workspace;
  stream.provider = Provider::external;
  stream.input = print_task_spec(request.spec);
  stream.by = request.by;
  stream.idempotency = request.idempotency;
  stream.is_internal = true;
  stream.id = request.stream;
  // Whoever asks again is told what became of it, whatever has become of its parent.
  bool is_repeat = false;
  if (const auto& wanted = request.idempotency) {
    std::string key = idempotency_request_key(wanted->scope, wanted->key);
    is_repeat = find_request(request.tenant, key) || (shared_ && store_.find_request(request.tenant, key));
  }
  if (!is_repeat)
    if (auto problem = task_problem(request)) return {std::unexpected(std::move(*problem))};
  auto made = handle(stream);
  // In the same turn: whoever is told of a subtask can rely on its parent waiting for it.
  if (made.answer && request.spec.parent && !is_repeat)
    this->request(TaskRequest{request.tenant, *request.spec.parent, AddSubtask{task_of_stream(made.answer->run)}});
  return made;
}

// ---- Asking

Engine::Resident* Engine::find_task(TenantId tenant, TaskId task) {
  Resident* resident = find_verified(tenant, stream_of(task));
  return resident && resident->run.task && !resident->run.task->deleted ? resident : nullptr;
}

Basis Engine::basis_of(const Resident& resident, const Resident* other) const {
  return {may_be_lost(resident) ? resident.incarnation : 0, other && may_be_lost(*other) ? other->incarnation : 0};
}

std::optional<Refusal> Engine::decide_and_apply(Resident& resident, const TaskCommand& command) {
  TaskDraws draws{ids_.make<RunId>(clock_.now()), make_session(random_)};
  Decision decision = decide(resident.run, command, clock_.now(), draws);
  if ((decision.events.empty() || decision.refusal) && verify(resident))
    decision = decide(resident.run, command, clock_.now(), draws);
  apply(resident, decision.events, std::nullopt);
  return decision.refusal;
}

// `other`: what was decided on beside the task itself.
std::optional<Refusal> Engine::answer_task(Resident& resident, AnswerTask command, Resident*& other) {
  TenantId tenant = resident.run.tenant;
  // Somebody may have answered the run itself a moment ago, or seen to the subtask.
  if (auto around = look_around_task(resident, other)) decide_and_apply(resident, *around);
  const Task& task = *resident.run.task;
  if (task.state != TaskState::blocked || task.question.empty()) return decide_and_apply(resident, command);
  if (task.asked_about) {
    TaskId subtask = *task.asked_about;
    other = find_task(tenant, subtask);
    if (other) command.subtask = other->run.task->state;
    auto refusal = decide_and_apply(resident, command);
    if (refusal || command.answer != "\"retry\"") return refusal;
    const auto left = budget_left(tenant, other->run);
    return command.subtask == TaskState::failed ? decide_and_apply(*other, RunTask{command.by, left})
                                                : decide_and_apply(*other, ResumeTask{command.by, left});
  }
  other = find_verified(tenant, task.latest()->run);
  command.run_waits = other && still_asks(task, other->run);
  if (command.run_waits) {
    // What the run would not take is not taken here either.
    AnswerQuestion wanted{task.asked_by, command.answer, command.by};
    if (auto refusal = decide(other->run, wanted, clock_.now(), {}).refusal) return refusal;
  }
  return decide_and_apply(resident, command);
}

std::vector<TaskId> Engine::tasks_beneath(TenantId tenant, const Task& task) {
  std::vector<TaskId> out = task.subtasks;
  for (std::size_t i = 0; i < out.size() && out.size() < task_tree_tasks_max; ++i)
    if (Resident* each = find_task(tenant, out[i]))
      std::ranges::copy(each->run.task->subtasks, std::back_inserter(out));
  std::erase_if(out, [&](TaskId id) { return !find_task(tenant, id); });
  return out;
}

// Each by itself: what has ended meanwhile, or is gone, needs nothing.
template <class Command>
void Engine::command_beneath(const Resident& resident, const Command& command) {
  const TenantId tenant = resident.run.tenant;
  Command each = command;
  each.subtasks = false;
  for (TaskId id : tasks_beneath(tenant, *resident.run.task)) request(TaskRequest{tenant, id, each});
}

std::optional<Refusal> Engine::delete_task(Resident& resident, DeleteTask command) {
  if (!command.subtasks) return decide_and_apply(resident, command);
  for (TaskId id : tasks_beneath(resident.run.tenant, *resident.run.task))
    if (is_active(find_task(resident.run.tenant, id)->run.task->state)) command.active_subtask = id;
  auto refusal = decide_and_apply(resident, command);
  if (!refusal) command_beneath(resident, command);
  return refusal;
}

std::optional<Refusal> Engine::change_task(Resident& resident, ChangeTask command) {
  const TenantId tenant = resident.run.tenant;
  const Task& task = *resident.run.task;
  for (auto above = task.spec.parent; above && !command.budget_max;) {
    Resident* parent = find_task(tenant, *above);
    if (!parent) break;
    command.budget_max = budget_left(tenant, parent->run);
    // What it may spend now is its own to keep.
    if (command.budget_max) command.budget_max->micros += spoken_for(tenant, resident.run).micros;
    above = parent->run.task->spec.parent;
  }
  Resident* run = task.latest() && !task.latest()->outcome ? find_verified(tenant, task.latest()->run) : nullptr;
  command.committed = own_cost(task, run ? &run->run : nullptr);
  for (TaskId id : task.subtasks) {
    Resident* subtask = find_verified(tenant, stream_of(id));
    if (!subtask || !subtask->run.task) continue;
    command.committed = command.committed + spoken_for(tenant, subtask->run);
    const Task& each = *subtask->run.task;
    if (!each.spec.max_budget && !each.deleted && !is_terminal(each.state)) command.unlimited_subtask = id;
  }
  return decide_and_apply(resident, command);
}

// `other`: what was decided on beside the task itself.
std::optional<Refusal> Engine::command_task(Resident& resident, const TaskCommand& command, Resident*& other) {
  TenantId tenant = resident.run.tenant;
  if (const auto* answer = std::get_if<AnswerTask>(&command)) return answer_task(resident, *answer, other);
  if (const auto* add = std::get_if<AddSubtask>(&command); add && deciding_again_) {
    // Another server has added one meanwhile, and there may be nothing left for this one: then it must not run.
    Resident* subtask = find_task(tenant, add->subtask);
    auto problem = subtask ? subtask_problem_of(tenant, resident, subtask->run.task->spec) : std::nullopt;
    if (problem) {
      if (decide_and_apply(*subtask, CancelTask{engine_actor, problem->message}))
        decide_and_apply(*subtask, DeleteTask{engine_actor});
      return problem;
    }
  }
  if (const auto* run = std::get_if<RunTask>(&command))
    return decide_and_apply(resident, RunTask{run->by, budget_left(tenant, resident.run)});
  if (const auto* resume = std::get_if<ResumeTask>(&command))
    return decide_and_apply(resident, ResumeTask{resume->by, budget_left(tenant, resident.run)});
  if (const auto* remove = std::get_if<DeleteTask>(&command)) return delete_task(resident, *remove);
  if (const auto* change = std::get_if<ChangeTask>(&command)) return change_task(resident, *change);
  auto refusal = decide_and_apply(resident, command);
  const auto* cancel = std::get_if<CancelTask>(&command);
  if (cancel && !refusal && resident.run.task->state == TaskState::running) {
    // Refused when it has ended at this very moment: then that is what becomes of the task.
    other = find_verified(tenant, resident.run.task->latest()->run);
    if (other) decide_and_apply(*other, CancelRun{cancel->by, cancel->reason});
  }
  if (cancel && !refusal && cancel->subtasks) command_beneath(resident, *cancel);
  return refusal;
}

Engine::Outcome<RunAnswer> Engine::handle(TaskRequest& request) {
  Resident* resident = find_task(request.tenant, request.task);
  if (!resident) return {no_such("task")};
  Resident* other = nullptr;
  if (auto refusal = command_task(*resident, request.command, other))
    return {std::unexpected(std::move(*refusal)), basis_of(*resident, other)};
  return {answer_of(*resident), basis_of(*resident, other)};
}

Engine::Outcome<std::shared_ptr<const Run>> Engine::handle(InspectTask& request) {
  if (!find_task(request.tenant, request.task)) return {no_such("task")};
  InspectRun stream{request.tenant, stream_of(request.task)};
  return handle(stream);
}

// ---- Following

std::optional<Relative> Engine::relative(TenantId tenant, TaskId task) {
  if (completed_tasks_.contains(task)) return Relative{task, TaskState::completed, {}};
  Resident* resident = find_verified(tenant, stream_of(task));
  if (!resident || !resident->run.task) return Relative{task, std::nullopt, {}};
  if (may_be_lost(*resident)) return std::nullopt;
  const Task& found = *resident->run.task;
  bool is_completed = found.state == TaskState::completed;  // and stays so for those who waited for it, deleted or not
  if (is_completed && !is_undurable(*resident)) {
    if (completed_tasks_.size() >= completed_tasks_max) completed_tasks_.clear();
    completed_tasks_.insert(task);
  }
  return Relative{task, found.deleted && !is_completed ? std::nullopt : std::optional(found.state), found.spec.title};
}

std::optional<FollowTask> Engine::look_around_task(Resident& resident, Resident*& run) {
  TenantId tenant = resident.run.tenant;
  const std::shared_ptr<const Task> task = resident.run.task;
  FollowTask out;
  bool is_over = task->deleted || task->state == TaskState::cancelled;
  bool follows_run = is_active(task->state) || task->state == TaskState::blocked || is_over;
  run = follows_run && task->latest() ? find_verified(tenant, task->latest()->run) : nullptr;
  if (run) {
    if (may_be_lost(*run)) return std::nullopt;
    out.run = &run->run;
  }
  auto add = [&](const std::vector<TaskId>& ids, std::vector<Relative>& relatives) {
    for (TaskId id : ids) {
      auto found = relative(tenant, id);
      if (!found) return false;
      relatives.push_back(std::move(*found));
    }
    return true;
  };
  bool is_unmade = task->state == TaskState::queued && !run;
  if (is_unmade && !add(task->spec.depends_on, out.dependencies)) return std::nullopt;
  // Also of one that is queued: its run may be over before anybody saw it running.
  if (run && !is_over && !add(task->subtasks, out.subtasks)) return std::nullopt;
  if (is_unmade) {
    WorkflowName carrier = carrying_workflow(task->spec);
    if (!find_workflow(tenant, carrier)) out.obstacle = "there is no workflow \"" + carrier.text + "\"";
    if (auto left = budget_left(tenant, resident.run); left && left->micros <= 0)
      out.obstacle = "its budget of " + print_money(*task->spec.max_budget) + " USD is used up";
    if (auto others = other_requesters_of(resident.run.created_by, requesters_of_tree(tenant, resident.run)); !others)
      out.obstacle = others.error().message;
  }
  return out;
}

// Of the task, and of the tasks above it: what a task does, it does for those who asked for its parent.
std::vector<Actor> Engine::requesters_of_tree(TenantId tenant, const Run& stream) {
  std::vector<Actor> out = requesters_of(stream);
  for (auto above = stream.task->spec.parent; above;) {
    Resident* parent = find_verified(tenant, stream_of(*above));
    if (!parent || !parent->run.task) break;
    std::ranges::copy(requesters_of(parent->run), std::back_inserter(out));
    above = parent->run.task->spec.parent;
  }
  return out;
}

NewRun Engine::carrying_run(const Run& stream) {
  const Task& task = *stream.task;
  const auto left = budget_left(stream.tenant, stream);
  const TaskExecution& execution = *task.latest();
  NewRun out;
  out.tenant = stream.tenant;
  out.workflow = carrying_workflow(task.spec);
  out.workspace = stream.workspace;
  out.input = carrying_input(stream, left);
  out.by = stream.created_by;
  out.trigger_type = task_trigger;
  out.trigger_ref = task_of_stream(stream.id).str() + "/" + std::to_string(execution.number);
  out.budget = left;
  out.timeout = task.spec.timeout;
  out.is_internal = true;
  out.id = execution.run;
  if (auto others = other_requesters_of(out.by, requesters_of_tree(stream.tenant, stream)))
    out.other_requesters = std::move(*others);
  if (task.executions.size() > 1) out.retry_of = task.executions[task.executions.size() - 2].run;
  return out;
}

Engine::Outcome<TaskView> Engine::handle(UpdateTask& request) {
  const TenantId tenant = request.tenant;
  Resident* resident = find_verified(tenant, stream_of(request.task));
  if (!resident || !resident->run.task) return {TaskView{}};
  TaskView view;
  Resident* run = nullptr;
  auto around = look_around_task(*resident, run);
  if (around && !resident->run.task->deleted) decide_and_apply(*resident, *around);
  const Task& task = *resident->run.task;
  view.exists = !task.deleted;
  view.state = task.state;
  view.priority = task.spec.priority;
  view.parent = task.spec.parent;
  NextTaskAction next_action = around ? next_action_of(resident->run, *around) : NextTaskAction::none;
  view.is_unsettled = !around || (next_action != NextTaskAction::none && may_be_lost(*resident));
  if (view.is_unsettled) return {view};
  if (task.state == TaskState::queued && !run)
    for (const Relative& each : around->dependencies)
      if (each.state != TaskState::completed) view.waits_for.push_back(each.id);
  switch (next_action) {
    case NextTaskAction::none:
      break;
    case NextTaskAction::make_run: {
      NewRun wanted = carrying_run(resident->run);
      auto made = handle(wanted);
      if (!made.answer) return {std::unexpected(std::move(made.answer.error())), made.basis};
      return {view, made.basis};
    }
    case NextTaskAction::deliver_answer:
      decide_and_apply(*run, AnswerQuestion{task.asked_by, task.latest()->message, engine_actor});
      break;
    case NextTaskAction::cancel_run:
      decide_and_apply(*run, CancelRun{engine_actor, task.deleted ? "its task was deleted" : "its task was cancelled"});
      break;
  }
  return {view, basis_of(*resident, run)};
}

}  // namespace pawl
