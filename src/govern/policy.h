// A policy: ordered rules, of which the first that an action meets says what may become of it.
//
//   policy: production
//   rules:
//   - id: no-deletes
//     effect: deny
//     when: operation LIKE '%.delete'
//     reason: nothing is deleted by a run
//   - id: large-refunds
//     effect: needs_approval
//     when: connector = 'payments' AND fields ->> 'amount' > 100
//     two_person: true
//   - {id: production, risk: high, when: target LIKE 'prod/%'}
//   - {id: the-rest, effect: allow, when: risk = 'low'}
//
// A rule with `risk` raises that of the action, never lowers it. Without an `effect` it says nothing else: the rules
// after it see the action with that risk.
//
// It fails closed: whatever keeps it from deciding is a deny whose reason says what it was. A condition that is NULL
// (SQL's "unknown") speaks for a deny or an approval, and not for an allow.
//
// A compiled policy belongs to one thread at a time; whoever decides on several threads compiles one for each.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/action.h"
#include "core/source.h"
#include "govern/conditions.h"

namespace pawl {

inline constexpr std::size_t policy_bytes_max = std::size_t{256} << 10;
inline constexpr std::size_t policy_rules_max = 500;
inline constexpr std::size_t condition_bytes_max = 4000;
inline constexpr std::size_t rule_reason_chars_max = 500;
inline constexpr std::size_t context_name_bytes_max = 256;

struct PolicyRule {
  std::string id;
  std::optional<Effect> effect;     // absent: it only raises the risk
  std::optional<Tier> risk;         // absent: the action's own
  std::optional<std::string> when;  // absent: always
  std::string reason;               // for people; may be empty
  std::optional<Tier> tier;         // absent: the action's risk
  ApprovalTerms terms;              // of needs_approval, but for the tier
};

// Where an action comes from.
struct ActionContext {
  std::string_view tenant, workspace, workflow;  // their names
};

class Policy {
 public:
  // YAML, or JSON, which is YAML too. The error is ready to print: one line a problem, each with `file`, line, column
  // and reason. What is compiled here always was and always will be: published policies stay readable.
  static std::expected<Policy, std::string> compile(std::string_view source, std::string_view file, int version = 0);
  static std::expected<Policy, std::vector<SourceError>> read(std::string_view source);

  // Never throws for what the action holds. About ten microseconds for a hundred rules.
  Verdict evaluate(const Action& action, const ActionContext& context);

  const std::string& name() const { return name_; }
  int version() const { return version_; }
  const std::vector<PolicyRule>& rules() const { return rules_; }

 private:
  friend class PolicyReader;
  Policy() = default;
  Verdict deny(std::string rule, std::string reason) const;

  std::string name_;
  int version_ = 0;
  std::vector<PolicyRule> rules_;
  Conditions conditions_;
};

// Version 0, of tenants that have put none: low risk is allowed, everything else needs approval.
extern const std::string_view default_policy_source;
Policy default_policy();

}  // namespace pawl
