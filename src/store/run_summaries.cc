#include "store/run_summaries.h"

namespace pawl {

RunSummaries summaries_of(Store& store, TenantId tenant, const std::vector<RunRow>& rows) {
  RunSummaries out;
  if (rows.empty()) return out;
  auto take = [&](const RunRow& loaded) {
    if (auto summary = read_summary(loaded.snapshot)) out.emplace(loaded.id, std::move(*summary));
  };
  for (const RunRow& loaded : store.load_from(tenant, rows.back().id, rows.size())) take(loaded);
  for (const RunRow& row : rows)
    if (!out.contains(row.id))
      if (auto loaded = store.load(tenant, row.id)) take(*loaded);
  return out;
}

}  // namespace pawl
