// Engine, what is asked for of runs: to make one, to decide on it, to try it again, to see it.
#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "engine/refusals.h"
#include "engine/resident.h"

namespace pawl {
namespace {

// Said by the holder of a lease, with the proof of it.
bool reports_on_lease(const RunCommand& command) {
  return std::visit(
      [](const auto& each) {
        return requires { each.proof; };
      },
      command);
}

}  // namespace

Engine::Outcome<RunAnswer> Engine::handle(NewRun& request) {
  const Workflow* workflow = find_workflow(request.tenant, request.workflow, request.version);
  if (!workflow || (is_reserved_name(workflow->name.text) && !request.is_internal)) return {no_such("workflow")};
  if (auto problem = provider_problem(*workflow, request.provider.value_or(workflow->provider)))
    return {std::unexpected(std::move(*problem))};
  if (auto repeat = answer_repeat(request, *workflow)) return std::move(*repeat);
  if (auto problem = storage_problem(request.tenant); problem && !request.is_internal)
    return {std::unexpected(std::move(*problem))};
  Resident& resident = create({.tenant = request.tenant,
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
                               .other_requesters = std::move(request.other_requesters)});
  resident.wants_latest = !request.version;
  return {answer_of_new(resident, request.wants_state), basis_of(resident)};
}

std::optional<Refusal> Engine::provider_problem(const Workflow& workflow, Provider wanted) const {
  const std::string name(to_string(wanted)), own(to_string(workflow.provider));
  if (is_foreign(workflow.provider) && wanted != workflow.provider)
    return Refusal{
        RefusalCode::invalid,
        "workflow " + workflow.name.text + " is executed by " + own + ", and by nobody else; leave `provider` out",
        "/provider"};
  if (is_foreign(wanted) && wanted != workflow.provider)
    return Refusal{RefusalCode::invalid,
                   "workflow " + workflow.name.text + " has steps of its own; for " + name +
                       " to execute it, publish it with `provider: " + name + "` and a `target`",
                   "/provider"};
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

std::optional<Engine::Outcome<RunAnswer>> Engine::answer_repeat(TenantId tenant, const Idempotency& wanted,
                                                                bool wants_state) {
  auto id = find_request(tenant, idempotency_request_key(wanted.scope, wanted.key));
  if (!id) return std::nullopt;
  auto refused = [](std::string why) {
    return Outcome<RunAnswer>{std::unexpected(Refusal{RefusalCode::idempotency_conflict, std::move(why)})};
  };
  Resident* resident = find(tenant, *id);
  const auto made = resident ? resident->run.idempotency : nullptr;
  if (!made || made->scope != wanted.scope || made->key != wanted.key)
    return refused("the row of this Idempotency-Key names " + id->str() +
                   ", which was not made under it or cannot be read: what is stored is damaged. "
                   "Nothing was done; run `pawl verify` and restore a backup.");
  if (made->digest != wanted.digest)
    return refused("this Idempotency-Key was used for another request, which made " + id->str());
  return Outcome<RunAnswer>{answer_of(*resident, wants_state), basis_of(*resident)};
}

std::optional<Engine::Outcome<RunAnswer>> Engine::answer_repeat(const NewRun& request, const Workflow& workflow) {
  if (request.idempotency)
    if (auto repeat = answer_repeat(request.tenant, *request.idempotency, request.wants_state)) return repeat;
  std::string trigger = trigger_request_key(workflow.name, request.trigger_type, request.trigger_ref);
  if (trigger.empty()) return std::nullopt;
  auto id = find_request(request.tenant, trigger);
  Resident* resident = id ? find(request.tenant, *id) : nullptr;
  if (!resident) return std::nullopt;
  return Outcome<RunAnswer>{answer_of(*resident, request.wants_state), basis_of(*resident)};
}

Engine::Resident& Engine::create(const CreateRun& command) {
  Run run;
  run.workflow = command.workflow;
  run.tenant = command.tenant;
  run.id = command.id;
  Resident& resident = adopt(std::move(run), genesis(StreamKey::of(command.tenant, command.id)));
  Decision decision = decide(command, clock_.now());
  apply(resident, decision.events, std::nullopt);
  if (starts_at_gate(resident.run)) queue_gate_start(resident);
  for (std::string& key : request_keys(resident.run)) requests_[{command.tenant, std::move(key)}] = command.id;
  ++stats_.runs_created;
  return resident;
}

RunAnswer Engine::answer_of_new(const Resident& resident, bool wants_state) const {
  RunAnswer answer = answer_of(resident, wants_state);
  answer.is_new = true;
  return answer;
}

Engine::Outcome<RunAnswer> Engine::handle(RunRequest& request) {
  const bool is_report = reports_on_lease(request.command);
  Resident* resident = is_report ? find_leased(request.tenant, request.run) : find(request.tenant, request.run);
  if (!resident || resident->run.task) return {is_report ? lease_over() : no_such("run")};
  if (auto* resolve = std::get_if<ResolveApproval>(&request.command)) identify(resident->run, *resolve);
  if (const auto* answer = std::get_if<AnswerQuestion>(&request.command);
      answer && !resident->run.find_step(answer->step))
    return {no_such("step")};
  return outcome_of(decide_and_apply(*resident, request.command), *resident, request.wants_state);
}

void Engine::identify(const Run& run, ResolveApproval& command) const {
  const Tenant& tenant = tenants_.at(run.tenant).tenant;
  Actor person = person_of(tenant, command.by);
  if (person != command.by) command.via = std::exchange(command.by, person);
  command.is_person = is_person(person);
  command.groups = groups_of(tenant, person);
  const Actor who = answerable_for(tenant, command.by);
  command.has_asked =
      std::ranges::any_of(requesters_of(run), [&](const Actor& each) { return answerable_for(tenant, each) == who; });
}

Engine::Outcome<RunAnswer> Engine::outcome_of(std::optional<Refusal> refusal, const Resident& resident,
                                              bool wants_state) const {
  if (refusal) return {std::unexpected(std::move(*refusal)), basis_of(resident)};
  return {answer_of(resident, wants_state), basis_of(resident)};
}

Engine::Outcome<RunAnswer> Engine::handle(RetryRun& request) {
  TenantId tenant = request.tenant;
  Resident* resident = find_verified(tenant, request.run);
  if (!resident || resident->run.task) return {no_such("run")};
  // The commit judges each run by itself: a new one would stay, though the end that it stands on were lost.
  if (may_be_lost(*resident)) return {.answer = {}, .waits_for_turn = true};
  if (auto repeat =
          request.idempotency ? answer_repeat(tenant, *request.idempotency, request.wants_state) : std::nullopt)
    return std::move(*repeat);
  auto again = retry_of(resident->run, ids_.make<RunId>(clock_.now()), request.by);
  if (!again) {
    Refusal refusal = std::move(again.error());
    audit(*resident, refused_transition(resident->run, "retry", refusal.code, request.by));
    return outcome_of(std::move(refusal), *resident);
  }
  if (auto problem = provider_problem(*again->workflow, again->provider)) return {std::unexpected(std::move(*problem))};
  if (auto problem = storage_problem(tenant)) return {std::unexpected(std::move(*problem))};
  again->idempotency = request.idempotency;
  Resident& made = create(*again);
  return {answer_of_new(made, request.wants_state), basis_of(made)};
}

Engine::Outcome<RunAnswer> Engine::handle(ReportStatus& request) {
  Resident* resident = find_verified(request.tenant, request.run);
  if (!resident || resident->run.task) return {no_such("run")};
  // The transition that leads there from here; when there is none, any that leads there is refused as it should be.
  std::optional<RunTrigger> trigger;
  for (const auto& row : run_table)
    if (row.to == request.status && (!trigger || row.from == resident->run.status)) trigger = row.trigger;
  // Nothing leads to created: to say so is as wrong as a start of what has started, and treated as that.
  if (!trigger) trigger = resident->run.status == RunStatus::created ? RunTrigger::resume : RunTrigger::start;
  return outcome_of(decide_and_apply(*resident, ReportRun{*trigger, request.by, request.diagnostic, request.reason}),
                    *resident);
}

Engine::Outcome<std::shared_ptr<const Run>> Engine::handle(InspectRun& request) {
  Resident* resident = find_verified(request.tenant, request.run);
  if (!resident) return {no_such("run")};
  return {std::make_shared<const Run>(resident->run), basis_of(*resident)};
}

Engine::Outcome<RunAnswer> Engine::handle(FlushRows& request) {
  if (!request.run) {
    fold_all();
    return {RunAnswer{}};
  }
  Resident* resident = find_verified(request.tenant, *request.run);
  if (!resident) return {no_such("run")};
  if (resident->in_turn())
    resident->fold_wanted = true;
  else if (resident->dirty)
    fold(*resident);
  return outcome_of(std::nullopt, *resident);
}

}  // namespace pawl
