#include "core/run.h"

#include <algorithm>

#include "core/expression.h"
#include "core/tenant.h"

namespace pawl {
namespace {

// What ${{ }} can see of a run. Outputs are parsed when they are first asked for, and only then.
class RunScope : public ExpressionScope {
 public:
  explicit RunScope(const Run& run, StepIndex step) : run_(run), step_(step) {}

  const Json* root(const Expression& expression) const override {
    switch (expression.root) {
      case Expression::Root::input:
        return parsed(input_, run_.input);
      case Expression::Root::secret:
      case Expression::Root::response:
        return nullptr;
      case Expression::Root::run:
        return about_run();
      case Expression::Root::step_output: {
        auto index = run_.find_step(StepId{expression.step});
        if (!index || run_.steps[*index].status != StepStatus::succeeded) return nullptr;
        outputs_.resize(run_.steps.size());
        return parsed(outputs_[*index], run_.steps[*index].output);
      }
    }
    return nullptr;
  }

 private:
  static const Json* parsed(std::optional<Json>& cache, const JsonText& text) {
    if (!cache) {
      auto value = parse_json(text);
      if (!value) return nullptr;
      cache = std::move(*value);
    }
    return &*cache;
  }

  const Json* about_run() const {
    if (!about_) {
      about_ = Json{{"id", run_.id.str()},
                    {"workflow", run_.workflow->name.text},
                    {"version", run_.workflow->version},
                    {"workspace", run_.workspace.text},
                    {"created_at", print_time(run_.created_at)},
                    {"attempt", step_ < run_.steps.size() ? run_.steps[step_].attempts + 1 : 1}};
    }
    return &*about_;
  }

  const Run& run_;
  StepIndex step_;
  mutable std::optional<Json> input_;
  mutable std::optional<Json> about_;
  mutable std::vector<std::optional<Json>> outputs_;
};

}  // namespace

Instant next_due(const Run& run, Instant now) {
  if (is_terminal(run.status)) return end_of_time;
  Instant due = run.deadline();
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const Step& step = run.steps[i];
    if (step.status == StepStatus::running) {
      due = std::min(due, step.started_at + run.definition(static_cast<StepIndex>(i)).timeout);
      if (!is_reclaimable(run, static_cast<StepIndex>(i), now)) due = std::min(due, step.lease_expires_at);
    } else if (step.status == StepStatus::failed_retryable) {
      due = std::min(due, step.next_eligible_at);
    } else if (step.status == StepStatus::waiting_event) {
      due = std::min(due, step.due_at);
    }
  }
  for (const auto& approval : run.approvals)
    if (approval.status == ApprovalStatus::requested) due = std::min(due, next_due(approval));
  return due;
}

Instant next_due(const Approval& approval) {
  Instant due = approval.expires_at;
  if (approval.terms.remind && !approval.reminded) due = std::min(due, approval.requested_at + *approval.terms.remind);
  if (approval.terms.escalate && !approval.escalated)
    due = std::min(due, approval.requested_at + *approval.terms.escalate);
  return due;
}

Approvers approvers_now(const Approval& approval) {
  Approvers out = approval.terms.approvers;
  if (!out.empty() && approval.escalated)
    for (const std::string& name : approval.terms.escalate_to)
      if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(name);
  return out;
}

std::optional<std::string> entitlement(const Approval& approval, const Actor& by,
                                       const std::vector<std::string>& groups) {
  const Approvers named = approvers_now(approval);
  if (named.empty()) return "";
  for (const std::string& name : named) {
    if (!is_entitled(approval, by, name)) continue;
    const bool is_group = name.starts_with(group_prefix);
    if (!is_group || std::find(groups.begin(), groups.end(), name.substr(group_prefix.size())) != groups.end())
      return name;
  }
  return std::nullopt;
}

bool is_entitled(const Approval& approval, const Actor& by, std::string_view as) {
  const Approvers named = approvers_now(approval);
  if (named.empty()) return as.empty();
  if (std::find(named.begin(), named.end(), as) == named.end()) return false;
  return by.text.starts_with("person:") && (as.starts_with(group_prefix) || by.text.substr(7) == as);
}

