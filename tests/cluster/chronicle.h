// What is durable, read from the journal commit by commit, and what must be true of it: every move is legal, every
// chain holds, every commit leaves runs that keep the invariants, caps are kept, tokens only grow, no lease is taken
// back before the time that its holder was told.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/decide.h"
#include "core/run.h"
#include "core/tenant.h"
#include "core/tool_spec.h"
#include "core/workflow.h"
#include "engine/lease.h"
#include "store/stream.h"

namespace pawl::cluster {

class Chronicle {
 public:
  explicit Chronicle(const ToolCatalog& tools) : tools_(tools) {}

  void add(const KeptFrame& frame);  // one commit
  // The holder of this lease was told that nobody else is given the step before.
  void promise(const Lease& lease, Instant until);
  // Everything there is in the store is what was told, and nothing else.
  void compare(Store& store) const;

  const std::map<RunId, Run>& runs() const { return runs_; }
  const Run* find(RunId run) const;
  const std::map<TenantId, Tenant>& tenants() const { return tenants_; }
  // The status that the run had after this event.
  RunStatus status_after(RunId run, std::uint64_t seq) const { return statuses_.at(run).at(seq - 1); }

 private:
  void add_tenant(const StreamPart& part);
  void add_run(const StreamPart& part);
  const Workflow* workflow(TenantId tenant, const WorkflowName& name, int version) const;
  // Before the event changes the run: a lease that it takes away has run out by then, as its holder knows it.
  void check_promises(const Run& run, const RunEvent& event) const;
  // After one of its steps was claimed.
  void check_caps(const Run& claimed) const;

  const ToolCatalog& tools_;
  std::map<TenantId, Tenant> tenants_;
  std::map<std::tuple<TenantId, WorkflowName, int>, std::unique_ptr<const Workflow>> workflows_;
  std::map<RunId, Run> runs_;
  std::map<RunId, std::vector<RunStatus>> statuses_;
  std::map<StreamKey, std::string> lines_;
  std::map<StreamKey, Hash> heads_;
  std::map<std::pair<TenantId, WorkflowName>, int> latest_;
  std::vector<RunId> claimed_;  // in this commit
  std::map<std::tuple<RunId, StepId, std::uint64_t>, Instant> promised_;
};

}  // namespace pawl::cluster
