#include "providers/restate.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "core/time.h"
#include "providers/restate_answers.h"

namespace pawl::providers {

namespace {

using boost::json::object;
using Kind = Outcome::Kind;

// How far Restate's clock may be behind this one, for its first changes to be seen at once.
constexpr Duration clocks_apart_max = std::chrono::minutes(10);
constexpr std::size_t ids_a_query_max = 500;
constexpr std::size_t ids_a_look_min = 50;
constexpr std::size_t looks_a_round = 60;
constexpr std::size_t killed_a_look_max = 200;

// Queries take no parameters, so what stands in one is quoted by hand.
std::string sql_text(std::string_view text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

}  // namespace

RestateClient::RestateClient(RestateOptions options, const Clock& clock)
    : options_(std::move(options)),
      clock_(clock),
      acting_({}),
      looking_({}),
      modified_(print_time(clock.now() - clocks_apart_max)) {}

Request RestateClient::request(std::string method, std::string url, std::string body) const {
  Request out{.method = std::move(method), .url = std::move(url), .body = std::move(body)};
  out.headers = {"content-type: application/json", "accept: application/json"};
  if (!options_.token.empty()) out.headers.push_back("authorization: Bearer " + options_.token);
  return out;
}

std::map<std::string, Outcome> RestateClient::find_kinds(const std::set<std::string>& services) {
  std::vector<std::string> asked;
  std::vector<Request> requests;
  for (const std::string& service : services) {
    if (kinds_.contains(service)) continue;
    asked.push_back(service);
    requests.push_back(request("GET", options_.admin + "/services/" + escaped(service)));
  }
  std::map<std::string, Outcome> problems;
  auto responses = acting_.exchange(requests);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    const std::string kind = responses[i].is_ok() ? restate::read_text(responses[i].body, "ty") : std::string();
    if (kind.empty())
      problems[asked[i]] = responses[i].is_ok()
                               ? Outcome{Kind::unreachable, "Restate does not say what " + asked[i] + " is"}
                               : restate::outcome_of(responses[i]);
    else
      kinds_[asked[i]] = kind == "Workflow"        ? Service::workflow
                         : kind == "VirtualObject" ? Service::object
                                                   : Service::plain;
  }
  return problems;
}

// The target's part of an address, without the handler.
std::expected<std::string, Outcome> RestateClient::path_of(const Carried& run) const {
  const auto kind = kinds_.at(run.target.service);
  std::string key = run.key;
  if (key.empty() && kind == Service::workflow) key = run.run.str();
  if (key.empty() && kind == Service::object)
    return std::unexpected(Outcome{Outcome::Kind::refused,
                                   run.target.service + " is a virtual object: its `target` needs a `key`, such as "
                                                        "`key: ${{ input.order }}`"});
  if (!run.key.empty() && kind == Service::plain)
    return std::unexpected(
        Outcome{Outcome::Kind::refused, run.target.service + " is a service, and has no keys: remove `key`"});
  return escaped(run.target.service) + (key.empty() ? "" : "/" + escaped(key));
}

std::vector<Outcome> RestateClient::start(const std::vector<Carried>& runs) {
  std::set<std::string> services;
  for (const Carried& run : runs) services.insert(run.target.service);
  auto problems = find_kinds(services);
  std::vector<Outcome> out(runs.size());
  std::vector<std::size_t> asked;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Carried& run = runs[i];
    if (auto problem = problems.find(run.target.service); problem != problems.end()) {
      out[i] = problem->second;
      continue;
    }
    auto path = path_of(run);
    if (!path) {
      out[i] = path.error();
      continue;
    }
    Request one = request(
        "POST", fmt::format("{}/restate/send/{}/{}", options_.ingress, *path, escaped(run.target.handler)), run.input);
    one.headers.push_back("x-pawl-run: " + run.run.str());
    // A workflow runs once a key, and takes no other.
    if (kinds_.at(run.target.service) != Service::workflow) one.headers.push_back("idempotency-key: " + run.run.str());
    requests.push_back(std::move(one));
    asked.push_back(i);
  }
  auto responses = acting_.exchange(requests);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    std::string id = responses[i].is_ok() ? restate::read_text(responses[i].body, "invocationId") : std::string();
    out[asked[i]] = responses[i].is_ok() && !restate::is_id(id)
                        ? Outcome{Kind::unreachable, "Restate took it and does not say as what"}
                        : restate::outcome_of(responses[i], id);
    // It may have been deployed anew, as something else.
    if (out[asked[i]].kind == Kind::refused) kinds_.erase(runs[asked[i]].target.service);
  }
  return out;
}

std::optional<std::string> RestateClient::find_target_problem(const Target& target) {
  Transport asking({.timeout = target_answer_limit});
  const std::string service = options_.admin + "/services/" + escaped(target.service);
  Response response = asking.exchange(request("GET", service));
  if (response.status == 404)
    return fmt::format("Restate knows no service {}; register its deployment first", target.service);
  if (!response.is_ok()) return std::nullopt;
  response = asking.exchange(request("GET", service + "/handlers/" + escaped(target.handler)));
  if (response.status == 404) return fmt::format("the service {} has no handler {}", target.service, target.handler);
  return std::nullopt;
}

