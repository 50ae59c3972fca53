#include "cluster/cluster.h"

#include <algorithm>

#include "simulator/workflow_maker.h"
#include "support/limits.h"

namespace pawl::cluster {

using simulator::demand;

namespace {

constexpr int steps_max = 220, rounds_to_settle = 400;
constexpr std::size_t runs_max = 30, turns_under_way_max = 3, held_max = 60;
const std::vector<ToolName> all_tools{{"read"}, {"write"}, {"fetch"}};

}  // namespace

// One process: its store, its engine, and the turns that it has decided and not yet committed.
class Cluster::Server final : public LeaseSink {
 public:
  Server(Cluster& cluster, std::uint64_t seed)
      : cluster_(cluster),
        store(cluster.stage_.open()),
        random_(seed),
        engine(*store, cluster.tools_, cluster.clock_, random_) {
    engine.recover();
    worker.text = std::string(local_worker_prefix) + std::to_string(store->server_number());
    engine.add_worker(worker, all_tools, *this);
  }
  void grant(std::vector<Lease> leases) override { cluster_.take(std::move(leases)); }
  void revoke(RunId run, const StepId& step, std::uint64_t token) override {
    for (Held& held : cluster_.held_)
      if (held.lease.run == run && held.lease.step == step && held.lease.token == token) held.reported = true;
  }
  // A request comes in.
  Engine& asked() {
    engine.requests_came();
    engine.begin_round();
    return engine;
  }

 private:
  Cluster& cluster_;

 public:
  std::unique_ptr<PostgresStore> store;

 private:
  Random random_;

