// pawl undo: undoes what a run did, as a run of its own, stays with that run, and says what became of each effect.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <utility>

#include "cli/commands.h"
#include "cli/recorded_run.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/text.h"
#include "core/decide.h"
#include "engine/undoing.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

// What is to be undone: a run, or one effect of it.
struct UndoTarget {
  TenantId tenant;  // nil when a server has it
  RunId run;
  std::optional<ReceiptId> only;

  bool concerns(const Receipt& receipt) const { return !only || receipt.id == *only; }
};

UndoTarget find_target(const Remote& remote, const UndoOptions& options) {
  if (options.receipt.empty()) return {{}, remote.find_run(options.run), {}};
  const Json receipt = remote.get("/receipts/" + percent_encode(options.receipt));
  return {{}, RunId::parse(text_of(receipt, "run")).value_or(RunId{}), ReceiptId::parse(text_of(receipt, "id"))};
}

UndoTarget find_target(Store& store, const UndoOptions& options) {
  if (options.receipt.empty()) {
    auto found = find_run(store, options.run);
    return {found.tenant, found.id, {}};
  }
  const auto only = ReceiptId::parse(options.receipt);
  if (only)
    for (const Tenant& tenant : store.tenants())
      if (auto row = store.find_receipt(tenant.id, *only)) return {tenant.id, row->run, only};
  throw Stop(exit_not_found, "there is no such receipt: " + options.receipt);
}

// The run that undoes, and what it leaves: {run_id, undoing, left}.
object start_undo(const Remote& remote, const UndoTarget& target) {
  const std::string path =
      target.only ? "/receipts/" + target.only->str() + "/reverse" : "/runs/" + target.run.str() + "/undo";
  return remote.post(path, object{}).as_object();
}

object start_undo(Store& store, const Toolbox& toolbox, const UndoTarget& target) {
  Session session(store, toolbox, std::set<RunId>{});
  auto done = session.runtime().ask<UndoAnswer>([&](Engine&, Reply<UndoAnswer> reply) {
    undo(session.runtime(), {.tenant = target.tenant, .run = target.run, .only = target.only, .by = this_person()},
         std::move(reply));
  });
  session.stop();
  if (!done) throw Stop(exit_denied, done.error().message);
  array undoing, left;
  for (ReceiptId id : done->plan.undoing) undoing.emplace_back(id.str());
  for (const auto& [id, why] : done->plan.left) left.push_back(object{{"receipt_id", id.str()}, {"why", why}});
  return {{"run_id", done->run.run.str()}, {"undoing", std::move(undoing)}, {"left", std::move(left)}};
}

// A run as the journal has it. The workflow belongs to the record, which must stay.
struct ReadRun {
  RecordedRun record;
  Run run;

  explicit ReadRun(RecordedRun read) : record(std::move(read)), run(record.unborn()) {
    for (const StreamLine& line : record.stream.lines) {
      auto event = parse_run_event(line.text);
      if (!event) throw Stop(exit_ended_badly, fmt::format("{} seq {}: {}", run.id.str(), line.seq, event.error()));
      evolve(run, *event);
    }
  }
};

ReadRun read_again(const std::filesystem::path& folder, const UndoOptions& options, RunId run) {
  if (auto remote = Remote::find(options.progress.server, folder)) return ReadRun(read_run(*remote, run.str()));
  return ReadRun(read_run(std::string(), folder, run.str()));
}

// Why the effect is not undone, by the step that should; nothing when it is.
std::optional<std::string> what_went_wrong(const Run& undoing, ReceiptId effect) {
  for (const Receipt& receipt : undoing.receipts)
    if (receipt.proposal->reverses == effect && receipt.status == ReceiptStatus::succeeded) return std::nullopt;
  for (StepIndex i = 0; i < undoing.steps.size(); ++i) {
    if (undoing.definition(i).reverses != effect) continue;
    const Step& step = undoing.steps[i];
    if (step.status == StepStatus::canceled) return "not attempted: the run that undoes ended before";
    if (step.status == StepStatus::succeeded) return "its worker reported no effect";
    if (!is_terminal(step.status)) return "the undo is " + std::string(to_string(step.status));
    return step.last_error ? step.last_error->error_code + ": " + step.last_error->message : "the undo failed";
  }
  return "the run that undoes has no step for it";
}

object effect_object(const Run& run, ReceiptId id, std::string_view outcome, const std::string& why) {
  object out{{"receipt_id", id.str()}, {"outcome", outcome}, {"why", why.empty() ? Json(nullptr) : Json(why)}};
  if (const Receipt* receipt = find_receipt(run, id)) {
    const Action& action = receipt->proposal->action;
    out["step"] = run.definition(receipt->step).id.text;
    out["action"] = action.connector + " " + action.operation + " on " + action.target;
  }
  return out;
}

