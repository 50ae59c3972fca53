#include "engine/scheduler.h"

#include <algorithm>

#include "core/invariant.h"

namespace pawl {
namespace {

constexpr Duration minute = std::chrono::seconds(60);

}  // namespace

bool Scheduler::Meter::may_run() const {
  return !caps.max_concurrency || running < static_cast<std::uint64_t>(*caps.max_concurrency);
}

Instant Scheduler::Meter::may_start_at(Instant now) {
  if (!caps.max_runs_per_min) return now;
  while (!starts.empty() && starts.front() + minute <= now) starts.pop_front();
  auto allowed = static_cast<std::size_t>(*caps.max_runs_per_min);
  if (starts.size() < allowed) return now;
  if (allowed == 0) return end_of_time;  // not until the cap changes
  return starts[starts.size() - allowed] + minute;
}

void Scheduler::Meter::started(Instant at) {
  if (caps.max_runs_per_min) starts.push_back(at);
}

void Scheduler::Meter::unstart() {
  if (caps.max_runs_per_min && !starts.empty()) starts.pop_back();
}

Scheduler::TenantState& Scheduler::tenant_state(TenantId id) {
  auto& slot = tenants_[id];
  if (!slot) {
    slot = std::make_unique<TenantState>();
    slot->id = id;
  }
  return *slot;
}

Scheduler::WorkflowState& Scheduler::workflow_state(TenantState& tenant, const WorkflowName& name) {
  auto [it, is_new] = tenant.workflows.try_emplace(name, static_cast<std::uint32_t>(workflows_.size()));
  if (is_new) workflows_.push_back({name, it->second, &tenant, {}, {}, false});
  return workflows_[it->second];
}

void Scheduler::set_limits(TenantId id, const TenantLimits& limits) {
  TenantState& tenant = tenant_state(id);
  tenant.weight = limits.weight;
  tenant.meter.caps = limits.caps;
  release(tenant);
  // Those that wait for the clock go by the new pace; a wakeup that still comes finds nothing to do.
  for (auto& [name, tool] : tools_)
    if (auto queue = tool.tenants.find(id); queue != tool.tenants.end() && !queue->second.ring.empty()) {
      queue->second.waits_for_clock = false;
      enter(queue->second);
    }
}

void Scheduler::set_workspace_weight(TenantId id, const WorkspaceName& workspace, int weight) {
  tenant_state(id).workspace_weights[workspace] = weight;
  for (auto& [name, tool] : tools_) {
    auto queue = tool.tenants.find(id);
    if (queue == tool.tenants.end()) continue;
    auto found = queue->second.workspaces.find(workspace);
    if (found != queue->second.workspaces.end()) found->second.weight = weight;
  }
}

void Scheduler::set_workflow_caps(TenantId id, const WorkflowName& name, const Caps& caps) {
  WorkflowState& workflow = workflow_state(tenant_state(id), name);
  workflow.meter.caps = caps;
  release(workflow);
}

Scheduler::WorkflowNumber Scheduler::number_of(TenantId tenant, const WorkflowName& workflow) {
  return workflow_state(tenant_state(tenant), workflow).number;
}

Scheduler::WorkspaceQueue& Scheduler::workspace_queue(const ReadyStep& step) {
  if (last_queue_ && last_queue_->tenant->id == step.tenant && last_queue_->tool->name == step.tool &&
      last_workspace_->name == step.workspace && last_workspace_->in_ring) {
    enter(*last_queue_);
    return *last_workspace_;
  }
  TenantState& tenant = tenant_state(step.tenant);
  auto& tool = tools_[step.tool];
  tool.name = step.tool;
  TenantQueue& queue = tool.tenants[step.tenant];
  queue.tenant = &tenant;
  queue.tool = &tool;
  auto [it, is_new] = queue.workspaces.try_emplace(step.workspace);
  WorkspaceQueue& workspace = it->second;
  if (is_new) {
    workspace.name = step.workspace;
    auto weight = tenant.workspace_weights.find(step.workspace);
    workspace.weight = weight == tenant.workspace_weights.end() ? 1 : weight->second;
  }
  if (!workspace.in_ring) {
    workspace.in_ring = true;
    workspace.credit = workspace.weight;
    queue.ring.push_back(&workspace);
  }
  enter(queue);
  last_queue_ = &queue;
  last_workspace_ = &workspace;
  return workspace;
}

void Scheduler::insert(const ReadyStep& step, bool at_front) {
  WorkspaceQueue& workspace = workspace_queue(step);
  WorkflowNumber number = number_of(step.tenant, step.workflow);
  auto& lane = step.fresh ? workspace.fresh : workspace.started;
  Entry entry{step.run, number, step.step, step.fresh};
  if (at_front)
    lane.push_front(entry);
  else
    lane.push_back(entry);
}

void Scheduler::add(const ReadyStep& step) {
  insert(step, false);
  ++size_;
}

void Scheduler::enter(TenantQueue& queue) {
  if (queue.in_ring) return;
  queue.in_ring = true;
  queue.credit = queue.tenant->weight;
  queue.tool->ring.push_back(&queue);
}

void Scheduler::leave(TenantQueue& queue) {
  auto& ring = queue.tool->ring;
  ring.erase(std::ranges::find(ring, &queue));
  queue.in_ring = false;
}

void Scheduler::release(TenantState& tenant) {
  for (TenantQueue* queue : tenant.aside) enter(*queue);
  tenant.aside.clear();
}

// As many as could go now, and at least one to find out: releasing all of a million each time would be quadratic. Of
// every tool, because there may be no worker for the first; and what has started first, because no pace holds it back.
void Scheduler::release(WorkflowState& workflow) {
  const Meter& meter = workflow.meter;
  std::size_t may_run = SIZE_MAX, may_start = SIZE_MAX;
  if (meter.caps.max_concurrency) {
    auto cap = static_cast<std::uint64_t>(*meter.caps.max_concurrency);
    may_run = std::max<std::size_t>(cap > meter.running ? cap - meter.running : 0, 1);
  }
  if (meter.caps.max_runs_per_min) may_start = static_cast<std::size_t>(*meter.caps.max_runs_per_min);
  for (auto& [tool, aside] : workflow.aside) {
    std::size_t started = std::min(may_run, aside.started.size());
    bring_back(aside.fresh, std::min({may_run - started, may_start, aside.fresh.size()}));
    bring_back(aside.started, started);
  }
  std::erase_if(workflow.aside,
                [](const auto& of_tool) { return of_tool.second.started.empty() && of_tool.second.fresh.empty(); });
}

// To where they came from, before those that came later.
void Scheduler::bring_back(std::deque<ReadyStep>& aside, std::size_t count) {
  for (std::size_t i = count; i > 0; --i) insert(aside[i - 1], true);
  aside.erase(aside.begin(), aside.begin() + static_cast<std::ptrdiff_t>(count));
}

void Scheduler::wake(Instant now) {
  while (!wakeups_.empty() && wakeups_.top().at <= now) {
    Wakeup due = wakeups_.top();
    wakeups_.pop();
    if (due.queue) {
      due.queue->waits_for_clock = false;
      enter(*due.queue);
    }
    if (due.workflow) {
      due.workflow->waits_for_clock = false;
      release(*due.workflow);
    }
  }
}

Instant Scheduler::next_start_at() const { return wakeups_.empty() ? end_of_time : wakeups_.top().at; }

std::optional<Scheduler::Entry> Scheduler::pick(TenantQueue& queue, bool may_start, const WorkspaceName*& from) {
  for (std::size_t tries = queue.ring.size(); tries > 0; --tries) {
    WorkspaceQueue* workspace = queue.ring.front();
    auto* lane = !workspace->started.empty()              ? &workspace->started
                 : may_start && !workspace->fresh.empty() ? &workspace->fresh
                                                          : nullptr;
    if (!lane) {
      queue.ring.pop_front();
      if (workspace->fresh.empty())
        workspace->in_ring = false;
      else
        queue.ring.push_back(workspace);
      continue;
    }
    Entry entry = lane->front();
    lane->pop_front();
    from = &workspace->name;
    workspace->credit = std::min(workspace->credit, workspace->weight) - 1;
    if (workspace->credit <= 0) {
      workspace->credit = workspace->weight;
      queue.ring.pop_front();
      queue.ring.push_back(workspace);
    }
    return entry;
  }
  return std::nullopt;
}

bool Scheduler::admit(const Entry& entry, const TenantQueue& queue, const WorkspaceName& workspace, Instant now) {
  WorkflowState& workflow = workflows_[entry.workflow];
  bool needs_worker = !queue.tool->name.empty();
  bool may_run = !needs_worker || workflow.meter.may_run();
  Instant start = entry.fresh ? workflow.meter.may_start_at(now) : now;
  if (may_run && start <= now) return true;
  ++(may_run ? workflow.tenant->held_back.max_runs_per_min : workflow.tenant->held_back.max_concurrency);
  auto& aside = workflow.aside[queue.tool->name];
  (entry.fresh ? aside.fresh : aside.started)
      .push_back({queue.tenant->id, workspace, workflow.name, queue.tool->name, entry.run, entry.step, entry.fresh});
  if (may_run && !workflow.waits_for_clock) {
    workflow.waits_for_clock = true;
    wakeups_.push({start, nullptr, &workflow});
  }
  return false;
}

// What stands aside for the workflow's pace goes on when the clock says so, or at once when a start was taken back.
void Scheduler::await_next_start(WorkflowState& workflow, Instant now) {
  if (workflow.aside.empty() || workflow.waits_for_clock || !workflow.meter.caps.max_runs_per_min) return;
  workflow.waits_for_clock = true;
  wakeups_.push({workflow.meter.may_start_at(now), nullptr, &workflow});
}

// The queue's next step, or nothing: then the queue is out of its ring.
std::optional<Scheduler::Ticket> Scheduler::take_from(TenantQueue& queue, Instant now) {
  TenantState& tenant = *queue.tenant;
  bool needs_worker = !queue.tool->name.empty();
  while (true) {
    if (needs_worker && !tenant.meter.may_run()) {
      ++tenant.held_back.max_concurrency;
      leave(queue);
      tenant.aside.push_back(&queue);
      return std::nullopt;
    }
    Instant start = tenant.meter.may_start_at(now);
    const WorkspaceName* workspace = nullptr;
    auto entry = pick(queue, start <= now, workspace);
    if (!entry) {
      leave(queue);
      if (!queue.ring.empty()) {  // only runs that may not start yet
        ++tenant.held_back.max_runs_per_min;
        if (!queue.waits_for_clock && start != end_of_time) {
          wakeups_.push({start, &queue, nullptr});
          queue.waits_for_clock = true;
        }
      }
      return std::nullopt;
    }
    if (!admit(*entry, queue, *workspace, now)) continue;
    WorkflowState& workflow = workflows_[entry->workflow];
    if (needs_worker) {
      ++tenant.meter.running;
      ++workflow.meter.running;
    }
    if (entry->fresh) {
      tenant.meter.started(now);
      workflow.meter.started(now);
      await_next_start(workflow, now);
    }
    --size_;
    return Ticket{tenant.id, entry->run, entry->step, entry->fresh, needs_worker, entry->workflow};
  }
}

std::optional<Scheduler::Ticket> Scheduler::take_in_turn(ToolQueue& tool, Instant now, const MayTake& may_take) {
  for (std::size_t tries = tool.ring.size(); tries > 0; --tries) {
    TenantQueue& queue = *tool.ring.front();
    if (may_take && !may_take(queue.tenant->id)) {
      tool.ring.pop_front();
      tool.ring.push_back(&queue);
      continue;
    }
    auto ticket = take_from(queue, now);
    if (!ticket) continue;
    queue.credit = std::min(queue.credit, queue.tenant->weight) - 1;  // the weight may have shrunk since its turn began
    if (queue.credit <= 0) {
      queue.credit = queue.tenant->weight;
      tool.ring.pop_front();
      tool.ring.push_back(&queue);
    }
    return ticket;
  }
  return std::nullopt;
}

template <class TakeOne>
std::optional<Scheduler::Ticket> Scheduler::take_of_tools(std::span<const ToolName> tools, Instant now,
                                                          TakeOne take_one) {
  wake(now);
  ++turn_;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    auto found = tools_.find(tools[(turn_ + i) % tools.size()]);
    if (found == tools_.end()) continue;
    if (std::optional<Ticket> ticket = take_one(found->second)) return ticket;
  }
  return std::nullopt;
}

