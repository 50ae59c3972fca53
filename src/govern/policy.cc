#include "govern/policy.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/approval_terms.h"
#include "core/characters.h"
#include "core/invariant.h"
#include "core/source_reader.h"
#include "yaml/yaml.h"

namespace pawl {

const std::string_view default_policy_source = R"(policy: default
description: What holds for tenants that have put no policy of their own.
rules:
- id: low-risk
  effect: allow
  when: risk = 'low'
  reason: low risk is allowed
- id: high-risk
  effect: needs_approval
  when: risk = 'high'
  two_person: true
  reason: high risk needs two people
- id: everything-else
  effect: needs_approval
  reason: more than low risk needs approval
)";

namespace {

constexpr std::array<std::string_view, 3> policy_keys{"policy", "description", "rules"};
constexpr std::array<std::string_view, 5> rule_keys{"id", "effect", "risk", "when", "reason"};
constexpr std::array<std::string_view, 12> approval_rule_keys{"id",      "effect",    "risk",       "when",
                                                              "reason",  "tier",      "two_person", "quorum",
                                                              "expires", "approvers", "remind",     "escalate"};

}  // namespace

class PolicyReader {
 public:
  std::expected<Policy, std::vector<SourceError>> read(const SourceNode& document) {
    if (document.kind != SourceNode::Kind::map) {
      reader_.refuse_kind(document, "policy", "a map that begins with `policy: <name>`");
    } else {
      reader_.only_keys(document, {.owner = "a policy", .here = policy_keys});
      if (const auto* entry = reader_.required(document, "policy", "this document", "policy: production"))
        out_.name_ = reader_.valid_name(entry->value, "policy").value_or("");
      if (const auto* entry = find_entry(document, "description"))
        read_prose(entry->value, "description", description_chars_max);
      if (const auto* entry = reader_.required(document, "rules", "this policy", "rules: [{id: all, effect: deny}]"))
        read_rules(entry->value);
    }
    if (reader_.error_count() == 0)
      if (auto sealed = out_.conditions_.seal(is_resumable()); !sealed)
        reader_.refuse(document.place, std::move(sealed.error()));
    if (reader_.error_count() > 0) return std::unexpected(reader_.take_errors(source_errors_max));
    return std::move(out_);
  }

 private:
  std::string read_prose(const SourceNode& node, std::string_view name, std::size_t chars_max) {
    auto text = reader_.text(node, name);
    if (!text) return {};
    if (const std::size_t size = count_characters(*text); size > chars_max)
      reader_.refuse(node.place, quote(name) + " has at most " + std::to_string(chars_max) +
                                     " characters; this one has " + std::to_string(size));
    return std::move(*text);
  }

  bool is_resumable() const {
    return std::ranges::any_of(out_.rules_, [](const PolicyRule& rule) { return !rule.effect; });
  }

  void read_rules(const SourceNode& node) {
    if (!reader_.is_list(node, "rules")) return;
    if (node.items.empty())
      reader_.refuse(node.place, "`rules` is empty, which denies everything; to do that write {id: all, effect: deny}");
    if (node.items.size() > policy_rules_max)
      return reader_.refuse(node.items[policy_rules_max].place,
                            "a policy has at most " + std::to_string(policy_rules_max) + " rules; this one has " +
                                std::to_string(node.items.size()));
    for (const SourceNode& item : node.items) {
      if (reader_.is_full()) return;
      if (item.kind == SourceNode::Kind::map)
        read_rule(item);
      else
        reader_.refuse_kind(item, "rules", "a list of maps");
    }
  }

  void read_rule(const SourceNode& node) {
    PolicyRule rule;
    if (const auto* entry = reader_.required(node, "id", "this rule", "id: no-deletes")) {
      rule.id = reader_.valid_name(entry->value, "id").value_or("");
      const auto [first, is_new] = lines_.emplace(rule.id, entry->value.place.line);
      if (!is_new && !rule.id.empty())
        reader_.refuse(entry->value.place, "rule " + quote(rule.id) + " is already defined in line " +
                                               std::to_string(first->second) + "; choose another id");
    }
    if (const auto* risk = find_entry(node, "risk")) {
      rule.risk = reader_.word<Tier>(risk->value, "risk");
      if (!rule.risk) return;
    }
    // A rule that raises the risk need not decide too.
    const auto* effect = rule.risk ? find_entry(node, "effect")
                                   : reader_.required(node, "effect", "this rule", "effect: needs_approval");
    if (effect) rule.effect = reader_.word<Effect>(effect->value, "effect");
    if (!rule.effect && (effect || !rule.risk)) return;
    if (rule.effect == Effect::needs_approval) {
      reader_.only_keys(node, {.owner = "a rule", .here = approval_rule_keys});
      read_approval_terms(reader_, node, rule.terms);
      if (find_entry(node, "tier")) rule.tier = rule.terms.tier;
    } else {
      reader_.only_keys(node, {.owner = "a rule",
                               .here = rule_keys,
                               .elsewhere = approval_rule_keys,
                               .why_elsewhere = "belongs to a rule with `effect: needs_approval`; remove it"});
    }
    if (const auto* entry = find_entry(node, "reason"))
      rule.reason = read_prose(entry->value, "reason", rule_reason_chars_max);
    if (const auto* entry = find_entry(node, "when"))
      read_condition(entry->value, rule);
    else
      out_.conditions_.add_always();
    out_.rules_.push_back(std::move(rule));
  }

