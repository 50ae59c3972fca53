// A tenant with a backlog delays another tenant's first step by no more than its own turn. The newcomer is new indeed:
// tickets of runs that it canceled would cost it turns, and rightly so.
#include "simulator/failure.h"
#include "simulator/simulation.h"
#include "support/limits.h"

namespace pawl::simulator {
namespace {

constexpr const char* plain = "workflow: plain\nsteps: [{id: s0, tool: read, timeout: 1h, lease: 1h}]\n";

}  // namespace

void Simulation::check_fairness() {
  TenantId busy = tenants_.front(), newcomer;
  int weight = dice_.between(1, 5);
  asked().request(CreateTenant{"newcomer", Actor{"admin"}},
                  expect<TenantId>([&](const auto& id) { newcomer = id.value(); }));
  flush();
  tenants_.push_back(newcomer);
  for (auto& worker : workers_)
    if (worker->registered) remove_worker(*worker);
  for (TenantId tenant : tenants_) {
    asked().request(
        TenantRequest{tenant, ChangeCeiling{tests::replacing_all({}, tenant == busy ? weight : 1)}, Actor{"admin"}});
    asked().request(TenantRequest{tenant, ChangeLimits{tests::replacing_all({})}, Actor{"admin"}});
    asked().request(PublishWorkflow{tenant, plain, "plain", Actor{"admin"}});
  }
  flush();
  auto create = [&](TenantId tenant) {
    NewRun request;
    request.tenant = tenant;
    request.workflow.text = "plain";
    request.workspace.text = dice_.one_of({"default", "a", "b"});
    request.by = anyone();
    asked().request(std::move(request));
  };
  for (int i = dice_.between(10, 30); i > 0; --i) create(busy);
  SimWorker& worker = *workers_.front();
  engine_->add_worker(worker.name, worker.tools, worker);
  worker.registered = true;
  worker.since_turn = turn_number_;
  auto serve_one = [&] {
    auto before = worker.held.size();
    offer(worker, 1);
    flush();
    demand(worker.held.size() == before + 1, "a runnable step is leased when a worker is free", "nothing was granted");
    complete(worker.held.back());
    return worker.held.back().lease.tenant;
  };
  for (int i = dice_.between(0, 6); i > 0; --i) serve_one();
  create(newcomer);
  int served = 0;
  while (serve_one() != newcomer)
    demand(++served <= weight, "a backlog delays another tenant by one turn at most", [&] {
      return std::to_string(served) + " steps of a tenant with weight " + std::to_string(weight) + " went before";
    });
  settle_down();
}

}  // namespace pawl::simulator
