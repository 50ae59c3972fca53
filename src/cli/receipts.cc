// pawl receipts: what was done outside, and whether an effect in doubt happened.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <map>

#include "cli/commands.h"
#include "cli/recorded_run.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/text.h"
#include "core/run_object.h"

namespace pawl {
namespace {

using boost::json::object;

void print_receipt(const Json& receipt) {
  const Json& action = receipt.at("action");
  fmt::print("{}  {}\n", text_of(receipt, "id"), text_of(receipt, "status"));
  fmt::print("  {} {} on {}\n", text_of(action, "connector"), text_of(action, "operation"), text_of(action, "target"));
  auto line = [&](std::string_view label, const std::string& text) {
    if (!text.empty() && text != "null") fmt::print("  {:<11} {}\n", label, text);
  };
  line("run", text_of(receipt, "run") + ", step " + text_of(receipt, "step"));
  line("fields", boost::json::serialize(action.at("fields")));
  line("before", boost::json::serialize(receipt.at("before")));
  line("key", text_of(action, "idempotency_key"));
  line("allowed by", fmt::format("rule {} of policy {}", text_of(receipt, "rule"), text_of(receipt, "policy_version")));
  if (!receipt.at("approval").is_null()) line("approval", text_of(receipt, "approval"));
  line("response", boost::json::serialize(receipt.at("response")));
  if (!receipt.at("error_code").is_null())
    line("error", text_of(receipt, "error_code") + ": " + text_of(receipt, "message"));
  if (receipt.at("status").as_string() == "in_doubt")
    line("resolve it", fmt::format("pawl receipts {} --happened yes|no", text_of(receipt, "id")));
  else if (receipt.at("reversible").as_bool() && receipt.at("reversed_by").is_null())
    line("undo it", fmt::format("pawl undo --receipt {}", text_of(receipt, "id")));
  if (!receipt.at("reversed_by").is_null()) line("undone by", text_of(receipt, "reversed_by"));
}

Json list_on_server(const Remote& remote, const ReceiptsOptions& options) {
  return remote.get_all("/receipts" + (options.status.empty() ? "" : "?status=" + percent_encode(options.status)));
}

Json one_on_server(const Remote& remote, const ReceiptsOptions& options) {
  std::string path = "/receipts/" + percent_encode(options.id);
  if (options.happened.empty()) return remote.get(path);
  return remote.post(path + "/settle", object{{"happened", options.happened == "yes"}});
}

Json list_here(Store& store, const ReceiptsOptions& options) {
  ReceiptFilter filter{.limit = 500};
  if (!options.status.empty()) {
    filter.status = parse_enum<ReceiptStatus>(options.status);
    if (!filter.status) throw Stop(exit_usage, "--status must be intended, succeeded, failed, in_doubt or reversed");
  }
  boost::json::array items;
  for (const Tenant& tenant : store.tenants())
    for (filter.before.reset();;) {
      auto rows = store.list_receipts(tenant.id, filter);
      for (const ReceiptRow& row : rows)
        items.push_back(object{{"id", row.id.str()},
                               {"run_id", row.run.str()},
                               {"status", to_string(row.status)},
                               {"idempotency_key", row.key}});
      if (rows.size() < filter.limit) break;
      filter.before = rows.back().id;
    }
  return object{{"items", std::move(items)}, {"next_cursor", nullptr}};
}

// Rows name no action; the runs that they belong to do. Of so many runs at most, newest first.
constexpr std::size_t runs_described_max = 200;

// Adds `action` and `target` to the rows; where they are not known they are null.
template <class ReadRun>
void describe_rows(Json& list, ReadRun read) {
  std::map<std::string, Json> receipts_by_run;
  for (Json& row : list.at("items").as_array()) {
    object& out = row.as_object();
    out["action"] = nullptr;
    out["target"] = nullptr;
    const std::string run = text_of(row, "run_id");
    auto known = receipts_by_run.find(run);
    if (known == receipts_by_run.end()) {
      if (receipts_by_run.size() == runs_described_max) continue;
      known = receipts_by_run.emplace(run, read(run)).first;
    }
    for (const Json& receipt : known->second.as_array()) {
      if (receipt.at("id") != out.at("id")) continue;
      const Json& action = receipt.at("action");
      out["action"] = text_of(action, "connector") + " " + text_of(action, "operation");
      out["target"] = action.at("target");
    }
  }
}

Json one_here(Store& store, const Toolbox& toolbox, const ReceiptsOptions& options) {
  auto id = ReceiptId::parse(options.id);
  std::optional<ReceiptRow> row;
  for (const Tenant& tenant : store.tenants())
    if (id && !row) row = store.find_receipt(tenant.id, *id);
  if (!row) throw Stop(exit_not_found, "there is no such receipt: " + printable(options.id));
  Session session(store, toolbox, std::set<RunId>{});
  if (!options.happened.empty()) {
    SettleReceipt command{*id, options.happened == "yes", this_person()};
    auto settled = session.runtime().ask(RunRequest{row->tenant, row->run, command});
    if (!settled) throw Stop(exit_denied, settled.error().message);
  }
  auto run = session.runtime().ask(InspectRun{row->tenant, row->run});
  session.stop();
  if (!run) throw Stop(exit_not_found, run.error().message);
  return receipt_object(**run, *find_receipt(**run, *id));
}

}  // namespace

ExitCode show_receipts(const ReceiptsOptions& options) {
  if (options.id.empty() && !options.happened.empty())
    throw Stop(exit_usage, "say of which receipt: pawl receipts ID --happened yes|no");
  auto folder = data_folder(options.data);
  auto remote = Remote::find(options.server, folder);
  Toolbox toolbox;
  std::unique_ptr<Store> store;
  if (!remote) {
    open_to_read(folder);
    store = open_folded(folder, toolbox);
  }
  if (options.id.empty()) {
    Json list = remote ? list_on_server(*remote, options) : list_here(*store, options);
    if (!options.json)
      describe_rows(list, [&](const std::string& run) -> Json {
        if (remote) return remote->get("/runs/" + run).at("receipts");
        return run_object(read_run("", folder, run).folded(), Vocabulary::contract_v1).at("receipts");
      });
    print_table(list, options.json, {"id", "status", "action", "target"}, "no effects, no receipts");
    return exit_success;
  }
  Json receipt = remote ? one_on_server(*remote, options) : one_here(*store, toolbox, options);
  if (options.json)
    print_json(receipt);
  else
    print_receipt(receipt);
  if (!remote && !options.happened.empty() && !options.json)
    fmt::print("  {:<11} {}\n", "go on", command_line("resume", text_of(receipt, "run"), location_of(folder)));
  return exit_success;
}

}  // namespace pawl
