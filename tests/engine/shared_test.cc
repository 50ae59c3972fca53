// Several engines on one store: each decides on what it has in memory, commits when the test says so, and whatever it
// loses to another is decided again.
#include <gtest/gtest.h>

#include "engine/cluster.h"
#include "engine/resident.h"
#include "support/depth.h"

namespace pawl::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Shared, a_step_that_became_ready_on_one_server_is_taken_by_another) {
  Cluster cluster(2);
  cluster.publish(one_step);
  RunId run = cluster.create(0, cluster.request("w"));
  cluster.at(1).offer(1);
  cluster.clock.pass(seconds(1));
  cluster.at(1).turn();
  ASSERT_EQ(cluster.at(1).worker.leases.size(), 1u);
  EXPECT_EQ(cluster.at(1).worker.leases[0].run, run);
}

constexpr const char* far_steps = "workflow: w\nsteps: [{id: a, tool: far}, {id: b, tool: far}]";

// What a remote worker is given without waiting.
std::vector<Lease> poll(Server& server, TenantId tenant, const std::string& worker) {
  std::vector<Lease> given;
  server.engine().poll({.tenant = tenant,
                        .key = {{1, 1}},
                        .worker = {worker},
                        .tools = {{"far"}},
                        .max = 5,
                        .is_wanted = {},
                        .reply = [&](std::vector<Lease> leases) { given = std::move(leases); }});
  server.turn();
  return given;
}

TEST(Shared, a_remote_worker_is_given_at_once_what_nobody_waited_for) {
  for (std::size_t server : {0, 1}) {
    Cluster cluster(2);
    cluster.publish(far_steps);
    cluster.at(1).turn();
    RunId run = cluster.create(0, cluster.request("w"));
    cluster.at(1).turn();
    auto leases = poll(cluster.at(server), cluster.tenant, "remote");
    ASSERT_EQ(leases.size(), 1u);
    EXPECT_EQ(leases[0].run, run);
  }
}

TEST(Shared, what_becomes_ready_waits_a_moment_for_the_worker_that_will_be_back) {
  Cluster cluster(2);
  cluster.publish(far_steps);
  RunId run = cluster.create(0, cluster.request("w"));
  auto complete = [&](const std::vector<Lease>& leases) {
    ASSERT_EQ(leases.size(), 1u);
    StepReport report = completion(leases[0]);
    Answer<RunAnswer> answer;
    cluster.at(0).engine().request(ReportStep{report}, answer.reply());
    cluster.at(0).turn();
    EXPECT_TRUE(answer.accepted());
  };
  complete(poll(cluster.at(0), cluster.tenant, "remote"));
  EXPECT_TRUE(poll(cluster.at(1), cluster.tenant, "other").empty());
  complete(poll(cluster.at(0), cluster.tenant, "remote"));
  EXPECT_EQ(cluster.row(run).status, RunStatus::success);

  // It does not come back, so the other one is given the step.
  run = cluster.create(0, cluster.request("w"));
  complete(poll(cluster.at(0), cluster.tenant, "remote"));
  cluster.clock.pass(seconds(1));
  auto leases = poll(cluster.at(1), cluster.tenant, "other");
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].step.text, "b");
}

TEST(Shared, no_more_waits_for_a_worker_than_it_takes) {
  Cluster cluster(2);
  cluster.publish(far_steps);
  cluster.create(0, cluster.request("w"));
  EXPECT_EQ(poll(cluster.at(0), cluster.tenant, "remote").size(), 1u);
  for (int i = 0; i < 8; ++i) cluster.create(0, cluster.request("w"));
  // It takes five; the others are anybody's at once.
  EXPECT_EQ(poll(cluster.at(1), cluster.tenant, "other").size(), 3u);
}

TEST(Shared, a_report_may_come_to_any_server) {
  Cluster cluster(2);
  cluster.publish(two_steps);
  cluster.at(0).offer(1);
  RunId run = cluster.create(0, cluster.request("w"));
  Lease lease = cluster.at(0).worker.take();
  StepReport report = completion(lease);
  Answer<RunAnswer> answer;
  cluster.at(1).engine().request(ReportStep{report}, answer.reply());
  cluster.at(1).turn();
  EXPECT_TRUE(answer.accepted());
  EXPECT_EQ(cluster.fold(run).steps[0].status, StepStatus::succeeded);
  // The first server's copy is behind; its worker says the same once more and is refused.
  StepReport late = completion(lease);
  Answer<RunAnswer> refused;
  cluster.at(0).engine().request(ReportStep{late}, refused.reply());
  cluster.at(0).turn();
  EXPECT_TRUE(refused.refused_as(RefusalCode::lease_lost));
}

