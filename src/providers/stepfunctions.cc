#include "providers/stepfunctions.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <iterator>
#include <utility>

#include "providers/stepfunctions_answers.h"

namespace pawl::providers {

namespace {

using boost::json::object;
using Kind = Outcome::Kind;
using std::chrono::steady_clock;

// Below this many of one state machine each is asked for by itself: as many requests, and exact.
constexpr std::size_t described_max = 10;
constexpr std::size_t described_a_look_max = 100;
constexpr std::size_t histories_a_look_max = 10;
constexpr int history_page = 100;
constexpr int history_pages_max = 300;  // AWS ends an execution at 25,000 events
constexpr int list_page = 1000;
constexpr auto history_pause_min = std::chrono::milliseconds(900);
constexpr auto history_pause_max = std::chrono::minutes(1);
constexpr auto quiet_min = std::chrono::seconds(1);
constexpr auto quiet_max = std::chrono::seconds(30);

// Of the execution that a run has, or would have.
std::string arn_of(const Carried& run) {
  const auto machine = find_state_machine(run.target.state_machine);
  if (!run.id.empty() || !machine) return run.id;
  return fmt::format("arn:{}:states:{}:{}:execution:{}:{}", machine->partition, machine->region, machine->account,
                     machine->name, run.run.str());
}

bool has_ended(std::string_view status) {
  const ProviderState* state = find_provider_state(Provider::stepfunctions, status);
  return state && state->ends;
}

}  // namespace

StepFunctionsClient::StepFunctionsClient(StepFunctionsOptions options)
    : options_(std::move(options)), acting_({.access = options_.access}), looking_({.access = options_.access}) {}

Request StepFunctionsClient::request(std::string_view operation, const Target& target, const Json& body) const {
  const auto machine = find_state_machine(target.state_machine);
  const std::string region(machine ? machine->region : options_.access.region);
  const bool is_china = machine && machine->partition == "aws-cn";
  Request out;
  out.url = options_.endpoint.empty() ? fmt::format("https://states.{}.amazonaws.com{}/", region, is_china ? ".cn" : "")
                                      : options_.endpoint + "/";
  out.headers = {"content-type: application/x-amz-json-1.0",
                 fmt::format("x-amz-target: AWSStepFunctions.{}", operation)};
  out.body = boost::json::serialize(body);
  out.region = region;
  out.service = "states";
  return out;
}

// The name is taken: by this very run, unless the input says otherwise.
Outcome StepFunctionsClient::adopt(const Carried& run) {
  const std::string arn = arn_of(run);
  Response response = acting_.exchange(request("DescribeExecution", run.target, object{{"executionArn", arn}}));
  if (!response.is_ok()) return stepfunctions::outcome_of(response);
  auto execution = stepfunctions::read_execution(response.body);
  if (!execution || !stepfunctions::is_same_json(execution->input, run.input))
    return {Kind::refused, "Step Functions: there is an execution of this name with another input: " + arn};
  return {Kind::done, arn};
}

std::vector<Outcome> StepFunctionsClient::start(const std::vector<Carried>& runs) {
  std::vector<Request> requests;
  for (const Carried& run : runs)
    requests.push_back(
        request("StartExecution", run.target,
                object{{"stateMachineArn", run.target.state_machine}, {"name", run.run.str()}, {"input", run.input}}));
  auto responses = acting_.exchange(requests);
  std::vector<Outcome> out;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    std::string arn = responses[i].is_ok() ? stepfunctions::read_started(responses[i].body) : std::string();
    if (stepfunctions::error_of(responses[i]) == "ExecutionAlreadyExists")
      out.push_back(adopt(runs[i]));
    else if (responses[i].is_ok())
      out.push_back(arn.empty() ? Outcome{Kind::unreachable, "Step Functions took it and does not say as what"}
                                : Outcome{Kind::done, arn});
    else
      out.push_back(stepfunctions::outcome_of(responses[i]));
  }
  return out;
}

std::optional<std::string> StepFunctionsClient::find_target_problem(const Target& target) {
  Transport asking({.timeout = target_answer_limit, .access = options_.access});
  Response response =
      asking.exchange(request("DescribeStateMachine", target, object{{"stateMachineArn", target.state_machine}}));
  const std::string error = stepfunctions::error_of(response);
  if (error != "StateMachineDoesNotExist" && error != "InvalidArn") return std::nullopt;
  return fmt::format("Step Functions knows no state machine {}", target.state_machine);
}

std::vector<Outcome> StepFunctionsClient::stop(const std::vector<Carried>& runs) {
  std::vector<Request> requests;
  // One that was not known to be accepted may have been all the same.
  for (const Carried& run : runs)
    requests.push_back(request("StopExecution", run.target,
                               object{{"executionArn", arn_of(run)},
                                      {"error", "Canceled"},
                                      {"cause", fmt::format("{} has ended in pawl", run.run.str())}}));
  std::vector<Outcome> out;
  for (const Response& response : acting_.exchange(requests))
    out.push_back(stepfunctions::error_of(response) == "ExecutionDoesNotExist" ? Outcome{}
                                                                               : stepfunctions::outcome_of(response));
  return out;
}

