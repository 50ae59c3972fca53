// What a draft of a policy would say to actions, beside what the tenant's policy says to them now.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/action.h"
#include "core/id.h"
#include "core/tenant.h"
#include "govern/policy.h"

namespace pawl {

struct ProposedAction {
  Action action;
  WorkspaceName workspace;
  WorkflowName workflow;
  // When a run proposed it: where that stands, and what was said to it then.
  struct Record {
    RunId run;
    std::uint64_t seq = 0;
    Effect effect = Effect::deny;
    int policy_version = 0;
    std::string rule;
  };
  std::optional<Record> record;
};

// Out of the text of a run's event; nothing when the event is not about an action that a policy was asked about.
struct RecordedAction {
  Action action;
  Effect effect = Effect::deny;
  int policy_version = 0;
  std::string rule;
};
std::optional<RecordedAction> find_action(std::string_view event);

// {"items": [{action, workspace, workflow, record, now, draft, changes}], "summary": {actions, changed, changes}}
boost::json::object try_policy(Policy& draft, const Tenant& tenant, std::span<const ProposedAction> actions);

boost::json::object verdict_object(const Verdict& verdict);

}  // namespace pawl
