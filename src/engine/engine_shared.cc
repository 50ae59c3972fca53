// Engine, the part for a store that other servers write to as well.
//
// What is in memory may be behind. A decision that brings events is checked by the commit; one that brings none is made
// on a run that was looked up since the request came (verify). Ready steps are queued here only when a worker of this
// server may take them at once, or was given work a moment ago and will be back for more; all others, and those that
// are not taken soon, any server takes from the store (refill). Timers of runs that are in memory are kept by whoever
// has them; what is overdue for some seconds is anybody's (look_around).
#include <algorithm>
#include <charconv>
#include <utility>

#include "core/snapshot.h"
#include "engine/engine.h"
#include "engine/resident.h"

namespace pawl {
namespace {

// How long a taken step stays this server's; as long again, and it may be handed out twice, of which one is refused.
constexpr Duration ready_hold = std::chrono::milliseconds(500);
// A worker that was given work is expected back for so long: what waits here for it must be taken before others may.
constexpr Duration back_within = ready_hold / 2;
// How often the queue is looked at while somebody waits for work and nobody said that there is any.
constexpr Duration refill_interval = std::chrono::milliseconds(250);
constexpr Duration look_interval = std::chrono::seconds(1);
// A timer that nobody acted on for this long is anybody's.
constexpr Duration overdue_after = std::chrono::seconds(3);
constexpr Duration idle_before_leaving = std::chrono::seconds(60);
constexpr Duration capped_for = std::chrono::milliseconds(100);
constexpr std::size_t queued_here_max = 4096;
constexpr std::size_t refill_max = 256;
constexpr std::size_t overdue_max = 1000;

// Of a worker inside of a server: that server's number.
std::optional<std::uint32_t> server_of(const WorkerName& worker) {
  if (!worker.text.starts_with(local_worker_prefix)) return std::nullopt;
  std::uint32_t server = 0;
  std::string_view rest = std::string_view(worker.text).substr(local_worker_prefix.size());
  auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), server);
  return error == std::errc() ? std::optional(server) : std::nullopt;
}

}  // namespace

// ---- What is in memory

bool Engine::is_undurable(const Resident& resident) const {
  return resident.in_turn() || resident.rewrite_wanted || resident.changed_at > durable_;
}

bool Engine::may_be_lost(const Resident& resident) const { return shared_ && is_undurable(resident); }

bool Engine::may_be_lost(const TenantEntry& entry) const { return shared_ && entry.changed_at > durable_; }

bool Engine::holds_local_leases(const Resident& resident) const {
  return std::ranges::any_of(resident.run.steps, [&](const Step& step) {
    return step.status == StepStatus::running &&
           std::ranges::find(workers_, step.lease_owner, &Worker::name) != workers_.end();
  });
}

// After it came from the store.
void Engine::find_place(Resident& resident, const RunRow& row) {
  resident.revision = row.revision;
  resident.folded_leases = resident.running_steps();
  resident.folded_ready = true;  // or not: it costs little to look
  for (StepIndex i = 0; i < resident.run.steps.size(); ++i) {
    const Step& step = resident.run.steps[i];
    if (step.status != StepStatus::running || !find_worker(step.lease_owner)) continue;
    scheduler_.lease_restored(resident.workflow_number);
    resident.lease_marks[i] = LeaseMark::counted;
  }
  for (const ReadyStep& step : ready_steps(resident.run)) resident.left.push_back(step.step);
  register_timer(resident);
}

bool Engine::verify(Resident& resident) {
  if (!shared_ || resident.verified_in == arrivals_ || is_undurable(resident)) return false;
  auto row = store_.load(resident.run.tenant, resident.run.id);
  if (!row) throw StoreFailure(resident.run.id.str() + " has no row any more; runs are never deleted");
  resident.verified_in = arrivals_;
  if (row->revision == resident.revision) return false;
  reload(resident, std::move(*row));
  return true;
}

