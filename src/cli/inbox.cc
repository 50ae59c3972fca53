// pawl inbox: what waits for a person, wherever it waits.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "cli/text.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

// Of runs that wait, so many are looked into for a question.
constexpr std::size_t inbox_runs_max = 100;

void add(array& items, std::string_view kind, const std::string& id, const std::string& what, const std::string& since,
         const std::string& command) {
  items.push_back(object{{"kind", kind}, {"id", id}, {"what", what}, {"since", since}, {"command", command}});
}

void add_tasks(const Remote& remote, array& items) {
  for (const char* state : {"BLOCKED", "READY"}) {
    Json page = remote.get_all(fmt::format("/tasks?limit=200&state={}", state));
    for (const Json& task : page.at("items").as_array()) {
      std::string id = text_of(task, "id"), title = printable(text_of(task, "title"));
      bool asks = !task.at("question").is_null();
      if (std::string_view(state) == "READY")
        add(items, "review", id, title, text_of(task, "updated_at"), fmt::format("pawl task accept {}", id));
      else if (asks)
        add(items, "question", id, fmt::format("{}: {}", title, question_text(task.at("question"))),
            text_of(task, "updated_at"), fmt::format("pawl task answer {} TEXT", id));
    }
  }
}

void add_approvals(const Remote& remote, array& items) {
  Json page = remote.get_all("/approvals?limit=200");
  for (const Json& approval : page.at("items").as_array()) {
    std::string run = text_of(approval, "run_id");
    std::string prompt = approval.as_object().contains("prompt") ? printable(text_of(approval, "prompt")) : "";
    add(items, "approval", text_of(approval, "id"), fmt::format("{} {}", text_of(approval, "step"), prompt),
        text_of(approval, "requested_at"), fmt::format("pawl approve {} --approval {}", run, text_of(approval, "id")));
  }
}

// Questions of runs that are no task's: an effect in doubt, a callback that is awaited.
void add_runs(const Remote& remote, array& items) {
  Json page = remote.get(fmt::format("/runs?status=waiting&limit={}", inbox_runs_max));
  for (const Json& row : page.at("items").as_array()) {
    Json run = remote.get("/runs/" + text_of(row, "id"));
    if (text_of(run, "trigger_type") == "task") continue;
    for (const Json& step : run.at("steps").as_array())
      if (text_of(step, "status") == "waiting_input")
        add(items, "question", text_of(run, "id"),
            fmt::format("{}, step {}: {}", text_of(run, "workflow"), text_of(step, "id"),
                        question_text(step.at("question"))),
            text_of(step, "started_at"), fmt::format("pawl show {}", text_of(run, "id")));
  }
}

}  // namespace

ExitCode show_inbox(const InboxOptions& options) {
  Remote remote = Remote::require(options.server, data_folder(options.data));
  array items;
  add_tasks(remote, items);
  add_approvals(remote, items);
  add_runs(remote, items);
  bool is_empty = items.empty();
  print_table(object{{"items", std::move(items)}}, options.json, {"kind", "id", "what", "since", "command"},
              "nothing waits for you");
  return is_empty ? exit_success : exit_waiting;
}

}  // namespace pawl
