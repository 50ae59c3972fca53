// The engine on a store in memory, driven by hand: commands, then turn(), which advances, commits and releases.
//
//   TestServer server;
//   server.publish("workflow: w\nsteps: [{id: a, tool: work}]");
//   RunId run = server.create("w");
//   Worker& worker = server.worker("w1");
//   server.offer(worker, 1);
//   server.turn();
//   server.complete(worker.take());
//
// Time stands still until wait() moves it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "store/crash_vfs.h"
#include "store/sqlite/sqlite_store.h"
#include "support/limits.h"

namespace pawl::tests {

inline constexpr const char* one_step = "workflow: w\nsteps: [{id: a, tool: work, lease: 30s, timeout: 1h}]";
inline constexpr const char* two_steps = "workflow: w\nsteps: [{id: a, tool: work}, {id: b, tool: work}]";
inline constexpr const char* allow_all = "policy: p\nrules: [{id: all, effect: allow}]";
inline constexpr const char* deny_all = "policy: p\nrules: [{id: all, effect: deny}]";

class StoppedClock : public Clock {
 public:
  Instant now() const override { return now_; }
  void pass(Duration span) { now_ = now_ + span; }

 private:
  Instant now_{1'800'000'000'000};
};

// Keeps what it is given.
struct Worker : LeaseSink {
  WorkerName name;
  std::vector<Lease> leases;
  std::vector<std::pair<RunId, std::uint64_t>> revoked;  // run and token

  void grant(std::vector<Lease> granted) override {
    for (Lease& lease : granted) leases.push_back(std::move(lease));
  }
  void revoke(RunId run, const StepId&, std::uint64_t token) override { revoked.emplace_back(run, token); }

  Lease take() {
    if (leases.empty()) throw std::runtime_error("the test takes a lease that was not granted");
    Lease lease = std::move(leases.front());
    leases.erase(leases.begin());
    return lease;
  }
};

inline StepReport completion(const Lease& lease) {
  return {lease.tenant, lease.run, lease.step, lease.proof(), Completed{"{}", {}}};
}

// What a reply brought, once its turn was released.
template <class T>
struct Answer {
  std::shared_ptr<std::optional<std::expected<T, Refusal>>> slot =
      std::make_shared<std::optional<std::expected<T, Refusal>>>();

  Reply<T> reply() {
    return [slot = slot](std::expected<T, Refusal> answer) { *slot = std::move(answer); };
  }
  bool came() const { return slot->has_value(); }
  bool accepted() const { return came() && (*slot)->has_value(); }
  bool refused_as(RefusalCode code) const { return came() && !(*slot)->has_value() && (*slot)->error().code == code; }
  const T& value() const { return slot->value().value(); }
};

class TestServer {
 public:
  explicit TestServer(EngineLimits limits = {}) : limits_(limits) {
    tools_.add({.name = {"work"}, .keys = {{.name = "from"}}, .writes = ToolSpec::Writes::never});
    tools_.add({.name = {"write"}, .keys = {}, .writes = ToolSpec::Writes::always});
    open();
    tenant = make_tenant("default");
  }
  ~TestServer() { close(); }

  Engine& engine() { return *engine_; }
  SqliteStore& store() { return *store_; }
  Instant now() const { return clock_.now(); }
  void wait(Duration span) { clock_.pass(span); }

  // ---- Setting up

  TenantId make_tenant(const std::string& name) {
    Answer<TenantId> answer;
    engine_->request(CreateTenant{name, Actor{"admin"}}, answer.reply());
    turn();
    return answer.value();
  }
  WorkflowRef publish(const std::string& source) {
    Answer<WorkflowRef> answer;
    engine_->request(PublishWorkflow{tenant, source, "test", Actor{"admin"}}, answer.reply());
    turn();
    if (!answer.accepted()) throw std::runtime_error((*answer.slot)->error().message);
    return answer.value();
  }
  PolicyRef publish_policy(const std::string& source) {
    Answer<PolicyRef> answer;
    engine_->request(PublishPolicy{tenant, PolicySource::read(source, "test").value(), Actor{"admin"}}, answer.reply());
    turn();
    return answer.value();
  }
  void limit(Caps caps, int weight = 1) {
    if (weight != 1) engine_->request(TenantRequest{tenant, ChangeCeiling{{weight, {}}}, Actor{"admin"}});
    engine_->request(TenantRequest{tenant, ChangeLimits{replacing_all(caps)}, Actor{"admin"}});
    turn();
  }
  Worker& worker(const std::string& name, int slots = 0, std::vector<ToolName> tools = {{"work"}, {"write"}}) {
    workers_.push_back(std::make_unique<Worker>());
    Worker& worker = *workers_.back();
    worker.name.text = name;
    engine_->add_worker(worker.name, std::move(tools), worker);
    if (slots > 0) engine_->offer({worker.name, slots});
    return worker;
  }
  void offer(Worker& worker, int slots) { engine_->offer({worker.name, slots}); }