Engine::Resident* Engine::find_verified(TenantId tenant, RunId run) {
  Resident* resident = find(tenant, run);
  if (resident) verify(*resident);
  return resident;
}

// In place, since whoever decides on it goes on with it.
void Engine::reload(Resident& resident, RunRow row) {
  Run before = std::move(resident.run);
  for (StepIndex i = 0; i < resident.lease_marks.size(); ++i) end_lease(resident, i);
  auto run = read_snapshot(row.snapshot, *before.workflow);
  if (!run) run = fold_history(row, *before.workflow);
  ++stats_.runs_loaded;
  auto number = resident.workflow_number;
  auto weighed = resident.weighed_bytes;
  resident = Resident(std::move(*run), row.head);
  resident.workflow_number = number;
  resident.weighed_bytes = weighed;
  weigh(resident);
  resident.incarnation = ++incarnations_;
  resident.verified_in = arrivals_;
  resident.in_rows = true;
  resident.updated_at = row.updated_at;
  find_place(resident, row);
  folded_.push_back({position_, row.id});
  // What its workers here still work on, while it went on elsewhere.
  for (StepIndex i = 0; i < before.steps.size(); ++i) {
    const Step& was = before.steps[i];
    Worker* worker = was.status == StepStatus::running ? find_worker(was.lease_owner) : nullptr;
    if (!worker) continue;
    const Step& is = resident.run.steps[i];
    if (is.status == StepStatus::running && is.lease_token == was.lease_token) continue;
    turn_.revokes.push_back({worker->sink, before.id, before.definition(i).id, was.lease_token, 0});
  }
}

void Engine::forget(Resident& resident) {
  for (StepIndex i = 0; i < resident.lease_marks.size(); ++i) end_lease(resident, i);
  forget_requests(resident.run);
  forget_effects(resident.run);
  std::erase(touched_, &resident);
  working_set_bytes_ -= resident.weighed_bytes;
  residents_.erase(RunId(resident.run.id));
}

void Engine::expect(std::span<const StreamKey> runs) {
  if (!shared_) return;
  std::vector<StreamKey> unknown;
  for (const StreamKey& key : runs)
    if (!residents_.contains(RunId{key.stream})) unknown.push_back(key);
  if (unknown.size() < 2) return;  // one is loaded when it is asked for
  std::ranges::sort(unknown);
  auto repeated = std::ranges::unique(unknown);
  unknown.erase(repeated.begin(), repeated.end());
  for (RunRow& row : shared_->load_all(unknown)) adopt(std::move(row));
}

// ---- What was lost to another server

void Engine::lose(const Lost& lost) {
  if (lost.key.is_tenant()) {
    auto found = tenants_.find(lost.key.tenant);
    if (found == tenants_.end() || found->second.incarnation != lost.incarnation) return;
    std::erase_if(turn_.frame.tenants, [&](const TenantFold& fold) { return fold.incarnation == lost.incarnation; });
    std::erase_if(turn_.frame.workflows, [&](const WorkflowRow& row) { return row.tenant == lost.key.tenant; });
    found->second.changed_at = 0;
    found->second.tenant.seq = 0;  // behind, whatever the store has
    learn(lost.key.tenant);
    if (tenants_.at(lost.key.tenant).incarnation == lost.incarnation) {
      tenants_.erase(lost.key.tenant);  // its name was taken
      learn_tenants();
    }
    return;
  }
  auto found = residents_.find(RunId{lost.key.stream});
  if (found == residents_.end()) {
    // It waited for somebody and had left memory already. What was asked for is decided again all the same, and must
    // not come to the same end: not start at once, nor be of a version that is not the latest any more.
    if (lost.capped)
      capped_[{lost.key.tenant, WorkflowName{}}] = clock_.now() + capped_for;
    else
      learn(lost.key.tenant);
    return;
  }
  if (found->second->incarnation != lost.incarnation) return;
  Resident& resident = *found->second;
  const Run& run = resident.run;
  if (lost.capped) {
    capped_[{run.tenant, run.workflow->name}] = clock_.now() + capped_for;
    scheduler_.count_held_back(run.tenant, lost.is_pace ? &HeldBack::max_runs_per_min : &HeldBack::max_concurrency);
  }
  may_be_ready_ = true;
  auto of_it = [&](const Lease& lease) { return lease.run == run.id; };
  for (Worker& worker : workers_) worker.give_back(run.tenant, static_cast<int>(std::erase_if(worker.granted, of_it)));
  for (WaitingPoll& waiting : polls_) std::erase_if(waiting.granted, of_it);
  std::erase_if(turn_.frame.starts, [&](const StartRow& start) { return start.run == run.id; });
  if (resident.wants_latest) learn(run.tenant);
  if (!holds_local_leases(resident)) return forget(resident);
  auto row = store_.load(run.tenant, run.id);
  if (!row) return forget(resident);
  std::erase(touched_, &resident);
  reload(resident, std::move(*row));
}

