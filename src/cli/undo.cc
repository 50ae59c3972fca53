// pawl undo: undoes what a run did, as a run of its own.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/text.h"
#include "engine/undoing.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

object undo_on_server(const Remote& remote, const UndoOptions& options) {
  if (!options.receipt.empty())
    return remote.post("/receipts/" + percent_encode(options.receipt) + "/reverse", object{}).as_object();
  return remote.post("/runs/" + remote.find_run(options.run).str() + "/undo", object{}).as_object();
}

object undo_here(const std::filesystem::path& folder, const UndoOptions& options) {
  Toolbox toolbox;
  open_to_read(folder);
  auto store = open_folded(folder, toolbox);
  std::optional<ReceiptId> only;
  TenantId tenant;
  RunId run;
  if (options.receipt.empty()) {
    auto found = find_run(*store, options.run);
    tenant = found.tenant;
    run = found.id;
  } else {
    only = ReceiptId::parse(options.receipt);
    std::optional<ReceiptRow> row;
    for (const Tenant& each : store->tenants())
      if (only && !row) row = store->find_receipt(tenant = each.id, *only);
    if (!row) throw Stop(exit_usage, "there is no such receipt: " + options.receipt);
    run = row->run;
  }
  Session session(*store, toolbox, std::set<RunId>{});
  auto done = session.runtime().ask<UndoAnswer>([&](Engine&, Reply<UndoAnswer> reply) {
    undo(session.runtime(), {.tenant = tenant, .run = run, .only = only, .by = this_person()}, std::move(reply));
  });
  session.stop();
  if (!done) throw Stop(exit_denied, done.error().message);
  array undoing, left;
  for (ReceiptId id : done->plan.undoing) undoing.emplace_back(id.str());
  for (const auto& [id, why] : done->plan.left) left.push_back(object{{"receipt_id", id.str()}, {"why", why}});
  return {{"run_id", done->run.run.str()},
          {"status", to_string(done->run.status)},
          {"undoing", std::move(undoing)},
          {"left", std::move(left)}};
}

}  // namespace

ExitCode undo_run(const UndoOptions& options) {
  if (options.run.empty() == options.receipt.empty())
    throw Stop(exit_usage, "say what to undo: a run, or --receipt with one of its effects");
  auto folder = data_folder(options.data);
  auto remote = Remote::find(options.server, folder);
  object answer = remote ? undo_on_server(*remote, options) : undo_here(folder, options);
  if (options.json) {
    print_json(answer);
    return exit_success;
  }
  std::string run(answer.at("run_id").as_string());
  fmt::print("{} undoes, in this order:\n", run);
  for (const Json& id : answer.at("undoing").as_array()) fmt::print("  {}\n", std::string_view(id.as_string()));
  if (!answer.at("left").as_array().empty()) fmt::print("what stays:\n");
  for (const Json& left : answer.at("left").as_array())
    fmt::print("  {}  {}\n", text_of(left, "receipt_id"), text_of(left, "why"));
  if (!remote) {
    auto id = RunId::parse(run);
    fmt::print("go on with: {}\n", command_line("resume", *id, location_of(folder)));
  }
  return exit_success;
}

}  // namespace pawl
