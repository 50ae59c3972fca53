// pawl workers: who is connected to a server, for which tools, since when.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "engine/clock.h"

namespace pawl {

ExitCode list_workers(const WorkersOptions& options) {
  Remote remote = Remote::require(options.server, data_folder(options.data));
  Json workers = remote.get("/workers");
  if (!options.json) {
    const Instant now = SystemClock().now();
    for (Json& worker : workers.at("items").as_array()) {
      boost::json::object& cells = worker.as_object();
      auto ago = [&](const char* key) {
        auto at = parse_time(text_of(worker, key));
        return at ? print_elapsed(now - *at) : "-";
      };
      cells["for"] = ago("since");
      cells["last seen"] = ago("last_seen_at") + " ago";
      cells["tools"] = joined_texts(worker.at("tools"));
    }
  }
  print_table(workers, options.json, {"name", "kind", "for", "last seen", "tools"},
              "nobody is connected; start one with: pawl worker --tool NAME -- PROGRAM");
  return exit_success;
}

}  // namespace pawl
