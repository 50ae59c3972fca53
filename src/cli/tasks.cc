// pawl task: what people ask for. Tasks are a server's: it is what carries them out.
#include <fmt/format.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <iostream>
#include <iterator>

#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/files.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "cli/text.h"
#include "core/task.h"

namespace pawl {
namespace {

using boost::json::array;
using boost::json::object;

Json json_of(const std::string& text, std::string_view flag) {
  auto value = parse_json(text);
  if (!value) throw Stop(exit_usage, fmt::format("{}: {}", flag, value.error()));
  return std::move(*value);
}

std::string text_or_stdin(const std::string& text) {
  if (text != "-") return text;
  std::string all{std::istreambuf_iterator<char>(std::cin), {}};
  while (all.ends_with('\n')) all.pop_back();
  return all;
}

object new_task(const Remote& remote, const TaskOptions& options) {
  if (options.task.empty()) throw Stop(exit_usage, "say what: pawl task add TITLE PROMPT, or TITLE --workflow NAME");
  object out{{"title", options.task}};
  auto put = [&](std::string_view key, const std::string& text) {
    if (!text.empty()) out[key] = text;
  };
  std::string prompt = text_or_stdin(options.text);
  if (options.workflow.empty() && prompt.empty())
    throw Stop(exit_usage,
               "say what the agent is to do (pawl task add TITLE PROMPT), or name a workflow (--workflow NAME)");
  put("prompt", prompt);
  put("workflow", options.workflow);
  if (!options.input.empty()) out["input"] = json_of(options.input, "--input");
  put("agent", options.agent);
  put("model", options.model);
  put("folder", options.folder);
  if (!options.command.empty()) out["command"] = array(options.command.begin(), options.command.end());
  if (options.mcp) out["mcp"] = true;
  if (!options.sandbox.empty()) out["sandbox"] = json_of(options.sandbox, "--sandbox");
  if (!options.parent.empty()) out["parent_task_id"] = remote.find_task(options.parent);
  array depends_on;
  for (const std::string& text : options.depends_on) depends_on.emplace_back(remote.find_task(text));
  if (!depends_on.empty()) out["depends_on"] = std::move(depends_on);
  put("max_budget_usd", options.budget);
  put("timeout", options.timeout);
  put("priority", options.priority);
  if (!options.tags.empty()) out["tags"] = array(options.tags.begin(), options.tags.end());
  put("workspace", options.workspace);
  if (options.run) out["run"] = true;
  return out;
}

void print_executions(const Json& task) {
  for (const Json& each : task.at("executions").as_array()) {
    std::string outcome = each.at("outcome").is_null() ? "under way" : text_of(each, "outcome");
    fmt::print("  {:>3}  {:<15} {}  {} USD{}\n", text_of(each, "number"), outcome, text_of(each, "run_id"),
               text_of(each, "cost_usd"), each.at("resumes").as_bool() ? "  goes on with the session" : "");
  }
}

void print_task(const Json& task) {
  fmt::print("{}  {}\n  {}\n", text_of(task, "id"), text_of(task, "state"), printable(text_of(task, "title")));
  auto line = [&](std::string_view label, const std::string& text) {
    if (!text.empty() && text != "-") fmt::print("  {:<11} {}\n", label, text);
  };
  line("agent", text_of(task, "agent"));
  line("workflow", text_of(task, "workflow"));
  line("parent", text_of(task, "parent_task_id"));
  line("depends on", joined_texts(task.at("depends_on")));
  line("subtasks", joined_texts(task.at("subtasks")));
  line("tags", printable(joined_texts(task.at("tags"))));
  line("budget", text_of(task, "max_budget_usd"));
  line("timeout", text_of(task, "timeout"));
  line("cost", text_of(task, "cost_usd") + " USD");
  line("session", text_of(task, "session_id"));
  if (!task.at("question").is_null()) line("question", question_text(task.at("question")));
  if (!task.at("rejection_comment").is_null()) line("rejected", printable(text_of(task, "rejection_comment")));
  if (const Json& why = task.at("diagnostic"); !why.is_null())
    line("failed", fmt::format("{}: {}", text_of(why, "error_code"), printable(text_of(why, "message"))));
  print_executions(task);
  line("possible", joined_texts(task.at("possible")));
}

// Tables have one word a cell.
Json with_cells(Json page) {
  for (Json& task : page.at("items").as_array())
    for (const char* key : {"tags", "depends_on", "subtasks"}) task.as_object()[key] = joined_texts(task.at(key));
  return page;
}

std::string list_path(const Remote& remote, const TaskOptions& options) {
  if (options.tags.size() > 1) throw Stop(exit_usage, "list takes one --tag");
  std::string path = "/tasks?limit=200";
  if (!options.state.empty()) path += "&state=" + percent_encode(options.state);
  if (!options.tags.empty()) path += "&tag=" + percent_encode(options.tags[0]);
  if (!options.parent.empty()) path += "&parent=" + remote.find_task(options.parent);
  return path;
}

void list_tasks(const Remote& remote, const TaskOptions& options) {
  Json page = remote.get_all(list_path(remote, options));
  print_table(options.json ? page : with_cells(std::move(page)), options.json,
              {"id", "state", "title", "tags", "updated_at"},
              "no tasks; ask for something with: pawl task add TITLE PROMPT");
}

// By state, those that wait for a person first.
void print_board(const Remote& remote, const TaskOptions& options) {
  Json page = remote.get_all(list_path(remote, options));
  using enum TaskState;
  constexpr std::array order{blocked, ready,     running,         queued,    pending,
                             failed,  timed_out, budget_exceeded, cancelled, completed};
  object columns;
  for (TaskState state : order) columns[to_string(state)] = array{};
  for (Json& task : page.at("items").as_array())
    columns.at(task.at("state").as_string()).as_array().push_back(std::move(task));
  if (options.json) return print_json(columns);
  bool is_first = true;
  for (TaskState state : order) {
    const array& tasks = columns.at(to_string(state)).as_array();
    if (tasks.empty()) continue;
    fmt::print("{}{} ({})\n", is_first ? "" : "\n", to_string(state), tasks.size());
    is_first = false;
    for (const Json& task : tasks) {
      std::string more;
      if (!task.at("question").is_null()) more = "  ? " + question_text(task.at("question"));
      if (!task.at("error_code").is_null()) more = "  ! " + text_of(task, "error_code");
      fmt::print("  {}  {}{}\n", text_of(task, "id"), printable(text_of(task, "title")), more);
    }
  }
  if (is_first) fmt::print("no tasks; ask for something with: pawl task add TITLE PROMPT\n");
}

object body_of(const TaskOptions& options) {
  std::string text = text_or_stdin(options.text);
  if (options.what == TaskAction::answer) {
    if (!options.value.empty()) return {{"answer", json_of(options.value, "--value")}};
    if (text.empty()) throw Stop(exit_usage, "say the answer: pawl task answer TASK TEXT");
    return {{"answer", text}};
  }
  if (options.what == TaskAction::reject && !text.empty()) return {{"comment", text}};
  if (options.what == TaskAction::cancel && !text.empty()) return {{"reason", text}};
  return {};
}

void say(const TaskOptions& options, const Json& task, std::string_view word) {
  if (options.json)
    print_json(task);
  else
    fmt::print("{} {}: {}\n", text_of(task, "id"), word, text_of(task, "state"));
}

}  // namespace

ExitCode manage_tasks(const TaskOptions& options) {
  Remote remote = Remote::require(options.server, data_folder(options.data));
  using enum TaskAction;
  switch (options.what) {
    case list:
      list_tasks(remote, options);
      return exit_success;
    case board:
      print_board(remote, options);
      return exit_success;
    case add: {
      Json task = remote.post("/tasks", new_task(remote, options));
      say(options, task, "is there");
      return exit_success;
    }
    case show: {
      Json task = remote.get("/tasks/" + remote.find_task(options.task));
      if (options.json)
        print_json(task);
      else
        print_task(task);
      return exit_success;
    }
    case logs:
      return print_logs(
          {.data = options.data, .server = options.server, .task = options.task, .follow = options.follow});
    case delete_: {
      Json task = remote.remove("/tasks/" + remote.find_task(options.task));
      if (options.json)
        print_json(task);
      else
        fmt::print("{} is deleted\n", text_of(task, "id"));
      return exit_success;
    }
    case run:
    case cancel:
    case accept:
    case reject:
    case resume:
    case answer:
      break;
  }
  std::string command(to_string(options.what));
  Json task = remote.post("/tasks/" + remote.find_task(options.task) + "/" + command, body_of(options));
  say(options, task, options.what == cancel && text_of(task, "state") == "RUNNING" ? "is being cancelled" : "is now");
  return exit_success;
}

}  // namespace pawl
