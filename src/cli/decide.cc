// pawl approve, pawl reject: decide what a run in the folder waits for, and leave going on to `pawl resume`.
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/session.h"

namespace pawl {
namespace {

ExitCode code_of(const Refusal& refusal) {
  switch (refusal.code) {
    case RefusalCode::not_found:
    case RefusalCode::nothing_waiting:
    case RefusalCode::unknown_approval:
      return exit_not_found;
    case RefusalCode::ambiguous_approval:
    case RefusalCode::invalid:
      return exit_usage;
    default:
      return exit_denied;
  }
}

}  // namespace

ExitCode decide_approval(const DecideOptions& options) {
  auto folder = data_folder(options.data);
  if (auto remote = Remote::find(options.server, folder)) {
    RunId run = remote->find_run(options.run);
    boost::json::object body{{"reason", options.reason}};
    if (!options.approval.empty()) body["approval_id"] = options.approval;
    Json answer = remote->post("/runs/" + run.str() + (options.approve ? "/approve" : "/reject"), body);
    print_decided(answer, options.json ? "" : options.approve ? "approved" : "rejected");
    return exit_success;
  }
  Toolbox toolbox;
  open_to_read(folder);
  auto store = open_folded(folder, toolbox);
  auto [tenant, id] = find_run(*store, options.run);
  ResolveApproval command{.approval = {}, .approve = options.approve, .by = this_person(), .reason = options.reason};
  if (!options.approval.empty()) {
    command.approval = ApprovalId::parse(options.approval);
    if (!command.approval)
      throw Stop(exit_usage, fmt::format("--approval: {} is not an approval's id", options.approval));
  }
  Session session(*store, toolbox, std::set<RunId>{});
  auto answer = session.runtime().ask<RunAnswer>(
      [&](Engine& engine, Reply<RunAnswer> reply) { engine.command(tenant, id, command, std::move(reply)); });
  session.stop();
  if (!answer) throw Stop(code_of(answer.error()), answer.error().message);
  if (options.json) {
    fmt::print("{}\n", boost::json::serialize(boost::json::object{
                           {"run", id.str()}, {"status", to_string(answer->status)}, {"seq", answer->seq}}));
    return exit_success;
  }
  fmt::print("{} {}; the run is {}\n", options.approve ? "approved" : "rejected", id.str(), to_string(answer->status));
  if (!is_terminal(answer->status)) fmt::print("go on with: {}\n", command_line("resume", id, location_of(folder)));
  return exit_success;
}

}  // namespace pawl