// ---- Rows

void Engine::rewrite(Resident& resident) {
  if (shared_ && !std::exchange(resident.rewrite_wanted, true)) rewrites_.push_back(resident.run.id);
}

void Engine::fold_shared(Resident& resident, RunFold& out) {
  const Run& run = resident.run;
  resident.rewrite_wanted = false;
  out.incarnation = resident.incarnation;
  out.follows_revision = resident.revision;
  out.row.revision = resident.revision = random_.next() >> 1 | 1;
  out.leases_before = resident.folded_leases;
  resident.folded_leases = out.leases;
  out.claims = std::exchange(resident.claims, 0);
  // A lease that ran out waits for a worker like a step that is ready, once somebody has noticed.
  Instant now = clock_.now();
  for (StepIndex i = 0; i < run.steps.size(); ++i)
    if (is_unnoticed(resident, i, now))
      out.row.due_at = std::min(out.row.due_at, run.steps[i].lease_expires_at);
    else if (resident.lease_marks[i] == LeaseMark::reclaim_queued && !is_terminal(run.status))
      out.ready.push_back({run.tenant, run.workspace, run.workflow->name, run.definition(i).tool, run.id, i, false});
  out.was_ready = std::exchange(resident.folded_ready, !out.ready.empty());
  out.wants_latest = out.is_new && resident.wants_latest;
  std::erase_if(resident.left, [&](StepIndex step) {
    return std::ranges::find(out.ready, step, &ReadyStep::step) == out.ready.end();
  });
  out.holds_ready = resident.left.empty();
  if (!out.ready.empty() && !out.holds_ready) {
    turn_.news.ready = true;
    may_be_ready_ = true;
  }
}

void Engine::end_shared_turn() {
  for (RunId id : std::exchange(rewrites_, {})) {
    auto found = residents_.find(id);
    if (found != residents_.end() && found->second->rewrite_wanted) fold(*found->second);
  }
  turn_.news.events = !turn_.frame.runs.empty() || !turn_.frame.tenants.empty();
}

// ---- Work

// Whether a step for this tool waits here or in the store.
bool Engine::keeps(TenantId tenant, const ToolName& tool) const {
  if (winding_down_ || scheduler_.size() >= queued_here_max) return false;
  if (tool.empty()) return true;
  auto serves = [&](const auto& who) { return std::ranges::find(who.tools, tool) != who.tools.end(); };
  if (std::ranges::any_of(workers_, serves)) return true;
  std::size_t wanted = 0;
  auto add = [&](const auto& poll) {
    if (poll.tenant == tenant && serves(poll)) wanted += static_cast<std::size_t>(poll.max);
  };
  for (const WaitingPoll& waiting : polls_) add(waiting.poll);
  for (const ReturningPoll& returning : returning_) add(returning);
  return scheduler_.size() < wanted;
}

void Engine::expect_back(const Poll& poll) {
  Instant now = clock_.now();
  while (!returning_.empty() && returning_.front().until <= now) returning_.pop_front();
  returning_.push_back({poll.tenant, poll.worker, poll.tools, poll.max, now + back_within});
}

