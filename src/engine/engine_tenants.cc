// Engine, the part for tenants: their configuration, keys and workflows, each a change of the tenant's own stream.
#include <utility>

#include "core/characters.h"
#include "core/planted.h"
#include "crypto/sha256.h"
#include "engine/answering.h"
#include "engine/engine.h"

namespace pawl {

Engine::TenantEntry* Engine::find_entry(TenantId tenant) {
  auto found = tenants_.find(tenant);
  if (found == tenants_.end() && shared_ && learn(tenant)) found = tenants_.find(tenant);
  return found == tenants_.end() ? nullptr : &found->second;
}

std::array<Incarnation, 2> Engine::basis_of(const TenantEntry& entry) const {
  return {shared_ && entry.changed_at > durable_ ? entry.incarnation : 0, 0};
}

// Caps of several servers are kept by the store. A suspension is kept here too.
void Engine::limit(const Tenant& tenant) {
  const bool by_store = shared_ && !tenant.suspended;
  scheduler_.set_limits(tenant.id, {tenant.weight, by_store ? Caps{} : effective_caps(tenant)});
}

void Engine::count_stored(TenantEntry& entry, std::size_t bytes) {
  entry.uncounted_bytes += static_cast<std::int64_t>(bytes);
  if (entry.uncounted_bytes < storage_count_bytes) return;
  // Said first: what says it is counted too.
  append_tenant_event(entry, StorageCounted{std::exchange(entry.uncounted_bytes, 0)}, Actor{"engine"});
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
  count_stored(entry, bytes);
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

void Engine::create_tenant(std::string name, Actor by, Reply<TenantId> reply) {
  if (!is_valid_name(name))
    return answer_with(reply, std::expected<TenantId, Refusal>(std::unexpected(
                                  Refusal{RefusalCode::invalid, "a tenant's name is letters, digits, . _ and -"})));
  if (auto existing = find_tenant(name)) return answer_with<TenantId>(reply, *existing);
  auto id = ids_.make<TenantId>(clock_.now());
  TenantEntry& entry = tenants_[id];
  entry.tenant.id = id;
  entry.head = genesis(StreamKey::of(id));
  entry.incarnation = ++incarnations_;
  append_tenant_event(entry, TenantCreated{name}, by);
  answer_on<TenantId>(basis_of(entry), reply, id, [&] {
    return [name, by](Engine& engine, Reply<TenantId> again) { engine.create_tenant(name, by, std::move(again)); };
  });
}

namespace {

std::unexpected<Refusal> invalid(std::string problem) {
  return std::unexpected(Refusal{RefusalCode::invalid, std::move(problem)});
}

bool is_valid_weight(int weight) { return weight >= 1 && weight <= weight_max; }

std::unexpected<Refusal> wrong_weight() {
  return std::unexpected(Refusal{RefusalCode::invalid, "a weight lies between 1 and " + std::to_string(weight_max)});
}

}  // namespace

template <class Request>
void Engine::answer_on_tenant(const TenantEntry& entry, Reply<TenantId>& reply, const Request& request,
                              const Actor& by) {
  TenantId tenant = entry.tenant.id;
  answer_on<TenantId>(basis_of(entry), reply, tenant, [&] {
    return [=](Engine& engine, Reply<TenantId> again) { engine.request(tenant, request, by, std::move(again)); };
  });
}

template <class Request>
void Engine::configure(TenantId tenant, const Request& request, const Actor& by, Reply<TenantId>& reply) {
  TenantEntry& entry = tenants_.at(tenant);
  append_tenant_event(entry, request, by);
  answer_on_tenant(entry, reply, request, by);
}

void Engine::change_limits(TenantId tenant, LimitsChange change, Actor by, Reply<TenantId> reply) {
  if (shared_) learn(tenant);
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<TenantId>(reply, no_such("tenant"));
  LimitsSet limits{entry->tenant.weight, entry->tenant.limits};
  change(limits);
  if (!is_valid_weight(limits.weight)) return answer_with<TenantId>(reply, wrong_weight());
  // The installation's own tenant has no ceiling but its own word.
  if (auto problem = ceiling_problem(entry->tenant, limits);
      problem && entry->tenant.name != installation_tenant && !planted(Bug::raise_own_ceiling))
    return answer_with<TenantId>(reply, std::unexpected(Refusal{RefusalCode::above_ceiling, std::move(*problem)}));
  append_tenant_event(*entry, limits, by);
  limit(entry->tenant);
  answer_on<TenantId>(basis_of(*entry), reply, tenant, [&] {
    return [=](Engine& engine, Reply<TenantId> again) { engine.change_limits(tenant, change, by, std::move(again)); };
  });
}

void Engine::change_ceiling(TenantId tenant, CeilingChange change, Actor by, Reply<TenantId> reply) {
  if (shared_) learn(tenant);
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<TenantId>(reply, no_such("tenant"));
  CeilingSet ceiling{std::nullopt, entry->tenant.ceiling};
  change(ceiling);
  if (ceiling.weight && !is_valid_weight(*ceiling.weight)) return answer_with<TenantId>(reply, wrong_weight());
  append_tenant_event(*entry, ceiling, by);
  limit(entry->tenant);
  answer_on<TenantId>(basis_of(*entry), reply, tenant, [&] {
    return [=](Engine& engine, Reply<TenantId> again) { engine.change_ceiling(tenant, change, by, std::move(again)); };
  });
}

// ---- Suspending and freezing

void Engine::suspend_tenant(TenantId tenant, TenantSuspended suspended, Actor by, Reply<TenantId> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<TenantId>(reply, no_such("tenant"));
  if (shared_) learn(tenant);
  if (entry->tenant.name == installation_tenant)
    return answer_with<TenantId>(reply,
                                 invalid("the tenant default is the installation's own and cannot be suspended"));
  if (auto problem = reason_problem(suspended.reason))
    return answer_with<TenantId>(reply, invalid(std::move(*problem)));
  if (entry->tenant.suspended) return answer_on_tenant(*entry, reply, suspended, by);  // a repeat
  configure(tenant, suspended, by, reply);
  limit(entry->tenant);
  release_leases(tenant);
}

void Engine::resume_tenant(TenantId tenant, Actor by, Reply<TenantId> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<TenantId>(reply, no_such("tenant"));
  if (shared_) learn(tenant);
  if (!entry->tenant.suspended) return answer_on_tenant(*entry, reply, TenantResumed{}, by);
  configure(tenant, TenantResumed{}, by, reply);
  limit(entry->tenant);
  may_be_ready_ = may_be_ready_for_polls_ = true;
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
        decide_and_apply(*resident, WithdrawLease{i, ReleaseCause::suspended}, nullptr);
}

namespace {

std::optional<std::string> freeze_problem(const Tenant& tenant, const EffectsFrozen& freeze) {
  if (freeze.scope == FreezeScope::everywhere && tenant.name != installation_tenant)
    return "only the tenant default freezes effects everywhere";
  if (!freeze.connector.empty() &&
      (!is_valid_name(freeze.connector) || lower_case(freeze.connector) != freeze.connector))
    return "a connector's name is letters a-z in lower case, digits, . _ and -; actions with another one are refused";
  if (tenant.freezes.size() >= freezes_max) return "a tenant has at most " + std::to_string(freezes_max) + " freezes";
  return reason_problem(freeze.reason);
}

}  // namespace

void Engine::freeze_effects(TenantId tenant, EffectsFrozen freeze, Actor by, Reply<TenantId> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<TenantId>(reply, no_such("tenant"));
  if (shared_) learn(tenant);
  if (entry->tenant.freezes.contains({freeze.scope, freeze.connector}))
    return answer_on_tenant(*entry, reply, freeze, by);  // a repeat
  if (auto problem = freeze_problem(entry->tenant, freeze))
    return answer_with<TenantId>(reply, invalid(std::move(*problem)));
  configure(tenant, freeze, by, reply);
}

void Engine::unfreeze_effects(TenantId tenant, EffectsUnfrozen freeze, Actor by, Reply<TenantId> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<TenantId>(reply, no_such("tenant"));
  if (shared_) learn(tenant);
  if (!entry->tenant.freezes.contains({freeze.scope, freeze.connector}))
    return answer_with<TenantId>(reply, no_such("freeze"));
  configure(tenant, freeze, by, reply);
}

void Engine::create_key(TenantId tenant, KeyCreated key, Actor by, Reply<TenantId> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<TenantId>(reply, no_such("tenant"));
  if (!is_valid_name(key.name) || entry->tenant.keys.contains(key.key))
    return answer_with<TenantId>(
        reply, std::unexpected(Refusal{RefusalCode::invalid, "a key's name is letters, digits, . _ and -"}));
  configure(tenant, key, by, reply);
}

void Engine::revoke_key(TenantId tenant, KeyRevoked key, Actor by, Reply<TenantId> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (entry && shared_ && !entry->tenant.keys.contains(key.key)) learn(tenant);
  if (!entry || !entry->tenant.keys.contains(key.key)) return answer_with<TenantId>(reply, no_such("key"));
  // A repeat changes nothing, so it says nothing.
  if (key.from < entry->tenant.keys.at(key.key).expires_at) return configure(tenant, key, by, reply);
  answer_with<TenantId>(reply, tenant);
}

void Engine::set_person(TenantId tenant, PersonSet person, Actor by, Reply<TenantId> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<TenantId>(reply, no_such("tenant"));
  if (shared_) learn(tenant);
  if (auto problem = person_problem(entry->tenant, person))
    return answer_with<TenantId>(reply, std::unexpected(Refusal{RefusalCode::invalid, std::move(*problem)}));
  configure(tenant, person, by, reply);
}

void Engine::remove_person(TenantId tenant, PersonRemoved person, Actor by, Reply<TenantId> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (entry && shared_) learn(tenant);
  if (!entry || !entry->tenant.people.contains(person.name)) return answer_with<TenantId>(reply, no_such("person"));
  configure(tenant, person, by, reply);
}

namespace {

// What bears pawl's own names is the engine's.
std::optional<std::string> reserved_name_problem(const Workflow& workflow, const Actor& by) {
  if (by.text == "engine") return std::nullopt;
  if (is_reserved_name(workflow.name.text))
    return "names that begin with " + std::string(reserved_prefix) +
           " are pawl's own: call the workflow something else";
  for (const StepDefinition& step : workflow.steps)
    if (is_reserved_name(step.tool.text))
      return "the tool " + step.tool.text + " is pawl's own: no workflow may use it";
  return std::nullopt;
}

}  // namespace

void Engine::set_webhook(TenantId tenant, WebhookSet webhook, Actor by, Reply<TenantId> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<TenantId>(reply, no_such("tenant"));
  if (shared_) learn(tenant);
  if (auto problem = webhook_problem(webhook)) return answer_with<TenantId>(reply, invalid(std::move(*problem)));
  const auto& known = entry->tenant.webhooks;
  if (known.size() >= webhooks_max && !known.contains(webhook.name))
    return answer_with<TenantId>(reply, invalid("a tenant has at most " + std::to_string(webhooks_max) + " webhooks"));
  configure(tenant, webhook, by, reply);
}

void Engine::remove_webhook(TenantId tenant, WebhookRemoved webhook, Actor by, Reply<TenantId> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (entry && shared_) learn(tenant);
  if (!entry || !entry->tenant.webhooks.contains(webhook.name)) return answer_with<TenantId>(reply, no_such("webhook"));
  configure(tenant, webhook, by, reply);
}

void Engine::disable_webhook(TenantId tenant, WebhookDisabled webhook, Actor by, Reply<TenantId> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<TenantId>(reply, no_such("tenant"));
  if (shared_) learn(tenant);
  auto known = entry->tenant.webhooks.find(webhook.name);
  if (known != entry->tenant.webhooks.end() && known->second.is_enabled()) return configure(tenant, webhook, by, reply);
  answer_with<TenantId>(reply, tenant);
}

void Engine::set_slack(TenantId tenant, SlackSet slack, Actor by, Reply<TenantId> reply) {
  if (!find_entry(tenant)) return answer_with<TenantId>(reply, no_such("tenant"));
  if (auto problem = slack_problem(slack)) return answer_with<TenantId>(reply, invalid(std::move(*problem)));
  configure(tenant, slack, by, reply);
}

void Engine::remove_slack(TenantId tenant, Actor by, Reply<TenantId> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (entry && shared_) learn(tenant);
  if (!entry || !entry->tenant.slack) return answer_with<TenantId>(reply, no_such("Slack channel"));
  configure(tenant, SlackRemoved{}, by, reply);
}

void Engine::set_workspace(TenantId tenant, WorkspaceSet workspace, Actor by, Reply<TenantId> reply) {
  if (!find_entry(tenant)) return answer_with<TenantId>(reply, no_such("tenant"));
  if (!is_valid_weight(workspace.weight) || !is_valid_name(workspace.workspace.text))
    return answer_with<TenantId>(
        reply, std::unexpected(Refusal{RefusalCode::invalid, "a workspace has a name and a weight between 1 and " +
                                                                 std::to_string(weight_max)}));
  scheduler_.set_workspace_weight(tenant, workspace.workspace, workspace.weight);
  configure(tenant, workspace, by, reply);
}

// What pawl publishes for itself is not bound by the rules for workflows of tenants; its steps are, when they run.
std::expected<Workflow, std::string> Engine::compile(TenantId tenant, std::string_view source, std::string_view file,
                                                     const Actor& by) {
  if (shared_) learn(tenant);
  TenantEntry* entry = find_entry(tenant);
  if (!entry || by.text == "engine") return compile_workflow(source, file, &tools_);
  const TenantRules rules(limits_.rules, entry->tenant);
  return compile_workflow(source, file, &tools_, &rules);
}

void Engine::publish(TenantId tenant, std::string source, std::string file, Actor by, Reply<WorkflowRef> reply) {
  auto workflow = compile(tenant, source, file, by);
  if (!workflow)
    return answer_with<WorkflowRef>(reply, std::unexpected(Refusal{RefusalCode::invalid, workflow.error()}));
  publish_compiled(tenant, std::move(*workflow), by, reply);
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

void Engine::publish_read(TenantId tenant, Workflow workflow, Actor by, Reply<WorkflowRef> reply) {
  publish_compiled(tenant, std::move(workflow), by, reply);
}

void Engine::publish_as(TenantId tenant, const WorkflowName& name, std::string source, Actor by,
                        Reply<WorkflowRef> reply) {
  auto workflow = named(compile(tenant, source, name.text, by), name);
  if (!workflow)
    return answer_with<WorkflowRef>(reply, std::unexpected(Refusal{RefusalCode::invalid, workflow.error()}));
  publish_compiled(tenant, std::move(*workflow), by, reply);
}

void Engine::publish_compiled(TenantId tenant, Workflow workflow, const Actor& by, Reply<WorkflowRef>& reply) {
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<WorkflowRef>(reply, no_such("tenant"));
  if (auto problem = reserved_name_problem(workflow, by))
    return answer_with<WorkflowRef>(reply, invalid(std::move(*problem)));
  if (shared_) learn(tenant);
  if (auto problem = storage_problem(tenant); problem && by.text != "engine")
    return answer_with<WorkflowRef>(reply, std::unexpected(std::move(*problem)));
  if (auto found = entry->tenant.workflows.find(workflow.name); found != entry->tenant.workflows.end()) {
    if (found->second.digest == workflow.digest)
      return answer_on<WorkflowRef>(basis_of(*entry), reply, WorkflowRef{workflow.name, found->second.version, false},
                                    [&] { return publishing(tenant, workflow, by); });
    workflow.version = found->second.version;
  }
  workflow.version += 1;
  append_tenant_event(*entry, WorkflowPublished{workflow.name, workflow.version, workflow.digest, workflow.source}, by);
  turn_.frame.workflows.push_back(
      {tenant, workflow.name, workflow.version, workflow.digest, workflow.source, workflow.caps});
  answer_on<WorkflowRef>(basis_of(*entry), reply, WorkflowRef{workflow.name, workflow.version, true},
                         [&] { return publishing(tenant, workflow, by); });
  // With several servers another one may publish that version first: it is only used once it is durable.
  if (!shared_) add_workflow(tenant, std::move(workflow));
}

void Engine::publish_policy(TenantId tenant, PolicySource source, Actor by, Reply<PolicyRef> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<PolicyRef>(reply, no_such("tenant"));
  if (shared_) learn(tenant);
  const Tenant::Policy& latest = entry->tenant.policy;
  PolicyRef ref{latest.version, sha256(source.text()).hex(), latest.version == 0};
  ref.is_new = ref.is_new || ref.digest != latest.digest;
  if (ref.is_new) append_tenant_event(*entry, PolicyPublished{++ref.version, ref.digest, source.text()}, by);
  answer_on<PolicyRef>(basis_of(*entry), reply, ref, [&] {
    return [tenant, source, by](Engine& engine, Reply<PolicyRef> again) {
      engine.publish_policy(tenant, source, by, std::move(again));
    };
  });
}

void Engine::inspect_tenant(TenantId tenant, Reply<TenantHead> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<TenantHead>(reply, no_such("tenant"));
  if (shared_) learn(tenant);
  answer_on<TenantHead>(basis_of(*entry), reply, TenantHead{entry->tenant, entry->head}, [&] {
    return [tenant](Engine& engine, Reply<TenantHead> again) { engine.inspect_tenant(tenant, std::move(again)); };
  });
}

void Engine::record_evidence(TenantId tenant, EvidenceRecord record, Actor by, Reply<TenantId> reply) {
  TenantEntry* entry = find_entry(tenant);
  if (!entry) return answer_with<TenantId>(reply, no_such("tenant"));
  if (shared_) learn(tenant);
  TenantPayload payload = std::visit([](const auto& each) -> TenantPayload { return each; }, record);
  // Tried on a copy: what does not follow is refused, never appended.
  Tenant tried = entry->tenant;
  if (auto folded = evolve_checked(tried, {clock_.now(), by, payload}); !folded)
    return answer_with<TenantId>(reply, std::unexpected(Refusal{RefusalCode::invalid, folded.error()}));
  append_tenant_event(*entry, std::move(payload), by);
  answer_on<TenantId>(basis_of(*entry), reply, tenant, [&] {
    return [tenant, record, by](Engine& engine, Reply<TenantId> again) {
      engine.record_evidence(tenant, record, by, std::move(again));
    };
  });
}

void Engine::add_workflow(TenantId tenant, Workflow workflow) {
  const Workflow& added = workflows_.add(tenant, std::move(workflow));
  if (workflows_.latest(tenant, added.name) == &added && !shared_)
    scheduler_.set_workflow_caps(tenant, added.name, added.caps);
}

}  // namespace pawl
