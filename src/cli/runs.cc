// pawl runs: the newest runs, once, or again and again.
#include <fmt/format.h>

#include <boost/json/serialize.hpp>

#include "cli/run_rows.h"
#include "cli/runs_watch.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "engine/clock.h"

namespace pawl {

ExitCode list_runs(const RunsOptions& options) {
  RunRows source(options.server, data_folder(options.data));
  if (!options.watch.empty()) return watch_runs(source, options);
  auto rows = source.newest(options.status, options.limit);
  if (options.json) {
    for (const RunRow& row : rows) fmt::print("{}\n", boost::json::serialize(row_object(row)));
    return exit_success;
  }
  TerminalTraits traits = terminal_traits(options.no_colour);
  Instant now = SystemClock().now();
  for (const RunRow& row : rows)
    fmt::print("{}\n",
               row_line(row, now, traits.look).print(traits.look, traits.can_move ? terminal_size().columns : 0));
  if (rows.empty())
    fmt::print("no run{} in {}\n", options.status ? fmt::format(" is {}", to_string(*options.status)) : "", source.where());
  else if (rows.size() == options.limit)
    fmt::print("(the newest {}; more with --limit)\n", options.limit);
  return exit_success;
}

}  // namespace pawl