TEST(Shared, what_two_servers_decide_at_once_happens_once) {
  Cluster cluster(2);
  cluster.publish("workflow: w\nsteps: [{id: ok, tool: approval, expires: 4h}]");
  RunId run = cluster.create(0, cluster.request("w"));
  cluster.at(0).turn();
  ASSERT_EQ(cluster.row(run).status, RunStatus::waiting);
  Answer<RunAnswer> approved, rejected;
  cluster.at(0).engine().request(RunRequest{cluster.tenant, run, ResolveApproval{{}, true, Actor{"person:a"}, {}}},
                                 approved.reply());
  cluster.at(1).engine().request(RunRequest{cluster.tenant, run, ResolveApproval{{}, false, Actor{"person:b"}, {}}},
                                 rejected.reply());
  cluster.at(0).decide();
  cluster.at(1).decide();
  cluster.at(1).commit();
  cluster.at(0).commit();
  EXPECT_TRUE(rejected.accepted());
  EXPECT_FALSE(approved.came());  // it is being decided again
  cluster.at(0).turn();
  ASSERT_TRUE(approved.came());
  EXPECT_FALSE(approved.accepted());
  EXPECT_EQ(cluster.row(run).status, RunStatus::denied);
  cluster.check();
}

TEST(Shared, a_refusal_is_about_the_run_as_it_is) {
  Cluster cluster(2);
  cluster.publish("workflow: w\nsteps: [{id: a, tool: work, needs: []}, {id: ok, tool: approval, expires: 4h}]");
  cluster.at(0).offer(1);
  RunId run = cluster.create(0, cluster.request("w"));
  StepReport report = completion(cluster.at(0).worker.take());
  cluster.at(1).engine().request(ReportStep{report});
  cluster.at(1).turn();
  ASSERT_EQ(cluster.row(run).status, RunStatus::waiting);
  // The first server still believes that nothing waits for a person.
  Answer<RunAnswer> approved;
  cluster.at(0).engine().request(RunRequest{cluster.tenant, run, ResolveApproval{{}, true, Actor{"person:a"}, {}}},
                                 approved.reply());
  cluster.at(0).turn();
  EXPECT_TRUE(approved.accepted());
}

TEST(Shared, a_retry_stands_on_an_end_that_is_durable) {
  for (bool other_was_faster : {false, true}) {
    Cluster cluster(2);
    cluster.publish("workflow: w\nsteps: [{id: a, tool: work}]");
    cluster.at(0).offer(1);
    RunId run = cluster.create(0, cluster.request("w"));
    Lease lease = cluster.at(0).worker.take();
    Answer<RunAnswer> canceled, again, completed;
    cluster.at(0).task([&](Engine& engine) {
      engine.request(RunRequest{cluster.tenant, run, CancelRun{Actor{"person:ada"}, ""}}, canceled.reply());
    });
    cluster.at(0).task([&](Engine& engine) {
      engine.request(RetryRun{cluster.tenant, run, Actor{"person:ada"}}, again.reply());
    });
    cluster.at(0).decide();
    StepReport report = completion(lease);
    if (other_was_faster) {
      cluster.at(1).engine().request(ReportStep{report}, completed.reply());
      cluster.at(1).turn();
      EXPECT_TRUE(completed.accepted());
    }
    cluster.at(0).turn();
    ASSERT_TRUE(canceled.came() && again.came());
    EXPECT_EQ(again.accepted(), !other_was_faster);
    EXPECT_EQ(cluster.database.runs.size(), other_was_faster ? 1u : 2u) << "a retry of a run that succeeded";
    cluster.check();
  }
}

