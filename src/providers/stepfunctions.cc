#include "providers/stepfunctions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <functional>
#include <unordered_set>

namespace pawl::providers {
namespace {

using boost::json::object;
using Kind = Outcome::Kind;
using std::chrono::steady_clock;

// Below this many of one state machine each is asked for by itself: as many requests, and exact.
constexpr std::size_t described_max = 10;
constexpr std::size_t described_a_look_max = 100;
constexpr std::size_t histories_a_look_max = 5;
constexpr int history_page = 100;
constexpr int list_page = 1000;
constexpr auto history_pause_min = std::chrono::milliseconds(900);
constexpr auto history_pause_max = std::chrono::minutes(1);
constexpr auto quiet_min = std::chrono::seconds(1);
constexpr auto quiet_max = std::chrono::seconds(30);

constexpr std::array throttlings{std::string_view("ThrottlingException"), std::string_view("Throttling"),
                                 std::string_view("TooManyRequestsException"),
                                 std::string_view("RequestLimitExceeded")};
// Not now, but perhaps later.
constexpr std::array passing{std::string_view("ExecutionLimitExceeded"), std::string_view("KmsThrottlingException"),
                             std::string_view("ServiceUnavailable"), std::string_view("InternalFailure"),
                             std::string_view("RequestExpired")};

bool is_one_of(std::string_view name, const auto& names) { return std::ranges::find(names, name) != names.end(); }

std::string text_in(const object& in, std::string_view key) {
  const Json* value = in.if_contains(key);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}

std::optional<object> object_of(const Response& response) {
  auto value = parse_json(response.body);
  return value && value->is_object() ? std::optional(std::move(value->get_object())) : std::nullopt;
}

// "com.amazonaws.states#ExecutionDoesNotExist:http://..." is ExecutionDoesNotExist.
std::string error_of(const Response& response) {
  if (response.is_ok()) return {};
  auto body = object_of(response);
  std::string type = body ? text_in(*body, "__type") : std::string();
  if (auto hash = type.find('#'); hash != type.npos) type.erase(0, hash + 1);
  return type.substr(0, type.find(':'));
}

std::string message_of(const Response& response) {
  if (response.status == 0) return "Step Functions: " + response.problem;
  auto body = object_of(response);
  std::string said = body ? text_in(*body, "message") : std::string();
  if (said.empty() && body) said = text_in(*body, "Message");
  return fmt::format("Step Functions: {} {}{}{}", response.status, error_of(response), said.empty() ? "" : ": ", said);
}

bool may_be_asked_again(const Response& response) {
  const std::string error = error_of(response);
  return response.status == 0 || response.status >= 500 || response.status == 429 || is_one_of(error, throttlings) ||
         is_one_of(error, passing);
}

Outcome outcome_of(const Response& response) {
  if (response.is_ok()) return {};
  return {may_be_asked_again(response) ? Kind::unreachable : Kind::refused, message_of(response)};
}

// A string that holds JSON, as they come.
JsonText output_of(const object& body) {
  std::string text = text_in(body, "output");
  return text.size() <= foreign_output_bytes_max && parse_json(text) ? text : "null";
}

bool same_json(const std::string& a, const std::string& b) {
  auto one = parse_json(a), other = parse_json(b);
  return one && other && canonical(*one) == canonical(*other);
}

// Which member holds the details depends on the type: taskFailedEventDetails, activityTimedOutEventDetails.
std::string failure_of(const object& event) {
  for (const auto& [key, value] : event) {
    if (!value.is_object() || (!key.ends_with("FailedEventDetails") && !key.ends_with("TimedOutEventDetails")))
      continue;
    const std::string error = text_in(value.get_object(), "error"), cause = text_in(value.get_object(), "cause");
    return error + (error.empty() || cause.empty() ? "" : ": ") + cause;
  }
  return {};
}

// Of the execution that a run has, or would have.
std::string arn_of(const Carried& run) {
  const auto machine = find_state_machine(run.target.state_machine);
  if (!run.id.empty() || !machine) return run.id;
  return fmt::format("arn:{}:states:{}:{}:execution:{}:{}", machine->partition, machine->region, machine->account,
                     machine->name, run.run.str());
}

std::int64_t number_in(const object& in, std::string_view key) {
  const Json* value = in.if_contains(key);
  return value && value->is_int64() ? value->get_int64() : 0;
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
Outcome StepFunctionsClient::adopt(const Carried& run, const std::string& said) {
  const auto first = said.find('\''), last = said.rfind('\'');
  const std::string arn = first != last ? said.substr(first + 1, last - first - 1) : arn_of(run);
  Response response = acting_.exchange(request("DescribeExecution", run.target, object{{"executionArn", arn}}));
  if (!response.is_ok()) return outcome_of(response);
  auto body = object_of(response);
  if (!body || !same_json(text_in(*body, "input"), run.input))
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
    auto body = object_of(responses[i]);
    std::string arn = responses[i].is_ok() && body ? text_in(*body, "executionArn") : std::string();
    if (error_of(responses[i]) == "ExecutionAlreadyExists")
      out.push_back(adopt(runs[i], message_of(responses[i])));
    else if (responses[i].is_ok())
      out.push_back(arn.empty() ? Outcome{Kind::unreachable, "Step Functions took it and does not say as what"}
                                : Outcome{Kind::done, arn});
    else
      out.push_back(outcome_of(responses[i]));
  }
  return out;
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
    out.push_back(error_of(response) == "ExecutionDoesNotExist" ? Outcome{} : outcome_of(response));
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
  for (const Response& response : acting_.exchange(requests)) out.push_back(outcome_of(response));
  return out;
}

void StepFunctionsClient::watch(const Carried& run) {
  if (!watched_
           .try_emplace(run.run, Watched{.run = run, .next_history = steady_clock::now(), .pause = history_pause_min})
           .second)
    return;
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

bool StepFunctionsClient::is_throttled(const Response& response, Look& look) {
  if (!is_one_of(error_of(response), throttlings) && response.status != 429) return false;
  look.problem = message_of(response);
  quiet_for_ = std::clamp<steady_clock::duration>(quiet_for_ * 2, quiet_min, quiet_max);
  quiet_until_ = steady_clock::now() + quiet_for_;
  return true;
}

bool StepFunctionsClient::list_running(const std::string& machine_arn, Machine& machine, bool& is_same, Look& look) {
  is_same = true;
  machine.is_refused = false;
  const Target target{.state_machine = machine_arn};
  std::string token;
  for (std::size_t at = 0;; ++at) {
    object body{{"stateMachineArn", machine_arn}, {"statusFilter", "RUNNING"}, {"maxResults", list_page}};
    if (!token.empty()) body["nextToken"] = token;
    Response response = looking_.exchange(request("ListExecutions", target, body));
    if (is_throttled(response, look)) return false;
    if (machine.pages.size() <= at) machine.pages.resize(at + 1);
    Machine::Page& page = machine.pages[at];
    const std::size_t hash = std::hash<std::string>{}(response.body);
    if (!response.is_ok() || page.hash != hash || page.bytes != response.body.size()) {
      auto answer = response.is_ok() ? object_of(response) : std::nullopt;
      const Json* executions = answer ? answer->if_contains("executions") : nullptr;
      if (!executions || !executions->is_array()) {
        machine.is_refused = !response.is_ok() && !may_be_asked_again(response);
        if (!machine.is_refused)
          look.problem = response.is_ok() ? "Step Functions: a list of executions is none" : message_of(response);
        return false;
      }
      is_same = false;
      page = {.hash = hash, .bytes = response.body.size(), .next = text_in(*answer, "nextToken"), .executions = {}};
      for (const Json& each : executions->get_array())
        if (each.is_object()) page.executions.push_back(text_in(each.get_object(), "executionArn"));
    }
    token = page.next;
    if (!token.empty()) continue;
    is_same = is_same && machine.pages.size() == at + 1;
    machine.pages.resize(at + 1);
    return true;
  }
}

Sighting StepFunctionsClient::running(const Watched& watched) const {
  return {.run = watched.run.run,
          .word = "RUNNING",
          .sign = watched.history.sign(),
          .retries = watched.history.retries(),
          .last_failure = watched.history.last_failure()};
}

void StepFunctionsClient::describe(const std::vector<RunId>& runs, Look& look) {
  std::vector<Request> requests;
  for (RunId run : runs) {
    const Carried& carried = watched_.at(run).run;
    requests.push_back(request("DescribeExecution", carried.target, object{{"executionArn", carried.id}}));
  }
  auto responses = looking_.exchange(requests);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Watched& watched = watched_.at(runs[i]);
    if (is_throttled(responses[i], look)) return;
    if (error_of(responses[i]) == "ExecutionDoesNotExist") {
      look.seen.push_back({.run = runs[i], .is_known = false});
      continue;
    }
    auto body = responses[i].is_ok() ? object_of(responses[i]) : std::nullopt;
    const std::string status = body ? text_in(*body, "status") : std::string();
    if (status.empty()) {
      look.problem = responses[i].is_ok() ? "Step Functions: an execution has no status" : message_of(responses[i]);
      continue;
    }
    watched.is_running = status == "RUNNING";
    if (watched.is_running) {
      look.seen.push_back(running(watched));
      continue;
    }
    read_history(watched, looking_.exchange(history_request(watched)),
                 look);  // for the retries since the last look; without them it has ended all the same
    const std::string error = text_in(*body, "error"), cause = text_in(*body, "cause");
    look.seen.push_back({.run = runs[i],
                         .word = status,
                         .retries = watched.history.retries(),
                         .output = status == "SUCCEEDED" ? output_of(*body) : JsonText(),
                         .failure = error + (error.empty() || cause.empty() ? "" : ": ") + cause});
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
  while (true) {
    if (is_throttled(response, look)) return false;
    auto answer = response.is_ok() ? object_of(response) : std::nullopt;
    const Json* found = answer ? answer->if_contains("events") : nullptr;
    if (!found || !found->is_array()) {
      look.problem = response.is_ok() ? "Step Functions: a history is none" : message_of(response);
      return false;
    }
    for (const Json& each : found->get_array()) {
      if (!each.is_object()) continue;
      const object& event = each.get_object();
      events.push_back(
          {number_in(event, "id"), number_in(event, "previousEventId"), text_in(event, "type"), failure_of(event)});
    }
    const std::string token = text_in(*answer, "nextToken");
    if (token.empty() || (!events.empty() && events.back().id <= before + 1)) break;
    response = looking_.exchange(history_request(watched, token));
  }
  std::ranges::sort(events, {}, &HistoryEvent::id);
  for (const HistoryEvent& event : events) watched.history.add(event);
  return true;
}

void StepFunctionsClient::read_histories(Look& look) {
  const auto now = steady_clock::now();
  std::vector<Watched*> due;
  for (auto& [id, watched] : watched_)
    if (watched.is_running && watched.next_history <= now) due.push_back(&watched);
  const std::size_t count = std::min(due.size(), histories_a_look_max);
  std::partial_sort(due.begin(), due.begin() + static_cast<std::ptrdiff_t>(count), due.end(),
                    [](const Watched* a, const Watched* b) {
                      return std::pair(a->pause, a->next_history) < std::pair(b->pause, b->next_history);
                    });
  due.resize(count);
  std::vector<Request> requests;
  for (const Watched* watched : due) requests.push_back(history_request(*watched));
  auto responses = looking_.exchange(requests);
  for (std::size_t i = 0; i < due.size(); ++i) {
    Watched* watched = due[i];
    const std::int64_t before = watched->history.last();
    if (!read_history(*watched, std::move(responses[i]), look)) return;
    const bool has_moved = watched->history.last() != before;
    watched->pause =
        has_moved ? history_pause_min : std::min<steady_clock::duration>(watched->pause * 2, history_pause_max);
    watched->next_history = now + watched->pause;
    std::erase_if(look.seen, [&](const Sighting& each) { return each.run == watched->run.run; });
    look.seen.push_back(running(*watched));
  }
}

Look StepFunctionsClient::look() {
  Look out;
  if (watched_.empty()) return out;
  if (steady_clock::now() < quiet_until_) {
    out.problem = "Step Functions wants to be asked less often";
    return out;
  }
  std::vector<RunId> to_describe;
  for (auto& [arn, machine] : machines_) {
    if (machine.runs.size() <= described_max) {
      to_describe.insert(to_describe.end(), machine.runs.begin(), machine.runs.end());
      continue;
    }
    bool is_same = true;
    if (!list_running(arn, machine, is_same, out)) {
      // Of a state machine that was deleted no lists are to be had.
      if (machine.is_refused) to_describe.insert(to_describe.end(), machine.runs.begin(), machine.runs.end());
      continue;
    }
    if (is_same && machine.is_settled) continue;
    std::unordered_set<std::string_view> listed;
    for (const Machine::Page& page : machine.pages) listed.insert(page.executions.begin(), page.executions.end());
    machine.is_settled = true;
    for (RunId run : machine.runs) {
      Watched& watched = watched_.at(run);
      if (listed.contains(watched.run.id)) {
        if (!std::exchange(watched.is_running, true)) out.seen.push_back(running(watched));
      } else {
        machine.is_settled = false;
        to_describe.push_back(run);
      }
    }
  }
  if (to_describe.size() > described_a_look_max) to_describe.resize(described_a_look_max);
  describe(to_describe, out);
  if (out.problem.empty()) read_histories(out);
  if (out.problem.empty()) quiet_for_ = {};
  return out;
}

}  // namespace pawl::providers