// Whether its start counts in a cap that the store keeps.
bool Engine::is_paced_by_store(const Run& run) const {
  const Workflow* latest = workflows_.latest(run.tenant, run.workflow->name);
  return effective_caps(tenants_.at(run.tenant).tenant).max_runs_per_min || (latest && latest->caps.max_runs_per_min);
}

// The store takes all of a run's part in a commit or none of it. Two steps of one run, claimed at once where the cap
// has room for one, would be left out time and again.
bool Engine::claims_enough(const Resident& resident) const {
  if (!shared_ || resident.claimed_at != position_ + 1) return false;
  const Run& run = resident.run;
  const Workflow* latest = workflows_.latest(run.tenant, run.workflow->name);
  return effective_caps(tenants_.at(run.tenant).tenant).max_concurrency || (latest && latest->caps.max_concurrency);
}

bool Engine::is_capped(const Scheduler::Ticket& ticket) {
  if (capped_.empty()) return false;
  auto found = residents_.find(ticket.run);
  if (found == residents_.end()) return false;
  // Nameless: of which workflow is not known any more.
  for (const WorkflowName& workflow : {found->second->run.workflow->name, WorkflowName{}}) {
    auto capped = capped_.find({ticket.tenant, workflow});
    if (capped == capped_.end()) continue;
    if (clock_.now() < capped->second) return true;
    capped_.erase(capped);
  }
  return false;
}

// Takes from the store what workers here wait for; true when there was something.
bool Engine::refill() {
  Instant now = clock_.now();
  auto is_free = [](const Worker& worker) { return worker.slots > 0; };
  if (has_left_durably_ && scheduler_.size() == 0 && std::ranges::any_of(workers_, is_free)) may_be_ready_ = true;
  bool is_time = now >= next_refill_;
  if (is_time) next_refill_ = now + refill_interval;
  // Room under a cap comes with time, or with leases that end elsewhere: nobody tells of that.
  bool for_all = may_be_ready_ || (is_time && (has_held_back_ || !shared_->reports_all()));
  bool for_polls = std::exchange(may_be_ready_for_polls_, false) || for_all;
  bool any = false;
  if (for_all) {
    may_be_ready_ = has_held_back_ = false;
    // What a worker that is busy now could do stays there, too.
    has_left_durably_ = !std::ranges::all_of(workers_, is_free);
    next_refill_ = now + refill_interval;
    static const std::vector<ToolName> no_worker_needed{ToolName{}};
    any = refill(no_worker_needed, refill_max, {});
    for (const Worker& worker : workers_)
      if (worker.slots > 0) any |= refill(worker.tools, static_cast<std::size_t>(worker.slots), {});
  }
  if (!for_polls) return any;
  std::map<TenantId, std::pair<std::vector<ToolName>, std::size_t>> wanted;
  for (const WaitingPoll& waiting : polls_) {
    auto& [tools, count] = wanted[waiting.poll.tenant];
    for (const ToolName& tool : waiting.poll.tools)
      if (std::ranges::find(tools, tool) == tools.end()) tools.push_back(tool);
    count += static_cast<std::size_t>(waiting.poll.max);
  }
  for (const auto& [tenant, want] : wanted) any |= refill(want.first, want.second, tenant);
  return any;
}

bool Engine::refill(std::span<const ToolName> tools, std::size_t wanted, std::optional<TenantId> only) {
  wanted = std::min(wanted, refill_max);
  Taken taken = shared_->take_ready(tools, wanted, ready_hold, only);
  for (const auto& [tenant, is_pace] : taken.held_back)
    scheduler_.count_held_back(tenant, is_pace ? &HeldBack::max_runs_per_min : &HeldBack::max_concurrency);
  has_held_back_ |= !taken.held_back.empty();
  if (taken.steps.size() >= wanted) may_be_ready_ = true;
  for (TakenStep& each : taken.steps) {
    auto found = residents_.find(each.step.run);
    if (found == residents_.end())
      adopt(std::move(each.row));
    else if (found->second->revision != each.row.revision && !is_undurable(*found->second))
      reload(*found->second, std::move(each.row));
    if (found == residents_.end()) found = residents_.find(each.step.run);
    if (found == residents_.end()) continue;  // it is damaged
    std::erase(found->second->left, each.step.step);
    add_to_queue(each.step);
  }
  return !taken.steps.empty();
}

