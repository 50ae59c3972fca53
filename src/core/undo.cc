#include "core/undo.h"

#include <algorithm>
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

// Why the undo of an effect cannot be executed. A tool of this server executes only what that tool itself said; what a
// worker said goes to workers, and what an agent said to people.
std::optional<std::string> source_obstacle(const StepDefinition& definition, UndoSource source,
                                           const ToolCatalog& tools) {
  const bool is_ours = tools.find(definition.tool) != nullptr;
  switch (source) {
    case UndoSource::tool:
      if (is_ours) return std::nullopt;
      return "this server has no tool " + definition.tool.text + " any more";
    case UndoSource::worker:
      if (!is_ours) return std::nullopt;
      return definition.tool.text + " is a tool of this server by now, and does not execute what a worker said";
    case UndoSource::agent:
      return "an agent said how, and no tool executes that: undo it by hand";
    case UndoSource::unknown:
      if (!is_ours) return std::nullopt;
      return "an older pawl recorded how, without saying whether " + definition.tool.text +
             " or somebody else said so: undo it by hand";
  }
  return std::nullopt;
}

std::string unknown_undo(const StepDefinition& definition, const Receipt& receipt) {
  const auto* with = definition.with.if_object();
  if (!with || !with->contains("undo")) return "nothing is known that would undo it";
  // A person who says that it happened does not say what was answered.
  const bool is_answered = !receipt.response.empty() && receipt.response != "null";
  return is_answered ? "its response did not have what the `undo` of the step needs"
                     : "its response never arrived, so what would undo it is not known: undo it by hand";
}

// Why an effect stays as it is; nothing when it can be undone, or never was.
std::optional<std::string> obstacle(const Run& run, const Receipt& receipt, const ToolCatalog& tools) {
  switch (receipt.status) {
    case ReceiptStatus::succeeded:
      if (!receipt.undo) return unknown_undo(run.definition(receipt.step), receipt);
      return source_obstacle(run.definition(receipt.step), receipt.undo->source, tools);
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

// What a tool of this server said is a template, in which secrets are named. All else is data: the template of it says
// itself and nothing else.
JsonText input_template(const Undo& undo) {
  if (undo.source == UndoSource::tool) return undo.action.fields;
  return template_of_json(undo.action.fields);
}

// As risky as what it undoes, as the step that had the effect, and as whoever said how to undo it says: the most of it.
Tier undo_risk(const StepDefinition& definition, const Receipt& receipt) {
  return std::max({definition.risk, receipt.proposal->action.risk, receipt.undo->action.risk});
}

object undo_step(const Run& run, const Receipt& receipt, std::size_t number) {
  const StepDefinition& definition = run.definition(receipt.step);
  auto with = parse_json(input_template(*receipt.undo));
  return {{"id", "undo-" + std::to_string(number)},
          {"description", "undoes " + receipt.id.str() + " of step " + definition.id.text},
          {"tool", definition.tool.text},
          {"with", with ? std::move(*with) : Json(object{})},
          {"timeout", print_duration(definition.timeout)},
          {"lease", print_duration(definition.lease)},
          {"risk", to_string(undo_risk(definition, receipt))},
          {"idempotency_key", "undo:" + receipt.id.str()},
          {"reverses", receipt.id.str()}};
}

}  // namespace

std::vector<UndoPlan::Left> left_by_undo(const Run& run, const ToolCatalog& tools) {
  std::vector<UndoPlan::Left> left;
  for (const Receipt& receipt : run.receipts | std::views::reverse)
    if (holds_key(receipt.status))
      if (auto why = obstacle(run, receipt, tools)) left.push_back({receipt.id, std::move(*why)});
  return left;
}

std::expected<UndoPlan, Refusal> plan_undo(const Run& run, std::optional<ReceiptId> only, const ToolCatalog& tools,
                                           Sha256 sha256) {
  UndoPlan plan;
  array steps;
  for (const Receipt& receipt : run.receipts | std::views::reverse) {
    if (only && receipt.id != *only) continue;
    auto why = obstacle(run, receipt, tools);
    if (why && only)
      return std::unexpected(Refusal{RefusalCode::not_reversible, receipt.id.str() + " cannot be undone: " + *why});
    if (!why) {
      plan.undoing.push_back(receipt.id);
      steps.push_back(undo_step(run, receipt, steps.size() + 1));
    }
  }
  if (!only) plan.left = left_by_undo(run, tools);
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
