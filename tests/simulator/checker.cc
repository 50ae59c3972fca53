#include "simulator/checker.h"

#include <algorithm>

#include "core/snapshot.h"
#include "crypto/sha256.h"
#include "engine/workflows.h"
#include "simulator/failure.h"

namespace pawl::simulator {
namespace {

constexpr Duration minute = std::chrono::seconds(60);

template <class Visit>
void for_each_line(std::string_view lines, Visit visit) {
  while (!lines.empty()) {
    auto end = lines.find('\n');
    demand(end != std::string_view::npos, "streams are whole", "a line without an end");
    visit(lines.substr(0, end));
    lines.remove_prefix(end + 1);
  }
}

bool is_live(const StepModel& step, const TakenTurn& turn) {
  return step.status == StepStatus::running && !step.orphaned &&
         (step.earliest_end > turn.at || turn.alive.contains(step.owner));
}

void orphan(StepModel& step, Instant now) {
  step.orphaned = true;
  step.earliest_end = step.latest_end = std::min(step.latest_end, now);
}

}  // namespace

void Checker::Limits::set(const Caps& now_in_force, Instant at) {
  if (now_in_force == caps) return;
  if (!now_in_force.max_runs_per_min)
    paced_since = end_of_time;
  else if (!caps.max_runs_per_min)
    paced_since = at;
  caps = now_in_force;
  changed_at = at;
  is_new = true;
}

const RunModel* Checker::find(RunId run) const {
  auto found = runs_.find(run);
  return found == runs_.end() ? nullptr : &found->second;
}

const Workflow* Checker::workflow(TenantId tenant, const WorkflowName& name, int version) const {
  auto owner = tenants_.find(tenant);
  if (owner == tenants_.end()) return nullptr;
  auto found = owner->second.workflows.find({name, version});
  return found == owner->second.workflows.end() ? nullptr : found->second.get();
}

// ---- Frames

void Checker::turn_is_durable(const TakenTurn& taken) {
  const Frame& frame = taken.turn.frame;
  if (taken.turn.needs_commit) {
    demand(frame.position == position_ + 1, "frames are numbered without gaps",
           [&] { return std::to_string(frame.position) + " follows " + std::to_string(position_); });
    position_ = frame.position;
    apply(frame.parts, taken);
  }
  check_grants(taken);
  check_overdue(taken);
  check_idle_workers(taken);
}

void Checker::commit_is_durable(std::string_view parts, const TakenTurn& taken, Instant now) {
  committed_at_ = now;
  apply(parts, taken);
  // Several servers hold to a cap from the commit that sets it on.
  auto settle = [&](Limits& limits) {
    if (limits.is_new && limits.paced_since != end_of_time) limits.paced_since = now;
  };
  for (auto& [id, tenant] : tenants_) {
    settle(tenant.limits);
    for (auto& [name, limits] : tenant.workflow_limits) settle(limits);
  }
}

void Checker::apply(std::string_view parts, const TakenTurn& taken) {
  touched_.clear();
  touched_tasks_.clear();
  for (auto& [id, tenant] : tenants_) tenant.begin_frame();
  // Caps are set by commands, and commands come before the grants of their turn.
  for_each_part(parts, [&](const StreamPart& part) {
    if (part.key.is_tenant()) apply_tenant(tenants_[part.key.tenant], part);
  });
  for_each_part(parts, [&](const StreamPart& part) {
    if (!part.key.is_tenant()) apply_run(part, taken.number);
  });
  for (RunModel* run : touched_) {
    run->check_whole();
    check_writes(*run);
    check_votes(*run);
    check_grounds(*run);
  }
  for (RunModel* run : touched_) check_effects(*run);
  check_concurrency(taken);
  check_tasks();
  for (RunModel* run : touched_) run->begin_frame();
}

void Checker::apply_tenant(TenantModel& tenant, const StreamPart& part) {
  if (tenant.seq == 0) tenant.head = genesis(part.key);
  demand(part.first_seq == tenant.seq + 1, "streams are gapless", [&] { return part.key.tenant.str(); });
  for_each_line(part.lines, [&](std::string_view line) {
    auto event = parse_tenant_event(line);
    demand(event.has_value(), "events can be read", [&] { return event.error(); });
    tenant.note_limits(event->payload);
    tenant.limits.set(tenant.in_force(), event->at);
    if (const auto* published = std::get_if<WorkflowPublished>(&event->payload)) {
      demand(published->version == tenant.latest[published->workflow] + 1, "versions grow by one",
             [&] { return published->workflow.text; });
      auto workflow = compile_workflow(published->source, published->workflow.text, &tools_);
      demand(workflow.has_value(), "what was published compiles", [&] { return workflow.error(); });
      workflow->version = published->version;
      tenant.latest[published->workflow] = published->version;
      tenant.workflow_limits[published->workflow].set(workflow->caps, event->at);
      tenant.workflows[{published->workflow, published->version}] =
          std::make_unique<const Workflow>(std::move(*workflow));
    }
    tenant.note(*event);
    ++tenant.seq;
    tenant.head = sha256(tenant.head.view(), line);
    tenant.lines += line;
    tenant.lines += '\n';
  });
}

void Checker::apply_run(const StreamPart& part, std::uint64_t turn) {
  RunId id{part.key.stream};
  auto found = runs_.find(id);
  if (tasks_.contains(task_of_stream(id))) return apply_task(part);
  if (found == runs_.end()) {
    auto first = parse_run_event(part.lines.substr(0, part.lines.find('\n')));
    const auto* created = first ? std::get_if<RunCreated>(&first->payload) : nullptr;
    demand(created && part.first_seq == 1, "a stream begins with its creation, once", [&] { return id.str(); });
    if (created->workflow.text == task_workflow_name) return apply_task(part);
    const Workflow* used = workflow(part.key.tenant, created->workflow, created->version);
    demand(used != nullptr, "a run names a workflow of its own tenant", [&] { return id.str(); });
    found = runs_.emplace(id, RunModel(part.key.tenant, id, *used, genesis(part.key))).first;
  }
  RunModel& run = found->second;
  demand(run.tenant == part.key.tenant, "a run belongs to one tenant", [&] { return id.str(); });
  demand(part.first_seq == run.seq + 1, "streams are gapless", [&] {
    return id.str() + ": event " + std::to_string(part.first_seq) + " follows " + std::to_string(run.seq);
  });
  for_each_line(part.lines, [&](std::string_view line) { run.apply(line); });
  if (part.first_seq == 1) check_requesters(run);
  // Given in a turn before its worker was removed: over with the worker.
  for (StepModel& step : run.steps)
    if (auto gone = removed_.find(step.owner);
        step.status == StepStatus::running && gone != removed_.end() && turn <= gone->second.first)
      orphan(step, gone->second.second);
  touched_.push_back(&run);
  if (run.starts_in_frame > 0) {
    bool by_engine = run.is_native() && (run.claims_in_frame > 0 || !run.approvals.empty());
    starts_.push_back({run.tenant, run.workflow->name, run.started_at, by_engine});
    if (by_engine) check_pace(starts_.back());
  }
}

// Who asked for the run before asked for its retry as well, and who had a task run, for the task's run.
void Checker::check_requesters(const RunModel& run) const {
  auto expect = [&](const Actor& who) {
    demand(run.is_requester(who), "a run names everybody who asked for it",
           [&] { return run.id.str() + " " + who.text; });
  };
  const RunModel* before = run.retry_of ? find(*run.retry_of) : nullptr;
  if (before) {
    expect(before->created_by);
    for (const Actor& each : before->other_requesters) expect(each);
  }
  const TaskModel* task = run.carries ? find(*run.carries) : nullptr;
  if (!task) return;
  for (const Actor& each : task->requesters) expect(each);
  // Of those above, the creators: who had them run may have done so later in this frame.
  for (task = task->spec.parent ? find(*task->spec.parent) : nullptr; task;
       task = task->spec.parent ? find(*task->spec.parent) : nullptr)
    expect(task->requesters.front());
}

// ---- Tasks

const TaskModel* Checker::find(TaskId task) const {
  auto found = tasks_.find(task);
  return found == tasks_.end() ? nullptr : &found->second;
}

void Checker::apply_task(const StreamPart& part) {
  TaskId id = task_of_stream(RunId{part.key.stream});
  TaskModel& task = tasks_.try_emplace(id, part.key.tenant, id, genesis(part.key)).first->second;
  demand(task.tenant == part.key.tenant, "a run belongs to one tenant", [&] { return id.str(); });
  demand(part.first_seq == task.seq + 1, "streams are gapless", [&] { return id.str(); });
  for_each_line(part.lines, [&](std::string_view line) { task.apply(line); });
  touched_tasks_.push_back(&task);
}

void Checker::check_tasks() {
  for (TaskModel* task : touched_tasks_) {
    task->check_whole(runs_, tasks_);
    task->begin_frame();
  }
  for (const RunModel* run : touched_)
    if (run->carries && run->is_new_in_frame) {
      const TaskModel* task = find(*run->carries);
      demand(task != nullptr, "a run that carries a task is one that the task wants", [&] { return run->id.str(); });
      task->check_carrier(*run, tasks_);
    }
}

// ---- Caps (16)

void Checker::check_writes(const RunModel& run) const {
  const auto& tenant = tenants_.at(run.tenant);
  // A cap that was lowered does not undo what was written before.
  if (run.writes_in_frame == 0) return;
  auto own = run.workflow->caps.max_writes_per_run;
  bool holds = (!own || run.writes <= *own) &&
               std::ranges::any_of(tenant.write_caps, [&](const auto& cap) { return !cap || run.writes <= *cap; });
  demand(holds, "max_writes_per_run holds", [&] { return run.id.str(); });
}

std::size_t Checker::count_running(TenantId tenant, const WorkflowName* workflow, const TakenTurn* live) const {
  std::size_t count = 0;
  for (const auto& [id, run] : runs_) {
    if (run.tenant != tenant || run.ended() || (workflow && run.workflow->name != *workflow)) continue;
    for (const StepModel& step : run.steps) count += live ? is_live(step, *live) : step.status == StepStatus::running;
  }
  return count;
}

std::string Checker::list_live(TenantId tenant, const WorkflowName* workflow, const TakenTurn& turn) const {
  std::string out = " and has";
  for (const auto& [id, run] : runs_)
    if (run.tenant == tenant && (!workflow || run.workflow->name == *workflow))
      for (StepIndex i = 0; i < run.steps.size(); ++i)
        if (is_live(run.steps[i], turn)) out += " " + id.str() + ":" + run.definition(i).id.text;
  return out;
}

void Checker::check_concurrency(const TakenTurn& turn) const {
  std::set<std::pair<TenantId, WorkflowName>> claimed;
  // Several servers count a lease that was lost until somebody has its step again.
  auto takes_room = [&](const RunModel& run) {
    return is_shared_
               ? std::ranges::any_of(
                     run.steps, [](const StepModel& step) { return step.is_new && step.status == StepStatus::running; })
               : run.claims_in_frame > 0;
  };
  for (const RunModel* run : touched_)
    if (takes_room(*run)) claimed.insert({run->tenant, run->workflow->name});
  for (const auto& [tenant, workflow] : claimed) {
    const TenantModel& model = tenants_.at(tenant);
    auto cap_of = [&](const Limits& limits) {
      return is_shared_ && limits.is_new ? std::nullopt : limits.caps.max_concurrency;
    };
    if (auto cap = cap_of(model.limits))
      demand(count_running(tenant, nullptr, &turn) <= static_cast<std::size_t>(*cap), "max_concurrency holds",
             [&] { return tenant.str() + " may have " + std::to_string(*cap) + list_live(tenant, nullptr, turn); });
    if (auto cap = cap_of(model.workflow_limits.at(workflow)))
      demand(count_running(tenant, &workflow, &turn) <= static_cast<std::size_t>(*cap), "max_concurrency holds",
             [&] { return workflow.text + " may have " + std::to_string(*cap) + list_live(tenant, &workflow, turn); });
  }
}

std::size_t Checker::count_starts(TenantId tenant, const WorkflowName* workflow, Instant after, Instant until,
                                  bool by_engine) const {
  return static_cast<std::size_t>(std::ranges::count_if(starts_, [&](const Start& start) {
    return start.tenant == tenant && start.at > after && start.at <= until &&
           (!workflow || start.workflow == *workflow) && (!by_engine || start.by_engine);
  }));
}

void Checker::check_pace(const Start& start) const {
  const TenantModel& tenant = tenants_.at(start.tenant);
  auto check = [&](const Limits& limits, const WorkflowName* workflow) {
    if (!limits.caps.max_runs_per_min || (is_shared_ && limits.is_new)) return;
    // Starts from before there was a cap are not counted against it.
    Instant until = is_shared_ ? committed_at_ : start.at;
    Instant after = std::max(until - minute, limits.paced_since);
    auto count = count_starts(start.tenant, workflow, after, until, true);
    demand(count <= static_cast<std::size_t>(*limits.caps.max_runs_per_min), "max_runs_per_min holds", [&] {
      return std::to_string(count) + " starts of " + (workflow ? workflow->text : start.tenant.str()) +
             " within a minute";
    });
  };
  check(tenant.limits, nullptr);
  check(tenant.workflow_limits.at(start.workflow), &start.workflow);
}

// ---- Leases (8, 9)

void Checker::check_grants(const TakenTurn& taken) const {
  for (const auto& grant : taken.turn.grants)
    for (const Lease& lease : grant.leases) {
      const RunModel* run = find(lease.run);
      auto what = [&] {
        return lease.run.str() + " step " + lease.step.text + " token " + std::to_string(lease.token);
      };
      demand(run && run->tenant == lease.tenant, "no grant before its claim is durable", what);
      auto index = run->find_step(lease.step);
      demand(index && *index < run->steps.size(), "a grant is of a step", what);
      const StepModel& step = run->steps[*index];
      demand(step.status == StepStatus::running && step.token == lease.token, "a granted lease is live", what);
      demand(step.attempts == lease.attempt, "a lease says which attempt it is", what);
      demand(!run->definition(*index).is_gate() && lease.tool == run->definition(*index).tool,
             "workers never get an approval", what);
      if (run->definition(*index).with_is_constant)
        demand(lease.input == run->definition(*index).with_text, "a lease brings the step's input", what);
    }
}

// ---- Time and liveness (20)

// Whether time could not end the lease when the turn was taken, whatever became of it since.
bool Checker::is_held(const StepModel& step, const TakenTurn& turn) const {
  if (!step.orphaned) return turn.alive.contains(step.owner);
  auto gone = removed_.find(step.owner);
  return gone != removed_.end() && turn.number <= gone->second.first;
}

void Checker::check_overdue(const TakenTurn& turn) const {
  for (const auto& [id, run] : runs_) {
    auto what = run.overdue(turn.at, [&](const StepModel& step) { return is_held(step, turn); });
    demand(what.empty(), "what is due happens", [&] { return id.str() + ": " + what + " has passed"; });
  }
}

bool Checker::may_be_leased(const RunModel& run) const {
  const TenantModel& tenant = tenants_.at(run.tenant);
  auto below = [&](const Limits& limits, const WorkflowName* workflow) {
    auto cap = limits.caps.max_concurrency;
    return !cap || count_running(run.tenant, workflow, nullptr) < static_cast<std::size_t>(*cap);
  };
  return below(tenant.limits, nullptr) && below(tenant.workflow_limits.at(run.workflow->name), &run.workflow->name);
}

bool Checker::may_start(const RunModel& run, Instant now) const {
  const TenantModel& tenant = tenants_.at(run.tenant);
  auto below = [&](const Limits& limits, const WorkflowName* workflow) {
    // A cap that was raised is noticed when the old one would have let the next start through.
    if (limits.changed_at.ms != 0 && limits.changed_at + minute > now) return false;
    auto cap = limits.caps.max_runs_per_min;
    return !cap || count_starts(run.tenant, workflow, now - minute, now, false) < static_cast<std::size_t>(*cap);
  };
  return below(tenant.limits, nullptr) && below(tenant.workflow_limits.at(run.workflow->name), &run.workflow->name);
}

// A worker has a free slot and there is a step for it that no cap holds back: it should have been given out.
void Checker::check_idle_workers(const TakenTurn& taken) const {
  for (const auto& [id, run] : runs_) {
    if (run.ended() || !run.is_native()) continue;
    auto who = [&, run_id = id] { return run_id.str() + " at " + print_time(taken.at); };
    if (run.starts_at_gate()) demand(!may_start(run, taken.at), "a run that starts at a gate starts by itself", who);
    for (StepIndex i = 0; i < run.steps.size(); ++i) {
      const StepModel& step = run.steps[i];
      bool lost = step.status == StepStatus::running && step.latest_end <= taken.at && !is_held(step, taken) &&
                  step.attempts < run.definition(i).retry.max_attempts;
      if (step.status != StepStatus::ready && !lost) continue;
      bool idle = std::ranges::any_of(taken.workers, [&](const WorkerView& worker) {
        return worker.slots > 0 && std::ranges::find(worker.tools, run.definition(i).tool) != worker.tools.end();
      });
      if (!idle || !may_be_leased(run)) continue;
      if (run.status == RunStatus::created && !may_start(run, taken.at)) continue;
      demand(false, "a runnable step is leased when a worker is free", [&] {
        return who() + ": step " + run.definition(i).id.text + " is " + (lost ? "lost by its worker" : "ready");
      });
    }
  }
}

// ---- What the simulation knows and the journal does not

void Checker::process_restarted(Instant now) {
  removed_.clear();
  for (auto& [id, run] : runs_)
    for (StepIndex i = 0; i < run.steps.size(); ++i) {
      StepModel& step = run.steps[i];
      if (step.status != StepStatus::running) continue;
      if (step.owner.text.starts_with(local_worker_prefix))
        orphan(step, now);
      else
        step.latest_end = std::max(step.latest_end, now + run.definition(i).lease);
    }
}

void Checker::worker_removed(const WorkerName& worker, Instant now, std::uint64_t turn) {
  removed_[worker] = {turn, now};
  for (auto& [id, run] : runs_)
    for (StepModel& step : run.steps)
      if (step.status == StepStatus::running && step.owner == worker) orphan(step, now);
}

void Checker::lease_extended(RunId id, const StepId& name, std::uint64_t token, Instant until, bool is_acknowledged) {
  auto found = runs_.find(id);
  if (found == runs_.end()) return;
  StepModel& step = found->second.steps[*found->second.find_step(name)];
  if (step.status != StepStatus::running || step.token != token) return;
  if (is_acknowledged) step.earliest_end = std::max(step.earliest_end, until);
  step.latest_end = std::max(step.latest_end, until);
}

// ---- Streams and tables (17)

void Checker::compare_streams(Store& store) const {
  std::map<StreamKey, std::string> unfolded;
  std::map<StreamKey, std::uint64_t> folded_seq;
  auto lines_in = [&](StreamKey key) {
    auto history = store.history(key);
    folded_seq[key] = history.last_seq;
    return history.lines;
  };
  std::map<StreamKey, std::string> streams;
  store.for_each_stream([&](StreamKey key) { streams[key] = lines_in(key); });
  store.for_each_frame([&](Position, std::string_view parts) {
    for_each_part(parts, [&](const StreamPart& part) {
      std::uint64_t seq = part.first_seq;
      for_each_line(part.lines, [&](std::string_view line) {
        auto& last = folded_seq[part.key];
        if (seq == last + 1) {
          streams[part.key] += std::string(line) + "\n";
          last = seq;
        }
        demand(seq <= last, "streams are gapless", [&] { return RunId{part.key.stream}.str(); });
        ++seq;
      });
    });
  });
  auto same = [&](StreamKey key, const std::string& lines, std::string_view name) {
    demand(streams[key] == lines, "what was acknowledged is there", [&] {
      return std::string(name) + ": the store has " + std::to_string(std::ranges::count(streams[key], '\n')) +
             " events, " + std::to_string(std::ranges::count(lines, '\n')) + " were durable";
    });
  };
  for (const auto& [id, tenant] : tenants_) same(StreamKey::of(id), tenant.lines, id.str());
  for (const auto& [id, run] : runs_) same(StreamKey::of(run.tenant, id), run.lines, id.str());
  for (const auto& [id, task] : tasks_) same(StreamKey::of(task.tenant, stream_of(id)), task.lines, id.str());
  demand(streams.size() == tenants_.size() + runs_.size() + tasks_.size(), "no stream comes from nowhere",
         [&] { return std::to_string(streams.size()) + " streams"; });
}

void Checker::compare_row(Store& store, const RunModel& run) const {
  auto row = store.load(run.tenant, run.id);
  auto same = [&](bool equal, const char* what) {
    demand(equal, "tables and memory equal the fold of the journal",
           [&] { return run.id.str() + " in its row: another " + what; });
  };
  same(row.has_value(), "existence");
  same(row->seq == run.seq && row->head == run.head, "end of its stream");
  same(row->status == run.status, "status");
  same(row->error_code == run.error_code, "error code");
  same(row->workflow == run.workflow->name && row->version == run.workflow->version, "workflow");
  same(row->workspace == run.workspace, "workspace");
  same(row->created_at == run.created_at && row->updated_at == run.updated_at, "time");
  bool leased = std::ranges::any_of(run.steps, [](auto& step) { return step.status == StepStatus::running; });
  same(row->leased == leased, "lease mark");
  auto snapshot = read_snapshot(row->snapshot, *run.workflow);
  same(snapshot.has_value(), "snapshot");
  run.compare(*snapshot, "in its snapshot");
  same(row->phase == phase_of(*snapshot), "phase");
  auto again = read_snapshot(write_snapshot(*snapshot), *run.workflow);
  same(again && same_fold(*again, *snapshot), "snapshot of its snapshot");
  for (const auto& [id, other] : tenants_)
    if (id != run.tenant) demand(!store.load(id, run.id), "no tenant sees another's", [&] { return run.id.str(); });
}

void Checker::compare_row(Store& store, const TaskModel& task) const {
  auto row = store.load(task.tenant, stream_of(task.id));
  auto same = [&](bool equal, const char* what) {
    demand(equal, "tables and memory equal the fold of the journal",
           [&] { return task.id.str() + " in its row: another " + what; });
  };
  same(row.has_value(), "existence");
  same(row->seq == task.seq && row->head == task.head, "end of its stream");
  const Workflow* used = workflow(task.tenant, row->workflow, row->version);
  same(used && row->workflow.text == task_workflow_name, "workflow");
  auto snapshot = read_snapshot(row->snapshot, *used);
  same(snapshot.has_value(), "snapshot");
  task.compare(*snapshot, "in its snapshot");
}

void Checker::compare_tables(Store& store) const {
  compare_receipts(store);
  for (const auto& [id, task] : tasks_) compare_row(store, task);
  std::set<std::pair<RunId, int>> ready, expected;
  store.for_each_ready([&](const ReadyStep& step) { ready.insert({step.run, step.tool.empty() ? -1 : step.step}); });
  std::map<TenantId, std::size_t> runs;
  std::map<std::pair<TenantId, ApprovalStatus>, std::set<ApprovalId>> approvals;
  for (const auto& [id, run] : runs_) {
    compare_row(store, run);
    ++runs[run.tenant];
    for (StepIndex i = 0; i < run.steps.size(); ++i)
      // With several servers, a lease that ran out waits there like a step that is ready, once somebody has noticed.
      if (run.steps[i].status == StepStatus::ready ||
          (is_shared_ && run.steps[i].status == StepStatus::running && ready.contains({id, i})))
        expected.insert({id, i});
    if (run.starts_at_gate()) expected.insert({id, -1});
    for (const auto& approval : run.approvals) approvals[{run.tenant, approval.status}].insert(approval.id);
  }
  demand(ready == expected, "tables and memory equal the fold of the journal", [&] {
    std::vector<std::pair<RunId, int>> odd;
    std::ranges::set_symmetric_difference(ready, expected, std::back_inserter(odd));
    return "the queue of ready steps has " + std::to_string(ready.size()) + " entries instead of " +
           std::to_string(expected.size()) + "; " + odd[0].first.str() + " step " + std::to_string(odd[0].second) +
           " is in one only";
  });
  for (const auto& [tenant, model] : tenants_) {
    RunFilter all;
    all.limit = 10'000;
    demand(store.list_runs(tenant, all).size() == runs[tenant], "a list shows all runs and no others",
           [&] { return tenant.str(); });
    for (std::size_t i = 0; i < enum_count<ApprovalStatus>; ++i) {
      auto status = static_cast<ApprovalStatus>(i);
      std::set<ApprovalId> listed;
      for (const auto& row : store.list_approvals(tenant, {.status = status, .limit = 10'000})) listed.insert(row.id);
      demand(listed == approvals[{tenant, status}], "tables and memory equal the fold of the journal",
             [&] { return "approvals " + std::string(to_string(status)) + " of " + tenant.str(); });
    }
  }
}

}  // namespace pawl::simulator
