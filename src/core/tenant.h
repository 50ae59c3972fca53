// A tenant's own stream: what it is called, what it may use, which workflows it has published. Configuration is
// journaled like everything else, so that "who allowed this, when" has an answer.
#pragma once

#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "core/event.h"
#include "core/id.h"
#include "core/time.h"
#include "core/workflow.h"

namespace pawl {

inline constexpr int weight_max = 1000;

struct TenantCreated {
  std::string name;
};

// The tenant's share of the scheduler's turns, and its caps.
struct LimitsSet {
  int weight = 1;
  Caps caps;
};

struct WorkspaceSet {
  WorkspaceName workspace;
  int weight = 1;
};

struct WorkflowPublished {
  WorkflowName workflow;
  int version = 0;
  std::string digest;
  std::string source;
};

// A request that met a finished run. That run's stream is sealed, so its audit lies here.
struct RequestRefused {
  RunId run;
  TransitionRefused refused;
};

using TenantPayload = std::variant<TenantCreated, LimitsSet, WorkspaceSet, WorkflowPublished, RequestRefused>;

struct TenantEvent {
  Instant at;
  Actor by;
  TenantPayload payload;
};

struct Tenant {
  TenantId id;
  std::string name;
  int weight = 1;
  Caps caps;
  std::map<WorkspaceName, int> workspaces;  // weights; a workspace that is not listed weighs 1
  struct Published {
    int version = 0;
    std::string digest;
    friend bool operator==(const Published&, const Published&) = default;
  };
  std::map<WorkflowName, Published> workflows;  // the latest version of each
  std::uint64_t seq = 0;

  friend bool operator==(const Tenant&, const Tenant&) = default;
};

void append_event(std::string& out, const TenantEvent& event);
std::expected<TenantEvent, std::string> parse_tenant_event(std::string_view text);

std::expected<void, std::string> evolve_checked(Tenant& tenant, const TenantEvent& event);
void evolve(Tenant& tenant, const TenantEvent& event);

}  // namespace pawl