std::vector<Outcome> StepFunctionsClient::tell(const std::vector<Decided>& decided) {
  std::vector<Request> requests;
  for (const Decided& each : decided) {
    if (each.status == ApprovalStatus::approved)
      requests.push_back(request("SendTaskSuccess", each.run.target,
                                 object{{"taskToken", each.callback.address}, {"output", decision_object(each)}}));
    else
      requests.push_back(
          request("SendTaskFailure", each.run.target,
                  object{{"taskToken", each.callback.address},
                         {"error", each.status == ApprovalStatus::expired ? "ApprovalExpired" : "ApprovalRejected"},
                         {"cause", refusal_text(each)}}));
  }
  std::vector<Outcome> out;
  for (const Response& response : acting_.exchange(requests)) out.push_back(stepfunctions::outcome_of(response));
  return out;
}

void StepFunctionsClient::watch(const Carried& run) {
  if (!watched_.try_emplace(run.run, Watched{.run = run, .history = {}, .pause = history_pause_min}).second) return;
  Machine& machine = machines_[run.target.state_machine];
  machine.runs.insert(run.run);
  machine.is_settled = false;
}

void StepFunctionsClient::forget(RunId run) {
  auto found = watched_.find(run);
  if (found == watched_.end()) return;
  auto machine = machines_.find(found->second.run.target.state_machine);
  machine->second.runs.erase(run);
  if (machine->second.runs.empty()) machines_.erase(machine);
  watched_.erase(found);
}

bool StepFunctionsClient::note_throttling(const Response& response, Look& look) {
  if (!stepfunctions::is_throttling(response)) return false;
  look.problem = stepfunctions::message_of(response);
  is_throttled_ = true;
  return true;
}

// Twice as long after each look that was too much, and a little shorter after each that was not: so it is asked about
// as often as it allows.
void StepFunctionsClient::keep_quiet() {
  if (is_throttled_)
    quiet_for_ = std::clamp<steady_clock::duration>(quiet_for_ * 2, quiet_min, quiet_max);
  else
    quiet_for_ = quiet_for_ < quiet_min / 4 ? steady_clock::duration() : quiet_for_ * 9 / 10;
  quiet_until_ = steady_clock::now() + quiet_for_;
}

Sighting StepFunctionsClient::running(const Watched& watched) const {
  return {.run = watched.run.run,
          .word = "RUNNING",
          .sign = watched.history.sign(),
          // After a restart it may take a while until each history is read.
          .is_partial = watched.history_read == steady_clock::time_point(),
          .retries = watched.history.retries(),
          .last_failure = watched.history.last_failure()};
}

void StepFunctionsClient::describe(std::vector<RunId> runs, Look& look) {
  // Of more than can be asked for, those come first that have waited longest.
  auto asked_before = [&](RunId run) { return watched_.at(run).described; };
  std::ranges::stable_sort(runs, {}, asked_before);
  if (runs.size() > described_a_look_max) runs.resize(described_a_look_max);
  std::vector<Request> requests;
  for (RunId run : runs) {
    Watched& watched = watched_.at(run);
    watched.described = looks_;
    requests.push_back(request("DescribeExecution", watched.run.target, object{{"executionArn", watched.run.id}}));
  }
  auto responses = looking_.exchange(requests);
  std::vector<std::pair<Watched*, stepfunctions::Execution>> ended;
  requests.clear();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Watched& watched = watched_.at(runs[i]);
    if (note_throttling(responses[i], look)) continue;
    if (stepfunctions::error_of(responses[i]) == "ExecutionDoesNotExist") {
      look.seen.push_back({.run = runs[i], .is_known = false});
      continue;
    }
    auto execution = responses[i].is_ok() ? stepfunctions::read_execution(responses[i].body) : std::nullopt;
    if (!execution) {
      look.problem =
          responses[i].is_ok() ? "Step Functions: an execution has no status" : stepfunctions::message_of(responses[i]);
      continue;
    }
    watched.is_running = execution->status == "RUNNING";
    if (watched.is_running) {
      look.seen.push_back(running(watched));
      continue;
    }
    if (!has_ended(execution->status)) {
      look.seen.push_back({.run = runs[i], .word = execution->status, .retries = watched.history.retries()});
      continue;
    }
    requests.push_back(history_request(watched));
    ended.emplace_back(&watched, std::move(*execution));
  }
  // For the retries since the last look; without them it has ended all the same.
  responses = looking_.exchange(requests);
  for (std::size_t i = 0; i < ended.size(); ++i) {
    auto& [watched, execution] = ended[i];
    read_history(*watched, std::move(responses[i]), look);
    look.seen.push_back({.run = watched->run.run,
                         .word = execution.status,
                         .retries = watched->history.retries(),
                         .output = execution.status == "SUCCEEDED" ? execution.output : JsonText(),
                         .failure = execution.failure});
  }
}

Request StepFunctionsClient::history_request(const Watched& watched, const std::string& token) const {
  object body{{"executionArn", watched.run.id}, {"reverseOrder", true}, {"maxResults", history_page}};
  if (!token.empty()) body["nextToken"] = token;
  return request("GetExecutionHistory", watched.run.target, body);
}

