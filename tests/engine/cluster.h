// Several servers on one database in memory: each decides on what it has in memory, commits when the test says so, and
// whatever it loses to another is decided again.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/invariants.h"
#include "crypto/sha256.h"
#include "engine/losses.h"
#include "engine/memory_store.h"
#include "engine/test_server.h"

namespace pawl::tests {

// One server: an engine, its turns under way, and a worker of its own.
class Server {
 public:
  Server(MemoryDatabase& database, const ToolCatalog& tools, const Clock& clock, std::uint64_t seed)
      : store_(database), random_(seed), engine_(store_, tools, clock, random_) {
    engine_.recover();
    worker.name.text = std::string(local_worker_prefix) + std::to_string(store_.server_number());
    engine_.add_worker(worker.name, {{"work"}}, worker);
  }

  Engine& engine() { return engine_; }
  void offer(int slots) { engine_.offer({worker.name, slots}); }
  // A task, as the runtime would run it.
  template <class Task>
  void task(Task run) {
    engine_.requests_came();
    engine_.begin_round();
    run(engine_);
  }
  void decide() {
    engine_.advance();
    turns_.push_back(engine_.take_turn());
  }
  void commit() {
    if (turns_.empty()) return;
    Turn turn = std::move(turns_.front());
    turns_.pop_front();
    std::vector<Lost> lost = losses_.strike({&turn.frame, 1});
    if (turn.needs_commit) {
      auto now = store_.commit({&turn.frame, 1});
      losses_.add(now, {&turn.frame, 1});
      lost.insert(lost.end(), now.begin(), now.end());
      durable_ = turn.frame.position;
    }
    engine_.durable(durable_, lost);
    Again again = turn.release([&](Incarnation basis) { return losses_.contains(basis); });
    redone_ = redone_ || !again.empty();
    engine_.decide_again(std::move(again));
  }
  // All that is to be said is said, what had to be decided again included.
  void turn() {
    do {
      redone_ = false;
      decide();
      while (!turns_.empty()) commit();
    } while (redone_);
  }
  std::size_t under_way() const { return turns_.size(); }

  Worker worker;

 private:
  MemoryStore store_;
  Random random_;
  Engine engine_;
  Losses losses_;
  Position durable_ = 0;
  std::deque<Turn> turns_;
  bool redone_ = false;
};

class Cluster {
 public:
  explicit Cluster(std::size_t servers) : database(clock) {
    tools_.add({.name = {"work"}, .keys = {{.name = "from"}}, .writes = ToolSpec::Writes::never});
    tools_.add({.name = {"far"}, .writes = ToolSpec::Writes::never});  // of remote workers only
    for (std::size_t i = 0; i < servers; ++i) add_server();
    Answer<TenantId> answer;
    at(0).engine().request(CreateTenant{"default", Actor{"admin"}}, answer.reply());
    at(0).turn();
    tenant = answer.value();
  }
  void add_server() { servers_.push_back(std::make_unique<Server>(database, tools_, clock, servers_.size() + 1)); }
  Server& at(std::size_t i) { return *servers_[i]; }
  std::size_t size() const { return servers_.size(); }
  void publish(const std::string& source, std::size_t by = 0) {
    Answer<WorkflowRef> answer;
    at(by).engine().request(PublishWorkflow{tenant, source, "test", Actor{"admin"}}, answer.reply());
    at(by).turn();
    if (!answer.accepted()) throw std::runtime_error((*answer.slot)->error().message);
  }
  NewRun request(const std::string& workflow) const {
    NewRun out;
    out.tenant = tenant;
    out.workflow.text = workflow;
    out.by.text = "person:asker";
    return out;
  }
  RunId create(std::size_t by, NewRun request) {
    Answer<RunAnswer> answer;
    at(by).engine().request(std::move(request), answer.reply());
    at(by).turn();
    if (!answer.accepted()) throw std::runtime_error("not created");
    return answer.value().run;
  }
  const RunRow& row(RunId run) { return database.runs.at(StreamKey::of(tenant, run)).row; }
  Run fold(RunId run) {
    StreamKey key = StreamKey::of(tenant, run);
    const WorkflowRow& source = database.workflows.at({tenant, row(run).workflow, row(run).version});
    auto [at, fresh] = compiled_.try_emplace({source.name, source.version});
    if (fresh) {
      at->second = compile_workflow(source.source, "test", nullptr).value();
      at->second.version = source.version;
    }
    return fold_lines(tenant, run, at->second, database.lines.at(key)).value();
  }
  std::string describe(RunId run) {
    const auto& stored = database.runs.at(StreamKey::of(tenant, run));
    std::string out = run.str() + " now " + std::to_string(clock.now().ms) + " due " +
                      std::to_string(stored.row.due_at.ms) + " ready " + std::to_string(stored.ready.size()) + "\n";
    out += database.lines.at(StreamKey::of(tenant, run));
    pawl::Run state = fold(run);
    for (StepIndex i = 0; i < state.steps.size(); ++i)
      out += state.definition(i).id.text + " " + std::string(to_string(state.steps[i].status)) + " attempts " +
             std::to_string(state.steps[i].attempts) + " by " + state.steps[i].lease_owner.text + " until " +
             std::to_string(state.steps[i].lease_expires_at.ms) + "\n";
    return out;
  }
  // The chain of every stream, and what every run's events say.
  void check() {
    for (auto& [key, lines] : database.lines) {
      Hash head = genesis(key);
      for (std::string_view rest = lines; !rest.empty();) {
        std::string_view line = rest.substr(0, rest.find('\n'));
        head = chain_next(sha256, head, line);
        rest.remove_prefix(line.size() + 1);
      }
      EXPECT_EQ(head, key.is_tenant() ? database.tenants.at(key.tenant).head : database.runs.at(key).row.head);
      if (key.is_tenant()) continue;
      Run run = fold(RunId{key.stream});
      EXPECT_EQ(run.status, database.runs.at(key).row.status);
      EXPECT_EQ(check_run(run), std::vector<std::string>{});
    }
  }

  StoppedClock clock;
  MemoryDatabase database;
  TenantId tenant;

 private:
  ToolCatalog tools_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::map<std::pair<WorkflowName, int>, Workflow> compiled_;
};

}  // namespace pawl::tests