std::optional<Scheduler::Ticket> Scheduler::take(std::span<const ToolName> tools, Instant now) {
  return take(tools, now, MayTake());
}

std::optional<Scheduler::Ticket> Scheduler::take(std::span<const ToolName> tools, Instant now,
                                                 const MayTake& may_take) {
  return take_of_tools(tools, now, [&](ToolQueue& tool) { return take_in_turn(tool, now, may_take); });
}

std::optional<Scheduler::Ticket> Scheduler::take(std::span<const ToolName> tools, Instant now, TenantId only) {
  return take_of_tools(tools, now, [&](ToolQueue& tool) -> std::optional<Ticket> {
    auto queue = tool.tenants.find(only);
    return queue != tool.tenants.end() && queue->second.in_ring ? take_from(queue->second, now) : std::nullopt;
  });
}

void Scheduler::put_back(const Ticket& ticket) {
  not_a_start(ticket);
  if (ticket.is_lease) lease_ended(ticket.workflow);
}

void Scheduler::not_a_start(const Ticket& ticket) {
  if (!ticket.fresh) return;
  WorkflowState& workflow = workflows_[ticket.workflow];
  workflow.tenant->meter.unstart();
  workflow.meter.unstart();
  if (!workflow.aside.empty()) release(workflow);
}