// One that was not known to be accepted may have been all the same: Restate tells which id it has, or would have.
std::vector<std::string> RestateClient::find_ids(const std::vector<Carried>& runs, std::vector<Outcome>& outcomes) {
  std::set<std::string> services;
  for (const Carried& run : runs)
    if (run.id.empty()) services.insert(run.target.service);
  auto problems = find_kinds(services);
  std::vector<std::string> out;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Carried& run = runs[i];
    out.push_back(run.id);
    if (!run.id.empty()) continue;
    if (auto problem = problems.find(run.target.service); problem != problems.end()) {
      // No such service: then it was not accepted.
      if (problem->second.kind == Kind::unreachable) outcomes[i] = problem->second;
      continue;
    }
    const bool is_workflow = kinds_.at(run.target.service) == Service::workflow;
    object target{{"target", is_workflow ? "workflow" : "idempotentInvocation"}};
    if (is_workflow) {
      target["workflowName"] = run.target.service;
      target["workflowKey"] = run.key.empty() ? run.run.str() : run.key;
    } else {
      target["service"] = run.target.service;
      target["handler"] = run.target.handler;
      target["idempotencyKey"] = run.run.str();
      if (!run.key.empty()) target["key"] = run.key;
    }
    Response response =
        acting_.exchange(request("POST", options_.ingress + "/restate/lookup", boost::json::serialize(target)));
    if (response.is_ok()) out.back() = restate::read_text(response.body, "invocationId");
    if (restate::may_be_asked_again(response)) outcomes[i] = restate::outcome_of(response);
  }
  return out;
}

std::vector<Outcome> RestateClient::stop(const std::vector<Carried>& runs) {
  std::vector<Outcome> out(runs.size());
  const std::vector<std::string> ids = find_ids(runs, out);
  std::vector<std::size_t> asked;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!restate::is_id(ids[i])) continue;
    requests.push_back(request("PATCH", fmt::format("{}/invocations/{}/cancel", options_.admin, ids[i])));
    asked.push_back(i);
  }
  auto responses = acting_.exchange(requests);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    // Gone, or over already.
    bool is_over = responses[i].status == 404 || responses[i].status == 409;
    out[asked[i]] = is_over ? Outcome{} : restate::outcome_of(responses[i]);
    if (!responses[i].is_ok()) continue;
    std::lock_guard lock(mutex_);
    to_kill_.emplace(runs[asked[i]].ended_at + options_.kill_after, ids[asked[i]]);
  }
  return out;
}

std::vector<Outcome> RestateClient::tell(const std::vector<Decided>& decided) {
  std::set<std::string> services;
  for (const Decided& each : decided) services.insert(each.run.target.service);
  auto problems = find_kinds(services);
  std::vector<Outcome> out(decided.size());
  std::vector<std::size_t> asked;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < decided.size(); ++i) {
    const Decided& each = decided[i];
    const bool approved = each.status == ApprovalStatus::approved;
    if (each.callback.kind == CallbackKind::awakeable) {
      Request one = request("POST",
                            fmt::format("{}/restate/awakeables/{}/{}", options_.ingress, escaped(each.callback.address),
                                        approved ? "resolve" : "reject"),
                            approved ? decision_object(each) : refusal_text(each));
      if (!approved) one.headers[0] = "content-type: text/plain";
      requests.push_back(std::move(one));
    } else {
      if (auto problem = problems.find(each.run.target.service); problem != problems.end()) {
        out[i] = problem->second;
        continue;
      }
      auto path = path_of(each.run);
      if (!path) {
        out[i] = path.error();
        continue;
      }
      Request one =
          request("POST", fmt::format("{}/restate/send/{}/{}", options_.ingress, *path, escaped(each.callback.address)),
                  decision_object(each));
      one.headers.push_back("idempotency-key: " + each.approval.str());
      requests.push_back(std::move(one));
    }
    asked.push_back(i);
  }
  auto responses = acting_.exchange(requests);
  for (std::size_t i = 0; i < asked.size(); ++i) out[asked[i]] = restate::outcome_of(responses[i]);
  return out;
}

void RestateClient::watch(const Carried& run) {
  if (!restate::is_id(run.id) || !watched_.try_emplace(run.id, Watched{run.run, run.target.service}).second) return;
  ids_[run.run] = run.id;
  fresh_.insert(run.id);
  ++services_[run.target.service];
}

void RestateClient::forget(RunId run) {
  auto found = ids_.find(run);
  if (found == ids_.end()) return;
  auto watched = watched_.find(found->second);
  if (auto service = services_.find(watched->second.service); --service->second == 0) services_.erase(service);
  fresh_.erase(found->second);
  watched_.erase(watched);
  ids_.erase(found);
}

