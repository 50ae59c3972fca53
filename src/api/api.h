// The routes: from a request to engine commands and back. Knows tenants, keys and JSON; knows no sockets.
//
//   head -> route by method and path -> key -> role -> limits of the tenant -> body -> the route's function -> response
//
// Who asks is known from the head; the body of one who may not ask is not read.
// A route's function runs on a thread of the server and must not block: it posts to the engine, whose answer comes back
// on the engine's writer thread, and leaves what takes time (tables, long answers) to the background threads.
#pragma once

#include <atomic>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/away_watch.h"
#include "api/background.h"
#include "api/directory.h"
#include "api/feed.h"
#include "api/keys.h"
#include "api/log_waits.h"
#include "api/metrics.h"
#include "api/open_requests.h"
#include "api/problem.h"
#include "api/request_input.h"
#include "api/run_waits.h"
#include "api/tenant_use.h"
#include "api/worker_registry.h"
#include "core/run_object.h"
#include "core/run_wait.h"
#include "engine/gatekeeper.h"
#include "engine/runtime.h"
#include "http/message.h"
#include "log/log.h"
#include "notify/notify_context.h"
#include "tools/run_logs.h"

namespace pawl {
class Notary;
class RunLogs;
}  // namespace pawl

namespace pawl::api {

class Api;
struct Route;

// One request on its way through a route.
struct Call {
  Api& api;
  Request request;
  Principal who;
  std::vector<std::string> path;  // the values of the pattern's {names}, decoded
  Query query;
  Responder respond;
  const Route& route;
  OpenRequests::Ticket open = {};  // of one that waits
  bool waits = false;              // for a run to end; see RouteKind::waits
  AwayWatch::Ticket watched = {};  // with a database that may be away
  // Only the first answer counts: what ends a request that waits may come at the same time as what it waits for.
  std::atomic<bool> is_answered = false;

  void answer(int status, const Json& body, Headers headers = {});
  void answer(const Problem& problem) { respond(to_response(problem)); }
  Vocabulary vocabulary() const;
};
using CallPtr = std::shared_ptr<Call>;

enum class Access { open, metrics, viewer, worker, approver, operator_, admin };

enum class RouteKind {
  usual,
  waits,     // for something to happen, as long as its caller likes: being slow is no fault of it
  heavy,     // takes long to work out: done by threads of its own, few at a time for one tenant
  callback,  // without a key: its body shows who sends it, and is small
};

struct Route {
  Method method;
  std::string_view pattern;  // /runs/{id}/approve
  Access access;
  void (*handle)(CallPtr call);
  std::string_view summary;
  RouteKind kind = RouteKind::usual;
};

// Every route of this server, by resource; routes_*.cc each bring theirs.
std::vector<Route> all_routes();
std::vector<Route> run_routes();
std::vector<Route> task_routes();
std::vector<Route> workflow_routes();
std::vector<Route> policy_routes();
std::vector<Route> webhook_routes();
std::vector<Route> slack_routes();
std::vector<Route> approval_routes();
std::vector<Route> lease_routes();
std::vector<Route> worker_routes();
std::vector<Route> action_routes();
std::vector<Route> receipt_routes();
std::vector<Route> people_routes();
std::vector<Route> tenant_routes();
std::vector<Route> installation_routes();
std::vector<Route> feed_routes();
std::vector<Route> operation_routes();
std::vector<Route> evidence_routes();
std::vector<Route> log_routes();
std::vector<Route> mcp_routes();

// The tools that this process executes itself.
struct LocalWorker {
  WorkerName name;
  std::vector<ToolName> tools;  // none: it executes none
  Instant since;
};

struct ApiOptions {
  // Requests that wait for the engine; past it, new ones are answered 503 with Retry-After, except workers' reports and
  // heartbeats: refusing those would only make more work. A connection has one request at a time, so this means
  // something only below the server's connections_max; the rest of those is for workers. One tenant may have three
  // times as many as are free: past that it is answered 429.
  std::size_t in_flight_max = 3072;
  OpenRequests::Limits open_requests = {};
  bool access_log = false;
  // Bodies up to this size are read where they arrive; see Api::large_bodies_.
  std::size_t body_bytes_small = 64 << 10;
  std::size_t body_bytes_large = 1 << 20;
  LocalWorker local_worker = {};
};

class Api final : public Handler {
 public:
  // What the routes work with; all of it outlives the Api.
  struct Parts {
    Runtime& runtime;
    Store& store;
    KeyRing& keys;
    Directory& tenants;
    Feed& feed;
    Metrics& metrics;
    const Clock& clock;
    Log& log;
    Notary& notary;
    const notify::NotifyContext& notify_context;
    const RunLogs& logs;
    // Why whoever executes runs of this workflow could never start one; nothing when that is not known. May take long.
    std::function<std::optional<std::string>(const Workflow&)> find_target_problem = {};
  };
  explicit Api(Parts parts, ApiOptions options = {});