void Scheduler::lease_restored(WorkflowNumber number) {
  WorkflowState& workflow = workflows_[number];
  ++workflow.tenant->meter.running;
  ++workflow.meter.running;
}

void Scheduler::start_restored(TenantId id, const WorkflowName& name, Instant at) {
  TenantState& tenant = tenant_state(id);
  tenant.meter.started(at);
  workflow_state(tenant, name).meter.started(at);
}

void Scheduler::lease_ended(WorkflowNumber number) {
  WorkflowState& workflow = workflows_[number];
  TenantState& tenant = *workflow.tenant;
  invariant(tenant.meter.running > 0 && workflow.meter.running > 0, "a lease ended that was never counted");
  --tenant.meter.running;
  --workflow.meter.running;
  if (!tenant.aside.empty()) release(tenant);
  if (!workflow.aside.empty()) release(workflow);
}

bool Scheduler::is_paced(WorkflowNumber number) const {
  const WorkflowState& workflow = workflows_[number];
  return workflow.tenant->meter.caps.max_runs_per_min || workflow.meter.caps.max_runs_per_min;
}

std::vector<std::pair<TenantId, HeldBack>> Scheduler::held_back() const {
  std::vector<std::pair<TenantId, HeldBack>> out;
  for (const auto& [id, tenant] : tenants_)
    if (tenant->held_back != HeldBack{}) out.emplace_back(id, tenant->held_back);
  return out;
}

