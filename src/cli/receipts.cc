// pawl receipts: what was done outside, and whether an effect in doubt happened.
#include <fmt/format.h>

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "cli/remote.h"
#include "cli/table.h"
#include "cli/text.h"
#include "cli/verbs.h"

namespace pawl {
namespace {

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
  if (!receipt.at("error_code").is_null()) line("error", text_of(receipt, "error_code") + ": " + text_of(receipt, "message"));
  if (receipt.at("status").as_string() == "in_doubt")
    line("settle it", fmt::format("pawl receipts {} --happened yes|no", text_of(receipt, "id")));
  else if (receipt.at("reversible").as_bool() && receipt.at("reversed_by").is_null())
    line("undo it", fmt::format("pawl undo --receipt {}", text_of(receipt, "id")));
  if (!receipt.at("reversed_by").is_null()) line("undone by", text_of(receipt, "reversed_by"));
}

}  // namespace

ExitCode show_receipts(const ReceiptsOptions& options) {
  Remote remote = Remote::require(options.server, data_folder(options.data));
  if (options.id.empty()) {
    if (!options.happened.empty()) throw Stop(exit_usage, "say of which receipt: pawl receipts ID --happened yes|no");
    std::string query = options.status.empty() ? "" : "?status=" + percent_encode(options.status);
    print_table(remote.get("/receipts" + query), options.json, {"id", "status", "run_id", "idempotency_key"},
                "no effects, no receipts");
    return exit_success;
  }
  std::string path = "/receipts/" + percent_encode(options.id);
  Json receipt = options.happened.empty()
                     ? remote.get(path)
                     : remote.post(path + "/settle", boost::json::object{{"happened", options.happened == "yes"}});
  if (options.json)
    print_json(receipt);
  else
    print_receipt(receipt);
  return exit_success;
}

}  // namespace pawl