TEST(Shared, one_idempotency_key_makes_one_run_on_however_many_servers) {
  Cluster cluster(3);
  cluster.publish(one_step);
  std::vector<Answer<RunAnswer>> answers(30);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    NewRun request = cluster.request("w");
    request.idempotency = std::make_shared<const Idempotency>(Idempotency{"key", "once", "digest"});
    cluster.at(i % 3).task([&](Engine& engine) { engine.request(std::move(request), answers[i].reply()); });
    if (i % 7 == 6) cluster.at(i % 3).decide();
  }
  for (int round = 0; round < 5; ++round)
    for (std::size_t i = 0; i < 3; ++i) cluster.at(i).turn();
  int made = 0;
  for (auto& answer : answers) {
    ASSERT_TRUE(answer.accepted());
    EXPECT_EQ(answer.value().run, answers[0].value().run);
    made += answer.value().is_new;
  }
  EXPECT_EQ(made, 1);
  EXPECT_EQ(cluster.database.runs.size(), 1u);
}

TEST(Shared, a_repeat_is_answered_with_the_state_of_the_run_that_was_made) {
  Cluster cluster(2);
  cluster.publish(one_step);
  auto create = [&](std::size_t by, Answer<RunAnswer>& answer) {
    NewRun request = cluster.request("w");
    request.idempotency = std::make_shared<const Idempotency>(Idempotency{"key", "once", "digest"});
    request.wants_state = true;
    cluster.at(by).task([&](Engine& engine) { engine.request(std::move(request), answer.reply()); });
    cluster.at(by).decide();
  };
  Answer<RunAnswer> first, second;
  create(0, first);
  create(1, second);
  cluster.at(0).commit();
  cluster.at(1).commit();
  cluster.at(1).turn();
  ASSERT_TRUE(first.accepted() && second.accepted());
  EXPECT_EQ(second.value().run, first.value().run);
  EXPECT_EQ(second.value().state->id, first.value().state->id);
  EXPECT_FALSE(second.value().is_new);
}

TEST(Shared, an_answer_that_says_all_waits_for_those_that_are_decided_again) {
  Cluster cluster(2);
  cluster.publish(one_step);
  NewRun twin = cluster.request("w");
  twin.idempotency = std::make_shared<const Idempotency>(Idempotency{"key", "once", "digest"});
  Answer<RunAnswer> mine, other, plain;
  bool all = false;
  cluster.at(0).task([&](Engine& engine) { engine.request(twin, other.reply()); });
  cluster.at(1).task([&](Engine& engine) {
    engine.request(twin, mine.reply());
    engine.request(cluster.request("w"), plain.reply());
    engine.when_durable([&] {
      all = true;
      EXPECT_TRUE(mine.came() && plain.came());
    });
  });
  cluster.at(1).decide();
  cluster.at(0).turn();
  cluster.at(1).commit();
  EXPECT_FALSE(all);
  cluster.at(1).turn();
  EXPECT_TRUE(all);
}

TEST(Shared, a_run_is_made_of_the_version_that_is_the_latest_anywhere) {
  Cluster cluster(2);
  cluster.publish(one_step);
  cluster.create(1, cluster.request("w"));
  cluster.publish(two_steps, 0);
  RunId run = cluster.create(1, cluster.request("w"));
  EXPECT_EQ(cluster.row(run).version, 2);
}

TEST(Shared, two_servers_that_publish_at_once_make_two_versions) {
  Cluster cluster(2);
  Answer<WorkflowRef> first, second;
  cluster.at(0).engine().request(PublishWorkflow{cluster.tenant, one_step, "test", Actor{"a"}}, first.reply());
  cluster.at(1).engine().request(PublishWorkflow{cluster.tenant, two_steps, "test", Actor{"b"}}, second.reply());
  cluster.at(0).decide();
  cluster.at(1).decide();
  cluster.at(0).commit();
  cluster.at(1).commit();
  cluster.at(1).turn();
  EXPECT_EQ(first.value().version, 1);
  EXPECT_EQ(second.value().version, 2);
  EXPECT_EQ(cluster.database.workflows.size(), 2u);
  cluster.check();
}

