// pawl cancel: ends a run of the folder for good.
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/session.h"

namespace pawl {

ExitCode cancel_run(const CancelOptions& options) {
  auto folder = data_folder(options.data);
  if (auto remote = Remote::find(options.server, folder)) {
    RunId run = remote->find_run(options.run);
    Json answer = remote->post("/runs/" + run.str() + "/cancel", boost::json::object{{"reason", options.reason}});
    print_decided(answer, options.json ? "" : "canceled");
    return exit_success;
  }
  Toolbox toolbox;
  open_to_read(folder);
  auto store = open_folded(folder, toolbox);
  auto [tenant, id] = find_run(*store, options.run);
  Session session(*store, toolbox, std::set<RunId>{});
  auto answer = session.runtime().ask(RunRequest{tenant, id, CancelRun{this_person(), options.reason}});
  session.stop();
  if (!answer) throw Stop(exit_denied, answer.error().message);
  if (options.json)
    fmt::print("{}\n", boost::json::serialize(boost::json::object{
                           {"run", id.str()}, {"status", to_string(answer->status)}, {"seq", answer->seq}}));
  else
    fmt::print("{} {}\n", to_string(answer->status), id.str());
  return exit_success;
}

}  // namespace pawl
