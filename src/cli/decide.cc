// pawl approve, pawl reject: show what a run waits for, and decide it. In a folder, going on is left to `pawl resume`.
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iostream>

#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/recorded_run.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "engine/clock.h"

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

// The approval that would be decided; null when there is none, or more than one: the engine says so then.
const Approval* meant(const Run& run, const std::string& id) {
  const Approval* found = nullptr;
  for (const Approval& approval : run.approvals) {
    if (approval.status != ApprovalStatus::requested || (!id.empty() && approval.id.str() != id)) continue;
    if (found) return nullptr;
    found = &approval;
  }
  return found;
}

// Shows what is decided, and asks whoever sits at the terminal. False: not now.
bool confirm(const Run& run, const Approval* approval, const boost::json::array& requesters,
             const DecideOptions& options) {
  if (options.json || !approval) return true;
  const TerminalTraits traits = terminal_traits(false);
  const std::size_t columns = traits.can_move ? terminal_size().columns : 80;
  Line title(Ink::bold, run.definition(approval->step).id.text);
  title.add(fmt::format(" of {} v{}", run.workflow->name.text, run.workflow->version));
  title.add(Ink::dim, "  " + describe_terms(*approval, SystemClock().now()));
  fmt::print("{}\n", title.print(traits.look));
  for (const Line& line : describe_approval(run, *approval, columns, traits.look, requesters))
    fmt::print("{}\n", line.print(traits.look));
  if (options.yes || !traits.can_ask) return true;
  fmt::print("{}? [y/N] ", options.approve ? "approve" : "reject");
  std::fflush(stdout);
  std::string typed;
  return std::getline(std::cin, typed) && (typed == "y" || typed == "Y" || typed == "yes");
}

ExitCode not_decided() {
  fmt::print("nothing was decided\n");
  return exit_waiting;
}

}  // namespace

ExitCode decide_approval(const DecideOptions& options) {
  auto folder = data_folder(options.data);
  if (auto remote = Remote::find(options.server, folder)) {
    const RecordedRun recorded = read_run(*remote, options.run);
    const Run run = recorded.folded();
    const Approval* approval = meant(run, options.approval);
    if (!confirm(run, approval, recorded.requesters, options)) return not_decided();
    boost::json::object body{{"reason", options.reason}};
    // Exactly the one that was shown, whatever else is asked for meanwhile.
    if (approval)
      body["approval_id"] = approval->id.str();
    else if (!options.approval.empty())
      body["approval_id"] = options.approval;
    Json answer = remote->post("/runs/" + run.id.str() + (options.approve ? "/approve" : "/reject"), body);
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
  const RecordedRun recorded = read_run("", folder, id.str());
  const Run run = recorded.folded();
  const Approval* approval = meant(run, options.approval);
  if (!confirm(run, approval, recorded.requesters, options)) return not_decided();
  if (approval) command.approval = approval->id;
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
