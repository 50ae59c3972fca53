// pawl runs: the newest runs, once, or polled.
#include <fmt/format.h>

#include <boost/json/serialize.hpp>

#include "cli/commands.h"
#include "cli/run_rows.h"
#include "cli/runs_watch.h"
#include "cli/terminal.h"
#include "engine/clock.h"

namespace pawl {
namespace {

std::string none_text(const RunsWanted& wanted) {
  std::string out = "no run";
  if (wanted.provider) out += fmt::format(" that {} carries", to_string(*wanted.provider));
  if (wanted.retries_min > 0) out += fmt::format(" with {} retries or more", wanted.retries_min);
  if (wanted.status) out += fmt::format(" is {}", to_string(*wanted.status));
  if (!wanted.workflow.empty()) out += fmt::format(" of {}", printable(wanted.workflow));
  if (!wanted.is_by_status() && !wanted.sub_state && !wanted.provider && wanted.retries_min == 0)
    out += " fits the filters";
  if (wanted.sub_state) out += fmt::format("{} {}", wanted.status ? " and" : " is", to_string(*wanted.sub_state));
  return out;
}

}  // namespace

ExitCode list_runs(const RunsOptions& options) {
  RunRows source(options.server, data_folder(options.data));
  if (!options.watch.empty()) return watch_runs(source, options);
  auto rows = source.newest_with_reasons(options.wanted, options.limit);
  if (options.json) {
    for (const ListedRun& row : rows) fmt::print("{}\n", boost::json::serialize(row_object(row)));
    return exit_success;
  }
  TerminalTraits traits = terminal_traits(options.no_colour);
  Instant now = SystemClock().now();
  const std::size_t columns = traits.can_move ? terminal_size().columns : 0;
  for (const ListedRun& row : rows)
    for (const Line& line : row_lines(row, now, traits.look, columns))
      fmt::print("{}\n", line.print(traits.look, columns));
  if (rows.empty())
    fmt::print("{} in {}\n", none_text(options.wanted), source.where());
  else if (rows.size() == options.limit)
    fmt::print("(the newest {}; more with --limit)\n", options.limit);
  return exit_success;
}

}  // namespace pawl
