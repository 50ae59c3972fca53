// The checker's part for the gate: who may decide (15), what an effect stands on (14), that it happens once (11 to 13).
#include <algorithm>

#include "crypto/sha256.h"
#include "simulator/checker.h"
#include "simulator/failure.h"

namespace pawl::simulator {

// ---- What a tenant says of people, caps and policies

void Checker::TenantModel::begin_frame() {
  policies_before = policies.size();
  identities.erase(identities.begin(), identities.end() - 1);
  write_caps.erase(write_caps.begin(), write_caps.end() - 1);
  frozen.erase(frozen.begin(), frozen.end() - 1);
  limits.is_new = false;
  for (auto& [name, of_workflow] : workflow_limits) of_workflow.is_new = false;
}

void Checker::TenantModel::note(const TenantEvent& event) {
  write_caps.push_back(in_force().max_writes_per_run);
  if (const auto* published = std::get_if<PolicyPublished>(&event.payload)) {
    demand(published->version == static_cast<int>(policies.size()), "versions grow by one", "of a policy");
    policies.push_back(policy_number(published->source));
  }
  auto change = [&]() -> Identities& {
    Identities copy = identities.back();
    return identities.emplace_back(std::move(copy));
  };
  auto forget = [](Identities& now, const std::string& name) {
    std::erase_if(now.person_of, [&](const auto& entry) { return entry.second == name; });
  };
  if (const auto* key = std::get_if<KeyCreated>(&event.payload)) change().maker_of[actor_of(key->key).text] = event.by;
  if (const auto* person = std::get_if<PersonSet>(&event.payload)) {
    Identities& now = change();
    forget(now, person->name);
    for (KeyId key : person->keys) now.person_of[actor_of(key).text] = person->name;
    for (const std::string& account : person->accounts) now.person_of[account] = person->name;
  }
  if (const auto* removed = std::get_if<PersonRemoved>(&event.payload)) forget(change(), removed->name);
}

void Checker::TenantModel::note_limits(const TenantPayload& payload) {
  if (const auto* set = std::get_if<LimitsSet>(&payload)) own = set->limits;
  if (const auto* set = std::get_if<CeilingSet>(&payload)) ceiling = set->limits;
  if (std::holds_alternative<TenantSuspended>(payload)) suspended = true;
  if (std::holds_alternative<TenantResumed>(payload)) suspended = false;
  if (const auto* freeze = std::get_if<EffectsFrozen>(&payload)) {
    Frozen now = frozen.back();
    now.insert({freeze->scope, freeze->connector});
    frozen.push_back(std::move(now));
  }
  if (const auto* lifted = std::get_if<EffectsUnfrozen>(&payload)) {
    Frozen now = frozen.back();
    now.erase({lifted->scope, lifted->connector});
    frozen.push_back(std::move(now));
  }
}

// The lower of what the tenant and the installation say; nothing at all while it is suspended.
Caps Checker::TenantModel::in_force() const {
  auto of = [&](Limit limit) -> std::optional<int> {
    std::optional<int> out;
    for (const auto* each : {&own, &ceiling})
      if (const auto& value = (*each)[limit]; value && (!out || *value < *out)) out = static_cast<int>(*value);
    return out;
  };
  Caps out{of(Limit::max_concurrency), of(Limit::max_runs_per_min), of(Limit::max_writes_per_run)};
  if (suspended) out.max_concurrency = out.max_runs_per_min = 0;
  return out;
}

bool Checker::TenantModel::may_have_been_open(FreezeScope scope, const std::string& connector) const {
  return std::ranges::any_of(frozen, [&](const Frozen& then) {
    return !then.contains({scope, ""}) && !then.contains({scope, connector});
  });
}

Actor Checker::Identities::person(const Actor& actor) const {
  auto found = person_of.find(actor.text);
  return found == person_of.end() ? actor : Actor{"person:" + found->second};
}

Actor Checker::Identities::answerable(const Actor& actor) const {
  Actor who = person(actor);
  for (auto made = maker_of.find(who.text); made != maker_of.end(); made = maker_of.find(who.text))
    who = person(made->second);
  return who;
}

// ---- Who decided (15)

void Checker::check_votes(const RunModel& run) const {
  const TenantModel& tenant = tenants_.at(run.tenant);
  for (const Voted& vote : run.voted_in_frame) {
    const ApprovalModel& approval = run.approvals[vote.approval];
    const Actor& speaker = vote.via.empty() ? vote.by : vote.via;
    auto what = [&] { return run.id.str() + ": " + vote.by.text + " by " + speaker.text; };
    bool known = std::ranges::any_of(tenant.identities, [&](auto& then) { return then.person(speaker) == vote.by; });
    demand(known, "a vote is the person's whose key or account it is", what);
    if (!approval.terms.two_person) continue;
    demand(vote.by.text.starts_with("person:"), "two people: a key is not a person", what);
    bool another = std::ranges::any_of(tenant.identities, [&](auto& then) {
      const Actor who = then.answerable(vote.by);
      return then.person(speaker) == vote.by && then.answerable(run.created_by) != who &&
             std::ranges::none_of(run.other_requesters,
                                  [&](const Actor& each) { return then.answerable(each) == who; });
    });
    demand(another, "two people, neither a requester", what);
  }
}

// ---- What an effect stands on (14)

void Checker::check_grounds(const RunModel& run) const {
  const TenantModel& tenant = tenants_.at(run.tenant);
  for (const Granted& granted : run.granted_in_frame) {
    auto version = static_cast<std::size_t>(granted.policy_reason.policy_version);
    auto what = [&] {
      return run.id.str() + " " + granted.proposal->action.idempotency_key + ": version " + std::to_string(version) +
             ", rule " + granted.policy_reason.rule;
    };
    demand(version + 1 >= tenant.policies_before && version < tenant.policies.size(),
           "a verdict is of the policy in force", what);
    Effect meant = meant_by(tenant.policies[version], granted.proposal->action.risk);
    const std::string& connector = granted.proposal->action.connector;
    bool may_be_open = tenant.may_have_been_open(FreezeScope::tenant, connector) &&
                       tenant.may_have_been_open(FreezeScope::installation, connector) &&
                       std::ranges::all_of(tenants_, [&](const auto& each) {
                         return each.second.may_have_been_open(FreezeScope::everywhere, connector);
                       });
    demand(granted.denied || may_be_open, "no effect while it is frozen", what);
    if (granted.denied) {
      const std::string& rule = granted.policy_reason.rule;
      bool by_policy = rule != "max_writes_per_run" && rule != "approved_digest" && rule != "freeze";
      demand(!by_policy || meant == Effect::deny, "what the policy allows is not denied", what);
    } else {
      demand(meant == (granted.approval ? Effect::needs_approval : Effect::allow),
             "no effect without an allow or an approval", what);
    }
  }
}

// ---- Once (12, 13)

namespace {

// An agent's word is for agents, a remote worker's not for tools of the server.
bool can_answer(const ReceiptModel& receipt, const Actor& asking) {
  if (receipt.by_program != asking.text.starts_with("lease:")) return false;
  return !asking.text.starts_with("worker:") || !receipt.by.text.starts_with("key:");
}

}  // namespace

void Checker::check_effects(const RunModel& run) {
  for (const Settled& settled : run.settled_in_frame)
    demand(target_.has_happened(settled.receipt) == settled.happened, "a receipt says what became of its effect",
           [&] { return settled.receipt.str() + (settled.happened ? " did not happen" : " happened"); });
  for (const ActionFound& found : run.found_in_frame) {
    const RunModel* owner = find(found.run);
    const ReceiptModel* receipt = owner ? owner->find_receipt(found.receipt) : nullptr;
    bool answers = receipt && owner->tenant == run.tenant &&
                   is_same_effect(receipt->proposal->action, found.proposal->action) &&
                   target_.has_happened(found.receipt) &&
                   (receipt->status == ReceiptStatus::succeeded || receipt->status == ReceiptStatus::reversed);
    demand(answers, "what answers for an action is its own success", [&] { return run.id.str(); });
    const StepDefinition& asking = run.definition(run.find_step(found.step).value());
    demand(owner->definition(receipt->step).tool == asking.tool && can_answer(*receipt, found.by),
           "a receipt answers for its own tool, by whoever may speak for it", [&] { return run.id.str(); });
  }
  for (const std::string& key : run.keys_in_frame) {
    auto& holders = runs_of_key_[{run.tenant, key}];
    holders.insert(run.id);
    std::size_t held = 0;
    for (RunId id : holders)
      for (const ReceiptModel& receipt : runs_.at(id).receipts)
        held += receipt.key() == key && holds_key(receipt.status);
    demand(held <= 1, "a key is held once", [&] { return key + " of " + run.tenant.str(); });
  }
}

// ---- Before it happens (11)

void Checker::check_call(const Call& call) const {
  const RunModel* run = find(call.run);
  const ReceiptModel* receipt = run && run->tenant == call.tenant ? run->find_receipt(call.receipt) : nullptr;
  auto what = [&] { return call.receipt.str() + " of " + call.run.str() + " " + call.step.text; };
  demand(receipt != nullptr, "a durable intent precedes each call", what);
  demand(run->definition(receipt->step).id == call.step, "a call is made by who was allowed to", what);
  demand(std::ranges::find(receipt->tokens, call.token) != receipt->tokens.end(),
         "a call is made by who was allowed to", what);
  demand(receipt->proposal->digest == digest_of(sha256, call.action), "what is done is what was allowed", what);
  demand(receipt->status == ReceiptStatus::intended || receipt->status == ReceiptStatus::in_doubt,
         "what is settled is not called again", what);
}

void Checker::compare_receipts(Store& store) const {
  std::map<TenantId, std::map<ReceiptId, ReceiptRow>> expected;
  for (const auto& [id, run] : runs_)
    for (const ReceiptModel& receipt : run.receipts)
      expected[run.tenant][receipt.id] = {run.tenant, receipt.id, id, receipt.status, receipt.key()};
  for (const auto& [tenant, model] : tenants_) {
    std::map<ReceiptId, ReceiptRow> listed;
    for (ReceiptRow& row : store.list_receipts(tenant, {.status = {}, .limit = 10'000}))
      listed[row.id] = std::move(row);
    demand(listed == expected[tenant], "tables and memory equal the fold of the journal", [&] {
      return std::to_string(listed.size()) + " receipts of " + tenant.str() + " instead of " +
             std::to_string(expected[tenant].size()) + ", or others";
    });
  }
  for (const auto& [key, runs] : runs_of_key_) {
    if (!key.second.starts_with("shared-")) continue;
    std::set<ReceiptId> held, found;
    for (const auto& [id, row] : expected[key.first])
      if (row.key == key.second && holds_key(row.status)) held.insert(id);
    for (const ReceiptRow& row : store.find_effects(key.first, key.second)) found.insert(row.id);
    demand(held == found, "tables and memory equal the fold of the journal",
           [&] { return "who holds " + key.second + " of " + key.first.str(); });
  }
}

}  // namespace pawl::simulator