TEST(Shared, a_workflow_that_is_not_what_was_published_is_not_used_and_is_reported) {
  for (bool with_its_digest : {false, true}) {
    Cluster cluster(2);
    std::vector<std::string> reported;
    cluster.at(1).engine().on_damage(
        [&](const std::string& subject, const std::string&) { reported.push_back(subject); });
    cluster.publish(one_step);
    auto& [key, row] = *cluster.database.workflows.begin();
    const WorkflowRow published = row;
    row.source += "\n# forged";
    if (with_its_digest) row.digest = sha256(row.source).hex();
    Answer<RunAnswer> answer;
    cluster.at(1).engine().request(cluster.request("w"), answer.reply());
    cluster.at(1).turn();
    EXPECT_FALSE(answer.accepted());
    ASSERT_FALSE(reported.empty());
    EXPECT_EQ(reported.front(), "workflow w v1");
    row = published;
    RunId run = cluster.create(1, cluster.request("w"));
    EXPECT_EQ(cluster.row(run).version, 1) << "as soon as it is repaired";
  }
}

TEST(Shared, two_servers_that_publish_policies_at_once_make_two_versions) {
  Cluster cluster(2);
  auto source = [](const char* effect) {
    return PolicySource::read(std::string("policy: p\nrules: [{id: all, effect: ") + effect + "}]", "p").value();
  };
  Answer<PolicyRef> first, second, same;
  cluster.at(0).engine().request(PublishPolicy{cluster.tenant, source("allow"), Actor{"a"}}, first.reply());
  cluster.at(1).engine().request(PublishPolicy{cluster.tenant, source("deny"), Actor{"b"}}, second.reply());
  cluster.at(0).decide();
  cluster.at(1).decide();
  cluster.at(0).commit();
  cluster.at(1).commit();
  cluster.at(1).turn();
  EXPECT_EQ(first.value().version, 1);
  EXPECT_EQ(second.value().version, 2);
  cluster.at(0).engine().request(PublishPolicy{cluster.tenant, source("deny"), Actor{"a"}}, same.reply());
  cluster.at(0).turn();
  EXPECT_EQ(same.value().version, 2);
  EXPECT_FALSE(same.value().is_new);
  cluster.check();
}

TEST(Shared, one_name_is_one_tenant) {
  Cluster cluster(2);
  Answer<TenantId> first, second;
  cluster.at(0).engine().request(CreateTenant{"acme", Actor{"a"}}, first.reply());
  cluster.at(1).engine().request(CreateTenant{"acme", Actor{"b"}}, second.reply());
  cluster.at(0).decide();
  cluster.at(1).decide();
  cluster.at(0).commit();
  cluster.at(1).commit();
  cluster.at(1).turn();
  EXPECT_EQ(first.value(), second.value());
}

TEST(Shared, a_lease_of_a_server_that_died_is_taken_over) {
  Cluster cluster(2);
  cluster.publish(one_step);
  cluster.at(0).offer(1);
  RunId run = cluster.create(0, cluster.request("w"));
  Lease dead = cluster.at(0).worker.take();
  cluster.at(1).offer(1);
  for (int i = 0; i < 40 && cluster.at(1).worker.leases.empty(); ++i) {
    cluster.clock.pass(seconds(1));
    cluster.at(1).turn();
  }
  ASSERT_EQ(cluster.at(1).worker.leases.size(), 1u);
  Lease taken = cluster.at(1).worker.take();
  EXPECT_EQ(taken.run, run);
  EXPECT_GT(taken.token, dead.token);
  StepReport late = completion(dead);
  Answer<RunAnswer> refused;
  cluster.at(0).engine().request(ReportStep{late}, refused.reply());
  cluster.at(0).turn();
  EXPECT_TRUE(refused.refused_as(RefusalCode::lease_lost));
}

