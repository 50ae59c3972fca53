// pawl task: what people ask for. Tasks are a server's: it is what carries them out.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iostream>
#include <iterator>
#include <limits>
#include <utility>

#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/files.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "cli/terminal.h"
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
  if (options.mcp && options.no_mcp) throw Stop(exit_usage, "--mcp and --no-mcp exclude each other");
  if (options.mcp || options.no_mcp) out["mcp"] = options.mcp;
  if (options.project_settings) out["project_settings"] = true;
  if (!options.sandbox.empty()) out["sandbox"] = json_of(options.sandbox, "--sandbox");
  put("permission_mode", options.permission_mode);
  auto put_list = [&](std::string_view key, const std::vector<std::string>& words) {
    if (!words.empty()) out[key] = array(words.begin(), words.end());
  };
  put_list("command", options.command);
  put_list("allowed_tools", options.allowed_tools);
  put_list("disallowed_tools", options.disallowed_tools);
  if (!options.parent.empty()) out["parent_task_id"] = remote.find_task(options.parent);
  array depends_on;
  for (const std::string& text : options.depends_on) depends_on.emplace_back(remote.find_task(text));
  if (!depends_on.empty()) out["depends_on"] = std::move(depends_on);
  put("max_budget_usd", options.budget);
  put("timeout", options.timeout);
  put("priority", options.priority);
  put_list("tags", options.tags);
  put("workspace", options.workspace);
  if (options.run) out["run"] = true;
  return out;
}

constexpr std::size_t prompt_lines_max = 20;
constexpr std::size_t result_lines_max = 1000;

void print_executions(const Json& task) {
  for (const Json& each : task.at("executions").as_array()) {
    std::string outcome = each.at("outcome").is_null() ? "under way" : text_of(each, "outcome");
    fmt::print("  {:>3}  {:<15} {}  {} USD{}\n", text_of(each, "number"), outcome, text_of(each, "run_id"),
               text_of(each, "cost_usd"), each.at("resumes").as_bool() ? "  resumed" : "");
  }
}

// What a terminal has beside a margin; a program that reads it gets lines as they are.
std::size_t columns_beside(std::size_t margin) {
  constexpr std::size_t columns_min = 20;
  if (!terminal_traits(true).can_move) return std::numeric_limits<std::size_t>::max() / 2;
  return std::max(terminal_size().columns, margin + columns_min) - margin;
}

// Line by line, under a label. Of a long one the beginning.
void print_lines(std::string_view label, std::string_view text, std::size_t lines_max) {
  fmt::print("  {}\n", label);
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::size_t lines = 0;
  for (std::size_t at = 0; at <= text.size(); ++lines) {
    const auto end = std::min(text.find('\n', at), text.size());
    if (lines < lines_max)
      for (const std::string& words : wrap_lines(text.substr(at, end - at), columns_beside(4)))
        fmt::print("    {}\n", words);
    at = end + 1;
  }
  if (lines > lines_max)
    fmt::print("    ... {} more; --json shows all of it\n", print_count(lines - lines_max, "line"));
}

void print_line(std::string_view label, const std::string& text) {
  if (text.empty() || text == "-") return;
  for (const std::string& words : wrap(text, columns_beside(14)))
    fmt::print("  {:<11} {}\n", std::exchange(label, ""), words);
}

// What the agent says it did, and what it could not do.
void print_result(const Json& result) {
  if (result.is_null()) return;
  const Json& text = result.at("text");
  print_lines("result", text.is_string() ? std::string(text.get_string()) : boost::json::serialize(result.at("output")),
              result_lines_max);
  for (const Json& denial : result.at("permission_denials").as_array()) print_line("denied", denial_text(denial));
  if (result.at("is_cut").as_bool()) fmt::print("    ... the whole of it is the output of the run's step\n");
}

// What an agent was given beside its prompt, the settings that were not given left out.
void print_settings(const Json& settings) {
  if (!settings.is_object()) return;
  constexpr std::array<std::pair<const char*, const char*>, 9> labels{{{"folder", "folder"},
                                                                       {"model", "model"},
                                                                       {"command", "command"},
                                                                       {"permission_mode", "permission"},
                                                                       {"allowed_tools", "allowed"},
                                                                       {"disallowed_tools", "disallowed"},
                                                                       {"project_settings", "project settings"},
                                                                       {"mcp", "mcp"},
                                                                       {"sandbox", "sandbox"}}};
  for (const auto& [key, label] : labels)
    if (settings.get_object().contains(key)) print_line(label, printable(text_of(settings, key)));
}

void print_task(const Json& task) {
  fmt::print("{}  {}\n  {}\n", text_of(task, "id"), text_of(task, "state"), printable(text_of(task, "title")));
  const auto& line = print_line;
  line("agent", text_of(task, "agent"));
  line("workflow", text_of(task, "workflow"));
  if (!task.at("input").is_null()) line("input", printable(text_of(task, "input")));
  print_settings(task.at("settings"));
  line("priority", text_of(task, "priority"));
  line("parent", text_of(task, "parent_task_id"));
  line("depends on", joined_texts(task.at("depends_on")));
  line("subtasks", joined_texts(task.at("subtasks")));
  line("tags", printable(joined_texts(task.at("tags"))));
  line("budget", text_of(task, "max_budget_usd"));
  line("timeout", text_of(task, "timeout"));
  line("cost", text_of(task, "cost_usd") + " USD");
  // The agents of a workflow have sessions of their own, one a step: the steps' output names them.
  if (!task.at("agent").is_null()) line("session", text_of(task, "session_id"));
  if (!task.at("question").is_null()) line("question", question_text(task.at("question")));
  if (!task.at("rejection_comment").is_null()) line("rejected", printable(text_of(task, "rejection_comment")));
  if (const Json& why = task.at("diagnostic"); !why.is_null())
    line("failed", fmt::format("{}: {}", text_of(why, "error_code"), printable(text_of(why, "message"))));
  if (const Json& prompt = task.at("prompt"); prompt.is_string())
    print_lines("prompt", std::string(prompt.get_string()), prompt_lines_max);
  print_result(task.at("result"));
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

object changes_of(const TaskOptions& options) {
  object out;
  const auto put = [&](std::string_view key, const std::string& text) {
    if (!text.empty()) out[key] = text == "none" ? Json(nullptr) : Json(text);
  };
  const std::string prompt = text_or_stdin(options.text);
  if (!prompt.empty()) out["prompt"] = prompt;
  put("timeout", options.timeout);
  put("max_budget_usd", options.budget);
  put("priority", options.priority);
  if (options.tags == std::vector<std::string>{"none"})
    out["tags"] = array{};
  else if (!options.tags.empty())
    out["tags"] = array(options.tags.begin(), options.tags.end());
  if (out.empty()) throw Stop(exit_usage, "say what is to change: a prompt, --timeout, --budget, --priority or --tag");
  return out;
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
    case change:
      say(options, remote.patch("/tasks/" + remote.find_task(options.task), changes_of(options)), "is changed");
      return exit_success;
    case delete_: {
      Json task =
          remote.remove("/tasks/" + remote.find_task(options.task) + (options.subtasks ? "?subtasks=true" : ""));
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
  const std::string query = options.what == cancel && options.subtasks ? "?subtasks=true" : "";
  Json task = remote.post("/tasks/" + remote.find_task(options.task) + "/" + command + query, body_of(options));
  say(options, task, options.what == cancel && text_of(task, "state") == "RUNNING" ? "is being cancelled" : "is now");
  return exit_success;
}

}  // namespace pawl
