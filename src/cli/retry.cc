// pawl retry: starts a run anew that ended badly.
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/session.h"

namespace pawl {

ExitCode retry_run(const RetryOptions& options) {
  auto folder = data_folder(options.data);
  auto print = [&](const std::string& id, std::string_view status, const std::string& next) {
    if (options.json)
      fmt::print("{}\n", boost::json::serialize(boost::json::object{{"run", id}, {"status", status}}));
    else
      fmt::print("{} is the new run{}\n", id, next);
  };
  if (auto remote = Remote::find(options.server, folder)) {
    Json answer = remote->post("/runs/" + remote->find_run(options.run).str() + "/retry", boost::json::object{});
    print(std::string(answer.at("id").as_string()), answer.at("status").as_string(), "");
    return exit_success;
  }
  Toolbox toolbox;
  open_to_read(folder);
  auto store = open_folded(folder, toolbox);
  auto [tenant, id] = find_run(*store, options.run);
  Session session(*store, toolbox, std::set<RunId>{});
  auto answer = session.runtime().ask(RetryRun{tenant, id, this_person()});
  session.stop();
  if (!answer) throw Stop(exit_denied, answer.error().message);
  print(answer->run.str(), to_string(answer->status),
        fmt::format("\ngo on with: {}", command_line("resume", answer->run, location_of(folder))));
  return exit_success;
}

}  // namespace pawl