TEST(Shared, a_lease_that_its_worker_keeps_alive_on_another_server_is_not_taken) {
  Cluster cluster(2);
  cluster.publish(one_step);
  std::vector<Lease> leases;
  cluster.at(0).engine().poll({.tenant = cluster.tenant,
                               .key = {{1, 1}},
                               .worker = {"remote"},
                               .tools = {{"work"}},
                               .max = 1,
                               .is_wanted = {},
                               .reply = [&](std::vector<Lease> granted) { leases = std::move(granted); }});
  RunId watched = cluster.create(0, cluster.request("w"));
  ASSERT_EQ(leases.size(), 1u);
  cluster.at(0).offer(1);
  cluster.at(1).offer(1);
  for (int i = 0; i < 120; ++i) {
    cluster.clock.pass(seconds(1));
    if (i % 10 == 0) {
      const Lease& lease = leases[0];
      Answer<Instant> extended;
      cluster.at(1).engine().request(Heartbeat{lease.tenant, lease.run, lease.step, lease.proof()}, extended.reply());
      cluster.at(1).turn();
      ASSERT_TRUE(extended.accepted()) << i;
      EXPECT_EQ(extended.value(), cluster.clock.now() + seconds(30));
    }
    cluster.at(1).turn();
    cluster.at(0).turn();
  }
  EXPECT_TRUE(cluster.at(0).worker.leases.empty() && cluster.at(1).worker.leases.empty());
  StepReport report = completion(leases[0]);
  Answer<RunAnswer> done;
  cluster.at(0).engine().request(ReportStep{report}, done.reply());
  cluster.at(0).turn();
  EXPECT_TRUE(done.accepted());
  EXPECT_EQ(cluster.row(watched).status, RunStatus::success);
}

constexpr const char* leased_beside_another =
    "workflow: w\nsteps: [{id: a, tool: far, lease: 30s, needs: []}, {id: b, tool: work, needs: []}]";

TEST(Shared, a_heartbeat_is_answered_when_its_extension_is_durable) {
  Cluster cluster(1);
  cluster.publish(leased_beside_another);
  RunId run = cluster.create(0, cluster.request("w"));
  Lease lease = poll(cluster.at(0), cluster.tenant, "remote").at(0);
  auto written = cluster.row(run).revision;
  cluster.clock.pass(seconds(10));
  Answer<Instant> extended;
  cluster.at(0).engine().request(Heartbeat{lease.tenant, run, lease.step, lease.proof()}, extended.reply());
  cluster.at(0).decide();
  EXPECT_FALSE(extended.came());
  cluster.at(0).commit();
  ASSERT_TRUE(extended.accepted());
  EXPECT_NE(cluster.row(run).revision, written);
  EXPECT_EQ(cluster.row(run).due_at, extended.value()) << "whoever loads the run knows of it";
}

TEST(Shared, a_heartbeat_that_loses_against_another_server_is_decided_again) {
  Cluster cluster(2);
  cluster.publish(leased_beside_another);
  cluster.at(1).turn();
  RunId run = cluster.create(0, cluster.request("w"));
  Lease lease = poll(cluster.at(0), cluster.tenant, "remote").at(0);
  cluster.clock.pass(seconds(20));
  Answer<Instant> extended;
  cluster.at(0).engine().request(Heartbeat{lease.tenant, run, lease.step, lease.proof()}, extended.reply());
  cluster.at(0).decide();
  // Meanwhile another server's worker takes the other step of the run.
  cluster.at(1).offer(1);
  cluster.at(1).turn();
  Lease other = cluster.at(1).worker.take();
  ASSERT_EQ(other.run, run);
  cluster.at(0).commit();
  EXPECT_FALSE(extended.came()) << "nothing of it is durable";
  cluster.at(0).turn();
  ASSERT_TRUE(extended.accepted());
  // The time that the claim gave has passed; that of the heartbeat has not.
  cluster.clock.pass(seconds(20));
  for (std::size_t server : {0, 1})
    EXPECT_TRUE(poll(cluster.at(server), cluster.tenant, "thief").empty()) << "server " << server;
  cluster.clock.pass(seconds(11));
  EXPECT_EQ(poll(cluster.at(1), cluster.tenant, "next").size(), 1u);
}

TEST(Shared, a_heartbeat_that_loses_against_the_end_of_its_run_is_refused) {
  Cluster cluster(2);
  cluster.publish(leased_beside_another);
  cluster.at(1).turn();
  RunId run = cluster.create(0, cluster.request("w"));
  Lease lease = poll(cluster.at(0), cluster.tenant, "remote").at(0);
  Answer<Instant> extended;
  cluster.at(0).engine().request(Heartbeat{lease.tenant, run, lease.step, lease.proof()}, extended.reply());
  cluster.at(0).decide();
  cluster.at(1).engine().request(RunRequest{cluster.tenant, run, CancelRun{Actor{"person:a"}, {}}});
  cluster.at(1).turn();
  cluster.at(0).turn();
  EXPECT_TRUE(extended.refused_as(RefusalCode::lease_lost));
}

