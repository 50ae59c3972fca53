// Engine, what is asked for of runs: to make one, to decide on it, to try it again, to see it.
#include <algorithm>
#include <utility>

#include "core/planted.h"
#include "engine/answering.h"
#include "engine/engine.h"
#include "engine/resident.h"

namespace pawl {

std::optional<RunId> Engine::create_run(NewRun request, Reply<RunAnswer> reply) {
  auto find_workflow = [&] {
    return request.version ? workflows_.find(request.tenant, request.workflow, *request.version)
                           : workflows_.latest(request.tenant, request.workflow);
  };
  const Workflow* workflow = find_workflow();
  if (!workflow && shared_ && find_entry(request.tenant)) {
    learn_workflows(request.tenant);
    workflow = find_workflow();
  }
  if (!workflow || (is_reserved_name(workflow->name.text) && !request.is_internal))
    return answer_with<RunAnswer>(reply, no_such("workflow")), std::nullopt;
  if (auto problem = provider_problem(*workflow, request.provider.value_or(workflow->provider)))
    return answer_with<RunAnswer>(reply, std::unexpected(std::move(*problem))), std::nullopt;
  auto copy = shared_ ? std::make_shared<const NewRun>(request) : nullptr;
  if (auto repeat = answer_repeat(request, *workflow)) {
    auto id = *repeat ? std::optional((*repeat)->run) : std::nullopt;
    answer_on<RunAnswer>(id ? basis_of(*residents_.at(*id)) : no_basis, reply, std::move(*repeat),
                         [&] { return creating(*id, copy); });
    return id;
  }
  if (auto problem = storage_problem(request.tenant); problem && !request.is_internal)
    return answer_with<RunAnswer>(reply, std::unexpected(std::move(*problem))), std::nullopt;
  CreateRun command{.tenant = request.tenant,
                    .id = request.id ? *request.id : ids_.make<RunId>(clock_.now()),
                    .workflow = workflow,
                    .workspace = std::move(request.workspace),
                    .provider = request.provider.value_or(workflow->provider),
                    .input = std::move(request.input),
                    .by = std::move(request.by),
                    .trigger_type = std::move(request.trigger_type),
                    .trigger_ref = std::move(request.trigger_ref),
                    .idempotency = std::move(request.idempotency),
                    .retry_of = request.retry_of,
                    .budget = request.budget,
                    .timeout = request.timeout,
                    .other_requesters = std::move(request.other_requesters)};
  Resident& resident = create(command);
  resident.wants_latest = shared_ && !copy->version;
  answer_on<RunAnswer>(basis_of(resident), reply, answer_of_new(resident), [&] { return creating(command.id, copy); });
  return command.id;
}

std::optional<Refusal> Engine::provider_problem(const Workflow& workflow, Provider wanted) const {
  const std::string name(to_string(wanted)), own(to_string(workflow.provider));
  if (is_foreign(workflow.provider) && wanted != workflow.provider)
    return Refusal{RefusalCode::invalid, "workflow " + workflow.name.text + " is executed by " + own +
                                             ", and by nobody else; leave `provider` out"};
  if (is_foreign(wanted) && wanted != workflow.provider)
    return Refusal{RefusalCode::invalid, "workflow " + workflow.name.text + " has steps of its own; for " + name +
                                             " to execute it, publish it with `provider: " + name + "` and a `target`"};
  if (is_foreign(wanted) && !limits_.foreign.contains(wanted))
    return Refusal{RefusalCode::provider_unset, "workflow " + workflow.name.text + " is executed by " + name +
                                                    ", which this server was not told how to reach: start it with --" +
                                                    name + " (docs/providers.md)"};
  return std::nullopt;
}

std::optional<RunId> Engine::find_request(TenantId tenant, const std::string& key) {
  if (auto found = requests_.find({tenant, key}); found != requests_.end()) return found->second;
  // With several servers only the commit can tell; most requests are no repeats, so those that are, are found then.
  if (shared_ && !deciding_again_) return std::nullopt;
  return store_.find_request(tenant, key);
}

Engine::Repeat Engine::answer_repeat(TenantId tenant, const Idempotency& wanted) {
  auto id = find_request(tenant, idempotency_request_key(wanted.scope, wanted.key));
  if (!id) return std::nullopt;
  Resident* resident = find(tenant, *id);
  const auto made = resident ? resident->run.idempotency : nullptr;
  if (!made || made->scope != wanted.scope || made->key != wanted.key)
    return std::unexpected(Refusal{RefusalCode::idempotency_conflict,
                                   "the row of this Idempotency-Key names " + id->str() +
                                       ", which was not made under it or cannot be read: what is stored is damaged. "
                                       "Nothing was done; run `pawl verify` and restore a backup."});
  if (made->digest != wanted.digest)
    return std::unexpected(Refusal{RefusalCode::idempotency_conflict,
                                   "this Idempotency-Key was used for another request, which made " + id->str()});
  return answer_of(*resident);
}

Engine::Repeat Engine::answer_repeat(const NewRun& request, const Workflow& workflow) {
  if (request.idempotency)
    if (auto repeat = answer_repeat(request.tenant, *request.idempotency)) return repeat;
  std::string trigger = trigger_request_key(workflow.name, request.trigger_type, request.trigger_ref);
  if (trigger.empty()) return std::nullopt;
  auto id = find_request(request.tenant, trigger);
  Resident* resident = id ? find(request.tenant, *id) : nullptr;
  return resident ? Repeat(answer_of(*resident)) : std::nullopt;
}

Engine::Resident& Engine::create(const CreateRun& command) {
  Run run;
  run.workflow = command.workflow;
  run.tenant = command.tenant;
  run.id = command.id;
  Resident& resident = adopt(std::move(run), genesis(StreamKey::of(command.tenant, command.id)));
  Decision decision = decide(command, clock_.now());
  apply(resident, decision.events, nullptr);
  if (starts_at_gate(resident.run)) queue_gate_start(resident);
  for (std::string& key : request_keys(resident.run)) requests_[{command.tenant, std::move(key)}] = command.id;
  ++stats_.runs_created;
  return resident;
}

RunAnswer Engine::answer_of_new(const Resident& resident) const {
  RunAnswer answer = answer_of(resident);
  answer.is_new = true;
  return answer;
}

void Engine::command(TenantId tenant, RunId run, const RunCommand& command, Reply<RunAnswer> reply) {
  Resident* resident = find(tenant, run);
  if (!resident || resident->run.task) return answer_with<RunAnswer>(reply, no_such("run"));
  std::optional<Refusal> refusal;
  if (const auto* resolve = std::get_if<ResolveApproval>(&command)) {
    ResolveApproval identified = *resolve;
    identify(resident->run, identified);
    refusal = decide_and_apply(*resident, identified, nullptr);
  } else {
    refusal = decide_and_apply(*resident, command, nullptr);
  }
  answer_on<RunAnswer>(basis_of(*resident), reply, answer_or(std::move(refusal), *resident), [&] {
    return [=](Engine& engine, Reply<RunAnswer> again) { engine.command(tenant, run, command, std::move(again)); };
  });
}

void Engine::identify(const Run& run, ResolveApproval& command) const {
  const Tenant& tenant = tenants_.at(run.tenant).tenant;
  Actor person = person_of(tenant, command.by);
  if (person != command.by && !planted(Bug::count_identity_as_person)) command.via = std::exchange(command.by, person);
  command.is_person = is_person(person);
  command.groups = groups_of(tenant, person);
  const Actor who = answerable_for(tenant, command.by);
  command.has_asked =
      std::ranges::any_of(requesters_of(run), [&](const Actor& each) { return answerable_for(tenant, each) == who; });
}

std::expected<RunAnswer, Refusal> Engine::answer_or(std::optional<Refusal> refusal, const Resident& resident) const {
  if (refusal) return std::unexpected(std::move(*refusal));
  return answer_of(resident);
}

void Engine::answer(TenantId tenant, RunId run, const StepId& step, JsonText text, Actor by, Reply<RunAnswer> reply) {
  Resident* resident = find(tenant, run);
  auto index = resident ? resident->run.workflow->find(step) : std::nullopt;
  if (!index) return answer_with<RunAnswer>(reply, no_such("step"));
  command(tenant, run, AnswerQuestion{*index, std::move(text), std::move(by)}, std::move(reply));
}

void Engine::charge(TenantId tenant, RunId run, const StepId& step, const LeaseProof& proof, Money cost,
                    Reply<RunAnswer> reply) {
  Resident* resident = find_leased(tenant, run);
  auto index = resident ? resident->run.workflow->find(step) : std::nullopt;
  if (!index) return answer_with<RunAnswer>(reply, lease_over());
  command(tenant, run, ChargeStep{*index, proof, cost}, std::move(reply));
}

void Engine::retry(TenantId tenant, RunId run, Actor by, Reply<RunAnswer> reply,
                   std::shared_ptr<const Idempotency> idempotency, std::function<void(Engine&, RunId)> made) {
  if (auto found = residents_.find(run); planted(Bug::retry_anothers_run) && found != residents_.end())
    tenant = found->second->run.tenant;
  Resident* resident = find_verified(tenant, run);
  if (!resident || resident->run.task) return answer_with<RunAnswer>(reply, no_such("run"));
  // The commit judges each run by itself: a new one would stay, though the end that it stands on were lost.
  if (shared_ && is_undurable(*resident))
    return when_durable<RunAnswer>(reply, [=](Engine& engine, Reply<RunAnswer> later) {
      engine.retry(tenant, run, by, std::move(later), idempotency, made);
    });
  auto id = make_retry(*resident, by, std::move(reply), std::move(idempotency));
  if (id && made) made(*this, *id);
}

std::optional<RunId> Engine::make_retry(Resident& resident, const Actor& by, Reply<RunAnswer> reply,
                                        std::shared_ptr<const Idempotency> idempotency) {
  TenantId tenant = resident.run.tenant;
  auto retrying = [&](RunId made) {
    return [=, run = resident.run.id](Engine& engine, Reply<RunAnswer> again) {
      if (Resident* found = engine.find_verified(tenant, run))
        engine.redirects_[made] = engine.make_retry(*found, by, std::move(again), idempotency);
    };
  };
  if (auto repeat = idempotency ? answer_repeat(tenant, *idempotency) : std::nullopt) {
    auto id = *repeat ? std::optional((*repeat)->run) : std::nullopt;
    answer_on<RunAnswer>(id ? basis_of(*residents_.at(*id)) : no_basis, reply, std::move(*repeat),
                         [&] { return retrying(*id); });
    return id;
  }
  auto again = retry_of(resident.run, ids_.make<RunId>(clock_.now()), by);
  if (!again) {
    const Refusal& refusal = again.error();
    audit(resident, refused_transition(resident.run, "retry", refusal.code, by));
    answer_on<RunAnswer>(basis_of(resident), reply, std::unexpected(refusal), [&] {
      return [=, run = resident.run.id](Engine& engine, Reply<RunAnswer> reply_again) {
        if (Resident* found = engine.find_verified(tenant, run))
          engine.make_retry(*found, by, std::move(reply_again), idempotency);
      };
    });
    return std::nullopt;
  }
  if (auto problem = provider_problem(*again->workflow, again->provider))
    return answer_with<RunAnswer>(reply, std::unexpected(std::move(*problem))), std::nullopt;
  if (auto problem = storage_problem(tenant))
    return answer_with<RunAnswer>(reply, std::unexpected(std::move(*problem))), std::nullopt;
  again->idempotency = idempotency;
  Resident& made = create(*again);
  answer_on<RunAnswer>(basis_of(made), reply, answer_of_new(made), [&] { return retrying(made.run.id); });
  return again->id;
}

void Engine::report_status(TenantId tenant, RunId run, StatusReport report, Reply<RunAnswer> reply) {
  Resident* resident = find_verified(tenant, run);
  if (!resident || resident->run.task) return answer_with<RunAnswer>(reply, no_such("run"));
  // The transition that leads there from here; when there is none, any that leads there is refused as it should be.
  std::optional<RunTrigger> trigger;
  for (const auto& row : run_table)
    if (row.to == report.status && (!trigger || row.from == resident->run.status)) trigger = row.trigger;
  // Nothing leads to created: to say so is as wrong as a start of what has started, and treated as that.
  if (!trigger) trigger = resident->run.status == RunStatus::created ? RunTrigger::resume : RunTrigger::start;
  auto refusal = decide_and_apply(*resident, ReportRun{*trigger, report.by, report.diagnostic, report.reason}, nullptr);
  answer_on<RunAnswer>(basis_of(*resident), reply, answer_or(std::move(refusal), *resident), [&] {
    return [=](Engine& engine, Reply<RunAnswer> again) { engine.report_status(tenant, run, report, std::move(again)); };
  });
}

void Engine::inspect(TenantId tenant, RunId run, Reply<std::shared_ptr<const Run>> reply) {
  Resident* resident = find_verified(tenant, run);
  if (!resident) return answer_with<std::shared_ptr<const Run>>(reply, no_such("run"));
  answer_on<std::shared_ptr<const Run>>(basis_of(*resident), reply, std::make_shared<const Run>(resident->run), [&] {
    return [=](Engine& engine, Reply<std::shared_ptr<const Run>> again) {
      if (auto now = engine.redirected(run)) engine.inspect(tenant, *now, std::move(again));
    };
  });
}

void Engine::flush(TenantId tenant, std::optional<RunId> run, Reply<RunAnswer> reply) {
  if (!run) {
    fold_all();
    return answer_with<RunAnswer>(reply, RunAnswer{});
  }
  Resident* resident = find_verified(tenant, *run);
  if (!resident) return answer_with<RunAnswer>(reply, no_such("run"));
  if (resident->in_turn())
    resident->fold_wanted = true;
  else if (resident->dirty)
    fold(*resident);
  answer_on<RunAnswer>(basis_of(*resident), reply, answer_of(*resident), [&] {
    return [=](Engine& engine, Reply<RunAnswer> again) {
      if (auto now = engine.redirected(*run)) engine.flush(tenant, *now, std::move(again));
    };
  });
}

}  // namespace pawl