// Newest first, back to what is known already. False when it could not be read.
bool StepFunctionsClient::read_history(Watched& watched, Response response, Look& look) {
  const std::int64_t before = watched.history.last();
  std::vector<HistoryEvent> events;
  for (int pages = 1;; ++pages) {
    if (note_throttling(response, look)) return false;
    auto page = response.is_ok() ? stepfunctions::read_history_page(response.body) : std::nullopt;
    if (!page) {
      look.problem = response.is_ok() ? "Step Functions: a history is none" : stepfunctions::message_of(response);
      return false;
    }
    std::ranges::move(page->events, std::back_inserter(events));
    if (page->next.empty() || (!events.empty() && events.back().id <= before + 1)) break;
    if (pages == history_pages_max) {
      look.problem = "Step Functions: a history has no end";
      return false;
    }
    response = looking_.exchange(history_request(watched, page->next));
  }
  std::ranges::sort(events, {}, &HistoryEvent::id);
  for (const HistoryEvent& event : events) watched.history.add(event);
  return true;
}

void StepFunctionsClient::read_histories(Look& look) {
  const auto now = steady_clock::now();
  std::vector<Watched*> next;
  for (auto& [id, watched] : watched_)
    if (watched.is_running && now - watched.history_read >= history_pause_min) next.push_back(&watched);
  const std::size_t count = std::min(next.size(), histories_a_look_max);
  std::ranges::partial_sort(next, next.begin() + static_cast<std::ptrdiff_t>(count), {}, &Watched::history_due);
  next.resize(count);
  std::vector<Request> requests;
  for (const Watched* watched : next) requests.push_back(history_request(*watched));
  auto responses = looking_.exchange(requests);
  std::unordered_map<RunId, Sighting> read;
  for (std::size_t i = 0; i < next.size(); ++i) {
    Watched& watched = *next[i];
    const std::int64_t before = watched.history.last();
    if (!read_history(watched, std::move(responses[i]), look)) continue;
    const bool has_moved = watched.history.last() != before;
    watched.pause =
        has_moved ? history_pause_min : std::min<steady_clock::duration>(watched.pause * 2, history_pause_max);
    watched.history_read = now;
    watched.history_due = now + watched.pause;
    read.emplace(watched.run.run, running(watched));
  }
  // What was said of them before their histories were read is older.
  std::erase_if(look.seen, [&](const Sighting& each) { return read.contains(each.run); });
  for (auto& [run, sighting] : read) look.seen.push_back(std::move(sighting));
}

void StepFunctionsClient::look_by_list(const std::string& arn, Machine& machine, std::vector<RunId>& to_describe,
                                       Look& look) {
  const Target target{.state_machine = arn};
  auto ask = [&](const std::vector<std::string>& tokens) {
    std::vector<Request> requests;
    for (const std::string& token : tokens) {
      object body{{"stateMachineArn", arn}, {"statusFilter", "RUNNING"}, {"maxResults", list_page}};
      if (!token.empty()) body["nextToken"] = token;
      requests.push_back(request("ListExecutions", target, body));
    }
    return looking_.exchange(requests);
  };
  Response problem;
  switch (machine.list.read(ask, problem)) {
    case stepfunctions::RunningList::Read::done:
      break;
    case stepfunctions::RunningList::Read::failed:
      if (!note_throttling(problem, look))
        look.problem =
            problem.is_ok() ? "Step Functions: a list of executions is none" : stepfunctions::message_of(problem);
      return;
    // A state machine that was deleted has no lists, and nobody reads one of a million.
    case stepfunctions::RunningList::Read::refused:
    case stepfunctions::RunningList::Read::endless:
      to_describe.insert(to_describe.end(), machine.runs.begin(), machine.runs.end());
      return;
  }
  if (!machine.list.has_changed() && machine.is_settled) return;
  const auto listed = machine.list.executions();
  machine.is_settled = true;
  for (RunId run : machine.runs) {
    Watched& watched = watched_.at(run);
    if (listed.contains(watched.run.id)) {
      if (!std::exchange(watched.is_running, true)) look.seen.push_back(running(watched));
    } else {
      machine.is_settled = false;
      to_describe.push_back(run);
    }
  }
}

Look StepFunctionsClient::look() {
  Look out;
  if (watched_.empty()) return out;
  if (steady_clock::now() < quiet_until_) {
    if (is_throttled_) out.problem = "Step Functions wants to be asked less often";
    return out;
  }
  ++looks_;
  is_throttled_ = false;
  std::vector<RunId> to_describe;
  for (auto& [arn, machine] : machines_) {
    // By themselves where that takes no more requests than the list would.
    if (machine.runs.size() <= std::max(described_max, machine.list.pages()))
      to_describe.insert(to_describe.end(), machine.runs.begin(), machine.runs.end());
    else
      look_by_list(arn, machine, to_describe, out);
  }
  describe(std::move(to_describe), out);
  if (out.problem.empty()) read_histories(out);
  keep_quiet();
  return out;
}

}  // namespace pawl::providers
