#include "evidence/parts.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <map>

#include "core/json.h"
#include "core/run_object.h"
#include "evidence/redaction.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

Json list_in(const Run& run, std::string_view name) { return std::move(run_object(run).at(name)); }

class DecisionReader {
 public:
  DecisionReader(const NumberedEvent& event, std::vector<DecisionMade>& out) : event_(event), out_(out) {}

  void operator()(const ApprovalRequested& event) {
    if (!event.proposal) return;  // a gate of the workflow: no policy was asked
    add("needs_approval", event.step, event.proposal.get(), event.policy_reason)["approval"] = event.approval.str();
  }
  void operator()(const ReceiptIntended& event) {
    object& made = add("allow", event.step, event.proposal.get(), event.policy_reason);
    made["receipt"] = event.receipt.str();
    if (event.approval) made["approval"] = event.approval->str();
  }
  void operator()(const ReceiptRepeated& event) {
    object& made = add("allow", {}, nullptr, event.policy_reason);
    made["receipt"] = event.receipt.str();
    if (event.approval) made["approval"] = event.approval->str();
  }
  void operator()(const ActionDenied& event) { add("deny", event.step, event.proposal.get(), event.policy_reason); }
  template <class Other>
  void operator()(const Other&) {}

 private:
  object& add(std::string_view decision, const StepId& step, const Proposal* proposal,
              const PolicyReason& policy_reason) {
    object made{{"seq", event_.seq},          {"at", print_time(event_.event.at)},
                {"decision", decision},       {"policy_version", policy_reason.policy_version},
                {"rule", policy_reason.rule}, {"reason", policy_reason.reason}};
    if (!step.empty()) made["step"] = step.text;
    if (proposal) {
      made["digest"] = proposal->digest.hex();
      made["connector"] = proposal->action.connector;
      made["operation"] = proposal->action.operation;
      made["target"] = proposal->action.target;
      made["risk"] = to_string(proposal->action.risk);
    }
    out_.push_back({event_.seq, policy_reason.policy_version, std::move(made)});
    return out_.back().object.get_object();
  }

  const NumberedEvent& event_;
  std::vector<DecisionMade>& out_;
};

struct Account {
  Money cost;
  std::int64_t calls = 0;
  std::int64_t unknown = 0;  // calls whose cost nobody knows
  std::map<std::string, std::int64_t> tokens;
};

object print_account(const Account& account) {
  object out{{"cost_usd", print_money(account.cost)}, {"calls", account.calls}};
  if (account.unknown > 0) out["calls_of_unknown_cost"] = account.unknown;
  for (const auto& [name, count] : account.tokens) out[name] = count;
  return out;
}

class Accounts {
 public:
  explicit Accounts(const Run& run) : run_(run) {}

  void operator()(const StepCompleted& event) {
    auto usage = usage_in(event.output);
    for (const Json& each : usage) add(each.get_object());
    if (usage.empty()) spend(event.step, event.cost);
  }
  void operator()(const StepFailed& event) { spend(event.step, event.cost); }
  template <class Other>
  void operator()(const Other&) {}

  Json print() const {
    array models, tools;
    std::int64_t unknown = 0;
    for (const auto& [key, account] : models_) {
      unknown += account.unknown;
      object row = print_account(account);
      row["provider"] = key.first;
      row["model"] = key.second;
      models.push_back(std::move(row));
    }
    for (const auto& [tool, account] : tools_) {
      object row = print_account(account);
      row["tool"] = tool;
      tools.push_back(std::move(row));
    }
    object out{{"total_usd", print_money(run_.cost)},
               {"budget_usd", run_.budget ? Json(print_money(*run_.budget)) : Json(nullptr)},
               {"models", std::move(models)},
               {"tools", std::move(tools)}};
    if (unknown > 0) out["calls_of_unknown_cost"] = unknown;  // the total is without these
    return out;
  }

 private:
  void add(const object& usage) {
    Account& account = models_[{text_in(usage, "provider"), text_in(usage, "model")}];
    ++account.calls;
    if (auto cost = parse_money(text_in(usage, "cost_usd")))
      account.cost = account.cost + *cost;
    else
      ++account.unknown;
    for (const auto& [name, value] : usage)
      if (value.is_int64()) account.tokens[std::string(name)] += value.get_int64();
  }
  void spend(const StepId& step, Money cost) {
    if (cost.micros == 0) return;
    auto index = run_.find_step(step);
    Account& account = tools_[index ? run_.definition(*index).tool.text : step.text];
    ++account.calls;
    account.cost = account.cost + cost;
  }

  const Run& run_;
  std::map<std::pair<std::string, std::string>, Account> models_;
  std::map<std::string, Account> tools_;
};

}  // namespace

Json run_part(const Run& run) {
  object out = run_object(run);
  for (std::string_view list : {"steps", "approvals", "receipts"}) out.erase(list);
  // Bundles from before runs could have others than the creator have no list.
  if (run.other_requesters.empty()) out.erase("requesters");
  out["tenant"] = run.tenant.str();
  return out;
}

Json steps_part(const Run& run) {
  Json out = list_in(run, "steps");
  // Heartbeats move the one without an event. The other has its values here as digests; receipts have the keys that
  // were used.
  for (Json& step : out.get_array())
    for (std::string_view name : {"lease_expires_at", "idempotency_key"}) step.get_object().erase(name);
  return out;
}
Json approvals_part(const Run& run) {
  Json out = list_in(run, "approvals");
  for (Json& approval : out.get_array()) approval.get_object().erase("requesters");  // run.json has them
  return out;
}
Json receipts_part(const Run& run) { return list_in(run, "receipts"); }

std::vector<DecisionMade> decisions_of(const std::vector<NumberedEvent>& events) {
  std::vector<DecisionMade> out;
  for (const NumberedEvent& event : events) std::visit(DecisionReader(event, out), event.event.payload);
  return out;
}

Json decisions_part(const std::vector<DecisionMade>& decisions, const std::vector<PolicyVersion>& policies) {
  array made, texts;
  for (const DecisionMade& decision : decisions) made.push_back(decision.object);
  for (const PolicyVersion& policy : policies) texts.push_back(policy_object(policy, true));
  return object{{"decisions", std::move(made)}, {"policies", std::move(texts)}};
}

Json cost_part(const Run& run, const std::vector<NumberedEvent>& events) {
  Accounts accounts(run);
  for (const NumberedEvent& event : events) std::visit(accounts, event.event.payload);
  return accounts.print();
}

}  // namespace pawl