TEST(Shared, a_cancel_on_another_server_reaches_the_worker_here) {
  Cluster cluster(2);
  cluster.publish(one_step);
  cluster.at(0).offer(1);
  RunId run = cluster.create(0, cluster.request("w"));
  Lease lease = cluster.at(0).worker.take();
  cluster.at(1).engine().request(RunRequest{cluster.tenant, run, CancelRun{Actor{"person:a"}, {}}});
  cluster.at(1).turn();
  cluster.clock.pass(seconds(2));
  cluster.at(0).turn();
  ASSERT_EQ(cluster.at(0).worker.revoked.size(), 1u);
  EXPECT_EQ(cluster.at(0).worker.revoked[0].second, lease.token);
}

TEST(Shared, caps_hold_over_all_servers) {
  Cluster cluster(3);
  cluster.publish(one_step);
  cluster.at(0).engine().request(
      TenantRequest{cluster.tenant, ChangeLimits{{{}, {{Limit::max_concurrency, 4}}}}, Actor{"admin"}});
  cluster.at(0).turn();
  cluster.clock.pass(seconds(2));
  for (std::size_t i = 0; i < 3; ++i) cluster.at(i).offer(100);
  std::vector<Answer<RunAnswer>> answers(60);
  for (std::size_t i = 0; i < answers.size(); ++i)
    cluster.at(i % 3).engine().request(cluster.request("w"), answers[i].reply());
  int finished = 0;
  for (int round = 0; round < 2000 && finished < 60; ++round) {
    Server& server = cluster.at(static_cast<std::size_t>(round) % 3);
    cluster.clock.pass(milliseconds(20));
    server.turn();
    ASSERT_LE(cluster.database.running(cluster.tenant), 4);
    if (!server.worker.leases.empty()) {
      StepReport report = completion(server.worker.take());
      server.engine().request(ReportStep{report});
      ++finished;
    }
  }
  EXPECT_EQ(finished, 60);
  for (auto& answer : answers) EXPECT_TRUE(answer.accepted());
  std::uint64_t held_back = 0;
  for (std::size_t i = 0; i < 3; ++i)
    held_back += cluster.at(i).engine().scheduler().held_back(cluster.tenant).max_concurrency;
  EXPECT_GT(held_back, 0u);
}

TEST(Shared, caps_that_two_servers_change_at_once_are_both_changed) {
  Cluster cluster(2);
  cluster.publish(one_step);
  cluster.clock.pass(seconds(2));
  cluster.at(1).turn();
  Answer<TenantId> first, second;
  cluster.at(0).engine().request(
      TenantRequest{cluster.tenant, ChangeLimits{{{}, {{Limit::max_concurrency, 4}}}}, Actor{"admin"}}, first.reply());
  cluster.at(1).engine().request(
      TenantRequest{cluster.tenant, ChangeLimits{{{}, {{Limit::max_runs_per_min, 7}}}}, Actor{"admin"}},
      second.reply());
  for (int round = 0; round < 10; ++round) {
    cluster.at(static_cast<std::size_t>(round) % 2).turn();
    cluster.clock.pass(seconds(2));
  }
  ASSERT_TRUE(first.accepted());
  ASSERT_TRUE(second.accepted());
  for (std::size_t i = 0; i < 2; ++i) {
    const Caps caps = effective_caps(*cluster.at(i).engine().find_tenant(cluster.tenant));
    EXPECT_EQ(caps.max_concurrency, 4) << "at server " << i;
    EXPECT_EQ(caps.max_runs_per_min, 7) << "at server " << i;
  }
}

// Random requests at random servers, whose turns are committed in random order, some of them many turns late; servers
// die and new ones come. In the end every run has ended, and every stream is whole.
class Chaos : public testing::TestWithParam<int> {};

