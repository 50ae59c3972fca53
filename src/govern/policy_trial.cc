#include "govern/policy_trial.h"

#include <array>
#include <boost/json/array.hpp>
#include <map>

#include "core/event_header.h"
#include "govern/policies.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

// The events that hold an action, and what its policy had said when they were written.
struct AboutAction {
  std::string_view type;
  Effect effect;
};
constexpr std::array about_actions{AboutAction{"receipt.intended", Effect::allow},
                                   AboutAction{"approval.requested", Effect::needs_approval},
                                   AboutAction{"action.denied", Effect::deny}};

// Whether it makes a difference to the one who asked.
bool is_same(const Verdict& a, const Verdict& b) {
  return a.effect == b.effect && a.terms.tier == b.terms.tier && a.terms.two_person == b.terms.two_person &&
         a.terms.quorum == b.terms.quorum && a.terms.expires == b.terms.expires &&
         a.terms.approvers == b.terms.approvers && a.terms.remind == b.terms.remind &&
         a.terms.escalate == b.terms.escalate && a.terms.escalate_to == b.terms.escalate_to;
}

Json record_object(const std::optional<ProposedAction::Record>& record) {
  if (!record) return nullptr;
  return object{{"run_id", record->run.str()},
                {"seq", record->seq},
                {"effect", to_string(record->effect)},
                {"policy_version", record->policy_version},
                {"rule", record->rule}};
}

// What is not demanded is not there.
object terms_object(const ApprovalTerms& terms) {
  object out{{"tier", to_string(terms.tier)},
             {"two_person", terms.two_person},
             {"quorum", terms.quorum},
             {"expires", print_duration(terms.expires)}};
  auto names = [](const Approvers& list) { return boost::json::array(list.begin(), list.end()); };
  if (!terms.approvers.empty()) out["approvers"] = names(terms.approvers);
  if (terms.remind) out["remind"] = print_duration(*terms.remind);
  if (terms.escalate)
    out["escalate"] = object{{"after", print_duration(*terms.escalate)}, {"to", names(terms.escalate_to)}};
  return out;
}

}  // namespace

std::optional<RecordedAction> find_action(std::string_view event) {
  // Most events hold none, and reading JSON takes its time.
  const auto about = std::ranges::find(about_actions, read_event_header(event).type, &AboutAction::type);
  if (about == about_actions.end()) return std::nullopt;
  auto value = parse_json(event);
  const object* in = value ? value->if_object() : nullptr;
  const Json* action = in ? in->if_contains("action") : nullptr;
  if (!action) return std::nullopt;
  auto read = read_action(*action);
  if (!read) return std::nullopt;
  RecordedAction out{.action = std::move(*read), .effect = about->effect, .rule = {}};
  if (const Json* version = in->if_contains("policy_version"); version && version->is_int64())
    out.policy_version = static_cast<int>(version->get_int64());
  if (const Json* rule = in->if_contains("rule"); rule && rule->is_string()) out.rule = std::string(rule->get_string());
  return out;
}

object verdict_object(const Verdict& verdict) {
  object out{{"effect", to_string(verdict.effect)}, {"rule", verdict.rule}, {"reason", verdict.reason}};
  if (verdict.effect == Effect::needs_approval) out["approval"] = terms_object(verdict.terms);
  return out;
}

object try_policy(Policy& draft, const Tenant& tenant, std::span<const ProposedAction> actions) {
  Policies present;
  array items;
  std::map<std::pair<Effect, Effect>, std::uint64_t> changes;
  std::uint64_t changed = 0;
  for (const ProposedAction& each : actions) {
    const Verdict now = present.judge(tenant, each.action, each.workspace, each.workflow);
    const Verdict then = draft.evaluate(
        each.action, {.tenant = tenant.name, .workspace = each.workspace.text, .workflow = each.workflow.text});
    const bool differs = !is_same(now, then);
    if (differs) {
      ++changed;
      ++changes[{now.effect, then.effect}];
    }
    items.push_back(object{{"action", parse_json(print_action(each.action)).value_or(nullptr)},
                           {"workspace", each.workspace.text},
                           {"workflow", each.workflow.text},
                           {"record", record_object(each.record)},
                           {"now", verdict_object(now)},
                           {"draft", verdict_object(then)},
                           {"changes", differs}});
  }
  array kinds;
  for (const auto& [kind, count] : changes)
    kinds.push_back(object{{"from", to_string(kind.first)}, {"to", to_string(kind.second)}, {"actions", count}});
  return {{"items", std::move(items)},
          {"summary", object{{"policy_version", tenant.policy.version},
                             {"actions", actions.size()},
                             {"changed", changed},
                             {"changes", std::move(kinds)}}}};
}

}  // namespace pawl
