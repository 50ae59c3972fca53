#include "cluster/chronicle.h"

#include <algorithm>
#include <utility>

#include "core/invariants.h"
#include "core/snapshot.h"
#include "crypto/sha256.h"
#include "engine/workflows.h"
#include "simulator/failure.h"

namespace pawl::cluster {

using simulator::demand;

namespace {

template <class Visit>
void for_each_line(std::string_view lines, Visit visit) {
  while (!lines.empty()) {
    auto end = lines.find('\n');
    demand(end != lines.npos, "streams are whole", "a line without an end");
    visit(lines.substr(0, end));
    lines.remove_prefix(end + 1);
  }
}

std::size_t running_steps(const Run& run) {
  return static_cast<std::size_t>(std::ranges::count(run.steps, StepStatus::running, &Step::status));
}

}  // namespace

const Run* Chronicle::find(RunId run) const {
  auto found = runs_.find(run);
  return found == runs_.end() ? nullptr : &found->second;
}

const Workflow* Chronicle::workflow(TenantId tenant, const WorkflowName& name, int version) const {
  auto found = workflows_.find({tenant, name, version});
  return found == workflows_.end() ? nullptr : found->second.get();
}

void Chronicle::add(const KeptFrame& frame) {
  // A cap holds from the commit that sets it on: what was claimed in the same one was claimed before.
  for (bool of_tenants : {false, true}) {
    for_each_part(frame.parts, [&](const StreamPart& part) {
      if (part.key.is_tenant() != of_tenants) return;
      auto [head, is_new] = heads_.try_emplace(part.key, genesis(part.key));
      for_each_line(part.lines, [&](std::string_view line) { head->second = chain_next(sha256, head->second, line); });
      of_tenants ? add_tenant(part) : add_run(part);
      lines_[part.key] += part.lines;
    });
    // What one run gives back in a commit, another may have in it.
    for (RunId run : std::exchange(claimed_, {})) check_caps(runs_.at(run));
  }
}

void Chronicle::add_tenant(const StreamPart& part) {
  Tenant& tenant = tenants_[part.key.tenant];
  tenant.id = part.key.tenant;
  demand(part.first_seq == tenant.seq + 1, "streams are gapless", [&] { return part.key.tenant.str(); });
  for_each_line(part.lines, [&](std::string_view line) {
    auto event = parse_tenant_event(line);
    demand(event.has_value(), "events can be read", [&] { return event.error(); });
    auto evolved = evolve_checked(tenant, *event);
    demand(evolved.has_value(), "every move is legal", [&] { return evolved.error(); });
    const auto* published = std::get_if<WorkflowPublished>(&event->payload);
    if (!published) return;
    auto compiled = compile_workflow(published->source, published->workflow.text, &tools_);
    demand(compiled.has_value(), "what was published compiles", [&] { return compiled.error(); });
    compiled->version = published->version;
    latest_[{tenant.id, published->workflow}] = published->version;
    workflows_[{tenant.id, published->workflow, published->version}] =
        std::make_unique<const Workflow>(std::move(*compiled));
  });
}

void Chronicle::add_run(const StreamPart& part) {
  RunId id{part.key.stream};
  auto [found, is_new] = runs_.try_emplace(id);
  Run& run = found->second;
  if (is_new) {
    auto first = parse_run_event(part.lines.substr(0, part.lines.find('\n')));
    const auto* created = first ? std::get_if<RunCreated>(&first->payload) : nullptr;
    demand(created && part.first_seq == 1, "a stream begins with its creation", [&] { return id.str(); });
    run.tenant = part.key.tenant;
    run.id = id;
    run.workflow = workflow(run.tenant, created->workflow, created->version);
    demand(run.workflow != nullptr, "a run names a workflow of its own tenant", [&] { return id.str(); });
  }
  demand(run.tenant == part.key.tenant, "a run belongs to one tenant", [&] { return id.str(); });
  demand(part.first_seq == run.seq + 1, "streams are gapless", [&] {
    return id.str() + ": event " + std::to_string(part.first_seq) + " follows " + std::to_string(run.seq);
  });
  std::vector<StepId> claimed;
  for_each_line(part.lines, [&](std::string_view line) {
    auto event = parse_run_event(line);
    demand(event.has_value(), "events can be read", [&] { return event.error(); });
    if (const auto* step = std::get_if<StepClaimed>(&event->payload); step && step->trigger == StepTrigger::claim)
      claimed.push_back(step->step);
    check_promises(run, *event);
    auto evolved = evolve_checked(run, *event);
    demand(evolved.has_value(), "every move is legal", [&] { return id.str() + ": " + evolved.error(); });
    statuses_[id].push_back(run.status);
  });
  for (const std::string& problem : check_run(run)) demand(false, "runs are sound", id.str() + ": " + problem);
  // What is taken again from a worker that was lost was counted all the time.
  if (std::ranges::any_of(
          claimed, [&](const StepId& step) { return run.steps[*run.find_step(step)].status == StepStatus::running; }))
    claimed_.push_back(id);
}

void Chronicle::promise(const Lease& lease, Instant until) {
  Instant& promised = promised_[{lease.run, lease.step, lease.token}];
  promised = std::max(promised, until);
}

void Chronicle::check_promises(const Run& run, const RunEvent& event) const {
  const auto* claimed = std::get_if<StepClaimed>(&event.payload);
  const auto* failed = std::get_if<StepFailed>(&event.payload);
  const StepId* step = claimed && claimed->trigger == StepTrigger::reclaim           ? &claimed->step
                       : failed && failed->diagnostic->error_code == "LEASE_EXPIRED" ? &failed->step
                                                                                     : nullptr;
  if (!step) return;
  auto found = promised_.find({run.id, *step, run.steps[*run.find_step(*step)].lease_token});
  if (found == promised_.end()) return;
  demand(found->second <= event.at, "no lease is taken back before the time that was acknowledged", [&] {
    return run.id.str() + " " + step->text + " at " + print_time(event.at) + ", promised until " +
           print_time(found->second);
  });
}

void Chronicle::check_caps(const Run& claimed) const {
  std::size_t of_tenant = 0, of_workflow = 0;
  for (const auto& [id, run] : runs_) {
    if (run.tenant != claimed.tenant) continue;
    of_tenant += running_steps(run);
    if (run.workflow->name == claimed.workflow->name) of_workflow += running_steps(run);
  }
  auto check = [&](const Caps& caps, std::size_t running, const std::string& whose) {
    if (caps.max_concurrency)
      demand(running <= static_cast<std::size_t>(*caps.max_concurrency), "max_concurrency holds across servers", [&] {
        return whose + " may have " + std::to_string(*caps.max_concurrency) + " and has " + std::to_string(running);
      });
  };
  check(effective_caps(tenants_.at(claimed.tenant)), of_tenant, claimed.tenant.str());
  int latest = latest_.at({claimed.tenant, claimed.workflow->name});
  check(workflow(claimed.tenant, claimed.workflow->name, latest)->caps, of_workflow, claimed.workflow->name.text);
}

void Chronicle::compare(Store& store) const {
  std::size_t streams = 0;
  store.for_each_stream([&](StreamKey key) {
    ++streams;
    auto stream = store.history(key);
    auto found = lines_.find(key);
    demand(found != lines_.end() && stream.lines == found->second && stream.head == heads_.at(key),
           "what was acknowledged is there", [&] { return RunId{key.stream}.str(); });
  });
  demand(streams == lines_.size(), "what was acknowledged is there", std::to_string(streams) + " streams");
  for (const auto& [id, run] : runs_) {
    auto row = store.load(run.tenant, id);
    auto snapshot = row ? read_snapshot(row->snapshot, *run.workflow) : std::nullopt;
    demand(snapshot && row->seq == run.seq && row->status == run.status &&
               row->head == heads_.at(StreamKey::of(run.tenant, id)),
           "rows are the fold of the journal", [&] { return id.str(); });
    demand(same_fold(*snapshot, run), "rows are the fold of the journal",
           [&] { return id.str() + " in its snapshot"; });
  }
}

}  // namespace pawl::cluster