HeldBack Scheduler::held_back(TenantId id) const {
  auto found = tenants_.find(id);
  return found == tenants_.end() ? HeldBack{} : found->second->held_back;
}

std::vector<CapUse> Scheduler::cap_use(TenantId id, Instant now) const {
  std::vector<CapUse> out;
  auto found = tenants_.find(id);
  if (found == tenants_.end()) return out;
  auto add = [&](const WorkflowName& workflow, Meter meter) {  // a copy: looking at the pace forgets old starts
    if (!meter.caps.max_concurrency && !meter.caps.max_runs_per_min) return;
    const Instant start = meter.may_start_at(now);
    out.push_back({workflow, meter.caps, meter.running, start > now ? start : Instant{}});
  };
  add({}, found->second->meter);
  for (const auto& [name, number] : found->second->workflows) add(name, workflows_[number].meter);
  return out;
}

std::uint64_t Scheduler::queued(TenantId id) const {
  std::uint64_t out = 0;
  for (const auto& [name, tool] : tools_) {
    auto queue = tool.tenants.find(id);
    if (queue == tool.tenants.end()) continue;
    for (const auto& [workspace, lanes] : queue->second.workspaces) out += lanes.started.size() + lanes.fresh.size();
  }
  auto tenant = tenants_.find(id);
  if (tenant == tenants_.end()) return out;
  for (const auto& [name, number] : tenant->second->workflows)
    for (const auto& [tool, aside] : workflows_[number].aside) out += aside.started.size() + aside.fresh.size();
  return out;
}

std::uint64_t Scheduler::running(TenantId id) const {
  auto found = tenants_.find(id);
  return found == tenants_.end() ? 0 : found->second->meter.running;
}

}  // namespace pawl
