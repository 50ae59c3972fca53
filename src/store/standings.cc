#include "store/standings.h"

namespace pawl {

Standings standings_of(Store& store, TenantId tenant, const std::vector<RunRow>& rows) {
  Standings out;
  if (rows.empty()) return out;
  auto take = [&](const RunRow& loaded) {
    if (auto standing = read_standing(loaded.snapshot)) out.emplace(loaded.id, std::move(*standing));
  };
  for (const RunRow& loaded : store.load_from(tenant, rows.back().id, rows.size())) take(loaded);
  for (const RunRow& row : rows)
    if (!out.contains(row.id))
      if (auto loaded = store.load(tenant, row.id)) take(*loaded);
  return out;
}

}  // namespace pawl
