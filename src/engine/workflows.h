// The workflows that runs refer to, compiled, by tenant, name and version. Versions are immutable and never leave:
// a run keeps a pointer to its own.
#pragma once

#include <expected>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "core/id.h"
#include "core/workflow.h"

namespace pawl {

class Store;
struct WorkflowRow;

// Reads and validates a definition (YAML, or JSON, which is YAML too). The error is ready to print: one line a
// problem, each with `file`, line, column and reason. Without `tools`, tool names and their keys are taken as they
// are: what was once published stays readable when a tool goes away.
// `rules` are those of the tenant that publishes it; null: nobody does, or pawl itself.
std::expected<Workflow, std::string> compile_workflow(std::string_view source, std::string_view file,
                                                      const ToolCatalog* tools, const TenantRules* rules = nullptr);

// The workflow of a stored row. The error says why the row cannot be what was published: its source is not the
// digest's, not readable, or another workflow's.
std::expected<Workflow, std::string> read_stored_workflow(const WorkflowRow& row);

// The digests of workflow versions as the tenant's stream says they were published, of those that are `wanted`. Reads
// the stream from its newest event back, until it has found them all.
using WorkflowDigests = std::map<std::pair<WorkflowName, int>, std::string>;
WorkflowDigests published_digests(Store& store, TenantId tenant, std::set<std::pair<WorkflowName, int>> wanted);

class Workflows {
 public:
  const Workflow* find(TenantId tenant, const WorkflowName& name, int version) const;
  // The highest version; null when there is none.
  const Workflow* latest(TenantId tenant, const WorkflowName& name) const;
  // Requires: there is no such version yet.
  const Workflow& add(TenantId tenant, Workflow workflow);

 private:
  std::map<std::tuple<TenantId, WorkflowName, int>, std::unique_ptr<const Workflow>> versions_;
};

}  // namespace pawl