std::vector<std::string_view> effect_keys(const Run& run, StepIndex step) {
  std::vector<std::string_view> keys;
  for (const Receipt& receipt : run.receipts) {
    std::string_view key = receipt.proposal->action.idempotency_key;
    if (receipt.step == step && std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return keys;
}

int writes_of(const Run& run, StepIndex step) {
  int silent = run.steps[step].wrote ? 1 : 0;
  return run.receipts.empty() ? silent : std::max(silent, static_cast<int>(effect_keys(run, step).size()));
}

const Receipt* find_receipt(const Run& run, ReceiptId id) {
  auto found =
      std::find_if(run.receipts.begin(), run.receipts.end(), [&](const Receipt& each) { return each.id == id; });
  return found == run.receipts.end() ? nullptr : &*found;
}

const Receipt* find_effect(const Run& run, std::string_view key) {
  for (const Receipt& receipt : run.receipts)
    if (holds_key(receipt.status) && receipt.proposal->action.idempotency_key == key) return &receipt;
  return nullptr;
}

LeaseProof proof_of(const Step& step) {
  return step.lease_holder ? LeaseProof::remote(*step.lease_holder) : LeaseProof::local(step.lease_token);
}

bool is_held_by(const Step& step, const LeaseProof& proof) {
  if (step.status != StepStatus::running) return false;
  if (proof.bearer() != LeaseProof::Bearer::remote) return !step.lease_holder && step.lease_token == proof.number();
  if (!step.lease_holder) return false;
  const bool same_key = step.lease_holder->key == proof.holder().key;
  const bool same_token = step.lease_holder->token_digest == proof.holder().token_digest;
  return same_key && same_token;
}

Actor reporter_of(const Run& run, StepIndex index, const LeaseProof& proof) {
  switch (proof.bearer()) {
    case LeaseProof::Bearer::local:
      return {"worker:" + run.steps[index].lease_owner.text};
    case LeaseProof::Bearer::program:
      return lease_actor(run.id, run.definition(index).id);
    case LeaseProof::Bearer::remote:
      return actor_of(proof.holder().key);
  }
  return {};
}

bool is_in_process(const Step& step) {
  return !step.lease_holder && step.lease_owner.text.starts_with(local_worker_prefix);
}

Duration lease_term(const StepDefinition& step, const WorkerName& worker, bool is_remote) {
  const bool is_local = !is_remote && worker.text.starts_with(local_worker_prefix);
  return is_local ? std::min(step.lease, local_lease_max) : step.lease;
}

bool is_reclaimable(const Run& run, StepIndex index, Instant now) {
  const Step& step = run.steps[index];
  return step.status == StepStatus::running && step.lease_expires_at <= now && !is_in_process(step) &&
         step.attempts < run.definition(index).retry.max_attempts;
}

std::expected<JsonText, std::string> render_input(const Run& run, StepIndex index) {
  const StepDefinition& step = run.definition(index);
  if (step.with_is_constant) return step.with_text;
  auto value = step.keeps_expressions ? render_around_secrets(step.with, RunScope(run, index))
                                      : render(step.with, RunScope(run, index));
  if (!value) return std::unexpected(value.error());
  return canonical(*value);
}

std::expected<Instant, std::string> render_due(const Run& run, StepIndex index, Instant now) {
  const WaitTerms& terms = *run.definition(index).wait;
  auto text = render_text(terms.text, RunScope(run, index));
  if (!text) return std::unexpected(text.error());
  if (terms.kind == WaitTerms::Kind::span) {
    auto span = parse_duration(*text);
    if (!span)
      return std::unexpected("a duration such as 90s, 15m or 3d of at most " + print_duration(duration_max) +
                             " is needed here, not \"" + *text + "\"");
    return now + *span;
  }
  auto moment = parse_time(*text);
  if (!moment) return std::unexpected("a time such as 2030-01-31T09:00:00Z is needed here, not \"" + *text + "\"");
  return *moment;
}

std::expected<std::string, std::string> render_idempotency_key(const Run& run, StepIndex index) {
  const StepDefinition& step = run.definition(index);
  if (step.idempotency_key.empty()) return run.id.str() + ":" + step.id.text;
  return render_text(step.idempotency_key, RunScope(run, index));
}

std::optional<RunId> owner_of_key(std::string_view key) {
  auto end = key.find(':');
  return end == std::string_view::npos ? std::nullopt : RunId::parse(key.substr(0, end));
}

std::expected<std::string, std::string> render_prompt(const Run& run, const Approval& approval) {
  return render_text(approval.terms.prompt, RunScope(run, approval.step));
}

std::expected<std::string, std::string> render_target_key(const Run& run) {
  return render_text(run.workflow->target.key, RunScope(run, 0));
}

int retries_of(const Run& run) {
  if (run.foreign) return run.foreign->retries;
  int retries = 0;
  for (const Step& step : run.steps) retries += std::max(step.attempts - 1, 0);
  return retries;
}

std::string_view provider_state(const Run& run) { return run.foreign ? run.foreign->state : to_string(run.status); }

namespace {

// A length before each part: no two lists of parts read the same.
std::string joined(std::string_view kind, std::initializer_list<std::string_view> parts) {
  std::string out(kind);
  for (std::string_view part : parts) (out += std::to_string(part.size()) += ':') += part;
  return out;
}

// What pawl itself sets as a trigger may come twice: a run may be retried twice, a file run again.
bool names_a_trigger(std::string_view type, std::string_view ref) {
  return !ref.empty() && type != "retry" && type != "cli";
}

}  // namespace

std::string idempotency_request_key(std::string_view scope, std::string_view key) {
  return joined("key ", {scope, key});
}

std::string trigger_request_key(const WorkflowName& workflow, std::string_view type, std::string_view ref) {
  return names_a_trigger(type, ref) ? joined("trigger ", {workflow.text, type, ref}) : std::string();
}

std::vector<std::string> request_keys(const Run& run) {
  std::vector<std::string> keys;
  if (run.idempotency) keys.push_back(idempotency_request_key(run.idempotency->scope, run.idempotency->key));
  if (names_a_trigger(run.trigger_type, run.trigger_ref))
    keys.push_back(trigger_request_key(run.workflow->name, run.trigger_type, run.trigger_ref));
  return keys;
}

namespace {

template <class T>
bool same_pointee(const std::shared_ptr<const T>& a, const std::shared_ptr<const T>& b) {
  return a == b || (a && b && *a == *b);
}

bool same_step(const Step& a, const Step& b) {
  return a.status == b.status && a.wrote == b.wrote && a.attempts == b.attempts && a.lease_token == b.lease_token &&
         a.lease_holder == b.lease_holder && a.lease_owner == b.lease_owner && a.started_at == b.started_at &&
         a.finished_at == b.finished_at && a.next_eligible_at == b.next_eligible_at && a.due_at == b.due_at &&
         a.server_losses == b.server_losses && a.output == b.output && a.cost == b.cost && a.question == b.question &&
         a.answer == b.answer && a.doubt == b.doubt && same_pointee(a.last_error, b.last_error);
}

}  // namespace

bool operator==(const Receipt& a, const Receipt& b) {
  return a.id == b.id && a.step == b.step && a.status == b.status && same_pointee(a.proposal, b.proposal) &&
         a.policy_reason == b.policy_reason && a.approval == b.approval && a.proposed_by == b.proposed_by &&
         a.by_program == b.by_program && a.token == b.token && a.calls == b.calls && a.intended_at == b.intended_at &&
         a.resolved_at == b.resolved_at && a.resolved_by == b.resolved_by && a.is_reported == b.is_reported &&
         a.error_code == b.error_code && a.message == b.message && a.response == b.response &&
         same_pointee(a.undo, b.undo) && a.reversed_by == b.reversed_by;
}

bool operator==(const Approval& a, const Approval& b) {
  return a.id == b.id && a.step == b.step && a.status == b.status && a.terms == b.terms &&
         same_pointee(a.proposal, b.proposal) && a.policy_reason == b.policy_reason &&
         a.requested_at == b.requested_at && a.expires_at == b.expires_at && a.resolved_at == b.resolved_at &&
         a.votes == b.votes && a.resolved_by == b.resolved_by && a.reason == b.reason && a.reminded == b.reminded &&
         a.escalated == b.escalated;
}

std::vector<Actor> requesters_of(const Run& run) {
  std::vector<Actor> out{run.created_by};
  out.insert(out.end(), run.other_requesters.begin(), run.other_requesters.end());
  return out;
}

bool is_requester(const Run& run, const Actor& actor) {
  return actor == run.created_by || std::ranges::find(run.other_requesters, actor) != run.other_requesters.end();
}

bool same_fold(const Run& a, const Run& b) {
  return a.tenant == b.tenant && a.id == b.id && a.workspace == b.workspace && a.provider == b.provider &&
         a.status == b.status && a.input == b.input && a.created_by == b.created_by &&
         a.other_requesters == b.other_requesters && a.trigger_type == b.trigger_type &&
         a.trigger_ref == b.trigger_ref && same_pointee(a.idempotency, b.idempotency) && a.retry_of == b.retry_of &&
         a.budget == b.budget && a.timeout == b.timeout && a.created_at == b.created_at &&
         a.started_at == b.started_at && a.finished_at == b.finished_at && a.cost == b.cost && a.writes == b.writes &&
         a.approvals == b.approvals && a.receipts == b.receipts && same_pointee(a.diagnostic, b.diagnostic) &&
         same_pointee(a.task, b.task) && same_pointee(a.foreign, b.foreign) && a.seq == b.seq &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(), same_step);
}

}  // namespace pawl