array effects_of(const Run& run, const Run& undoing, const object& started) {
  array out;
  for (const Json& text : started.at("undoing").as_array()) {
    const ReceiptId id = ReceiptId::parse(text.as_string()).value_or(ReceiptId{});
    const Receipt* receipt = find_receipt(run, id);
    auto wrong = what_went_wrong(undoing, id);
    if (receipt && receipt->status == ReceiptStatus::reversed) wrong.reset();
    out.push_back(effect_object(run, id, wrong ? "not_undone" : "undone", wrong.value_or("")));
  }
  for (const Json& left : started.at("left").as_array())
    out.push_back(effect_object(run, ReceiptId::parse(text_of(left, "receipt_id")).value_or(ReceiptId{}), "stays",
                                text_of(left, "why")));
  return out;
}

void print_effects(const array& effects) {
  for (const Json& effect : effects) {
    std::string outcome = text_of(effect, "outcome");
    if (outcome == "not_undone") outcome = "not undone";
    fmt::print("{:<10}  {}  {}: {}\n", outcome, text_of(effect, "receipt_id"), printable(text_of(effect, "step")),
               printable(text_of(effect, "action")));
    if (!effect.at("why").is_null()) fmt::print("            {}\n", printable(text_of(effect, "why")));
  }
}

// Nothing can be undone. That is success when nothing is left that happened; otherwise it says what stays and why, as
// the undo did that left it.
ExitCode refused(const Run& run, const UndoTarget& target, const UndoOptions& options, const Stop& stop) {
  const auto stands = std::ranges::count_if(
      run.receipts, [&](const Receipt& receipt) { return target.concerns(receipt) && holds_key(receipt.status); });
  const Toolbox toolbox;
  const auto left = left_by_undo(run, toolbox.catalog);
  // It was refused for another reason, or about the one effect that was named.
  if (stands > 0 && (target.only || std::cmp_less(left.size(), stands))) throw Stop(stop.code(), stop.what());
  array effects;
  if (!target.only)
    for (const auto& [id, why] : left) effects.push_back(effect_object(run, id, "stays", why));
  if (options.progress.json)
    print_json(object{{"type", "undo"}, {"run_id", nullptr}, {"status", nullptr}, {"effects", effects}});
  else if (effects.empty())
    fmt::print("nothing is left to undo\n");
  else
    print_effects(effects);
  return effects.empty() ? exit_success : exit_ended_badly;
}

ExitCode follow_undo(const UndoTarget& target, const object& started, const std::filesystem::path& folder,
                     const UndoOptions& options) {
  const std::string id(started.at("run_id").as_string());
  const ExitCode followed = resume_runs({.progress = options.progress, .run = id, .is_new = true});
  const ReadRun run = read_again(folder, options, target.run);
  const ReadRun undoing = read_again(folder, options, *RunId::parse(id));
  const array effects = effects_of(run.run, undoing.run, started);
  auto any = [&](std::string_view outcome) {
    return std::ranges::any_of(effects,
                               [&](const Json& effect) { return effect.at("outcome").as_string() == outcome; });
  };
  if (options.progress.json) {
    print_json(
        object{{"type", "undo"}, {"run_id", id}, {"status", to_string(undoing.run.status)}, {"effects", effects}});
  } else {
    print_effects(effects);
    if (any("not_undone") && is_terminal(undoing.run.status)) fmt::print("undoing again goes on with what is left\n");
  }
  return followed == exit_success && (any("not_undone") || any("stays")) ? exit_ended_badly : followed;
}

}  // namespace

ExitCode undo_run(const UndoOptions& given) {
  UndoOptions options = given;
  if (options.receipt.empty() && ReceiptId::parse(options.run)) options.receipt = std::exchange(options.run, {});
  if (options.run.empty() == options.receipt.empty())
    throw Stop(exit_usage, "say what to undo: a run, or --receipt with one of its effects");
  auto folder = data_folder(options.progress.data);
  UndoTarget target;
  object started;
  try {
    if (auto remote = Remote::find(options.progress.server, folder)) {
      refuse_settings_of_runs(options.progress);
      target = find_target(*remote, options);
      started = start_undo(*remote, target);
    } else {
      Toolbox toolbox;
      open_to_read(folder);
      auto store = open_folded(folder, toolbox);
      target = find_target(*store, options);
      started = start_undo(*store, toolbox, target);
    }
  } catch (const Stop& stop) {
    if (stop.code() != exit_denied || target.run.is_nil()) throw;
    return refused(read_again(folder, options, target.run).run, target, options, stop);
  }
  return follow_undo(target, started, folder, options);
}

}  // namespace pawl
