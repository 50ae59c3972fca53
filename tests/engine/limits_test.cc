// What the installation decides about tenants: ceilings, suspension, freezes, shares of the workers' slots, memory.
#include <gtest/gtest.h>

#include "crypto/sha256.h"
#include "engine/cluster.h"
#include "engine/test_server.h"

namespace pawl::tests {
namespace {

constexpr const char* one_write = "workflow: w\nsteps: [{id: a, tool: write}]";

Action desk_action(std::string connector = "desk") {
  return {.connector = std::move(connector),
          .operation = "ticket.update",
          .target = "desk/ticket/1",
          .fields = R"({"group":"network"})",
          .risk = Tier::low,
          .idempotency_key = "desk:1"};
}

// A server with the installation's tenant and another one, which the tests are about.
struct TwoTenants : TestServer {
  explicit TwoTenants(EngineLimits limits = {}) : TestServer(limits) {
    installation = tenant;
    tenant = make_tenant("acme");
  }

  Answer<TenantId> set_own(Limit limit, std::optional<std::int64_t> value) {
    Answer<TenantId> answer;
    engine().request(TenantRequest{tenant, ChangeLimits{{{}, {{limit, value}}}}, Actor{"key:own"}}, answer.reply());
    turn();
    return answer;
  }
  Answer<TenantId> set_own_weight(int weight) {
    Answer<TenantId> answer;
    engine().request(TenantRequest{tenant, ChangeLimits{{weight, {}}}, Actor{"key:own"}}, answer.reply());
    turn();
    return answer;
  }
  void set_ceiling(Limit limit, std::optional<std::int64_t> value, std::optional<int> weight = {}) {
    engine().request(TenantRequest{tenant, ChangeCeiling{{weight, {{limit, value}}}}, Actor{"admin"}});
    turn();
  }
  Answer<TenantId> suspend() {
    Answer<TenantId> answer;
    engine().request(TenantRequest{tenant, TenantSuspended{"unpaid"}, Actor{"admin"}}, answer.reply());
    turn();
    return answer;
  }
  void resume() {
    engine().request(TenantRequest{tenant, TenantResumed{}, Actor{"admin"}});
    turn();
  }
  Answer<TenantId> freeze(TenantId of, FreezeScope scope, const std::string& connector = "") {
    Answer<TenantId> answer;
    engine().request(TenantRequest{of, EffectsFrozen{scope, connector, "an incident"}, Actor{"key:boss"}},
                     answer.reply());
    turn();
    return answer;
  }
  Answer<TenantId> unfreeze(TenantId of, FreezeScope scope, const std::string& connector = "") {
    Answer<TenantId> answer;
    engine().request(TenantRequest{of, EffectsUnfrozen{scope, connector}, Actor{"key:boss"}}, answer.reply());
    turn();
    return answer;
  }
  Answer<GateAnswer> propose(const Lease& lease, const Action& action) {
    Answer<GateAnswer> answer;
    engine().request(ProposeEffect{.tenant = tenant,
                                   .run = lease.run,
                                   .step = lease.step,
                                   .proof = lease.proof(),
                                   .proposal = std::make_shared<const Proposal>(
                                       Proposal{.action = action, .digest = digest_of(sha256, action)}),
                                   .verdict = verdict},
                     answer.reply());
    turn();
    return answer;
  }
  const Tenant& acme() { return *engine().find_tenant(tenant); }