  // ---- Runs; each of these takes a turn

  NewRun request(const std::string& workflow) const {
    NewRun request;
    request.tenant = tenant;
    request.workflow.text = workflow;
    request.by.text = "person:asker";
    return request;
  }
  RunId create(const std::string& workflow) { return create(request(workflow)); }
  RunId create(NewRun request) {
    Answer<RunAnswer> answer;
    engine_->request(std::move(request), answer.reply());
    turn();
    return answer.value().run;
  }
  Answer<RunAnswer> command(RunId run, const RunCommand& command) {
    Answer<RunAnswer> answer;
    engine_->request(RunRequest{tenant, run, command}, answer.reply());
    turn();
    return answer;
  }
  Answer<RunAnswer> approve(RunId run, const std::string& person) {
    return command(run, ResolveApproval{{}, true, Actor{person}, {}});
  }
  Answer<RunAnswer> cancel(RunId run) { return command(run, CancelRun{Actor{"person:asker"}, {}}); }
  Answer<RunAnswer> complete(const Lease& lease, JsonText output = "{}") {
    return report(lease, Completed{std::move(output), {}});
  }
  Answer<RunAnswer> fail(const Lease& lease, bool retryable) {
    return report(lease, Failed{"TOOL_FAILED", "it did not work", retryable, {}, {}});
  }
  Answer<RunAnswer> report(const Lease& lease, StepOutcome outcome) {
    Answer<RunAnswer> answer;
    StepReport report{lease.tenant, lease.run, lease.step, lease.proof(), std::move(outcome)};
    engine_->request(ReportStep{report}, answer.reply());
    turn();
    return answer;
  }
  bool heartbeat(const Lease& lease) { return heartbeat(lease, lease.proof()); }
  // Whether it is answered at once that the lease is extended.
  bool heartbeat(const Lease& lease, const LeaseProof& proof) {
    bool extended = false;
    engine_->request(Heartbeat{lease.tenant, lease.run, lease.step, proof},
                     [&](std::expected<Instant, Refusal> until) { extended = until.has_value(); });
    return extended;
  }
  Run inspect(RunId run) {
    Answer<std::shared_ptr<const Run>> answer;
    engine_->request(InspectRun{tenant, run}, answer.reply());
    turn();
    return *answer.value();
  }
  RunStatus status(RunId run) { return inspect(run).status; }

  // ---- Turns

  void turn() {
    Turn taken = take();
    commit(taken);
    taken.release();
  }
  Turn take() {
    engine_->advance();
    return engine_->take_turn();
  }
  void commit(const Turn& turn) {
    if (!turn.needs_commit) return;
    store_->commit(std::span(&turn.frame, 1));
    engine_->durable(turn.frame.position);
  }
  void fold_all() {
    engine_->fold_all();
    turn();
  }
  // The process dies where it stands, and a new one recovers. Workers have to come back.
  void restart() {
    close();
    disk_.crash(1);
    open();
  }

  TenantId tenant;

 private:
  void open() {
    SqliteOptions options;
    options.folder = "server";
    options.vfs = disk_.vfs();
    options.single_connection = true;
    store_ = std::make_unique<SqliteStore>(options);
    random_ = std::make_unique<Random>(++lives_);
    engine_ = std::make_unique<Engine>(*store_, tools_, clock_, *random_, limits_);
    engine_->recover();
  }
  void close() {
    engine_.reset();
    if (store_) disk_.kill_at(0);
    store_.reset();
  }

  EngineLimits limits_;
  ToolCatalog tools_;
  StoppedClock clock_;
  test::CrashDisk disk_;
  std::uint64_t lives_ = 0;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<SqliteStore> store_;
  std::unique_ptr<Random> random_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace pawl::tests
