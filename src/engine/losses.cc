#include "engine/losses.h"

namespace pawl {

std::vector<Lost> Losses::strike(std::span<Frame> frames) const {
  std::vector<Lost> out;
  if (incarnations_.empty()) return out;
  for (Frame& frame : frames) {
    std::set<RunId> runs;
    std::set<TenantId> tenants;
    std::erase_if(frame.runs, [&](const RunFold& fold) {
      if (!contains(fold.incarnation)) return false;
      out.push_back({StreamKey::of(fold.row.tenant, fold.row.id), fold.incarnation});
      runs.insert(fold.row.id);
      return true;
    });
    std::erase_if(frame.tenants, [&](const TenantFold& fold) {
      if (!contains(fold.incarnation)) return false;
      out.push_back({StreamKey::of(fold.tenant.id), fold.incarnation});
      tenants.insert(fold.tenant.id);
      return true;
    });
    std::erase_if(frame.starts, [&](const StartRow& start) { return runs.contains(start.run); });
    std::erase_if(frame.workflows, [&](const WorkflowRow& row) { return tenants.contains(row.tenant); });
  }
  return out;
}

}  // namespace pawl
