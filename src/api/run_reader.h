// Runs as the tables have them, for lists that show more than a row holds. For one request, on a background thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "core/run.h"
#include "store/store.h"

namespace pawl::api {

class RunReader {
 public:
  RunReader(Store& store, TenantId tenant) : store_(store), tenant_(tenant) {}

  // Null when the tables do not have it. Valid until the next call.
  const Run* find(RunId run);

 private:
  const Workflow& workflow_of(const RunRow& row);

  Store& store_;
  TenantId tenant_;
  std::map<std::pair<WorkflowName, int>, std::unique_ptr<const Workflow>> workflows_;
  std::optional<Run> last_;  // many items in a row are of one run
};

}  // namespace pawl::api
