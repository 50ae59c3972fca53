// pawl approve, pawl reject: show what a run waits for, and decide it. In a folder, going on is left to `pawl resume`.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iostream>

#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/recorded_run.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/table.h"
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

// The one that is named, or the only open one; without an open one the latest. Stops the command when that is none, or
// not one: what is not shown is not decided, so nothing is sent for the server to choose.
const Approval& approval_meant(const Run& run, const DecideOptions& options) {
  if (!options.approval.empty() && !ApprovalId::parse(options.approval))
    throw Stop(exit_usage, fmt::format("--approval: {} is not an approval's id", printable(options.approval)));
  const Approval* found = nullptr;
  std::string open;
  for (const Approval& approval : run.approvals) {
    if (!options.approval.empty() && approval.id.str() != options.approval) continue;
    const bool is_open = approval.status == ApprovalStatus::requested;
    if (is_open)
      open += fmt::format("\n  {}: {} {}", approval.id.str(), run.definition(approval.step).id.text,
                          prompt_of(run, approval));
    if (is_open || open.empty()) found = &approval;
  }
  if (!found && !options.approval.empty())
    throw Stop(exit_not_found, fmt::format("{} has no approval {}", run.id.str(), options.approval));
  if (!found) throw Stop(exit_not_found, fmt::format("nothing waits for an approval in {}", run.id.str()));
  if (std::ranges::count(open, '\n') > 1)
    throw Stop(exit_usage, fmt::format("several approvals are open: name one with --approval ID{}", open));
  return *found;
}

// "approved by dan, ada"
std::string outcome_of(const Approval& approval) {
  std::string names;
  for (const Vote& vote : approval.votes)
    if (vote.by != approval.resolved_by) names += person_name(vote.by) + ", ";
  if (!approval.resolved_by.empty()) names += person_name(approval.resolved_by);
  return fmt::format("{}{}", to_string(approval.status), names.empty() ? "" : " by " + names);
}

// Somebody else was first, and nothing is left to decide: fine if it was decided the same way.
ExitCode already_decided(const Run& run, const Approval& approval, const DecideOptions& options) {
  const auto wanted = options.approve ? ApprovalStatus::approved : ApprovalStatus::rejected;
  const std::string text = fmt::format("{} was already {}", approval.id.str(), outcome_of(approval));
  if (approval.status != wanted) throw Stop(exit_denied, text);
  if (options.json)
    print_json(boost::json::object{{"run", run.id.str()}, {"status", to_string(run.status)}, {"seq", run.seq}});
  else
    fmt::print("{}; the run is {}\n", text, to_string(run.status));
  return exit_success;
}

// Shows what is decided, and asks whoever sits at the terminal. False: not now.
bool confirm(const Run& run, const Approval& approval, const boost::json::array& requesters,
             const DecideOptions& options) {
  if (options.json) return true;
  const TerminalTraits traits = terminal_traits(false);
  const std::size_t columns = traits.can_move ? terminal_size().columns : 80;
  Line title(Ink::bold, run.definition(approval.step).id.text);
  title.add(fmt::format(" of {} v{}", run.workflow->name.text, run.workflow->version));
  for (const Line& line : with_note(std::move(title), describe_terms(approval, SystemClock().now()), columns))
    fmt::print("{}\n", line.print(traits.look));
  if (const std::string& says = run.definition(approval.step).description; !says.empty())
    fmt::print("  {}\n", printable(says));
  for (const Line& line : describe_approval(run, approval, columns, traits.look, requesters))
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

// "1 of 2 people have approved" while more people must; empty when it is decided.
std::string votes_so_far(const Json& run, const ApprovalId& id) {
  for (const Json& each : run.at("approvals").as_array())
    if (text_of(each, "id") == id.str() && text_of(each, "status") == to_string(ApprovalStatus::requested))
      return fmt::format("{} of {} people have approved", each.at("votes").as_array().size(), text_of(each, "quorum"));
  return {};
}
std::string votes_so_far(const Run& run, const ApprovalId& id) {
  for (const Approval& each : run.approvals)
    if (each.id == id && each.status == ApprovalStatus::requested)
      return fmt::format("{} of {} people have approved", each.votes.size(), each.terms.quorum);
  return {};
}

}  // namespace

ExitCode decide_approval(const DecideOptions& given) {
  DecideOptions options = given;
  if (options.approval.empty() && ApprovalId::parse(options.run)) options.approval = options.run;
  auto folder = data_folder(options.data);
  if (auto remote = Remote::find(options.server, folder)) {
    const RecordedRun recorded = read_run(*remote, options.run);
    const Run run = recorded.folded();
    const Approval& approval = approval_meant(run, options);
    if (approval.status != ApprovalStatus::requested) return already_decided(run, approval, options);
    if (!confirm(run, approval, recorded.requesters, options)) return not_decided();
    // Exactly the one that was shown, whatever else is asked for meanwhile.
    boost::json::object body{{"reason", options.reason}, {"approval_id", approval.id.str()}};
    Json answer = remote->post("/runs/" + run.id.str() + (options.approve ? "/approve" : "/reject"), body);
    const std::string votes = options.approve ? votes_so_far(answer, approval.id) : "";
    if (!options.json && !votes.empty())
      fmt::print("{}: {}; the run is {}\n", approval.id.str(), votes, text_of(answer, "status"));
    else
      print_decided(answer, options.json ? "" : options.approve ? "approved" : "rejected");
    return exit_success;
  }
  Toolbox toolbox;
  open_to_read(folder);
  auto store = open_folded(folder, toolbox);
  auto [tenant, id] = find_run(*store, options.run);
  const RecordedRun recorded = read_run("", folder, id.str());
  const Run run = recorded.folded();
  const Approval& approval = approval_meant(run, options);
  if (approval.status != ApprovalStatus::requested) return already_decided(run, approval, options);
  if (!confirm(run, approval, recorded.requesters, options)) return not_decided();
  const ResolveApproval command{
      .approval = approval.id, .approve = options.approve, .by = this_person(), .reason = options.reason};
  Session session(*store, toolbox, std::set<RunId>{});
  auto answer = session.runtime().ask(RunRequest{tenant, id, command});
  session.stop();
  if (!answer) throw Stop(code_of(answer.error()), answer.error().message);
  if (options.json) {
    fmt::print("{}\n", boost::json::serialize(boost::json::object{
                           {"run", id.str()}, {"status", to_string(answer->status)}, {"seq", answer->seq}}));
    return exit_success;
  }
  const std::string votes = votes_so_far(read_run("", folder, id.str()).folded(), approval.id);
  if (options.approve && !votes.empty()) {
    fmt::print("{}: {}; the run is {}\n", approval.id.str(), votes, to_string(answer->status));
    return exit_success;
  }
  fmt::print("{} {}; the run is {}\n", options.approve ? "approved" : "rejected", id.str(), to_string(answer->status));
  if (!is_terminal(answer->status)) fmt::print("go on with: {}\n", command_line("resume", id, location_of(folder)));
  return exit_success;
}

}  // namespace pawl
