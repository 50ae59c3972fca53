// Several servers on one real PostgreSQL, under one virtual clock, drawn from a seed: the simulator's workflows, people
// who ask any server, workers who take from one and report to another, servers that die before or after a commit, or
// whose connection breaks. What is durable is read from the journal after every commit (chronicle.h) and compared with
// every answer and every grant.
//
// Servers are driven as Runtime drives them, without threads, so turns overlap in every order that the seed draws.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cluster/chronicle.h"
#include "cluster/stage.h"
#include "engine/engine.h"
#include "engine/losses.h"
#include "simulator/dice.h"
#include "simulator/failure.h"

namespace pawl::cluster {

class ClusterClock : public Clock {
 public:
  Instant now() const override { return now_; }
  void pass(Duration span) { now_ = now_ + span; }

 private:
  Instant now_{1'800'000'000'000};
};

class Cluster {
 public:
  Cluster(std::uint64_t seed, Stage& stage, const ToolCatalog& tools);
  ~Cluster();
  // The whole history. Throws simulator::Broken.
  void run();
  int losses_seen() const { return losses_seen_; }

 private:
  // A lease as its worker knows it.
  struct Held {
    Lease lease;
    bool reported = false;
  };
  class Server;

  void open(std::size_t at);
  void die(std::size_t at, bool during_commit);
  void set_up();
  void one_step();
  void pass_time(Duration span);
  void take_turn(Server& server);
  void commit(Server& server);
  // Until nothing is left to be said, at every server.
  void flush();
  void read_journal();
  void settle_down();
  bool serve_everyone();

  void create_run(Server& server);
  void publish(Server& server, TenantId tenant, const std::string& name);
  void change_limits(Server& server);
  void decide(Server& server);
  void cancel(Server& server);
  void poll(Server& server);
  void work(Server& server);
  void complete(Server& server, Held& held);
  void heartbeat(Server& server, const Lease& lease);
  void race_heartbeats(Server& first, Server& second, const Lease& lease);
  void take(std::vector<Lease> leases);
  const Run* any_run();
  Server& any_server() { return *servers_[dice_.below(servers_.size())]; }

  // A request at this server, whose answer comes once, when what it says is durable.
  template <class T, class Check>
  Reply<T> expect(Server& server, const std::string& what, Check check);
  void check_answer(TenantId tenant, const RunAnswer& answer);

  simulator::Dice dice_;
  Stage& stage_;
  const ToolCatalog& tools_;
  ClusterClock clock_;
  Chronicle chronicle_;
  Position read_ = 0;
  std::vector<std::unique_ptr<Server>> servers_;
  bool faults_ = true;
  bool releasing_ = false;
  int losses_seen_ = 0;
  std::vector<TenantId> tenants_;
  std::map<TenantId, std::set<std::string>> published_;
  std::deque<Held> held_;
  std::set<std::tuple<RunId, StepId, std::uint64_t>> granted_;
};

}  // namespace pawl::cluster
