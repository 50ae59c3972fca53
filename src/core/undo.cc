#include "core/undo.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <ranges>

#include "core/expression.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

constexpr std::size_t name_hash_chars = 32;

// Why an effect stays as it is; nothing when it can be undone, or never was.
std::optional<std::string> obstacle(const Receipt& receipt) {
  switch (receipt.status) {
    case ReceiptStatus::succeeded:
      return receipt.undo ? std::nullopt : std::optional<std::string>("nothing is known that would undo it");
    case ReceiptStatus::in_doubt:
      return "nobody knows whether it happened: resolve that first";
    case ReceiptStatus::intended:
      return "it is under way";
    case ReceiptStatus::failed:
      return "it did not happen";
    case ReceiptStatus::reversed:
      return "it is undone already";
  }
  return std::nullopt;
}

object undo_step(const Run& run, const Receipt& receipt, std::size_t number, const ToolCatalog& tools) {
  const StepDefinition& definition = run.definition(receipt.step);
  // What a tool in this process would send is a template, in which secrets are named; what a worker outside gave is
  // not.
  const JsonText& fields = receipt.undo->fields;
  auto with = parse_json(tools.find(definition.tool) ? fields : template_of_json(fields));
  return {{"id", "undo-" + std::to_string(number)},
          {"description", "undoes " + receipt.id.str() + " of step " + definition.id.text},
          {"tool", definition.tool.text},
          {"with", with ? std::move(*with) : Json(object{})},
          {"risk", to_string(receipt.undo->risk)},
          {"idempotency_key", "undo:" + receipt.id.str()},
          {"reverses", receipt.id.str()}};
}

}  // namespace

std::expected<UndoPlan, Refusal> plan_undo(const Run& run, std::optional<ReceiptId> only, const ToolCatalog& tools,
                                           Sha256 sha256) {
  UndoPlan plan;
  array steps;
  for (const Receipt& receipt : run.receipts | std::views::reverse) {
    if (only && receipt.id != *only) continue;
    auto why = obstacle(receipt);
    if (why && only)
      return std::unexpected(Refusal{RefusalCode::not_reversible, receipt.id.str() + " cannot be undone: " + *why});
    if (!why) {
      plan.undoing.push_back(receipt.id);
      steps.push_back(undo_step(run, receipt, steps.size() + 1, tools));
    } else if (receipt.status != ReceiptStatus::failed && receipt.status != ReceiptStatus::reversed) {
      plan.left.push_back({receipt.id, std::move(*why)});
    }
  }
  if (only && steps.empty())
    return std::unexpected(Refusal{RefusalCode::unknown_receipt, "this run has no such receipt"});
  if (steps.empty())
    return std::unexpected(Refusal{
        RefusalCode::not_reversible,
        plan.left.empty()
            ? "this run has had no effect that is left to undo"
            : "nothing of this can be undone: " + plan.left.front().receipt.str() + ", " + plan.left.front().why});
  JsonText text = canonical(steps);
  plan.workflow.text = std::string(undo_workflow_prefix) + sha256(text, {}).hex().substr(0, name_hash_chars);
  plan.source = boost::json::serialize(object{{"workflow", plan.workflow.text},
                                              {"description", "undoes what " + run.id.str() + " did"},
                                              {"steps", std::move(steps)}});
  return plan;
}

}  // namespace pawl
