// Timers, and the loss of a server, as the engine has them: over restarts, out of memory, and with several servers.
#include <gtest/gtest.h>

#include "engine/cluster.h"
#include "engine/test_server.h"

namespace pawl::tests {
namespace {

using namespace std::chrono_literals;

constexpr const char* timer = "workflow: t\nsteps: [{id: pause, tool: wait, for: 30d}]";
constexpr const char* one_attempt =
    "workflow: w\nsteps: [{id: a, tool: work, lease: 30m, timeout: 1h, retry: {max_attempts: 1}}]";

TEST(Timers, survive_restarts_and_fire_when_they_are_due) {
  TestServer server;
  server.publish(timer);
  RunId run = server.create("t");
  const Instant due = server.now() + 720h;
  for (int i = 0; i < 5; ++i) {
    server.wait(100h);
    server.restart();
    server.turn();
    EXPECT_EQ(server.status(run), RunStatus::waiting);
    EXPECT_EQ(server.inspect(run).steps[0].due_at, due);
  }
  server.wait(220h - 1ms);
  server.turn();
  EXPECT_EQ(server.status(run), RunStatus::waiting);
  server.wait(1ms);
  server.turn();
  EXPECT_EQ(server.status(run), RunStatus::success);
}

TEST(Timers, that_passed_while_the_server_was_down_are_due_at_once) {
  TestServer server;
  server.publish(timer);
  RunId run = server.create("t");
  server.wait(1000h);
  server.restart();
  server.turn();
  EXPECT_EQ(server.status(run), RunStatus::success);
}

TEST(Timers, fire_for_runs_that_left_memory) {
  TestServer server({.working_set_bytes_max = 1});
  server.publish(timer);
  std::vector<RunId> runs;
  for (int i = 0; i < 20; ++i) runs.push_back(server.create("t"));
  server.fold_all();
  for (int i = 0; i < 3; ++i) server.turn();
  server.wait(720h);
  for (int i = 0; i < 3; ++i) server.turn();
  for (RunId run : runs) EXPECT_EQ(server.status(run), RunStatus::success);
}

TEST(Timers, count_neither_as_a_running_step_nor_as_an_attempt) {
  TestServer server;
  server.limit({.max_concurrency = 1});
  server.publish(timer);
  server.publish(one_step);
  for (int i = 0; i < 3; ++i) server.create("t");
  RunId run = server.create("w");
  Worker& worker = server.worker("local/1", 1);
  server.turn();
  server.complete(worker.take());
  EXPECT_EQ(server.status(run), RunStatus::success);
}

TEST(Timers, of_a_server_that_is_gone_are_fired_by_another) {
  Cluster cluster(2);
  cluster.publish(timer);
  RunId run = cluster.create(0, cluster.request("t"));
  cluster.clock.pass(720h - 1ms);
  cluster.at(1).turn();
  EXPECT_EQ(cluster.row(run).status, RunStatus::waiting);
  for (int i = 0; i < 10; ++i) {
    cluster.clock.pass(1s);
    cluster.at(1).turn();
  }
  EXPECT_EQ(cluster.row(run).status, RunStatus::success);
  cluster.check();
}

TEST(LostServers, cost_no_attempt) {
  TestServer server;
  server.publish(one_attempt);
  RunId run = server.create("w");
  for (int i = 0; i < 5; ++i) {
    Worker& worker = server.worker("local/1", 1);
    server.turn();
    EXPECT_EQ(worker.take().attempt, 1);
    server.restart();
  }
  Worker& worker = server.worker("local/1", 1);
  server.turn();
  server.complete(worker.take());
  EXPECT_EQ(server.status(run), RunStatus::success);
  EXPECT_EQ(server.inspect(run).steps[0].server_losses, 5);
}

TEST(LostServers, end_a_step_that_keeps_killing_them) {
  TestServer server;
  server.publish(one_attempt);
  RunId run = server.create("w");
  for (int i = 0; i < server_losses_max; ++i) {
    Worker& worker = server.worker("local/1", 1);
    server.turn();
    worker.take();
    server.restart();
    server.turn();
  }
  EXPECT_EQ(server.status(run), RunStatus::failed);
  EXPECT_EQ(server.inspect(run).diagnostic->error_code, "SERVER_LOST");
}

TEST(LostServers, are_replaced_by_the_others_without_an_attempt) {
  Cluster cluster(2);
  cluster.publish(one_attempt);
  RunId run = cluster.create(0, cluster.request("w"));
  cluster.at(0).offer(1);
  cluster.at(0).turn();
  EXPECT_EQ(cluster.at(0).worker.take().attempt, 1);
  // From here on it does nothing any more, and nobody says so: its lease ends.
  cluster.at(1).offer(1);
  for (int i = 0; i < 40 && cluster.at(1).worker.leases.empty(); ++i) {
    cluster.clock.pass(1s);
    cluster.at(1).turn();
  }
  EXPECT_EQ(cluster.at(1).worker.take().attempt, 1);
  EXPECT_EQ(cluster.fold(run).steps[0].server_losses, 1);
  cluster.check();
}

TEST(LostServers, that_are_known_to_be_gone_are_replaced_at_once) {
  Cluster cluster(3);
  cluster.publish(one_attempt);
  const RunId lost = cluster.create(0, cluster.request("w"));
  const RunId kept = cluster.create(1, cluster.request("w"));
  for (int i : {0, 1}) {
    cluster.at(i).offer(1);
    cluster.at(i).turn();
  }
  const Lease old = cluster.at(0).worker.take();
  Server& third = cluster.at(2);
  third.offer(2);
  News news;
  news.gone = {1};
  third.task([&](Engine& engine) { engine.hear(news); });
  third.turn();
  third.turn();
  const Lease taken = third.worker.take();
  EXPECT_EQ(taken.run, lost);
  EXPECT_EQ(taken.attempt, 1);
  EXPECT_TRUE(third.worker.leases.empty()) << "those of other servers stay theirs";
  EXPECT_EQ(cluster.fold(lost).steps[0].server_losses, 1);
  EXPECT_EQ(cluster.fold(kept).steps[0].server_losses, 0);

  // It was only away, and knows nothing of that.
  Answer<RunAnswer> late;
  StepReport report = completion(old);
  cluster.at(0).task([&](Engine& engine) { engine.request(ReportStep{report}, late.reply()); });
  cluster.at(0).turn();
  EXPECT_TRUE(late.refused_as(RefusalCode::lease_lost));
  EXPECT_EQ(cluster.row(lost).status, RunStatus::running);
  cluster.check();
}

TEST(RefusedRetry, of_a_run_that_goes_on_is_recorded_in_its_stream) {
  TestServer server;
  server.publish(one_step);
  RunId run = server.create("w");
  const auto before = server.inspect(run).seq;
  Answer<RunAnswer> answer;
  server.engine().request(RetryRun{server.tenant, run, Actor{"person:asker"}}, answer.reply());
  server.turn();
  EXPECT_TRUE(answer.refused_as(RefusalCode::run_not_ended));
  EXPECT_EQ(server.inspect(run).seq, before + 1);
}

}  // namespace
}  // namespace pawl::tests
