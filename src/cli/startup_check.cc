#include "cli/startup_check.h"

#include <fmt/format.h>

#include "cli/folder.h"
#include "cli/verification.h"
#include "store/stream.h"

namespace pawl {

void check_at_start(Store& store, const std::string& where, const std::string& look) {
  std::string first;
  std::size_t count = 0;
  const Found found = [&](const Problem& problem) {
    if (++count == 1) first = fmt::format("{}: {}", problem.subject, problem.what);
  };
  try {
    StreamReader streams(store, StreamReader::Frames::kept);
    for (const Tenant& tenant : store.tenants())
      check_tenant_alone(streams.read(StreamKey::of(tenant.id)), tenant, found);
    for (StreamKey key : streams.unfolded())
      if (!key.is_tenant())
        for (const std::string& problem : streams.read(key).problems) found({RunId{key.stream}.str(), 0, problem});
  } catch (const StoreFailure& failure) {
    found({where, 0, failure.what()});
  }
  if (count == 0) return;
  throw Stop(exit_store_failure,
             fmt::format("{} is damaged, or another program changed it, so nothing of it is served. {}{}. `{}` names "
                         "everything that is wrong; then restore a backup.",
                         where, first, count > 1 ? fmt::format(" ({} problems in all)", count) : "", look));
}

}  // namespace pawl
