// Reading runs back from a folder: the state after any event, and rows that know the unfolded frames too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cli/folder.h"
#include "cli/runs_wanted.h"
#include "core/event.h"
#include "core/provider.h"
#include "core/snapshot.h"
#include "core/vocabulary.h"
#include "core/workflow.h"
#include "engine/workflows.h"
#include "store/stream.h"

namespace pawl {

// The workflows of a folder, compiled. Those whose source is not their digest's are left out, and are problems.
class PublishedWorkflows {
 public:
  explicit PublishedWorkflows(Store& store);
  // Null when there is none, or it cannot be read any more.
  const Workflow* find(TenantId tenant, const WorkflowName& name, int version) const {
    return workflows_.find(tenant, name, version);
  }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  Workflows workflows_;
  std::vector<std::string> problems_;
};

// What a run's first event says it runs.
std::expected<RunCreated, std::string> creation_of(const WholeStream& stream);

struct ListedRun : RunRow {
  RunSummary summary;
  std::string waits_for;  // why it does not move, in words; empty while it does

  std::string_view sub_state() const { return pawl::sub_state(status, phase.value_or(RunPhase::plain)); }
};

// Newest first, as of now: rows, and what the frames know better.
std::vector<ListedRun> newest_runs(Store& store, const RunsWanted& wanted, std::size_t limit);

}  // namespace pawl
