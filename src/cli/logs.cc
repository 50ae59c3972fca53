// pawl logs: what the programs of a run's steps say, and have said.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>

#include "cli/commands.h"
#include "cli/folder.h"
#include "cli/remote.h"
#include "cli/text.h"
#include "core/step_lifecycle.h"
#include "core/task_lifecycle.h"
#include "tools/run_logs.h"

namespace pawl {
namespace {

// A program must not be able to drive somebody's terminal.
void print_safely(std::string_view text) {
  static const bool is_terminal_out = ::isatty(STDOUT_FILENO) == 1;
  if (!is_terminal_out) {
    std::fwrite(text.data(), 1, text.size(), stdout);
  } else {
    std::string shown;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      shown += byte >= 0x20 && byte != 0x7F ? c : c == '\n' || c == '\t' ? c : '?';
    }
    std::fwrite(shown.data(), 1, shown.size(), stdout);
  }
  std::fflush(stdout);
}

std::string choose_step(const LogsOptions& options, const std::vector<std::string>& steps) {
  if (!options.step.empty()) return options.step;
  if (steps.size() == 1) return steps.front();
  if (steps.empty()) return {};
  std::string names;
  for (const auto& step : steps) names += (names.empty() ? "" : ", ") + step;
  throw Stop(exit_usage, fmt::format("several steps have logs: name one with --step: {}", names));
}

[[noreturn]] void nothing_here() { throw Stop(exit_not_found, "there are no logs of this run here"); }

ExitCode print_here(const LogsOptions& options, const std::filesystem::path& folder) {
  auto store = open_to_read(folder);
  const RunId run = find_run(*store, options.run).id;
  const RunLogs logs(folder);
  std::vector<std::string> steps;
  for (const StepId& step : logs.steps(run)) steps.push_back(step.str());
  const StepId step{choose_step(options, steps)};
  LogQuery query{.attempt = options.attempt, .stream = options.stream, .tail = options.tail};
  auto part = step.empty() ? std::nullopt : logs.read(run, step, query);
  if (!part) nothing_here();
  for (query.tail.reset(); part && part->next > part->from; part = logs.read(run, step, query)) {
    print_safely(part->text);
    query.after = part->next;
    query.attempt = part->attempt;
  }
  return exit_success;
}

class ServedLog {
 public:
  ServedLog(const LogsOptions& options, const Remote& remote) : options_(options), remote_(remote), run_(find_run()) {}

  ExitCode print() {
    auto step = find_step();
    std::optional<int> attempt = options_.attempt;
    bool from_end = options_.tail.has_value();
    for (std::uint64_t after = 0;;) {
      std::string path = fmt::format("/runs/{}/steps/{}/logs?stream={}&follow={}", run_.str(), percent_encode(step),
                                     to_string(options_.stream), options_.follow ? "true" : "false");
      if (attempt) path += fmt::format("&attempt={}", *attempt);
      path += from_end ? "&tail=" + std::to_string(options_.tail.value_or(0)) : "&after=" + std::to_string(after);
      const Json part = options_.follow ? insist([&] { return remote_.get(path); }) : remote_.get(path);
      const auto number = part.at("attempt").to_number<int>();
      print_safely(std::string_view(part.at("text").as_string()));
      const auto next = part.at("next").to_number<std::uint64_t>();
      const bool is_all = part.at("ended").as_bool() || (!options_.follow && next == after);
      if (number > 0 && (!part.at("text").as_string().empty() || part.at("ended").as_bool())) {
        attempt = number;
        from_end = false;
        after = next;
      }
      if (is_all) {
        if (!options_.follow || options_.attempt || !comes_again(step, number + 1)) return exit_success;
        attempt = number + 1;
        after = 0;
      } else if (options_.follow && number == 0 && !may_come_again(step)) {
        return exit_success;
      }
    }
  }

 private:
  RunId find_run() const {
    if (!options_.task.empty()) return latest_run(remote_.find_task(options_.task));
    if (TaskId::parse(options_.run)) return latest_run(options_.run);
    try {
      return remote_.find_run(options_.run);
    } catch (const Stop& stop) {
      if (stop.code() != exit_not_found) throw;
    }
    std::string task;
    try {
      task = remote_.find_task(options_.run);
    } catch (const Stop&) {
      throw Stop(exit_not_found, fmt::format("there is no run and no task {}", printable(options_.run)));
    }
    return latest_run(task);
  }

  // Of a task's latest execution. One that is followed may yet wait for others.
  RunId latest_run(const std::string& id) const {
    while (true) {
      const Json task = remote_.get("/tasks/" + id);
      auto state = parse_enum<TaskState>(task.at("state").as_string());
      if (auto run = task.at("run_id").is_null() ? std::nullopt : RunId::parse(task.at("run_id").as_string());
          run && state != TaskState::queued)
        return *run;
      if (!options_.follow || !state || is_terminal(*state))
        throw Stop(exit_not_found, id + " has no logs: it has not begun");
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
  }

  std::string find_step() const {
    if (!options_.step.empty()) return options_.step;
    while (true) {
      std::vector<std::string> steps;
      const Json listed = remote_.get("/runs/" + run_.str() + "/logs");
      for (const Json& item : listed.at("items").as_array())
        steps.emplace_back(std::string_view(item.at("step_id").as_string()));
      auto step = choose_step(options_, steps);
      if (!step.empty()) return step;
      if (!options_.follow || has_ended(remote_.get("/runs/" + run_.str()))) nothing_here();
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
  }

  static bool has_ended(const Json& run) {
    auto status = parse_enum<RunStatus>(run.at("status").as_string());
    return status && is_terminal(*status);
  }

  // Waits for this attempt, as long as the step may have another.
  bool comes_again(const std::string& step, int attempt) const {
    while (true) {
      const bool may_come = may_come_again(step);
      if (last_attempt(step) >= attempt) return true;
      if (!may_come) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
  }

  int last_attempt(const std::string& step) const {
    const Json listed = insist([&] { return remote_.get("/runs/" + run_.str() + "/logs"); });
    for (const Json& item : listed.at("items").as_array())
      if (item.at("step_id").as_string() == step) return item.at("attempt").to_number<int>();
    return 0;
  }

  // Whether the step may have another attempt.
  bool may_come_again(const std::string& step) const {
    const Json run = insist([&] { return remote_.get("/runs/" + run_.str()); });
    if (has_ended(run)) return false;
    for (const Json& each : run.at("steps").as_array())
      if (each.at("id").as_string() == step) {
        auto status = parse_enum<StepStatus>(each.at("status").as_string());
        return !status || !is_terminal(*status);
      }
    return false;
  }

  const LogsOptions& options_;
  const Remote& remote_;
  const RunId run_;
};

}  // namespace

ExitCode print_logs(const LogsOptions& options) {
  auto folder = data_folder(options.data);
  if (auto remote = Remote::find(options.server, folder)) {
    remote->answer_within(std::chrono::seconds(60));
    return ServedLog(options, *remote).print();
  }
  if (options.follow) Remote::require(options.server, folder);
  return print_here(options, folder);
}

}  // namespace pawl