// ---- The others

void Engine::tell_owner(const Run& run, const WorkerName& worker) {
  if (auto server = server_of(worker)) turn_.servers_to_notify.emplace_back(*server, StreamKey::of(run.tenant, run.id));
}

void Engine::hear(const News& news) {
  may_be_ready_ |= news.ready;
  may_be_overdue_ |= news.overdue;
  tenants_may_differ_ |= news.any_tenant;
  if (!news.gone.empty()) gone_servers_ = news.gone;
  if (news.overdue || news.any_tenant || !news.gone.empty()) next_look_ = std::min(next_look_, clock_.now());
  for (TenantId tenant : news.tenants) learn(tenant);
  for (const StreamKey& key : news.runs)
    if (auto found = residents_.find(RunId{key.stream}); found != residents_.end()) verify(*found->second);
}

// What fell due and stayed so: its server is gone, or never knew.
void Engine::pass_overdue_time() {
  auto overdue = store_.due_runs(clock_.now() - overdue_after, overdue_max, {});
  may_be_overdue_ = overdue.size() == overdue_max;
  std::vector<StreamKey> keys;
  for (const DueRun& due : overdue) keys.push_back(StreamKey::of(due.tenant, due.run));
  expect(keys);
  for (const DueRun& due : overdue)
    if (Resident* resident = find(due.tenant, due.run)) {
      pass_time(*resident);
      register_timer(*resident);
    }
}

// A server that died holds the leases of its own workers, which nobody extends and nobody else would release before
// they end. Should it only have been away, it finds its tokens stale.
void Engine::release_leases_of(std::span<const std::uint32_t> servers) {
  auto leased = shared_->leased_runs_of(servers);
  std::vector<StreamKey> keys;
  for (const DueRun& each : leased) keys.push_back(StreamKey::of(each.tenant, each.run));
  expect(keys);
  for (const DueRun& each : leased) {
    Resident* resident = find_verified(each.tenant, each.run);
    if (!resident) continue;
    bool any = false;
    for (Step& step : resident->run.steps) {
      if (step.status != StepStatus::running || !is_in_process(step) || find_worker(step.lease_owner)) continue;
      const auto server = server_of(step.lease_owner);
      if (!server || std::ranges::find(servers, *server) == servers.end()) continue;
      step.lease_expires_at = std::min(step.lease_expires_at, clock_.now());
      any = true;
    }
    if (any) pass_time(*resident);
  }
}

void Engine::look_around() {
  Instant now = clock_.now();
  next_look_ = now + look_interval + Duration(static_cast<std::int64_t>(random_.below(200)));
  const bool is_told = shared_->reports_all();
  if (std::exchange(tenants_may_differ_, false) || !is_told) learn_tenants();
  if (may_be_overdue_ || !is_told) pass_overdue_time();
  if (!gone_servers_.empty()) release_leases_of(std::exchange(gone_servers_, {}));
  std::vector<Resident*> idle;
  std::vector<StreamKey> worked_on;
  for (auto& [id, resident] : residents_) {
    Run& run = resident->run;
    if (holds_local_leases(*resident)) {
      worked_on.push_back(StreamKey::of(run.tenant, id));
      for (StepIndex i = 0; i < run.steps.size(); ++i) {
        Step& step = run.steps[i];
        // A remote worker's is its own to extend.
        if (!is_in_process(step) || !find_worker(step.lease_owner)) continue;
        Duration term = lease_term(run.definition(i), step.lease_owner, false);
        if (resident->lease_marks[i] != LeaseMark::counted || step.lease_expires_at - now > term / 2) continue;
        step.lease_expires_at = now + term;
        rewrite(*resident);
      }
      continue;
    }
    Instant due = next_due(run, now);
    bool waits_here = due > now - overdue_after && due < now + idle_before_leaving;
    if (!is_undurable(*resident) && resident->updated_at < now - idle_before_leaving && !waits_here)
      idle.push_back(resident.get());
  }
  for (Resident* resident : idle) forget(*resident);
  // A cancel on another server reaches the workers here even when its word got lost.
  for (RunRow& row : shared_->load_all(worked_on)) {
    auto found = residents_.find(row.id);
    if (found != residents_.end() && found->second->revision != row.revision && !is_undurable(*found->second))
      reload(*found->second, std::move(row));
  }
}