// Those to ask for by their ids in this look: the new ones, and the next few of all.
std::vector<std::string> RestateClient::next_ids() {
  std::vector<std::string> out;
  for (auto it = fresh_.begin(); it != fresh_.end() && out.size() < ids_a_query_max; it = fresh_.erase(it))
    out.push_back(*it);
  if (round_.empty())
    for (const auto& [id, watched] : watched_) round_.push_back(id);
  for (std::size_t left = std::max(ids_a_look_min, watched_.size() / looks_a_round + 1);
       left > 0 && !round_.empty() && out.size() < ids_a_query_max; round_.pop_front())
    if (watched_.contains(round_.front())) {
      out.push_back(std::move(round_.front()));
      --left;
    }
  return out;
}

// What is retried changes without being modified, so all of that is asked for.
std::string RestateClient::changes_query() const {
  std::string services;
  for (const auto& [service, runs] : services_) services += (services.empty() ? "" : ", ") + sql_text(service);
  return fmt::format(
      "select {} from sys_invocation where target_service_name in ({}) and (modified_at >= TIMESTAMP {} or "
      "next_retry_at is "
      "not null or last_failure is not null)",
      restate::columns, services, sql_text(modified_));
}

void RestateClient::take_rows(const Response& response, const std::vector<std::string>& asked_for, Look& look,
                              std::set<std::string>& seen) {
  auto rows = response.is_ok() ? restate::read_rows(response.body) : std::nullopt;
  if (!rows) {
    look.problem =
        "Restate: " + (response.is_ok() ? std::string("the answer to a query is none") : restate::message_of(response));
    fresh_.insert(asked_for.begin(), asked_for.end());
    return;
  }
  for (restate::Invocation& row : *rows) {
    auto watched = watched_.find(row.id);
    if (row.modified_at > modified_ && asked_for.empty()) modified_ = row.modified_at;
    if (watched == watched_.end() || !seen.insert(row.id).second) continue;
    row.sighting.run = watched->second.run;
    look.seen.push_back(std::move(row.sighting));
  }
  for (const std::string& id : asked_for)
    if (!seen.contains(id))
      if (auto watched = watched_.find(id); watched != watched_.end())
        look.seen.push_back({.run = watched->second.run, .is_known = false});
}

void RestateClient::fetch_outputs(Look& look) {
  std::vector<std::size_t> asked;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < look.seen.size(); ++i) {
    if (look.seen[i].word != "completed") continue;
    requests.push_back(
        request("GET", fmt::format("{}/restate/output/{}", options_.ingress, ids_.at(look.seen[i].run))));
    asked.push_back(i);
  }
  auto responses = looking_.exchange(requests);
  std::set<RunId> later;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    Sighting& sighting = look.seen[asked[i]];
    // It has succeeded, and the output is asked for once more before anybody hears of that.
    if (restate::may_be_asked_again(responses[i]) || responses[i].status == 470) {
      look.problem = "Restate: " + restate::message_of(responses[i]);
      fresh_.insert(ids_.at(sighting.run));
      later.insert(sighting.run);
    } else {
      sighting.output = responses[i].is_ok() ? restate::read_output(responses[i].body) : "null";
    }
  }
  std::erase_if(look.seen, [&](const Sighting& each) { return later.contains(each.run); });
}

void RestateClient::kill_due() {
  std::vector<std::pair<Instant, std::string>> due;
  {
    std::lock_guard lock(mutex_);
    const Instant now = clock_.now();
    for (auto it = to_kill_.begin(); it != to_kill_.end() && it->first <= now && due.size() < killed_a_look_max; ++it)
      due.push_back(*it);
  }
  std::vector<Request> requests;
  for (const auto& [at, id] : due)
    requests.push_back(request("PATCH", fmt::format("{}/invocations/{}/kill", options_.admin, id)));
  auto responses = looking_.exchange(requests);
  std::lock_guard lock(mutex_);
  // What has ended by now says so, and that is all.
  for (std::size_t i = 0; i < due.size(); ++i)
    if (!restate::may_be_asked_again(responses[i])) to_kill_.erase(due[i]);
}

Look RestateClient::look() {
  kill_due();
  Look out;
  if (watched_.empty()) return out;
  const std::vector<std::string> ids = next_ids();
  std::string listed;
  for (const std::string& id : ids) listed += (listed.empty() ? "" : ", ") + sql_text(id);
  auto ask = [&](const std::string& sql) {
    return request("POST", options_.admin + "/query", boost::json::serialize(object{{"query", sql}}));
  };
  std::vector<Request> requests{ask(changes_query())};
  if (!ids.empty())
    requests.push_back(ask(fmt::format("select {} from sys_invocation where id in ({})", restate::columns, listed)));
  auto responses = looking_.exchange(requests);
  std::set<std::string> seen;
  // Where both speak of a run, either may be a moment older; what is new in the other one is seen again by the next
  // look.
  if (responses.size() > 1) take_rows(responses[1], ids, out, seen);
  take_rows(responses[0], {}, out, seen);
  fetch_outputs(out);
  return out;
}

}  // namespace pawl::providers
