#include "core/run_object.h"

#include <algorithm>

namespace pawl {

Json time_of(Instant at) { return at.ms == 0 ? Json(nullptr) : Json(print_time(at)); }

namespace {

using boost::json::array;
using boost::json::object;

template <class T, class Print>
Json optional_of(const std::optional<T>& value, Print print) {
  return value ? Json(print(*value)) : Json(nullptr);
}

object step_object(const Run& run, StepIndex index, Vocabulary vocabulary) {
  const Step& step = run.steps[index];
  const StepDefinition& definition = run.definition(index);
  array needs;
  for (StepIndex need : definition.needs) needs.emplace_back(run.definition(need).id.text);
  // Of a step whose key has expressions: not before the outputs are there that it uses.
  auto key = render_idempotency_key(run, static_cast<StepIndex>(index));
  const bool is_leased = step.status == StepStatus::running;
  return {{"id", definition.id.text},
          {"index", index},
          {"tool", definition.tool.text},
          {"needs", std::move(needs)},
          {"status", step_word(vocabulary, step.status)},
          {"attempts", step.attempts},
          {"max_attempts", definition.retry.max_attempts},
          {"started_at", time_of(step.started_at)},
          {"finished_at", time_of(step.finished_at)},
          {"next_eligible_at", time_of(step.next_eligible_at)},
          {"due_at", time_of(step.due_at)},
          {"idempotency_key", key ? Json(*key) : Json(nullptr)},
          {"lease_owner", step.lease_owner.empty() ? Json(nullptr) : Json(step.lease_owner.text)},
          {"lease_expires_at", is_leased ? time_of(step.lease_expires_at) : Json(nullptr)},
          {"cost_usd", print_money(step.cost)},
          {"cost_is_known", cost_is_known(step)},
          {"output", value_of(step.output)},
          {"question", value_of(step.question)},
          {"answer", value_of(step.answer)},
          {"last_error", step.last_error ? Json(diagnostic_object(*step.last_error)) : Json(nullptr)}};
}

Json value_of_action(const Action& action) { return value_of(print_action(action)); }

template <class AnyId>
Json id_of(const std::optional<AnyId>& id) {
  return optional_of(id, [](AnyId value) { return value.str(); });
}

}  // namespace

bool cost_is_known(const Step& step) {
  // Most outputs have nothing of the kind, and need not be read for that.
  if (!step.output.contains(R"("cost_basis":"unknown")")) return true;
  auto output = parse_json(step.output);
  const Json* usage = output && output->is_object() ? output->get_object().if_contains("usage") : nullptr;
  auto is_unknown = [](const Json& each) {
    const Json* basis = each.is_object() ? each.get_object().if_contains("cost_basis") : nullptr;
    return basis && *basis == "unknown";
  };
  if (usage && usage->is_array()) return std::ranges::none_of(usage->get_array(), is_unknown);
  return !usage || !is_unknown(*usage);
}

bool cost_is_known(const Run& run) {
  return std::ranges::all_of(run.steps, [](const Step& step) { return cost_is_known(step); });
}

object receipt_object(const Run& run, const Receipt& receipt) {
  return {{"id", receipt.id.str()},
          {"run", run.id.str()},
          {"step", run.definition(receipt.step).id.text},
          {"status", to_string(receipt.status)},
          {"action", value_of_action(receipt.proposal->action)},
          {"digest", receipt.proposal->digest.hex()},
          {"idempotent", receipt.proposal->idempotent},
          {"sandboxed", receipt.proposal->sandboxed ? Json(*receipt.proposal->sandboxed) : Json(nullptr)},
          {"before", value_of(receipt.proposal->before)},
          {"policy_version", receipt.policy_reason.policy_version},
          {"rule", receipt.policy_reason.rule},
          {"reason", receipt.policy_reason.reason},
          {"approval", id_of(receipt.approval)},
          {"proposed_by", receipt.proposed_by.empty() ? Json(nullptr) : Json(receipt.proposed_by.text)},
          {"calls", receipt.calls},
          {"intended_at", time_of(receipt.intended_at)},
          {"resolved_at", time_of(receipt.resolved_at)},
          {"resolved_by", receipt.resolved_by.empty() ? Json(nullptr) : Json(receipt.resolved_by.text)},
          {"error_code", receipt.error_code.empty() ? Json(nullptr) : Json(receipt.error_code)},
          {"message", receipt.message},
          {"response", value_of(receipt.response)},
          {"reversible", receipt.undo && receipt.undo->source != UndoSource::agent},
          {"undo", receipt.undo ? value_of_action(receipt.undo->action) : Json(nullptr)},
          {"undo_source", receipt.undo ? Json(to_string(receipt.undo->source)) : Json(nullptr)},
          {"reverses", id_of(receipt.proposal->reverses)},
          {"reversed_by", id_of(receipt.reversed_by)}};
}

array requester_objects(const Run& run, const Tenant* tenant) {
  array out;
  for (const Actor& actor : requesters_of(run)) {
    object each{{"actor", actor.text}};
    if (tenant) {
      const Actor person = person_of(*tenant, actor);
      const auto key = key_of(actor);
      auto found = key ? tenant->keys.find(*key) : tenant->keys.end();
      each["person"] = is_person(person) ? Json(person.text) : Json(nullptr);
      each["key_name"] = found != tenant->keys.end() ? Json(found->second.name) : Json(nullptr);
      each["text"] = describe_actor(*tenant, actor);
    }
    out.push_back(std::move(each));
  }
  return out;
}

object approval_object(const Run& run, const Approval& approval, const Tenant* tenant) {
  auto prompt = render_prompt(run, approval);
  array votes;
  for (const Vote& vote : approval.votes)
    votes.push_back(object{{"by", vote.by.text},
                           {"via", vote.via.empty() ? Json(nullptr) : Json(vote.via.text)},
                           {"as", vote.as.empty() ? Json(nullptr) : Json(vote.as)},
                           {"at", print_time(vote.at)}});
  auto names = [](const Approvers& list) { return array(list.begin(), list.end()); };
  auto told_at = [&](const std::optional<Duration>& span) {
    return span ? time_of(approval.requested_at + *span) : Json(nullptr);
  };
  object out{{"id", approval.id.str()},
             {"step", run.definition(approval.step).id.text},
             {"status", to_string(approval.status)},
             {"tier", to_string(approval.terms.tier)},
             {"two_person", approval.terms.two_person},
             {"quorum", approval.terms.quorum},
             {"prompt", prompt ? *prompt : approval.terms.prompt},
             {"requested_by", run.created_by.text},
             {"requesters", requester_objects(run, tenant)},
             {"approvers", names(approvers_now(approval))},
             {"remind_at", told_at(approval.terms.remind)},
             {"escalate_at", told_at(approval.terms.escalate)},
             {"escalate_to", names(approval.terms.escalate_to)},
             {"requested_at", time_of(approval.requested_at)},
             {"expires_at", time_of(approval.expires_at)},
             {"resolved_at", time_of(approval.resolved_at)},
             {"resolved_by", approval.resolved_by.empty() ? Json(nullptr) : Json(approval.resolved_by.text)},
             {"reason", approval.reason},
             {"votes", std::move(votes)},
             {"action", nullptr}};
  if (approval.proposal) {
    out["action"] = value_of_action(approval.proposal->action);
    out["digest"] = approval.proposal->digest.hex();
    out["before"] = value_of(approval.proposal->before);
    if (approval.proposal->sandboxed) out["sandboxed"] = *approval.proposal->sandboxed;
    out["policy_version"] = approval.policy_reason.policy_version;
    out["rule"] = approval.policy_reason.rule;
    out["rationale"] = approval.policy_reason.reason;
  }
  return out;
}

object diagnostic_object(const Diagnostic& diagnostic) {
  return {{"error_code", diagnostic.error_code},
          {"category", to_string(diagnostic.category)},
          {"message", diagnostic.message},
          {"likely_cause", diagnostic.likely_cause},
          {"suggested_fix", diagnostic.suggested_fix},
          {"retryable", diagnostic.retryable},
          {"severity", to_string(diagnostic.severity)},
          {"step_id", diagnostic.step.empty() ? Json(nullptr) : Json(diagnostic.step.text)},
          {"attempt", diagnostic.attempt == 0 ? Json(nullptr) : Json(diagnostic.attempt)},
          {"occurred_at", time_of(diagnostic.occurred_at)},
          {"cause", diagnostic.cause ? Json(diagnostic_object(*diagnostic.cause)) : Json(nullptr)}};
}

object foreign_object(const Foreign& foreign) {
  array bound;
  for (const Foreign::Bound& each : foreign.bound)
    bound.push_back(object{{"approval", each.approval.str()},
                           {"callback", to_string(each.callback.kind)},
                           {"told", each.told},
                           {"problem", each.problem.empty() ? Json(nullptr) : Json(each.problem)}});
  return {{"id", foreign.id.empty() ? Json(nullptr) : Json(foreign.id)},
          {"next_retry_at", time_of(foreign.next_retry_at)},
          {"last_failure", foreign.last_failure.empty() ? Json(nullptr) : Json(foreign.last_failure)},
          {"output", value_of(foreign.output)},
          {"approvals", std::move(bound)}};
}

object run_object(const Run& run, Vocabulary vocabulary, const Tenant* tenant) {
  array steps;
  for (StepIndex i = 0; i < run.steps.size(); ++i) steps.push_back(step_object(run, i, vocabulary));
  array approvals;
  for (const Approval& approval : run.approvals) approvals.push_back(approval_object(run, approval, tenant));
  array receipts;
  for (const Receipt& receipt : run.receipts) receipts.push_back(receipt_object(run, receipt));
  std::string_view sub = sub_state(run);
  std::string_view state = provider_state(run);
  return {{"id", run.id.str()},
          {"tenant_id", run.tenant.str()},
          {"workflow", run.workflow->name.text},
          {"version", run.workflow->version},
          {"workspace", run.workspace.text},
          {"provider", to_string(run.provider)},
          {"status", run_word(vocabulary, run)},
          {"sub_state", sub.empty() ? Json(nullptr) : Json(sub)},
          {"provider_state", state.empty() ? Json(nullptr) : Json(state)},
          {"retry_count", retries_of(run)},
          {"error_code", run.diagnostic ? Json(run.diagnostic->error_code) : Json(nullptr)},
          {"retryable", run.diagnostic ? Json(run.diagnostic->retryable) : Json(nullptr)},
          {"input", value_of(run.input)},
          {"created_by", run.created_by.text},
          {"requesters", requester_objects(run, tenant)},
          {"trigger_type", run.trigger_type},
          {"trigger_ref", run.trigger_ref},
          {"retry_of", optional_of(run.retry_of, [](RunId id) { return id.str(); })},
          {"budget_usd", optional_of(run.budget, print_money)},
          {"timeout", optional_of(run.timeout, print_duration)},
          {"created_at", time_of(run.created_at)},
          {"started_at", time_of(run.started_at)},
          {"finished_at", time_of(run.finished_at)},
          {"cost_usd", print_money(run.cost)},
          {"cost_is_known", cost_is_known(run)},
          {"seq", run.seq},
          {"steps", std::move(steps)},
          {"approvals", std::move(approvals)},
          {"receipts", std::move(receipts)},
          {"foreign", run.foreign ? Json(foreign_object(*run.foreign)) : Json(nullptr)},
          {"diagnostic", run.diagnostic ? Json(diagnostic_object(*run.diagnostic)) : Json(nullptr)}};
}

}  // namespace pawl
