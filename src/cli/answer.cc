// pawl answer: what a step of a run asks a person, and the answer to it.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iostream>
#include <iterator>

#include "cli/commands.h"
#include "cli/describe.h"
#include "cli/recorded_run.h"
#include "cli/remote.h"
#include "cli/session.h"
#include "core/decide.h"

namespace pawl {
namespace {

// The step that is meant: the one that is named, or the only one that asks.
StepIndex asking_step(const Run& run, const std::string& named) {
  std::string asking;
  std::optional<StepIndex> found;
  for (StepIndex i = 0; i < run.steps.size(); ++i) {
    if (run.steps[i].status != StepStatus::waiting_input) continue;
    const std::string& id = run.definition(i).id.text;
    asking += fmt::format("\n  {}: {}", id, question_text(run.steps[i].question));
    if (named.empty() ? !found : id == named) found = i;
  }
  if (asking.empty()) throw Stop(exit_not_found, fmt::format("{} asks nothing", run.id.str()));
  if (!found) throw Stop(exit_not_found, fmt::format("step {} asks nothing; those that ask are:{}", named, asking));
  if (named.empty() && std::ranges::count(asking, '\n') > 1)
    throw Stop(exit_usage, fmt::format("several steps ask: name one with --step{}", asking));
  return *found;
}

std::string read_answer(const std::string& text) {
  if (text != "-") return text;
  std::string all{std::istreambuf_iterator<char>(std::cin), {}};
  while (all.ends_with('\n')) all.pop_back();
  return all;
}

}  // namespace

ExitCode answer_question(const AnswerOptions& options) {
  auto folder = data_folder(options.data);
  auto remote = Remote::find(options.server, folder);
  const RecordedRun recorded = remote ? read_run(*remote, options.run) : read_run("", folder, options.run);
  const Run run = recorded.folded();
  const StepIndex index = asking_step(run, options.step);
  const StepId step = run.definition(index).id;
  const std::string text = read_answer(options.answer);
  if (text.empty()) {
    fmt::print("{} asks: {}\n{} with: pawl {}\n", step.text, question_text(run.steps[index].question),
               run.steps[index].doubt ? "resolve it" : "answer", answer_command(run, index));
    return exit_waiting;
  }
  const Json answer = parse_json(text).value_or(Json(text));
  if (remote) {
    Json after =
        remote->post("/runs/" + run.id.str() + "/answer", boost::json::object{{"step", step.text}, {"answer", answer}});
    print_decided(after, options.json ? "" : "answered");
    return exit_success;
  }
  Toolbox toolbox;
  auto store = open_folded(folder, toolbox);
  Session session(*store, toolbox, std::set<RunId>{});
  auto done = session.runtime().ask(
      RunRequest{recorded.tenant, run.id, AnswerQuestion{step, canonical(answer), this_person()}});
  session.stop();
  if (!done) throw Stop(exit_denied, done.error().message);
  if (options.json)
    fmt::print("{}\n", boost::json::serialize(boost::json::object{
                           {"run", run.id.str()}, {"status", to_string(done->status)}, {"seq", done->seq}}));
  else
    fmt::print("answered {}; go on with: {}\n", run.id.str(), command_line("resume", run.id, location_of(folder)));
  return exit_success;
}

}  // namespace pawl
