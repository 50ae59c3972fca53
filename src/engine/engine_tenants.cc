// Engine, the part for tenants: their configuration, keys and workflows, each a change of the tenant's own stream.
#include <utility>

#include "crypto/sha256.h"
#include "engine/engine.h"
#include "engine/engine_actor.h"
#include "engine/refusals.h"
#include "engine/resident.h"

namespace pawl {

Engine::TenantEntry* Engine::find_entry(TenantId tenant) {
  auto found = tenants_.find(tenant);
  if (found == tenants_.end() && learn(tenant)) found = tenants_.find(tenant);
  return found == tenants_.end() ? nullptr : &found->second;
}

Basis Engine::basis_of(const TenantEntry& entry) const { return {may_be_lost(entry) ? entry.incarnation : 0, 0}; }

// Caps of several servers are kept by the store. A suspension is kept here too.
void Engine::limit(const Tenant& tenant) {
  const bool by_store = shared_ && !tenant.suspended;
  scheduler_.set_limits(tenant.id, {tenant.weight, by_store ? Caps{} : effective_caps(tenant)});
}

void Engine::count_stored(TenantEntry& entry, std::size_t bytes) {
  entry.uncounted_bytes += static_cast<std::int64_t>(bytes);
  if (entry.uncounted_bytes < storage_count_bytes) return;
  // Said first: what says it is counted too.
  append_tenant_event(entry, StorageCounted{std::exchange(entry.uncounted_bytes, 0)}, engine_actor);
}

std::optional<Refusal> Engine::storage_problem(TenantId tenant) const {
  auto found = tenants_.find(tenant);
  if (found == tenants_.end()) return std::nullopt;
  const auto& [known, head, incarnation, changed_at, uncounted_bytes] = found->second;
  auto limit = effective_limit(known, Limit::max_stored_bytes);
  if (!limit || known.stored_bytes + uncounted_bytes < *limit) return std::nullopt;
  return Refusal{RefusalCode::storage_full, "the tenant's journal has reached max_stored_bytes (" +
                                                std::to_string(*limit) +
                                                "): nothing new begins, and what has begun goes on"};
}

void Engine::append_tenant_event(TenantEntry& entry, TenantPayload payload, const Actor& by) {
  TenantEvent event{clock_.now(), by, std::move(payload)};
  evolve(entry.tenant, event);
  History history{.key = StreamKey::of(entry.tenant.id),
                  .first_seq = entry.tenant.seq,
                  .lines = {},
                  .last_seq = entry.tenant.seq,
                  .head = {}};
  append_event(history.lines, event);
  Hash follows = entry.head;
  entry.head = chain_next(sha256, entry.head, history.lines);
  history.lines += '\n';
  history.head = entry.head;
  const std::size_t bytes = history.lines.size();
  entry.changed_at = position_ + 1;
  policy_cache_.put(entry.tenant);
  if (!shared_) append_part(turn_.frame.parts, {history.key, history.first_seq, history.lines});
  turn_.frame.tenants.push_back({entry.tenant, std::move(history), follows, entry.incarnation});
  turn_.news.tenants.push_back(entry.tenant.id);
  ++stats_.events;
  react(entry.tenant, event.payload);
  count_stored(entry, bytes);
}

void Engine::react(const Tenant& tenant, const TenantPayload& payload) {
  if (const auto* workspace = std::get_if<WorkspaceSet>(&payload))
    scheduler_.set_workspace_weight(tenant.id, workspace->workspace, workspace->weight);
  const bool suspends = std::holds_alternative<TenantSuspended>(payload);
  const bool resumes = std::holds_alternative<TenantResumed>(payload);
  const bool limits = std::holds_alternative<LimitsSet>(payload) || std::holds_alternative<CeilingSet>(payload);
  if (suspends || resumes || limits) limit(tenant);
  if (suspends) release_leases(tenant.id);
  if (resumes) may_be_ready_ = may_be_ready_for_polls_ = true;
}

const Tenant* Engine::find_tenant(TenantId tenant) const {
  auto found = tenants_.find(tenant);
  return found == tenants_.end() ? nullptr : &found->second.tenant;
}

std::optional<TenantId> Engine::find_tenant(std::string_view name) const {
  for (const auto& [id, entry] : tenants_)
    if (entry.tenant.name == name) return id;
  return std::nullopt;
}

Engine::Outcome<TenantId> Engine::handle(CreateTenant& request) {
  if (!is_valid_name(request.name))
    return {std::unexpected(Refusal{RefusalCode::invalid, "a tenant's name is letters, digits, . _ and -", "/name"})};
  if (auto existing = find_tenant(request.name)) return {*existing};
  auto id = ids_.make<TenantId>(clock_.now());
  TenantEntry& entry = tenants_[id];
  entry.tenant.id = id;
  entry.head = genesis(StreamKey::of(id));
  entry.incarnation = ++incarnations_;
  append_tenant_event(entry, TenantCreated{request.name}, request.by);
  return {id, basis_of(entry)};
}

// The tenant as the store has it: another server may have changed it since it was read.
Engine::TenantEntry* Engine::find_current(TenantId tenant) {
  learn(tenant);
  return find_entry(tenant);
}

Engine::Outcome<TenantId> Engine::handle(TenantRequest& request) {
  TenantEntry* entry = find_current(request.tenant);
  if (!entry) return {no_such("tenant")};
  auto decided = pawl::decide(entry->tenant, request.command, clock_.now());
  if (!decided) return {std::unexpected(std::move(decided.error()))};
  if (*decided) append_tenant_event(*entry, std::move(**decided), request.by);
  return {request.tenant, basis_of(*entry)};
}

// Of the workers in this process, which are told to stop at once. No attempt is counted, and the steps wait. A remote
// worker is told when it is heard of next, and holds its lease until that ends (pass_time): two would work on the step
// otherwise.
void Engine::release_leases(TenantId tenant) {
  std::vector<Resident*> of_tenant;
  for (auto& [id, resident] : residents_)
    if (resident->run.tenant == tenant && resident->holds_leases()) of_tenant.push_back(resident.get());
  for (Resident* resident : of_tenant)
    for (StepIndex i = 0; i < resident->run.steps.size(); ++i)
      if (const Step& step = resident->run.steps[i];
          step.status == StepStatus::running && is_in_process(step) && find_worker(step.lease_owner))
        decide_and_apply(*resident, WithdrawLease{resident->run.definition(i).id, ReleaseCause::suspended});
}

namespace {

// What bears pawl's own names is the engine's.
std::optional<std::string> reserved_name_problem(const Workflow& workflow, const Actor& by) {
  if (by == engine_actor) return std::nullopt;
  if (is_reserved_name(workflow.name.text))
    return "names that begin with " + std::string(reserved_prefix) +
           " are pawl's own: call the workflow something else";
  for (const StepDefinition& step : workflow.steps)
    if (is_reserved_name(step.tool.text))
      return "the tool " + step.tool.text + " is pawl's own: no workflow may use it";
  return std::nullopt;
}

}  // namespace

// What pawl publishes for itself is not bound by the rules for workflows of tenants; its steps are, when they run.
std::expected<Workflow, std::string> Engine::compile(TenantId tenant, std::string_view source, std::string_view file,
                                                     const Actor& by) {
  TenantEntry* entry = find_current(tenant);
  if (!entry || by == engine_actor) return compile_workflow(source, file, &tools_);
  const TenantRules rules(limits_.rules, entry->tenant);
  return compile_workflow(source, file, &tools_, &rules);
}

namespace {

std::expected<Workflow, std::string> named(std::expected<Workflow, std::string> workflow, const WorkflowName& name) {
  if (!workflow || workflow->name == name) return workflow;
  return std::unexpected("the definition is called \"" + workflow->name.text + "\", not \"" + name.text + "\"");
}

}  // namespace

std::expected<Workflow, std::string> Engine::read_definition(const Tenant& tenant, const WorkflowName& name,
                                                             std::string_view source) const {
  const TenantRules rules(limits_.rules, tenant);
  return named(compile_workflow(source, name.text, &tools_, &rules), name);
}

Engine::Outcome<WorkflowRef> Engine::handle(PublishWorkflow& request) {
  if (request.workflow) return publish(request.tenant, *request.workflow, request.by);
  auto workflow = compile(request.tenant, request.source, request.file, request.by);
  if (request.name) workflow = named(std::move(workflow), *request.name);
  if (!workflow) return {std::unexpected(Refusal{RefusalCode::invalid, std::move(workflow.error())})};
  return publish(request.tenant, std::move(*workflow), request.by);
}

Engine::Outcome<WorkflowRef> Engine::publish(TenantId tenant, Workflow workflow, const Actor& by) {
  TenantEntry* entry = find_current(tenant);
  if (!entry) return {no_such("tenant")};
  if (auto problem = reserved_name_problem(workflow, by))
    return {std::unexpected(Refusal{RefusalCode::invalid, std::move(*problem)})};
  if (auto problem = storage_problem(tenant); problem && by != engine_actor)
    return {std::unexpected(std::move(*problem))};
  if (auto found = entry->tenant.workflows.find(workflow.name); found != entry->tenant.workflows.end()) {
    if (found->second.digest == workflow.digest)
      return {WorkflowRef{workflow.name, found->second.version, false}, basis_of(*entry)};
    workflow.version = found->second.version;
  }
  workflow.version += 1;
  append_tenant_event(*entry, WorkflowPublished{workflow.name, workflow.version, workflow.digest, workflow.source}, by);
  turn_.frame.workflows.push_back(
      {tenant, workflow.name, workflow.version, workflow.digest, workflow.source, workflow.caps});
  WorkflowRef ref{workflow.name, workflow.version, true};
  // With several servers another one may publish that version first: it is only used once it is durable.
  if (!shared_) add_workflow(tenant, std::move(workflow));
  return {std::move(ref), basis_of(*entry)};
}

Engine::Outcome<PolicyRef> Engine::handle(PublishPolicy& request) {
  TenantEntry* entry = find_current(request.tenant);
  if (!entry) return {no_such("tenant")};
  const Tenant::Policy& latest = entry->tenant.policy;
  PolicyRef ref{latest.version, sha256(request.source.text()).hex(), latest.version == 0};
  ref.is_new = ref.is_new || ref.digest != latest.digest;
  if (ref.is_new)
    append_tenant_event(*entry, PolicyPublished{++ref.version, ref.digest, request.source.text()}, request.by);
  return {std::move(ref), basis_of(*entry)};
}

Engine::Outcome<TenantHead> Engine::handle(InspectTenant& request) {
  TenantEntry* entry = find_current(request.tenant);
  if (!entry) return {no_such("tenant")};
  return {TenantHead{entry->tenant, entry->head}, basis_of(*entry)};
}

void Engine::add_workflow(TenantId tenant, Workflow workflow) {
  const Workflow& added = workflows_.add(tenant, std::move(workflow));
  if (workflows_.latest(tenant, added.name) == &added && !shared_)
    scheduler_.set_workflow_caps(tenant, added.name, added.caps);
}

}  // namespace pawl
