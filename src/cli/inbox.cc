// pawl inbox: what waits for a person, wherever it waits.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "cli/card.h"
#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "core/run_wait.h"
#include "core/time.h"
#include "core/workflow.h"
#include "engine/clock.h"
#include "engine/workflows.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

void add(array& items, std::string_view kind, const std::string& id, const std::string& what, const std::string& since,
         const std::string& command) {
  items.push_back(object{{"kind", kind}, {"id", id}, {"what", what}, {"since", since}, {"command", command}});
}

// What an agent said that it did, or what another step gave.
std::string result_text(const Json& result) {
  const Json& text = result.at("text");
  if (text.is_string()) return std::string(text.get_string());
  const Json& output = result.at("output");
  return output.is_null() ? "" : boost::json::serialize(output);
}

// The first line of what was done, and whether something was denied.
std::string result_words(const Json& result) {
  if (result.is_null()) return {};
  const std::string text = result_text(result);
  const std::string line = printable(std::string_view(text).substr(0, text.find('\n')));
  const auto denied = result.at("permission_denials").as_array().size();
  return (line.empty() ? "" : ": " + line) + (denied > 0 ? fmt::format(" ({} calls denied)", denied) : "");
}

void add_review(const Remote& remote, array& items, const Json& listed) {
  const std::string id = text_of(listed, "id");
  Json task = remote.get("/tasks/" + id);
  add(items, "review", id, text_of(task, "title") + result_words(task.at("result")), text_of(task, "updated_at"),
      fmt::format("pawl task accept {}", id));
  items.back().as_object()["task"] = std::move(task);
}

void add_tasks(const Remote& remote, array& items) {
  for (const char* state : {"BLOCKED", "READY"}) {
    Json page = remote.get_all(fmt::format("/tasks?limit=200&state={}", state));
    for (const Json& task : page.at("items").as_array()) {
      std::string id = text_of(task, "id"), title = printable(text_of(task, "title"));
      bool asks = !task.at("question").is_null();
      if (std::string_view(state) == "READY")
        add_review(remote, items, task);
      else if (asks)
        add(items, "question", id, fmt::format("{}: {}", title, question_text(task.at("question"))),
            text_of(task, "updated_at"), fmt::format("pawl task answer {} TEXT", id));
    }
  }
}

// A run that undoes is named by a digest: what says more is which run it undoes, and which effect its step does.
std::string title_of_step(const Remote& remote, const std::string& workflow, const std::string& version,
                          const std::string& step) {
  const std::string title = fmt::format("{} v{}, step {}", workflow, version, step);
  if (!workflow.starts_with(undo_workflow_prefix)) return title;
  const Json published = remote.get(fmt::format("/workflows/{}?version={}", percent_encode(workflow), version));
  const auto undoing = compile_workflow(std::string(published.at("source").as_string()), workflow, nullptr);
  const auto index = undoing ? undoing->find(StepId{step}) : std::nullopt;
  if (!index) return title;
  return fmt::format("{}: {}", printable(undoing->description), printable((*undoing)[*index].description));
}

void add_approvals(const Remote& remote, array& items) {
  Json page = remote.get_all("/approvals?limit=200");
  for (const Json& approval : page.at("items").as_array()) {
    std::string run = text_of(approval, "run_id"), what = text_of(approval, "step");
    if (approval.as_object().contains("workflow"))
      what = title_of_step(remote, text_of(approval, "workflow"), text_of(approval, "workflow_version"), what);
    add(items, "approval", text_of(approval, "id"), what, text_of(approval, "requested_at"),
        fmt::format("pawl approve {} --approval {}", run, text_of(approval, "id")));
    items.back().as_object()["approval"] = approval;
  }
}

// What answers the question of a step: for an effect in doubt, what resolves its receipt. The run says which receipts
// are in doubt; a question alone may be anybody's words.
std::string answer_command_for(const Json& run, const Json& step) {
  const object* question = step.at("question").if_object();
  const Json* receipt = question ? question->if_contains("receipt") : nullptr;
  for (const Json& each : run.at("receipts").as_array())
    if (receipt && each.at("id") == *receipt && text_of(each, "status") == "in_doubt")
      return fmt::format("pawl receipts {} --happened yes|no", text_of(each, "id"));
  return fmt::format("pawl answer {} --step {} ANSWER", text_of(run, "id"), text_of(step, "id"));
}