  Admission admit(const Request& head) override;
  void handle(Request request, Responder respond) override;
  // What POST /mcp says to one message that is sent with this key, as a line; empty when it says nothing. Blocks; not
  // from a thread that answers requests.
  std::string speak_mcp(const std::string& key, const std::string& line);
  Response refuse(int status, std::string_view code, std::string_view detail) override;

  Runtime& runtime() { return parts_.runtime; }
  Gatekeeper& gatekeeper() { return gatekeeper_; }
  Store& store() { return parts_.store; }
  KeyRing& keys() { return parts_.keys; }
  Directory& tenants() { return parts_.tenants; }
  Feed& feed() { return parts_.feed; }
  Metrics& metrics() { return parts_.metrics; }
  const Clock& clock() const { return parts_.clock; }
  // For the answers to what is done already.
  Background& answers() { return answers_; }
  // For what is still to be worked out; see in_background().
  Background& pool_of(const Route& route);
  OpenRequests& open_requests() { return open_requests_; }
  std::optional<std::int64_t> limit_of(TenantId tenant, Limit limit) const;
  const notify::NotifyContext& notify_context() const { return parts_.notify_context; }
  // Only from background threads.
  std::optional<std::string> find_target_problem(const Workflow& workflow) const {
    return parts_.find_target_problem ? parts_.find_target_problem(workflow) : std::nullopt;
  }
  // For what Slack is told after it was answered: it may take its time.
  Background& slack_replies() { return slack_replies_; }
  Log& log() { return parts_.log; }
  // Only from background threads.
  const RunLogs& logs() const { return parts_.logs; }
  LogWaits& log_waits() { return log_waits_; }
  RunWaits& run_waits() { return run_waits_; }
  WorkerRegistry& workers() { return workers_; }
  const LocalWorker& local_worker() const { return options_.local_worker; }
  // Only from background threads.
  Notary& notary() { return parts_.notary; }
  std::atomic<bool>& ready() { return ready_; }
  // The database of several servers, when it cannot be reached.
  bool is_store_away() { return store().shared() && !store().shared()->is_reachable(); }

 private:
  struct Match {
    const Route* route = nullptr;
    std::vector<std::string> path;
    bool other_method = false;  // the path is there, for another method
    std::string allowed;        // for which
  };
  // A route, and its pattern as find() needs it.
  struct Candidate {
    const Route* route;
    std::vector<std::string_view> pattern;
    std::ptrdiff_t variables;
  };
  // What a request's head says.
  struct Head {
    Match match;
    Principal who;
    std::shared_ptr<TenantUse> use;  // of the tenant; null without a key
    std::optional<Problem> refusal;
  };
  // What there is to say of an answer.
  struct Asked {
    const Request& request;
    const Route* route = nullptr;
    const Principal* who = nullptr;
    std::chrono::steady_clock::time_point since;
    bool waits = false;
  };
  void answered(const Asked& asked, const Response& response);
  LogFields fields_of(const Asked& asked, const Response& response) const;
  Match find(Method method, std::string_view path) const;
  Response options_of(const Request& request) const;
  Head judge(const Request& request);
  std::optional<Problem> judge_key(const Request& request, Head& head);
  std::optional<Problem> over_limit(const Head& head);
  Response refuse_head(const Request& request, const Head& head, const Problem& problem);
  void start(CallPtr call, const Route& route, const std::shared_ptr<TenantUse>& use);
  void begin(CallPtr call, const Route& route);

