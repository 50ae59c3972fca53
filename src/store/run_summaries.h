// What a list shows of runs that their rows do not have: who executes each, its state in that
// one's words, its retries, whether its failure is retryable.
#pragma once

#include <map>
#include <vector>

#include "core/snapshot.h"
#include "store/store.h"

namespace pawl {

using RunSummaries = std::map<RunId, RunSummary>;

// Of rows that are listed, newest first; one look for those that stand together. One whose snapshot cannot be read is
// left out.
RunSummaries summaries_of(Store& store, TenantId tenant, const std::vector<RunRow>& rows);

}  // namespace pawl