 public:
  Engine engine;
  Losses losses;
  Position durable = 0;
  std::deque<Turn> turns;
  WorkerName worker;
  // Requests whose answer is owed; those of a process that died are owed by nobody.
  std::shared_ptr<std::multiset<std::string>> owed = std::make_shared<std::multiset<std::string>>();
};

template <class T, class Check>
Reply<T> Cluster::expect(Server& server, const std::string& what, Check check) {
  server.owed->insert(what);
  return [this, owed = server.owed, what, check = std::move(check),
          said = false](std::expected<T, Refusal> answer) mutable {
    demand(releasing_, "no answer before the commit is durable", "an answer came out of turn");
    demand(!std::exchange(said, true), "every request is answered once", "it was answered twice");
    owed->erase(owed->find(what));
    check(answer);
  };
}

Cluster::Cluster(std::uint64_t seed, Stage& stage, const ToolCatalog& tools)
    : dice_(seed * 0x9e3779b97f4a7c15ULL + 7), stage_(stage), tools_(tools), chronicle_(tools) {
  stage_.clear(clock_.now());
}

Cluster::~Cluster() = default;

void Cluster::run() {
  for (int n = dice_.between(2, 3); n > 0; --n) servers_.emplace_back();
  for (std::size_t at = 0; at < servers_.size(); ++at) open(at);
  set_up();
  for (int n = 0; n < steps_max; ++n) one_step();
  faults_ = false;
  flush();
  settle_down();
  auto view = stage_.open();
  chronicle_.compare(*view);
  for (const std::string& problem : view->problems()) demand(false, "tables fit each other", problem);
}

// ---- Processes

void Cluster::open(std::size_t at) { servers_[at] = std::make_unique<Server>(*this, dice_.next()); }

// With it goes all that it decided. A commit that was under way has happened, and nobody was told.
void Cluster::die(std::size_t at, bool during_commit) {
  Server& server = *servers_[at];
  if (during_commit && !server.turns.empty()) {
    Turn& turn = server.turns.front();
    server.losses.strike({&turn.frame, 1});
    if (turn.needs_commit) server.store->commit({&turn.frame, 1});
    read_journal();
  }
  servers_[at].reset();
  open(at);
}

void Cluster::set_up() {
  Server& first = *servers_[0];
  for (int n = dice_.between(1, 2); n > 0; --n)
    first.asked().request(
        CreateTenant{"tenant-" + std::to_string(n), Actor{"admin"}},
        expect<TenantId>(first, "a tenant", [this](const auto& id) { tenants_.push_back(id.value()); }));
  flush();
  for (TenantId tenant : tenants_)
    for (const char* name : {"w1", "w2"}) publish(any_server(), tenant, name);
  flush();
}

void Cluster::one_step() {
  Server& server = any_server();
  auto at = dice_.below(servers_.size());
  int draw = dice_.between(1, 100);
  if (draw <= 2) return die(at, dice_.percent(50));
  if (draw <= 4) return change_limits(server);
  if (draw <= 5) return publish(server, dice_.one_of(tenants_), dice_.one_of({"w1", "w2", "w3"}));
  if (draw <= 17) return create_run(server);
  if (draw <= 24) return decide(server);
  if (draw <= 27) return cancel(server);
  if (draw <= 34)
    return pass_time(dice_.percent(20) ? dice_.between(Duration(1000), Duration(90'000))
                                       : dice_.between(Duration(0), Duration(1000)));
  if (draw <= 42) return poll(server);
  if (draw <= 46) return server.engine.offer({server.worker, dice_.between(1, 3)});
  if (draw <= 62) return work(server);
  if (draw <= 80 && server.turns.size() < turns_under_way_max) return take_turn(server);
  commit(server);
}

void Cluster::pass_time(Duration span) {
  clock_.pass(span);
  stage_.set_time(clock_.now());
}

void Cluster::take_turn(Server& server) {
  server.engine.advance();
  server.turns.push_back(server.engine.take_turn());
}

void Cluster::commit(Server& server) {
  if (server.turns.empty()) return;
  Turn turn = std::move(server.turns.front());
  server.turns.pop_front();
  std::vector<Lost> lost = server.losses.strike({&turn.frame, 1});
  if (turn.needs_commit) {
    auto now = server.store->commit({&turn.frame, 1});
    server.losses.add(now, {&turn.frame, 1});
    losses_seen_ += static_cast<int>(now.size());
    lost.insert(lost.end(), now.begin(), now.end());
    server.durable = turn.frame.position;
    read_journal();
  }
  server.engine.durable(server.durable, lost);
  releasing_ = true;
  Again again = turn.release([&](Incarnation basis) { return server.losses.contains(basis); });
  releasing_ = false;
  if (turn.news.ready) server.engine.ready_is_durable();
  for (auto& other : servers_)
    if (other.get() != &server && dice_.percent(70)) other->engine.hear(turn.news);  // or the word got lost
  server.engine.decide_again(std::move(again));
}

void Cluster::flush() {
  for (int rounds = 0; rounds < 50; ++rounds) {
    for (auto& server : servers_) {
      take_turn(*server);
      while (!server->turns.empty()) commit(*server);
    }
    if (std::ranges::all_of(servers_, [](const auto& server) { return server->owed->empty(); })) return;
    pass_time(Duration(20));
  }
  for (auto& server : servers_)
    for (const std::string& what : *server->owed) demand(false, "every request is answered", what);
}

void Cluster::read_journal() {
  for (const KeptFrame& frame : stage_.events_behind(read_)) chronicle_.add(frame);
}

// ---- People

void Cluster::check_answer(TenantId tenant, const RunAnswer& answer) {
  const Run* run = chronicle_.find(answer.run);
  auto what = [&] { return answer.run.str() + " seq " + std::to_string(answer.seq); };
  demand(run && answer.seq > 0 && run->seq >= answer.seq, "no answer before the commit is durable", what);
  demand(run->tenant == tenant, "no tenant sees another's", what);
  demand(chronicle_.status_after(answer.run, answer.seq) == answer.status, "answers say what the journal says", what);
}

const Run* Cluster::any_run() {
  if (chronicle_.runs().empty()) return nullptr;
  return &std::next(chronicle_.runs().begin(), static_cast<std::ptrdiff_t>(dice_.below(chronicle_.runs().size())))
              ->second;
}

void Cluster::create_run(Server& server) {
  if (chronicle_.runs().size() >= runs_max) return;
  NewRun request;
  request.tenant = dice_.one_of(tenants_);
  const auto& known = published_[request.tenant];
  if (known.empty()) return;
  request.workflow.text = *std::next(known.begin(), static_cast<std::ptrdiff_t>(dice_.below(known.size())));
  request.workspace.text = dice_.one_of({"default", "a"});
  request.input = "{\"about\":" + std::to_string(dice_.below(1000)) + "}";
  request.by = Actor{dice_.one_of({"person:ada", "person:bob"})};
  if (dice_.percent(10)) request.timeout = dice_.between(Duration(500), Duration(120'000));
  server.asked().request(request,
                         expect<RunAnswer>(server, "a new run", [this, tenant = request.tenant](const auto& answer) {
                           demand(answer.has_value(), "a run is created of a known workflow", "refused");
                           check_answer(tenant, *answer);
                         }));
}

void Cluster::publish(Server& server, TenantId tenant, const std::string& name) {
  server.asked().request(PublishWorkflow{tenant, simulator::make_workflow(dice_, name), name, Actor{"admin"}},
                         expect<WorkflowRef>(server, "a workflow", [this, tenant, name](const auto& answer) {
                           demand(answer.has_value(), "what the cluster writes is a workflow", "refused");
                           published_[tenant].insert(name);
                         }));
}

void Cluster::change_limits(Server& server) {
  LimitsSet limits;
  if (dice_.percent(60)) limits.limits[Limit::max_concurrency] = dice_.between(1, 3);
  if (dice_.percent(20)) limits.limits[Limit::max_runs_per_min] = dice_.between(2, 6);
  server.asked().request(
      TenantRequest{dice_.one_of(tenants_), ChangeLimits{tests::replacing_all(limits.limits, limits.weight)},
                    Actor{"admin"}},
      expect<TenantId>(server, "limits",
                       [](const auto& answer) { demand(answer.has_value(), "limits can be set", "refused"); }));
}

void Cluster::decide(Server& server) {
  const Run* run = any_run();
  if (!run) return;
  ResolveApproval command{.approval = {},
                          .approve = dice_.percent(80),
                          .by = Actor{dice_.one_of({"person:one", "person:two", "person:ada"})},
                          .reason = {}};
  server.asked().request(
      RunRequest{run->tenant, run->id, command},
      expect<RunAnswer>(server, "a decision on " + run->id.str(), [this, tenant = run->tenant](const auto& answer) {
        if (answer) return check_answer(tenant, *answer);
        demand(answer.error().code != RefusalCode::not_found, "what was acknowledged is there", "a run");
      }));
}

void Cluster::cancel(Server& server) {
  const Run* run = any_run();
  if (!run) return;
  server.asked().request(RunRequest{run->tenant, run->id, CancelRun{Actor{"person:ada"}, "why not"}},
                         expect<RunAnswer>(server, "a cancel of " + run->id.str(),
                                           [this, tenant = run->tenant, id = run->id](const auto& answer) {
                                             const Run& now = *chronicle_.find(id);
                                             demand(is_terminal(now.status), "a cancel ends the run, or finds it ended",
                                                    id.str());
                                             demand(answer.has_value() == (now.status == RunStatus::canceled),
                                                    "cancel and completion see one end", id.str());
                                             if (answer) check_answer(tenant, *answer);
                                           }));
}

// ---- Workers

void Cluster::poll(Server& server) {
  Poll poll{.tenant = dice_.one_of(tenants_),
            .key = {{1, 1}},
            .worker = {dice_.one_of({"remote-1", "remote-2"})},
            .tools = all_tools,
            .max = dice_.between(1, 3),
            .wait = Duration(dice_.one_of({0, 500, 5000})),
            .is_wanted = {},
            .reply = [this](std::vector<Lease> leases) { take(std::move(leases)); }};
  server.asked().poll(std::move(poll));
}

void Cluster::take(std::vector<Lease> leases) {
  for (Lease& lease : leases) {
    auto what = [&] { return lease.run.str() + " " + lease.step.text + " token " + std::to_string(lease.token); };
    demand(releasing_, "no grant before its claim is durable", what);
    demand(granted_.insert({lease.run, lease.step, lease.token}).second, "a lease is granted once", what);
    const Run* run = chronicle_.find(lease.run);
    demand(run && run->tenant == lease.tenant, "no grant before its claim is durable", what);
    const Step& step = run->steps[*run->find_step(lease.step)];
    // By now another server may have gone on with it, when the grant was slow.
    demand(step.lease_token >= lease.token, "no grant before its claim is durable", what);
    chronicle_.promise(lease, lease.expires_at);
    held_.push_back({std::move(lease)});
  }
  while (held_.size() > held_max) held_.pop_front();
}

void Cluster::complete(Server& server, Held& held) {
  held.reported = true;
  const Lease& lease = held.lease;
  StepReport report{.tenant = lease.tenant,
                    .run = lease.run,
                    .step = lease.step,
                    .proof = lease.proof(),
                    .outcome = Completed{.output = std::to_string(lease.token), .cost = Money{dice_.between(0, 100)}}};
  server.asked().request(ReportStep{report},
                         expect<RunAnswer>(server, "a result of " + lease.run.str(), [this, lease](const auto& answer) {
                           if (!answer)
                             return demand(answer.error().code == RefusalCode::lease_lost,
                                           "a report that is late is told so", answer.error().message);
                           check_answer(lease.tenant, *answer);
                           const Run& run = *chronicle_.find(lease.run);
                           const Step& step = run.steps[*run.find_step(lease.step)];
                           bool stands =
                               step.status == StepStatus::succeeded && step.output == std::to_string(lease.token);
                           demand(stands || step.status == StepStatus::failed_terminal,
                                  "a completion that is accepted stands, and no stale one is", lease.run.str());
                         }));
}

void Cluster::heartbeat(Server& server, const Lease& lease) {
  server.asked().request(Heartbeat{lease.tenant, lease.run, lease.step, lease.proof()},
                         expect<Instant>(server, "a heartbeat of " + lease.run.str(), [this, lease](const auto& until) {
                           if (until) return chronicle_.promise(lease, *until);
                           demand(until.error().code == RefusalCode::lease_lost, "a heartbeat that is late is told so",
                                  until.error().message);
                         }));
}

// The later one is decided on what the earlier one is about to change. Then the time of the earlier one is over, and
// somebody asks for work.
void Cluster::race_heartbeats(Server& first, Server& second, const Lease& lease) {
  const Duration between = lease.term / 2;
  heartbeat(first, lease);
  take_turn(first);
  pass_time(between);
  heartbeat(second, lease);
  take_turn(second);
  while (!first.turns.empty()) commit(first);
  while (!second.turns.empty()) commit(second);
  pass_time(lease.term - between + Duration(1));
  poll(first);
  take_turn(first);
}

void Cluster::work(Server& server) {
  if (held_.empty()) return;
  Held& held = held_[dice_.below(held_.size())];
  const Lease& lease = held.lease;
  switch (dice_.below(10)) {
    case 0:
    case 4:
      return heartbeat(server, lease);
    case 5:
      if (Server& other = any_server(); &other != &server && !held.reported)
        return race_heartbeats(other, server, Lease(lease));
      return;
    case 1: {
      StepReport report{.tenant = lease.tenant,
                        .run = lease.run,
                        .step = lease.step,
                        .proof = lease.proof(),
                        .outcome = Failed{"SIMULATED", "on purpose", dice_.percent(85), {}, {}}};
      held.reported = true;
      return server.asked().request(ReportStep{report},
                                    expect<RunAnswer>(server, "a failure of " + lease.run.str(), [](const auto&) {}));
    }
    case 2:  // it is never heard of again
      held.reported = true;
      return;
    case 3:  // late, or for the second time
      return complete(server, held);
    default:
      if (!held.reported) complete(server, held);
  }
}

// ---- The end: no more faults, everybody does their best, and everything must come to its end

bool Cluster::serve_everyone() {
  bool any = false;
  for (auto& server : servers_) {
    server->engine.offer({server->worker, 2});
    for (TenantId tenant : tenants_)
      server->asked().poll({.tenant = tenant,
                            .worker = {"last"},
                            .tools = all_tools,
                            .max = 4,
                            .wait = Duration(0),
                            .is_wanted = {},
                            .reply = [this](std::vector<Lease> leases) { take(std::move(leases)); }});
  }
  for (Held& held : held_)
    if (!held.reported) {
      complete(any_server(), held);
      any = true;
    }
  for (const auto& [id, run] : chronicle_.runs())
    for (const Approval& approval : run.approvals)
      if (approval.status == ApprovalStatus::requested)
        for (const char* person : {"person:one", "person:two", "person:three"}) {
          any_server().asked().request(
              RunRequest{run.tenant, id, ResolveApproval{approval.id, true, Actor{person}, {}}});
          any = true;
        }
  return any;
}

void Cluster::settle_down() {
  auto all_ended = [&] {
    return std::ranges::all_of(chronicle_.runs(), [](const auto& entry) { return is_terminal(entry.second.status); });
  };
  for (int round = 0; round < rounds_to_settle && !all_ended(); ++round) {
    bool any = serve_everyone();
    flush();
    pass_time(any ? Duration(50) : Duration(dice_.one_of({300, 2000, 20'000})));
  }
  for (const auto& [id, run] : chronicle_.runs())
    demand(is_terminal(run.status), "every run ends once faults stop",
           [&, run_id = id] { return run_id.str() + " is still " + std::string(to_string(run.status)); });
}

}  // namespace pawl::cluster