TEST_P(Chaos, ends_with_every_run_done_and_every_stream_whole) {
  for (std::uint64_t seed = 1; seed <= repeats<std::uint64_t>(20, 60); ++seed) {
    Random dice(seed * 1000 + static_cast<std::uint64_t>(GetParam()));
    Cluster cluster(3);
    cluster.publish(
        "workflow: w\nretry: {max_attempts: 50, base: 1s, max: 2s}\nsteps: [{id: a, tool: work, needs: [], lease: 5s}, "
        "{id: b, tool: work, needs: [], lease: 5s}, {id: ok, tool: approval, expires: 400h, needs: [a]}, "
        "{id: c, tool: work, needs: [b, ok], lease: 5s}]");
    std::vector<bool> alive(3, true);
    std::vector<RunId> runs;
    std::vector<std::shared_ptr<Answer<RunAnswer>>> asked;
    // A worker says what it did until somebody answers.
    struct Held {
      Lease lease;
      std::shared_ptr<bool> answered = std::make_shared<bool>(false);
    };
    std::vector<Held> held;
    auto report = [&](Server& server, const Held& one, bool fails) {
      StepReport said = completion(one.lease);
      if (fails) said.outcome = Failed{"TOOL_FAILED", "it did not work", true, {}, {}};
      server.task(
          [&](Engine& engine) { engine.request(ReportStep{said}, [done = one.answered](auto) { *done = true; }); });
    };
    auto live_server = [&]() -> Server& {
      for (;;) {
        auto i = static_cast<std::size_t>(dice.below(cluster.size()));
        if (alive[i]) return cluster.at(i);
      }
    };
    auto take_leases = [&] {
      for (std::size_t i = 0; i < cluster.size(); ++i)
        while (alive[i] && !cluster.at(i).worker.leases.empty()) held.push_back({cluster.at(i).worker.take()});
      std::erase_if(held, [](const Held& one) { return *one.answered; });
    };
    for (int i = 0; i < 400; ++i) {
      Server& server = live_server();
      switch (dice.below(10)) {
        case 0:
          asked.push_back(std::make_shared<Answer<RunAnswer>>());
          server.task([&](Engine& engine) {
            engine.request(cluster.request("w"), [&runs, slot = asked.back()->slot](auto answer) {
              if (answer) runs.push_back(answer->run);
              *slot = std::move(answer);
            });
          });
          break;
        case 1:
        case 2:
          server.offer(1 + static_cast<int>(dice.below(3)));
          break;
        case 3:
        case 4:
          take_leases();
          if (!held.empty())
            report(server, held[static_cast<std::size_t>(dice.below(held.size()))], dice.below(8) == 0);
          break;
        case 5:
          if (!runs.empty())
            server.task([&](Engine& engine) {
              engine.request(RunRequest{cluster.tenant, runs[static_cast<std::size_t>(dice.below(runs.size()))],
                                        ResolveApproval{{}, true, Actor{"person:a"}, {}}});
            });
          break;
        case 6:
          server.decide();
          break;
        case 7:
          server.commit();
          break;
        case 8:
          cluster.clock.pass(milliseconds(static_cast<std::int64_t>(dice.below(2000))));
          break;
        case 9:
          if (dice.below(15) == 0) {  // dies, with whatever it had under way
            cluster.add_server();
            alive.push_back(true);
            auto victim = static_cast<std::size_t>(dice.below(alive.size()));
            if (std::ranges::count(alive, true) > 1) alive[victim] = false;
          }
          break;
      }
    }
    // Faults stop; all goes on.
    auto unfinished = [&] {
      return std::ranges::any_of(cluster.database.runs,
                                 [](auto& each) { return !is_terminal(each.second.row.status); });
    };
    for (int round = 0; round < 3000 && unfinished(); ++round) {
      cluster.clock.pass(milliseconds(100));
      for (std::size_t i = 0; i < cluster.size(); ++i) {
        if (!alive[i]) continue;
        cluster.at(i).offer(1);
        take_leases();
        for (const Held& one : held) report(cluster.at(i), one, false);
        for (auto& [key, each] : cluster.database.runs)
          if (each.row.status == RunStatus::waiting && round % 5 == 0)
            cluster.at(i).engine().request(
                RunRequest{key.tenant, each.row.id, ResolveApproval{{}, true, Actor{"person:a"}, {}}});
        cluster.at(i).turn();
      }
    }
    cluster.check();
    for (auto& [key, each] : cluster.database.runs)
      EXPECT_EQ(to_string(each.row.status), "success") << cluster.describe(each.row.id);
    if (HasFailure()) {
      std::string who;
      for (bool one : alive) who += one ? "+" : "-";
      FAIL() << "seed " << seed << " servers " << who;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Chaos, testing::Range(0, 4));

}  // namespace
}  // namespace pawl::tests
