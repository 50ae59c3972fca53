// pawl freeze, unfreeze: no effect begins until it is lifted.
#include <fmt/format.h>

#include <boost/json/object.hpp>

#include "cli/commands.h"
#include "cli/folder.h"
#include "cli/remote.h"
#include "cli/table.h"

namespace pawl {

ExitCode freeze_effects(const FreezeOptions& options) {
  Remote remote = Remote::require(options.server, data_folder(options.data));
  boost::json::object body;
  if (!options.tenant.empty()) body["tenant"] = options.tenant;
  if (!options.connector.empty()) body["connector"] = options.connector;
  if (!options.reason.empty() && !options.lift) body["reason"] = options.reason;
  Json frozen = options.list ? remote.get("/freezes") : remote.post(options.lift ? "/unfreeze" : "/freeze", body);
  if (const Json* warning = frozen.as_object().if_contains("warning"); warning && warning->is_string())
    fmt::print(stderr, "pawl: {}\n", std::string_view(warning->get_string()));
  print_table(frozen, options.json, {"scope", "tenant", "connector", "since", "by", "reason"}, "nothing is frozen");
  return exit_success;
}

ExitCode unfreeze_effects(const FreezeOptions& options) {
  FreezeOptions lifted = options;
  lifted.lift = true;
  return freeze_effects(lifted);
}

}  // namespace pawl