// Of a run that waits; an older server does not say for what. Where an approval is open, a question may be, too.
bool may_ask(const Json& row) {
  const Json* wait = row.as_object().if_contains("waits_for");
  if (!wait) return true;
  if (!wait->is_object()) return false;
  const std::string kind = text_of(*wait, "kind");
  return kind == to_string(WaitKind::question) || kind == to_string(WaitKind::approval);
}

// Questions of runs that are no task's: an effect in doubt, a callback that is awaited.
void add_runs(const Remote& remote, array& items) {
  const Json all = remote.get_all("/runs?status=waiting&limit=500");
  for (const Json& row : all.at("items").as_array()) {
    if (!may_ask(row)) continue;
    Json run = remote.get("/runs/" + text_of(row, "id"));
    if (text_of(run, "trigger_type") == "task") continue;
    for (const Json& step : run.at("steps").as_array())
      if (text_of(step, "status") == "waiting_input")
        add(items, "question", text_of(run, "id"),
            fmt::format("{}: {}",
                        title_of_step(remote, text_of(run, "workflow"), text_of(run, "version"), text_of(step, "id")),
                        question_text(step.at("question"))),
            text_of(step, "started_at"), answer_command_for(run, step));
  }
}

// What was asked for and what was done: enough to accept or reject it.
void print_review(const Json& task, std::size_t columns, const Look& look) {
  constexpr std::size_t prompt_lines_max = 4;
  constexpr std::size_t result_lines_max = 12;
  constexpr std::size_t input_lines_max = 4;
  const std::string all = "... all of it: pawl task show " + text_of(task, "id");
  for (const std::string& words : wrap(text_of(task, "title"), columns - 2)) fmt::print("  {}\n", words);
  Card card(columns, look);
  if (const Json& prompt = task.at("prompt"); prompt.is_string())
    card.text("asked", prompt.get_string(), prompt_lines_max, all);
  if (const Json& workflow = task.at("workflow"); workflow.is_string())
    card.fact("workflow", printable(workflow.get_string()));
  if (const Json& result = task.at("result"); result.is_null()) {
    card.fact("result", "none");
  } else {
    const std::string text = result_text(result);
    card.text("result", text.empty() ? "none" : text, result_lines_max, all);
    for (const Json& denial : result.at("permission_denials").as_array())
      card.text("denied", denial_text(denial), input_lines_max, all);
  }
  card.fact("cost", text_of(task, "cost_usd") + " USD");
  for (const Line& line : std::move(card).take()) fmt::print("{}\n", line.print(look));
}

// What it is, all that is to be known of it, and the command that ends the wait.
void print_item(const Json& item) {
  const TerminalTraits traits = terminal_traits(false);
  const std::size_t columns = traits.can_move ? terminal_size().columns : 80;
  Line title(Ink::yellow, text_of(item, "kind"));
  title.add("  ").add(Ink::bold, text_of(item, "id"));
  if (auto since = parse_time(text_of(item, "since")))
    title.add(Ink::dim, fmt::format("  for {}", print_elapsed(SystemClock().now() - *since)));
  fmt::print("{}\n", title.print(traits.look));
  const Json* task = item.as_object().if_contains("task");
  if (task)
    print_review(*task, columns, traits.look);
  else
    for (const std::string& words : wrap(text_of(item, "what"), columns - 2)) fmt::print("  {}\n", words);
  if (const Json* approval = item.as_object().if_contains("approval"))
    for (const Line& line : describe_approval(*approval, columns, traits.look))
      fmt::print("{}\n", line.print(traits.look));
  const auto print_command = [&](std::string_view command) {
    fmt::print("  {}\n", Line(Ink::cyan, command).print(traits.look));
  };
  print_command(text_of(item, "command"));
  if (task) print_command(fmt::format("pawl task reject {} COMMENT", text_of(item, "id")));
  fmt::print("\n");
}

}  // namespace

ExitCode show_inbox(const InboxOptions& options) {
  Remote remote = Remote::require(options.server, data_folder(options.data));
  array items;
  add_tasks(remote, items);
  add_approvals(remote, items);
  add_runs(remote, items);
  bool is_empty = items.empty();
  if (options.json)
    for (const Json& item : items) print_json(item);
  else if (is_empty)
    fmt::print("nothing waits for you\n");
  else
    for (const Json& item : items) print_item(item);
  return is_empty ? exit_success : exit_waiting;
}

}  // namespace pawl