bool Engine::learn(TenantId id) {
  if (!shared_) return false;
  auto known = tenants_.find(id);
  if (known != tenants_.end() && known->second.changed_at > durable_) return false;  // about to be written here
  auto loaded = shared_->load_tenant(id);
  if (!loaded) return false;
  auto& [tenant, head] = *loaded;
  bool is_news = known == tenants_.end() || known->second.tenant.seq != tenant.seq;
  bool has_workflows = std::ranges::all_of(
      tenant.workflows, [&](const auto& each) { return workflows_.find(id, each.first, each.second.version); });
  if (!has_workflows) learn_workflows(id);
  if (!is_news) return !has_workflows;
  limit(tenant);
  for (const auto& [workspace, weight] : tenant.workspaces) scheduler_.set_workspace_weight(id, workspace, weight);
  policy_cache_.put(tenant);
  if (tenant_changed_) tenant_changed_(tenant);
  const bool is_suspended = tenant.suspended && !(known != tenants_.end() && known->second.tenant.suspended);
  const std::int64_t uncounted_bytes = known == tenants_.end() ? 0 : known->second.uncounted_bytes;
  tenants_[id] = {std::move(tenant), head, ++incarnations_, 0, uncounted_bytes};
  if (is_suspended) release_leases(id);
  return true;
}

void Engine::learn_workflows(TenantId tenant) {
  if (!shared_) return;
  auto rows = shared_->workflows_of(tenant);
  std::erase_if(rows, [&](const WorkflowRow& row) { return workflows_.find(tenant, row.name, row.version); });
  std::set<std::pair<WorkflowName, int>> wanted;
  for (const WorkflowRow& row : rows) wanted.insert({row.name, row.version});
  // What was there at the start was compared before (check_at_start).
  const auto published = recovered_ ? published_digests(store_, tenant, wanted) : WorkflowDigests();
  for (const WorkflowRow& row : rows) {
    const auto digest = published.find({row.name, row.version});
    const bool is_published = !recovered_ || (digest != published.end() && digest->second == row.digest);
    std::expected<Workflow, std::string> workflow = std::unexpected(std::string("it is not what was published"));
    if (is_published) workflow = read_stored_workflow(row);
    if (workflow)
      add_workflow(tenant, std::move(*workflow));
    else
      report_damage("workflow " + row.name.text + " v" + std::to_string(row.version), workflow.error());
  }
}

void Engine::learn_tenants_once() {
  if (std::exchange(tenants_learned_in_, arrivals_) != arrivals_) learn_tenants();
}

const Workflow* Engine::find_workflow(TenantId tenant, const WorkflowName& name, std::optional<int> version) {
  auto find_known = [&] { return version ? workflows_.find(tenant, name, *version) : workflows_.latest(tenant, name); };
  const Workflow* known = find_known();
  if (known || !shared_ || !find_entry(tenant)) return known;
  learn_workflows(tenant);
  return find_known();
}

void Engine::learn_tenants() {
  if (!shared_) return;
  for (const auto& [tenant, seq] : shared_->tenant_heads()) {
    auto known = tenants_.find(tenant);
    if (known == tenants_.end() || known->second.tenant.seq != seq) learn(tenant);
  }
}

}  // namespace pawl