  void read_condition(const SourceNode& node, PolicyRule& rule) {
    auto text = reader_.text_template(node, "when");
    if (!text) return;
    if (text->size() > condition_bytes_max)
      return reader_.refuse(node.place, "a condition has at most " + std::to_string(condition_bytes_max) +
                                            " bytes; this one has " + std::to_string(text->size()));
    if (std::ranges::all_of(*text, [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }))
      return reader_.refuse(node.place, "`when` is empty; remove it for a rule that always speaks");
    if (auto added = out_.conditions_.add(*text, rule.effect != Effect::allow); !added)
      return reader_.refuse(place_inside(node, added.error().offset),
                            "the condition of rule " + quote(rule.id) + ": " + added.error().reason);
    rule.when = std::move(*text);
  }

  SourceReader reader_;
  std::map<std::string, int> lines_;
  Policy out_;
};

namespace {

// SQLite's functions end a text at its first NUL: `target NOT LIKE '%prod%'` would hold for "x\0prod".
bool has_nul(std::string_view text) { return text.find('\0') != text.npos; }

// The same for JSON's text, in which it is written out. A backslash that is escaped itself escapes nothing.
bool has_escaped_nul(std::string_view json) {
  for (std::size_t at = json.find('\\'); at != json.npos; at = json.find('\\', at + 2))
    if (json.substr(at).starts_with("\\u0000")) return true;
  return false;
}

// Why a policy cannot look at it; empty when it can.
std::string refuse_input(const Action& action, const ActionContext& context) {
  if (auto checked = check_action(action); !checked) return "the action cannot be judged: " + checked.error();
  for (const std::string_view name : {context.tenant, context.workspace, context.workflow})
    if (name.size() > context_name_bytes_max)
      return "the action cannot be judged: it comes from a name that is too long";
  for (const std::string_view text :
       {std::string_view(action.connector), std::string_view(action.operation), std::string_view(action.target),
        std::string_view(action.fields), context.tenant, context.workspace, context.workflow}) {
    if (has_nul(text)) return "the action cannot be judged: it holds a NUL character";
    if (find_invalid_utf8(text)) return "the action cannot be judged: it holds bytes that are not UTF-8";
  }
  if (!action.fields.starts_with('{') || !action.fields.ends_with('}'))
    return "the action cannot be judged: `fields` is not an object";
  if (has_escaped_nul(action.fields)) return "the action cannot be judged: `fields` holds a NUL character";
  return {};
}

ActionRow row_of(const Action& action, Tier risk, const ActionContext& context) {
  return {.connector = action.connector,
          .operation = action.operation,
          .target = action.target,
          .risk = to_string(risk),
          .tenant = context.tenant,
          .workspace = context.workspace,
          .workflow = context.workflow,
          .fields = action.fields,
          .risk_level = static_cast<int>(risk)};
}

std::string_view words_of(Effect effect) {
  switch (effect) {
    case Effect::deny:
      return "denies it";
    case Effect::allow:
      return "allows it";
    case Effect::needs_approval:
      return "asks for approval";
  }
  return {};
}

}  // namespace

std::expected<Policy, std::vector<SourceError>> Policy::read(std::string_view source) {
  auto document = read_yaml(source, {.bytes_max = policy_bytes_max});
  if (!document) return std::unexpected(std::vector{document.error()});
  return PolicyReader().read(*document);
}

std::expected<Policy, std::string> Policy::compile(std::string_view source, std::string_view file, int version) {
  auto policy = read(source);
  if (!policy) return std::unexpected(print_errors(file, policy.error()));
  policy->version_ = version;
  return std::move(*policy);
}

Verdict Policy::deny(std::string rule, std::string reason) const {
  return {.policy_version = version_, .rule = std::move(rule), .reason = std::move(reason), .terms = {}};
}

Verdict Policy::evaluate(const Action& action, const ActionContext& context) {
  if (auto refused = refuse_input(action, context); !refused.empty()) return deny({}, std::move(refused));
  Tier risk = action.risk;
  auto met = conditions_.first_met(row_of(action, risk, context));
  // A rule that only raises the risk is one that those after it are asked with.
  while (met && met->which && !rules_[*met->which].effect) {
    risk = std::max(risk, *rules_[*met->which].risk);
    met = conditions_.first_met(row_of(action, risk, context), *met->which + 1);
  }
  if (!met) {
    const auto& failure = met.error();
    if (!failure.which) return deny({}, "the policy could not decide: " + failure.reason);
    const std::string& rule = rules_[*failure.which].id;
    return deny(rule, "rule " + quote(rule) + " could not be decided: " + failure.reason);
  }
  if (!met->which) return deny({}, "no rule speaks about it");
  const PolicyRule& rule = rules_[*met->which];
  if (rule.risk) risk = std::max(risk, *rule.risk);
  Verdict out{.effect = *rule.effect,
              .policy_version = version_,
              .rule = rule.id,
              .reason = rule.reason.empty() ? "rule " + quote(rule.id) + " " + std::string(words_of(*rule.effect))
                                            : rule.reason,
              .risk = risk,
              .terms = {}};
  if (met->by_null) out.reason += " (its condition is unknown: something that it looks at is missing)";
  if (rule.effect == Effect::needs_approval) {
    out.terms = rule.terms;
    out.terms.tier = rule.tier.value_or(risk);
    out.terms.prompt = rule.reason;
  }
  return out;
}

Policy default_policy() {
  auto policy = Policy::compile(default_policy_source, "default policy");
  invariant(policy.has_value(), "the default policy cannot be read");
  return std::move(*policy);
}

}  // namespace pawl