  TenantId installation;
  Verdict verdict{.effect = Effect::allow, .rule = "all", .reason = "allowed"};
};

// ---- Ceilings

TEST(Ceiling, a_tenant_can_lower_a_limit_and_never_raise_it_above_its_ceiling) {
  TwoTenants server;
  for (std::size_t i = 0; i < enum_count<Limit>; ++i) {
    const auto limit = static_cast<Limit>(i);
    SCOPED_TRACE(to_string(limit));
    EXPECT_TRUE(server.set_own(limit, 50).accepted()) << "without a ceiling, whatever it likes";
    server.set_ceiling(limit, 10);
    EXPECT_EQ(effective_limit(server.acme(), limit), 10) << "what it had set before does not count";
    EXPECT_TRUE(server.set_own(limit, 11).refused_as(RefusalCode::above_ceiling));
    EXPECT_TRUE(server.set_own(limit, 3).accepted());
    EXPECT_EQ(effective_limit(server.acme(), limit), 3);
    EXPECT_TRUE(server.set_own(limit, std::nullopt).accepted()) << "no limit of its own";
    EXPECT_EQ(effective_limit(server.acme(), limit), 10);
    server.set_ceiling(limit, std::nullopt);
    EXPECT_EQ(effective_limit(server.acme(), limit), std::nullopt);
  }
}

TEST(Ceiling, a_tenant_cannot_raise_its_own_weight) {
  TwoTenants server;
  EXPECT_TRUE(server.set_own_weight(2).refused_as(RefusalCode::above_ceiling));
  server.set_ceiling(Limit::max_concurrency, {}, 5);
  EXPECT_EQ(server.acme().weight, 5);
  EXPECT_TRUE(server.set_own_weight(2).accepted());
  EXPECT_TRUE(server.set_own_weight(5).accepted()) << "up to what the installation gave it";
  EXPECT_TRUE(server.set_own_weight(6).refused_as(RefusalCode::above_ceiling));
}

TEST(Ceiling, holds_in_the_scheduler_whatever_the_tenant_sets) {
  TwoTenants server;
  server.publish(one_step);
  server.set_own(Limit::max_concurrency, 4);
  server.set_ceiling(Limit::max_concurrency, 2);
  for (int i = 0; i < 5; ++i) server.create("w");
  Worker& worker = server.worker("w1", 10);
  server.turn();
  EXPECT_EQ(worker.leases.size(), 2u);
}

TEST(Ceiling, holds_after_a_restart_and_through_the_journal) {
  TwoTenants server;
  server.set_ceiling(Limit::max_stored_bytes, std::int64_t{1} << 40, 7);
  server.suspend();
  server.freeze(server.tenant, FreezeScope::installation, "desk");
  const Tenant before = server.acme();
  server.restart();
  EXPECT_TRUE(server.acme() == before);
  Tenant folded;
  folded.id = server.tenant;
  const std::string text = server.store().history(StreamKey::of(server.tenant)).lines;
  std::string_view lines = text;
  while (!lines.empty()) {
    auto event = parse_tenant_event(lines.substr(0, lines.find('\n')));
    ASSERT_TRUE(event.has_value()) << event.error();
    evolve(folded, *event);
    lines.remove_prefix(lines.find('\n') + 1);
  }
  EXPECT_TRUE(folded == before);
}

TEST(Ceiling, a_workflow_cannot_raise_what_a_run_may_write) {
  TwoTenants server;
  server.publish("workflow: w\ncaps: {max_writes_per_run: 5}\nsteps: [{id: a, tool: write}]");
  server.set_ceiling(Limit::max_writes_per_run, 0);
  RunId run = server.create("w");
  server.worker("w1", 1);
  server.turn();
  EXPECT_EQ(server.inspect(run).diagnostic->error_code, "WRITE_CAP_EXCEEDED");
}

TEST(StoredBytes, at_the_limit_nothing_new_begins_and_what_has_begun_ends) {
  TwoTenants server;
  server.publish("workflow: w\nsteps: [{id: a, tool: work, with: {from: '${{ input.text }}'}}]");
  server.set_ceiling(Limit::max_stored_bytes, 3 << 20);
  auto create = [&] {
    NewRun wanted = server.request("w");
    wanted.input = "{\"text\":\"" + std::string(500'000, 'x') + "\"}";
    Answer<RunAnswer> answer;
    server.engine().request(wanted, answer.reply());
    server.turn();
    return answer;
  };
  std::vector<RunId> runs;
  for (auto made = create(); made.accepted(); made = create()) runs.push_back(made.value().run);
  EXPECT_TRUE(create().refused_as(RefusalCode::storage_full));
  EXPECT_GE(runs.size(), 5u);
  EXPECT_LE(runs.size(), 7u);
  EXPECT_GE(server.acme().stored_bytes, 2 << 20);
  // Also for a retry, and for a task; not for anybody else.
  Worker& worker = server.worker("w1", 1);
  server.turn();
  server.fail(worker.take(), false);
  Answer<RunAnswer> again;
  server.engine().request(RetryRun{server.tenant, runs[0], Actor{"admin"}}, again.reply());
  server.turn();
  EXPECT_TRUE(again.refused_as(RefusalCode::storage_full));
  for (std::size_t i = 1; i < runs.size(); ++i) {
    server.offer(worker, 1);
    server.turn();
    server.complete(worker.take());
    EXPECT_EQ(server.status(runs[i]), RunStatus::success);
  }
  server.restart();
  EXPECT_GE(server.acme().stored_bytes, 2 << 20) << "the count stands in the journal";
  TenantId limited = server.tenant;
  server.tenant = server.installation;
  server.publish(one_step);
  server.create("w");
  server.tenant = limited;
  server.set_ceiling(Limit::max_stored_bytes, 100 << 20);
  EXPECT_TRUE(create().accepted());
}

// ---- Suspension

TEST(Suspension, stops_what_runs_counts_no_attempt_and_loses_nothing) {
  TwoTenants server;
  server.publish("workflow: w\nsteps: [{id: a, tool: work, retry: {max_attempts: 1}}]");
  RunId run = server.create("w");
  Worker& worker = server.worker("local/1", 2);
  server.turn();
  Lease lease = worker.take();
  ASSERT_TRUE(server.suspend().accepted());
  ASSERT_EQ(worker.revoked.size(), 1u);
  EXPECT_EQ(worker.revoked[0].second, lease.token);
  EXPECT_TRUE(server.complete(lease).refused_as(RefusalCode::lease_lost));
  EXPECT_TRUE(worker.leases.empty());
  server.offer(worker, 1);
  server.wait(std::chrono::minutes(10));
  server.turn();
  EXPECT_TRUE(worker.leases.empty());
  server.resume();
  Lease again = worker.take();
  EXPECT_EQ(again.attempt, 1) << "the one before was not its own fault";
  server.complete(again);
  EXPECT_EQ(server.status(run), RunStatus::success);
}

TEST(Suspension, a_remote_worker_holds_its_lease_until_it_ends_and_no_attempt_is_counted) {
  TwoTenants server;
  server.publish("workflow: w\nsteps: [{id: a, tool: work, lease: 30s, retry: {max_attempts: 1}}]");
  auto take = [&] {
    std::vector<Lease> taken;
    server.engine().poll({.tenant = server.tenant,
                          .worker = {"far"},
                          .tools = {{"work"}},
                          .max = 1,
                          .wait = Duration(0),
                          .is_wanted = {},
                          .reply = [&](std::vector<Lease> leases) { taken = std::move(leases); }});
    server.turn();
    return taken;
  };
  server.create("w");
  server.create("w");
  Lease first = take().at(0), second = take().at(0);
  server.suspend();
  EXPECT_FALSE(server.heartbeat(first));
  EXPECT_TRUE(take().empty());
  server.resume();
  EXPECT_TRUE(server.heartbeat(first)) << "in time";
  EXPECT_TRUE(server.complete(first).accepted());
  server.suspend();
  server.wait(std::chrono::minutes(10));
  server.turn();
  EXPECT_EQ(server.status(second.run), RunStatus::running) << "its only attempt was not its own to lose";
  server.resume();
  Lease again = take().at(0);
  EXPECT_EQ(again.attempt, 1);
  EXPECT_TRUE(server.complete(second).refused_as(RefusalCode::lease_lost));
  EXPECT_TRUE(server.complete(again).accepted());
}

TEST(Suspension, starts_nothing_not_even_a_run_that_begins_with_an_approval) {
  TwoTenants server;
  server.publish("workflow: w\nsteps: [{id: a, tool: approval, prompt: ok}]");
  server.suspend();
  RunId run = server.create("w");
  server.turn();
  EXPECT_EQ(server.status(run), RunStatus::created);
  server.restart();
  server.turn();
  EXPECT_EQ(server.status(run), RunStatus::created);
  server.resume();
  EXPECT_EQ(server.status(run), RunStatus::waiting);
}

TEST(Suspension, of_one_tenant_leaves_the_others_alone) {
  TwoTenants server;
  server.publish(one_step);
  server.create("w");
  server.suspend();
  server.tenant = server.installation;
  server.publish(one_step);
  server.create("w");
  Worker& worker = server.worker("w1", 5);
  server.turn();
  ASSERT_EQ(worker.leases.size(), 1u);
  EXPECT_EQ(worker.leases[0].tenant, server.installation);
  EXPECT_TRUE(server.suspend().refused_as(RefusalCode::invalid)) << "the installation's own tenant";
}

TEST(Suspension, on_one_server_takes_the_leases_of_the_others_back) {
  Cluster cluster(2);
  TenantId installation = cluster.tenant;
  Answer<TenantId> made;
  cluster.at(0).engine().request(CreateTenant{"acme", Actor{"admin"}}, made.reply());
  cluster.at(0).turn();
  cluster.tenant = made.value();
  ASSERT_NE(cluster.tenant, installation);
  cluster.publish(one_step);
  RunId run = cluster.create(1, cluster.request("w"));
  cluster.at(1).offer(2);
  cluster.at(1).turn();
  Lease lease = cluster.at(1).worker.take();
  cluster.at(0).engine().request(TenantRequest{cluster.tenant, TenantSuspended{"unpaid"}, Actor{"admin"}});
  cluster.at(0).turn();
  // Also when its word to the other server got lost.
  cluster.clock.pass(std::chrono::seconds(2));
  cluster.at(1).turn();
  ASSERT_EQ(cluster.at(1).worker.revoked.size(), 1u);
  EXPECT_EQ(cluster.row(run).status, RunStatus::running);
  EXPECT_FALSE(cluster.row(run).leased);
  for (int i = 0; i < 5; ++i) {
    cluster.clock.pass(std::chrono::seconds(1));
    cluster.at(1).turn();
    cluster.at(0).turn();
  }
  EXPECT_TRUE(cluster.at(1).worker.leases.empty());
  cluster.at(0).engine().request(TenantRequest{cluster.tenant, TenantResumed{}, Actor{"admin"}});
  cluster.at(0).turn();
  cluster.clock.pass(std::chrono::seconds(2));
  cluster.at(1).turn();
  EXPECT_EQ(cluster.at(1).worker.take().attempt, 1);
}

// ---- Freezes

TEST(Freeze, denies_what_is_proposed_and_says_who_froze_it_and_why) {
  TwoTenants server;
  server.publish(one_write);
  Worker& worker = server.worker("w1", 9);
  int actions = 0;
  auto try_one = [&](const std::string& connector = "desk") {
    RunId run = server.create("w");
    Action action = desk_action(connector);
    action.idempotency_key = std::to_string(++actions);
    const Effect effect = server.propose(worker.take(), action).value().effect;
    const pawl::Run now = server.inspect(run);
    EXPECT_EQ(effect == Effect::deny, now.status == RunStatus::denied);
    server.offer(worker, 1);
    return now.diagnostic ? now.diagnostic->error_code + ": " + now.diagnostic->message : std::string("allowed");
  };
  struct Case {
    TenantId tenant;
    FreezeScope scope;
    std::string connector;
    std::string by;
  };
  for (const Case& each : {Case{server.tenant, FreezeScope::tenant, "", "key:boss"},
                           Case{server.tenant, FreezeScope::installation, "", "the installation"},
                           Case{server.installation, FreezeScope::everywhere, "", "the installation"},
                           Case{server.tenant, FreezeScope::tenant, "shop", "key:boss"},
                           Case{server.installation, FreezeScope::everywhere, "shop", "the installation"}}) {
    SCOPED_TRACE(std::string(to_string(each.scope)) + " " + each.connector);
    ASSERT_TRUE(server.freeze(each.tenant, each.scope, each.connector).accepted());
    const std::string told = try_one("shop");
    EXPECT_NE(told.find("EFFECTS_FROZEN"), told.npos) << told;
    EXPECT_NE(told.find("frozen by " + each.by + " since 2027-01-15T08:00:00"), told.npos) << told;
    EXPECT_NE(told.find("an incident"), told.npos) << told;
    if (!each.connector.empty()) {
      EXPECT_EQ(try_one("other"), "allowed");
      EXPECT_EQ(try_one("shops"), "allowed");
      const std::string part = try_one("shop.orders");
      EXPECT_NE(part.find("EFFECTS_FROZEN"), part.npos) << part;
    }
    ASSERT_TRUE(server.unfreeze(each.tenant, each.scope, each.connector).accepted());
  }
  EXPECT_TRUE(server.freeze(server.installation, FreezeScope::installation).accepted());
  EXPECT_EQ(try_one(), "allowed") << "another tenant's";
  EXPECT_TRUE(server.freeze(server.tenant, FreezeScope::everywhere).refused_as(RefusalCode::invalid));
}

TEST(Freeze, names_a_connector_as_actions_do) {
  TwoTenants server;
  for (const char* name : {"Shop", "SHOP", "sh\xd0\xbep", "shop ", "shop\n", " shop", "-shop"})
    EXPECT_TRUE(server.freeze(server.tenant, FreezeScope::tenant, name).refused_as(RefusalCode::invalid)) << name;
}

TEST(Freeze, is_not_missed_by_another_spelling_of_the_connector) {
  TwoTenants server;
  server.publish(one_write);
  Worker& worker = server.worker("w1", 9);
  ASSERT_TRUE(server.freeze(server.tenant, FreezeScope::tenant, "shop").accepted());
  server.create("w");
  const Lease lease = worker.take();
  for (const char* name : {"Shop", "sh\xd0\xbep", "shop ", "shop\xe2\x80\x8b", "shop\n", "shop/x", ".shop"}) {
    EXPECT_TRUE(server.propose(lease, desk_action(name)).refused_as(RefusalCode::invalid)) << name;
    Action action = desk_action();
    action.operation = name;
    EXPECT_TRUE(server.propose(lease, action).refused_as(RefusalCode::invalid)) << name;
  }
}

TEST(Freeze, holds_for_what_people_approved_and_for_calls_that_have_not_begun) {
  TwoTenants server;
  server.publish(one_write);
  Worker& worker = server.worker("w1", 9);
  // Approved, not executed yet.
  RunId approved = server.create("w");
  server.verdict.effect = Effect::needs_approval;
  ASSERT_EQ(server.propose(worker.take(), desk_action()).value().effect, Effect::needs_approval);
  ASSERT_TRUE(server.approve(approved, "person:ada").accepted());
  Lease lease = worker.take();
  // Allowed: the intent is durable, and the worker asks once more before it calls.
  RunId intended = server.create("w");
  server.verdict.effect = Effect::allow;
  Lease other = worker.take();
  Action another = desk_action();
  another.idempotency_key = "desk:2";
  ASSERT_EQ(server.propose(other, another).value().effect, Effect::allow);

  server.freeze(server.tenant, FreezeScope::tenant);
  server.verdict.effect = Effect::needs_approval;
  EXPECT_EQ(server.propose(lease, desk_action()).value().effect, Effect::deny);
  EXPECT_EQ(server.status(approved), RunStatus::denied);
  server.verdict.effect = Effect::allow;
  EXPECT_TRUE(server.propose(other, another).refused_as(RefusalCode::effects_frozen));
  EXPECT_EQ(server.status(intended), RunStatus::running) << "its outcome can still be recorded";
}

TEST(Freeze, of_one_server_holds_on_the_others_from_the_next_proposal_on) {
  Cluster cluster(2);
  cluster.publish("workflow: w\nsteps: [{id: a, tool: work}]");
  RunId run = cluster.create(1, cluster.request("w"));
  cluster.at(1).offer(1);
  cluster.at(1).turn();
  Lease lease = cluster.at(1).worker.take();
  cluster.at(0).engine().request(
      TenantRequest{cluster.tenant, EffectsFrozen{FreezeScope::everywhere, "", "an incident"}, Actor{"admin"}});
  cluster.at(0).turn();
  // No time passes, and nobody tells the other one.
  Answer<GateAnswer> answer;
  cluster.at(1).task([&](Engine& engine) {
    Action action = desk_action();
    engine.request(ProposeEffect{.tenant = cluster.tenant,
                                 .run = lease.run,
                                 .step = lease.step,
                                 .proof = lease.proof(),
                                 .proposal = std::make_shared<const Proposal>(
                                     Proposal{.action = action, .digest = digest_of(sha256, action)}),
                                 .verdict = {.effect = Effect::allow}},
                   answer.reply());
  });
  cluster.at(1).turn();
  EXPECT_EQ(answer.value().effect, Effect::deny);
  EXPECT_EQ(cluster.row(run).status, RunStatus::denied);
  EXPECT_EQ(cluster.row(run).error_code, "EFFECTS_FROZEN");
}

TEST(Freeze, a_repeat_says_nothing_more_and_what_is_not_frozen_cannot_be_lifted) {
  TwoTenants server;
  server.freeze(server.tenant, FreezeScope::tenant);
  const auto seq = server.acme().seq;
  EXPECT_TRUE(server.freeze(server.tenant, FreezeScope::tenant).accepted());
  EXPECT_EQ(server.acme().seq, seq);
  EXPECT_TRUE(server.unfreeze(server.tenant, FreezeScope::installation).refused_as(RefusalCode::not_found));
  EXPECT_TRUE(server.unfreeze(server.tenant, FreezeScope::tenant, "desk").refused_as(RefusalCode::not_found));
}

// ---- Slots

struct SharedSlots : TwoTenants {
  explicit SharedSlots(int slots) {
    pool.name.text = "local/1";
    engine().add_worker(pool.name, {{"work"}}, pool, true);
    engine().offer({pool.name, slots});
    for (TenantId each : {installation, tenant}) {
      tenant = each;
      publish(one_step);
    }
  }
  int held_by(TenantId wanted) const {
    return static_cast<int>(std::ranges::count(pool.leases, wanted, &Lease::tenant));
  }
  void create_many(TenantId of, int count) {
    tenant = of;
    for (int i = 0; i < count; ++i) engine().request(request("w"));
    turn();
  }
  // The step ends, and its slot comes back.
  void finish(TenantId of) {
    auto found = std::ranges::find(pool.leases, of, &Lease::tenant);
    Lease lease = *found;
    pool.leases.erase(found);
    complete(lease);
    engine().offer({pool.name, 1, of});
    turn();
  }

  Worker pool;
};

TEST(Slots, long_steps_of_one_tenant_leave_some_to_those_that_come_later) {
  for (int slots : {2, 8, 64, 256}) {
    SCOPED_TRACE(slots);
    SharedSlots server(slots);
    TenantId busy = server.installation, late = server.tenant;
    server.create_many(busy, 2 * slots);
    const int held = server.held_by(busy);
    EXPECT_GE(held, slots / 2);
    EXPECT_GE(held, slots * 3 / 4 - 1);
    EXPECT_LT(held, slots);
    server.create_many(late, slots);
    EXPECT_GE(server.held_by(late), 1);
    // And as the long ones end, each gets its share.
    for (int i = 0; i < slots; ++i) server.finish(server.held_by(busy) >= server.held_by(late) ? busy : late);
    EXPECT_GE(server.held_by(late), slots / 3);
    EXPECT_GE(server.held_by(busy), slots / 3);
  }
}

TEST(Slots, one_tenant_alone_in_an_installation_gets_all_of_them) {
  TestServer server;
  server.publish(one_step);
  Worker pool;
  pool.name.text = "local/1";
  server.engine().add_worker(pool.name, {{"work"}}, pool, true);
  server.engine().offer({pool.name, 8});
  for (int i = 0; i < 10; ++i) server.create("w");
  EXPECT_EQ(pool.leases.size(), 8u);
  server.engine().remove_worker(pool.name);
}

// ---- The working set

TEST(WorkingSetBytes, runs_that_wait_for_a_worker_leave_memory_by_their_size) {
  TwoTenants server(EngineLimits{.working_set_bytes_max = 4 << 20, .unfolded_bytes_max = 1 << 20});
  server.publish("workflow: w\nsteps: [{id: a, tool: work, with: {from: '${{ input.text }}'}}]");
  std::vector<RunId> runs;
  for (int i = 0; i < 40; ++i) {
    NewRun big = server.request("w");
    big.input = "{\"text\":\"" + std::string(500'000, 'x') + "\"}";
    runs.push_back(server.create(big));
  }
  EXPECT_LE(server.engine().stats().working_set_bytes, 6u << 20);
  EXPECT_LT(server.engine().stats().runs_resident, 20u);
  Worker& worker = server.worker("w1");
  for (int i = 0; i < 40; ++i) {
    server.offer(worker, 1);
    server.turn();
    Lease lease = worker.take();
    EXPECT_EQ(lease.input.size(), 500'000u + 11);
    server.complete(lease);
  }
  EXPECT_EQ(server.engine().stats().runs_resident, 0u);
  EXPECT_EQ(server.engine().stats().working_set_bytes, 0u);
  for (RunId run : runs) EXPECT_EQ(server.status(run), RunStatus::success);
}

TEST(WorkingSetBytes, what_came_when_there_was_room_leaves_when_there_is_none) {
  TwoTenants server(EngineLimits{.working_set_bytes_max = 1 << 20, .unfolded_bytes_max = 0});
  server.publish(one_step);
  server.publish("workflow: big\nsteps: [{id: a, tool: write}]");
  for (int i = 0; i < 50; ++i) server.create("w");
  EXPECT_EQ(server.engine().stats().runs_resident, 50u);
  Worker& worker = server.worker("w1", 1, {{"write"}});
  NewRun big = server.request("big");
  big.input = "{\"text\":\"" + std::string(999'000, 'x') + "\"}";
  server.create(big);
  ASSERT_EQ(worker.leases.size(), 1u) << "a run that a worker holds stays";
  server.publish_policy(allow_all);  // any commit
  EXPECT_LT(server.engine().stats().runs_resident, 50u);
}

}  // namespace
}  // namespace pawl::tests
