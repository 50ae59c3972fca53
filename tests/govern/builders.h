// An action and a policy in few words.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "govern/policy.h"

namespace pawl {

inline Action some_action(JsonText fields = "{}", Tier risk = Tier::low) {
  return {.connector = "servicenow",
          .operation = "incident.update",
          .target = "acme/incident/42",
          .fields = std::move(fields),
          .risk = risk,
          .idempotency_key = "k1"};
}

inline constexpr ActionContext somewhere{"acme", "ops", "triage"};

inline Policy policy_of(const std::string& rules) {
  auto policy = Policy::compile("policy: p\nrules:\n" + rules, "p.yaml");
  EXPECT_TRUE(policy.has_value()) << policy.error();
  return std::move(*policy);
}

// The YAML of a rule; the condition may hold anything.
inline std::string rule(std::string id, std::string effect, std::string_view when) {
  std::string out = "- {\"id\": \"" + id + "\", \"effect\": \"" + effect + "\", \"when\": ";
  append_json_string(out, when);
  return out + "}\n";
}

inline std::string always(std::string id, std::string effect) { return "- {id: " + id + ", effect: " + effect + "}\n"; }

inline std::string errors_of_condition(std::string_view when) {
  auto policy = Policy::compile("policy: p\nrules:\n" + rule("r", "allow", when), "p");
  return policy ? "" : policy.error();
}

}  // namespace pawl