  Parts parts_;
  Gatekeeper gatekeeper_{parts_.runtime};
  ApiOptions options_;
  std::vector<Route> routes_;
  std::map<std::string_view, std::vector<Candidate>> by_first_;  // by the first segment
  std::atomic<std::size_t> in_flight_ = 0;
  std::atomic<bool> ready_ = true;
  LogThrottle refused_keys_, slow_requests_, server_errors_;
  std::atomic<std::size_t> in_flight_without_key_ = 0;
  TenantUses uses_;
  OpenRequests open_requests_;
  Background answers_{{.threads = 3, .running_per_tenant_max = 2}};
  Background usual_{{.threads = 4, .running_per_tenant_max = 2}};
  Background heavy_{{.threads = 3, .running_per_tenant_max = 1, .waiting_per_tenant_max = 8}};
  // By the tenant that the path names; who sent them is not known before their signature was checked.
  Background callbacks_{{.threads = 2, .running_per_tenant_max = 1, .waiting_per_tenant_max = 128}};
  // What takes long to understand is read here, never by the thread that serves the sockets. Two, so that a very large
  // body is in the way of its likes only.
  Background large_bodies_{{.threads = 1}};
  Background huge_bodies_{{.threads = 1}};
  Background slack_replies_{{.threads = 2}};
  LogWaits log_waits_;
  WorkerRegistry workers_;
  RunWaits run_waits_{parts_.runtime, parts_.feed, ready_};
  std::optional<AwayWatch> away_watch_;  // with several servers
};

bool may(Role role, Access access);
Problem store_away();

// For what concerns the whole installation: only admins of the tenant `default` come past this.
void require_default_tenant(const Call& call);

// A run's id out of the path; what is no id is no run.
RunId run_of(const Call& call, std::size_t index = 0);

// Posts to the background threads of the route's kind, where the tenant waits for its turn; 429 when too many of its
// requests wait already. A Problem thrown there is the answer.
void in_background(CallPtr call, std::move_only_function<void(Call&)> work);
// Waits until the tables know all that is decided so far (with a run: all of that run), then works in the background.
void with_fresh_tables(CallPtr call, std::optional<RunId> run, std::move_only_function<void(Call&)> work);

// A page of a list that is in memory, in the order of its cursors; a cursor is `name_of` the last one of a page.
inline constexpr std::uint64_t list_page_max = 500;
template <class Items, class NameOf, class IsName, class Show>
void answer_page(Call& call, const Items& items, NameOf name_of, IsName is_name, Show show) {
  std::uint64_t limit = call.query.number("limit", list_page_max, list_page_max);
  const std::string* after = call.query.find("cursor");
  if (after && !is_name(*after)) refuse_cursor();
  boost::json::array page;
  std::string last;
  bool more = false;
  for (const auto& item : items) {
    std::string name = name_of(item);
    if (after && name <= *after) continue;
    more = page.size() == limit;
    if (more) break;
    page.push_back(show(item));
    last = std::move(name);
  }
  call.answer(200, boost::json::object{{"items", std::move(page)}, {"next_cursor", more ? Json(last) : Json(nullptr)}});
}

// Why runs of a tenant do not move, as far as this server knows: who is connected, and what caps leave room for.
class WaitReasons {
 public:
  // `caps`: what this process knows of them; with several servers the store knows it.
  WaitReasons(Call& call, std::vector<CapUse> caps);
  // Null while it moves.
  Json object_of(const Run& run) const;

 private:
  void add_cap(RunWait& wait, const Run& run) const;

  std::set<ToolName> served_;
  std::vector<CapUse> caps_;
  Instant now_;
  bool is_shared_;
};

// A part of what a step's program said.
struct LogRequest {
  RunId run;
  StepId step;
  LogQuery query;
  bool follow = false;
};
// What the query says of it: stream, attempt, after, tail, limit, follow.
LogRequest read_log_request(const Call& call);
// Once it is known that the run is the caller's, and that it has this step.
void answer_log(CallPtr call, LogRequest request);
void answer_log_of_run(CallPtr call, LogRequest request);

// Counts it as one that waits, and answers it with 401 as soon as its key is good no more.
void keep_open(const CallPtr& call);

// The run in the caller's vocabulary, with the names of its requesters and the place of its stored bundle, which is
// read from the store once the run has ended.
boost::json::object shown_run(Call& call, const Run& run);
// Answers with the run, as it is once the command is durable.
void answer_with_run(CallPtr call, TenantId tenant, RunId run, int status);
// A page of the stream's events. Of a run only or of a task only: either is no stream of the other kind.
enum class StreamKind { run, task };
void answer_with_events(CallPtr call, RunId stream, StreamKind kind);
// Decides the command and answers with the run, or with why not.
void command_run(CallPtr call, RunId run, RunCommand command);

}  // namespace pawl::api
