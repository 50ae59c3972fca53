// Tasks in the engine: with one server, and with several that are faster than each other at every turn.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/cluster.h"
#include "engine/test_server.h"
#include "support/depth.h"

namespace pawl::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* work_once =
    "workflow: w\nsteps: [{id: a, tool: work, lease: 60s, timeout: 1h, retry: {max_attempts: 1}}]";
const Actor ada{"person:ada"};
const auto race_seeds = repeats<std::uint64_t>(300, 3000);

NewTask some_task(TenantId tenant, const std::string& title = "Sweep") {
  NewTask out;
  out.tenant = tenant;
  out.by = ada;
  out.spec.title = title;
  out.spec.workflow.text = "w";
  return out;
}

// Several servers, at whose requests the dice decide who commits first.
class Square {
 public:
  Square(std::size_t servers, std::uint64_t seed) : cluster(servers), dice(seed) {
    cluster.publish(work_once);
    Answer<WorkflowRef> answer;
    cluster.at(0).task([&](Engine& engine) {
      engine.request(PrepareTasks{cluster.tenant, TaskAgent::none}, answer.reply());
    });
    cluster.at(0).turn();
    EXPECT_TRUE(answer.accepted());
  }

  TaskId add(std::optional<TaskId> parent = {}, std::vector<TaskId> depends_on = {}) {
    NewTask task = some_task(cluster.tenant);
    task.spec.parent = parent;
    task.spec.depends_on = std::move(depends_on);
    Answer<RunAnswer> answer;
    Server& server = any();
    server.task([&](Engine& engine) { engine.request(task, answer.reply()); });
    server.turn();
    EXPECT_TRUE(answer.accepted()) << (answer.came() ? (*answer.slot)->error().message : "no answer");
    return task_of_stream(answer.value().run);
  }
  Server& any() { return cluster.at(dice.below(cluster.size())); }

  // Decided, and not committed yet.
  Answer<RunAnswer> ask(Server& server, TaskId task, TaskCommand command) {
    Answer<RunAnswer> answer;
    server.task([&](Engine& engine) { engine.request(TaskRequest{cluster.tenant, task, command}, answer.reply()); });
    return answer;
  }
  Answer<RunAnswer> ask_now(TaskId task, TaskCommand command) {
    Server& server = any();
    auto answer = ask(server, task, std::move(command));
    server.turn();
    return answer;
  }
  // As the follower does it: until nothing is in the way.
  TaskView follow(TaskId task) {
    while (true) {
      Answer<TaskView> answer;
      Server& server = any();
      server.task([&](Engine& engine) { engine.request(UpdateTask{cluster.tenant, task}, answer.reply()); });
      server.turn();
      EXPECT_TRUE(answer.accepted());
      if (!answer.value().is_unsettled) return answer.value();
    }
  }
  pawl::Run stream(TaskId task) { return cluster.fold(stream_of(task)); }
  TaskState state(TaskId task) { return stream(task).task->state; }
  // All that is under way is committed, in an order that the dice choose.
  void settle() {
    for (bool any_left = true; any_left;) {
      any_left = false;
      std::vector<std::size_t> order(cluster.size());
      for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
      for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[dice.below(i)]);
      for (std::size_t i : order) {
        if (dice.below(2) == 0) cluster.at(i).decide();
        cluster.at(i).commit();
        any_left = any_left || cluster.at(i).under_way() > 0;
      }
    }
    for (std::size_t i = 0; i < cluster.size(); ++i) cluster.at(i).turn();
  }
  // Has the task's step taken, by whichever server comes first.
  Lease begin(TaskId task) {
    EXPECT_TRUE(ask_now(task, RunTask{ada}).accepted());
    follow(task);
    Lease lease = take();
    follow(task);
    EXPECT_EQ(state(task), TaskState::running);
    return lease;
  }
  Lease take() {
    for (int round = 0; round < 100; ++round) {
      Server& server = any();
      server.offer(1);
      server.engine().ready_is_durable();
      server.turn();
      if (!server.worker.leases.empty()) return server.worker.take();
      cluster.clock.pass(milliseconds(300));
    }
    throw std::runtime_error("nobody was given the step");
  }

  Cluster cluster;
  Random dice;
};

TEST(Tasks, a_completion_and_a_cancel_at_once_have_one_outcome) {
  std::uint64_t completed = 0, cancelled = 0;
  for (std::uint64_t seed = 1; seed <= race_seeds; ++seed) {
    SCOPED_TRACE(seed);
    Square square(2, seed);
    TaskId task = square.add();
    Lease lease = square.begin(task);
    auto cancel = square.ask(square.cluster.at(0), task, CancelTask{ada, ""});
    Answer<RunAnswer> done;
    StepReport report = completion(lease);
    square.cluster.at(1).task([&](Engine& engine) { engine.request(ReportStep{report}, done.reply()); });
    square.settle();
    ASSERT_TRUE(cancel.came() && done.came());
    square.follow(task);
    RunStatus run = square.cluster.row(lease.run).status;
    TaskState state = square.state(task);
    ASSERT_TRUE(run == RunStatus::success || run == RunStatus::canceled);
    EXPECT_EQ(state, run == RunStatus::success ? TaskState::ready : TaskState::cancelled);
    EXPECT_EQ(done.accepted(), run == RunStatus::success);
    ++(run == RunStatus::success ? completed : cancelled);
    square.cluster.check();
  }
  EXPECT_GT(completed, race_seeds / 60);
  EXPECT_GT(cancelled, race_seeds / 60);
}

TEST(Tasks, an_accept_and_a_reject_at_once_have_one_outcome) {
  std::uint64_t accepts = 0;
  for (std::uint64_t seed = 1; seed <= race_seeds; ++seed) {
    SCOPED_TRACE(seed);
    Square square(2, seed);
    TaskId task = square.add();
    Lease lease = square.begin(task);
    StepReport report = completion(lease);
    square.cluster.at(0).task([&](Engine& engine) { engine.request(ReportStep{report}); });
    square.settle();
    square.follow(task);
    ASSERT_EQ(square.state(task), TaskState::ready);
    auto accept = square.ask(square.cluster.at(0), task, AcceptTask{ada});
    auto reject = square.ask(square.cluster.at(1), task, RejectTask{ada, "no"});
    square.settle();
    ASSERT_TRUE(accept.came() && reject.came());
    EXPECT_NE(accept.accepted(), reject.accepted());
    EXPECT_EQ(square.state(task), accept.accepted() ? TaskState::completed : TaskState::pending);
    EXPECT_TRUE((accept.accepted() ? reject : accept).refused_as(RefusalCode::task_transition));
    accepts += accept.accepted();
    square.cluster.check();
  }
  EXPECT_GT(accepts, race_seeds / 30);
  EXPECT_LT(accepts, race_seeds - race_seeds / 30);
}

TEST(Tasks, an_answer_and_a_time_out_at_once_have_one_outcome) {
  std::uint64_t gone_on = 0, anew = 0;
  for (std::uint64_t seed = 1; seed <= race_seeds; ++seed) {
    SCOPED_TRACE(seed);
    Square square(2, seed);
    NewTask wanted = some_task(square.cluster.tenant);
    wanted.spec.timeout = seconds(100);
    Answer<RunAnswer> made;
    square.cluster.at(0).task([&](Engine& engine) { engine.request(wanted, made.reply()); });
    square.cluster.at(0).turn();
    TaskId task = task_of_stream(made.value().run);
    Lease lease = square.begin(task);
    Answer<RunAnswer> asked;
    square.cluster.at(0).task([&](Engine& engine) {
      engine.request(RunRequest{lease.tenant, lease.run, AskQuestion{lease.step, lease.proof(), "\"why?\""}},
                     asked.reply());
    });
    square.cluster.at(0).turn();
    square.follow(task);
    ASSERT_EQ(square.state(task), TaskState::blocked);
    // One server sees that its time is over, the other is told the answer; the dice say when.
    switch (square.dice.below(3)) {
      case 0:
        square.cluster.clock.pass(seconds(98));
        break;
      case 1:
        square.cluster.clock.pass(seconds(100));
        break;
      case 2:
        square.cluster.clock.pass(seconds(105));
        square.cluster.at(0).turn();
        if (square.dice.below(2) == 0) square.follow(task);
        break;
    }
    auto answer = square.ask(square.cluster.at(1), task, AnswerTask{ada, "\"because\""});
    square.cluster.at(1).decide();
    square.cluster.clock.pass(seconds(3));
    square.cluster.at(0).decide();
    square.settle();
    ASSERT_TRUE(answer.accepted());
    square.follow(task);
    square.cluster.clock.pass(seconds(5));
    square.settle();
    square.follow(task);
    pawl::Run stream = square.stream(task);
    ASSERT_EQ(stream.task->executions.size(), 2u);
    const auto& executions = stream.task->executions;
    EXPECT_EQ(executions[0].session, executions[1].session);
    EXPECT_EQ(executions[1].message, "\"because\"");
    bool same_run = executions[0].run == executions[1].run;
    ++(same_run ? gone_on : anew);
    // The run that asked went on, or ran out of time with the answer in hand; or a new one was made for it.
    TaskState state = stream.task->state;
    EXPECT_TRUE(state == TaskState::queued || state == TaskState::running ||
                (same_run && state == TaskState::timed_out))
        << to_string(state);
    square.cluster.check();
  }
  EXPECT_GT(gone_on, race_seeds / 60);
  EXPECT_GT(anew, race_seeds / 60);
}

// Several servers, requests of all kinds at random, and whatever happens follows in the end.
TEST(Tasks, random_histories_on_several_servers_follow_their_runs) {
  for (std::uint64_t seed = 1; seed <= repeats<std::uint64_t>(100, 400); ++seed) {
    SCOPED_TRACE(seed);
    Square square(3, seed);
    std::vector<TaskId> tasks;
    for (int i = 0; i < 8; ++i) {
      std::vector<TaskId> depends_on;
      if (!tasks.empty() && square.dice.below(2) == 0) depends_on.push_back(tasks[square.dice.below(tasks.size())]);
      auto parent = i > 5 ? std::optional(tasks[0]) : std::nullopt;
      tasks.push_back(square.add(parent, parent ? std::vector<TaskId>{} : depends_on));
    }
    std::vector<Lease> leases;
    for (int i = 0; i < 150; ++i) {
      TaskId task = tasks[square.dice.below(tasks.size())];
      Server& server = square.any();
      switch (square.dice.below(10)) {
        case 0:
          square.ask(server, task, RunTask{ada});
          break;
        case 1:
          square.ask(server, task, AcceptTask{ada});
          break;
        case 2:
          square.ask(server, task, RejectTask{ada, ""});
          break;
        case 3:
          if (square.dice.below(4) == 0) square.ask(server, task, CancelTask{ada, ""});
          break;
        case 4:
          square.ask(server, task, AnswerTask{ada, "\"x\""});
          break;
        case 5:
          server.task([&](Engine& engine) { engine.request(UpdateTask{square.cluster.tenant, task}); });
          break;
        case 6:
          server.offer(1);
          break;
        case 7:
          if (!server.worker.leases.empty()) {
            Lease lease = server.worker.take();
            if (square.dice.below(3) == 0) {
              server.task([&](Engine& engine) {
                engine.request(RunRequest{lease.tenant, lease.run, AskQuestion{lease.step, lease.proof(), "\"?\""}});
              });
            } else {
              StepReport report = completion(lease);
              server.task([&](Engine& engine) { engine.request(ReportStep{report}); });
            }
          }
          break;
        case 9:
          if (square.dice.below(8) == 0) square.ask(server, task, DeleteTask{ada});
          break;
        case 8:
          square.cluster.clock.pass(milliseconds(200));
          break;
      }
      if (square.dice.below(3) == 0) server.decide();
      if (square.dice.below(3) == 0) square.any().commit();
    }
    square.settle();
    // Three times: what one does may be news to another.
    for (int round = 0; round < 3; ++round)
      for (TaskId task : tasks) square.follow(task);
    square.settle();
    for (TaskId task : tasks) {
      pawl::Run stream = square.stream(task);
      const Task& found = *stream.task;
      EXPECT_FALSE(found.deleted && is_active(found.state));
      bool awaits = found.state == TaskState::blocked && (found.question.empty() || found.asked_about);
      if (awaits) {
        auto is_open = [&](TaskId each) {
          pawl::Run subtask = square.stream(each);
          return !subtask.task->deleted && subtask.task->state != TaskState::completed && found.waits_for(each);
        };
        EXPECT_TRUE(found.deleted || std::ranges::any_of(found.subtasks, is_open)) << "nothing it could wait for";
        continue;
      }
      if (!found.latest() ||
          !square.cluster.database.runs.contains(StreamKey::of(square.cluster.tenant, found.latest()->run)))
        continue;
      RunStatus run = square.cluster.row(found.latest()->run).status;
      SCOPED_TRACE(std::string(to_string(found.state)) + ", its run " + std::string(to_string(run)));
      if (found.state == TaskState::running) {
        EXPECT_FALSE(is_terminal(run));
      }
      if (found.state == TaskState::queued) {
        EXPECT_FALSE(is_terminal(run));
      }
      if (found.state == TaskState::blocked) {
        EXPECT_EQ(run, found.deleted ? RunStatus::canceled : RunStatus::waiting);
      }
      if (found.state == TaskState::cancelled) {
        EXPECT_TRUE(is_terminal(run));
      }
      if (found.state == TaskState::ready || found.state == TaskState::completed) {
        EXPECT_EQ(run, RunStatus::success);
      }
    }
    square.cluster.check();
  }
}

// ---- One server

TaskView follow(TestServer& server, TaskId task) {
  Answer<TaskView> answer;
  server.engine().request(UpdateTask{server.tenant, task}, answer.reply());
  server.turn();
  return answer.value();
}

TaskId add(TestServer& server, NewTask task) {
  Answer<RunAnswer> answer;
  server.engine().request(std::move(task), answer.reply());
  server.turn();
  return task_of_stream(answer.value().run);
}

void prepare(TestServer& server) {
  server.publish(work_once);
  server.engine().request(PrepareTasks{server.tenant, TaskAgent::none});
  server.turn();
}

// One server with the workflows that tasks need.
struct TaskServer : TestServer {
  TaskServer() {
    publish(work_once);
    engine().request(PrepareTasks{tenant, TaskAgent::none});
    turn();
  }
  Answer<RunAnswer> add(std::optional<TaskId> parent, std::optional<Money> budget) {
    NewTask task = some_task(tenant);
    task.spec.parent = parent;
    task.spec.max_budget = budget;
    Answer<RunAnswer> answer;
    engine().request(task, answer.reply());
    turn();
    return answer;
  }
  TaskId made(std::optional<TaskId> parent, std::optional<Money> budget) {
    return task_of_stream(add(parent, budget).value().run);
  }
  Answer<RunAnswer> ask(TaskId task, const TaskCommand& command) {
    Answer<RunAnswer> answer;
    engine().request(TaskRequest{tenant, task, command}, answer.reply());
    turn();
    return answer;
  }
  void follow(TaskId task) {
    engine().request(UpdateTask{tenant, task});
    turn();
  }
};

TEST(TaskLimits, subtasks_together_get_no_more_than_their_parent_has_left) {
  TaskServer server;
  const Money dollar{1'000'000}, half{500'000}, more{500'001};
  TaskId parent = server.made({}, dollar);
  EXPECT_TRUE(server.add(parent, Money{100'000'000'000}).refused_as(RefusalCode::task_limit));
  EXPECT_TRUE(server.add(parent, std::nullopt).refused_as(RefusalCode::task_limit)) << "no budget is no limit";
  TaskId first = server.made(parent, half);
  EXPECT_TRUE(server.add(parent, more).refused_as(RefusalCode::task_limit));
  TaskId second = server.made(parent, half);
  EXPECT_TRUE(server.add(parent, Money{1}).refused_as(RefusalCode::task_limit));
  // Further down it is the subtask's own that is shared.
  EXPECT_TRUE(server.add(first, more).refused_as(RefusalCode::task_limit));
  EXPECT_TRUE(server.add(first, half).accepted());
  EXPECT_TRUE(server.add(first, Money{1}).refused_as(RefusalCode::task_limit));
  // What one that is over has not spent is there again.
  ASSERT_TRUE(server.ask(second, CancelTask{ada, ""}).accepted());
  EXPECT_TRUE(server.add(parent, half).accepted());
  EXPECT_TRUE(server.add({}, std::nullopt).accepted()) << "without a parent nobody else's budget is touched";
}

TEST(TaskLimits, a_budget_is_the_tasks_however_often_it_is_tried) {
  TaskServer server;
  Worker& worker = server.worker("w1", 9, {{"work"}});
  TaskId task = server.made({}, Money{1'000'000});
  auto attempt = [&](Money cost) {
    ASSERT_TRUE(server.ask(task, RunTask{ada}).accepted());
    server.follow(task);
    server.turn();
    Lease lease = worker.take();
    server.report(lease, Failed{"TOOL_FAILED", "it did not work", false, {}, cost});
    server.follow(task);
  };
  attempt(Money{700'000});
  auto left = [&] { return server.inspect(server.inspect(stream_of(task)).task->latest()->run).budget; };
  EXPECT_EQ(left(), Money{1'000'000});
  EXPECT_TRUE(server.add(task, Money{300'001}).refused_as(RefusalCode::task_transition)) << "it has failed";
  attempt(Money{300'000});
  EXPECT_EQ(left(), Money{300'000});
  EXPECT_TRUE(server.ask(task, RunTask{ada}).refused_as(RefusalCode::task_limit));
}

TEST(TaskLimits, what_a_parent_has_spent_is_not_there_for_subtasks) {
  TaskServer server;
  Worker& worker = server.worker("w1", 9, {{"work"}});
  TaskId parent = server.made({}, Money{1'000'000});
  ASSERT_TRUE(server.ask(parent, RunTask{ada}).accepted());
  server.follow(parent);
  server.turn();
  Lease lease = worker.take();
  server.engine().request(RunRequest{lease.tenant, lease.run, ChargeStep{lease.step, lease.proof(), Money{400'000}}});
  server.turn();
  EXPECT_TRUE(server.add(parent, Money{600'001}).refused_as(RefusalCode::task_limit));
  EXPECT_TRUE(server.add(parent, Money{600'000}).accepted());
}

TEST(TaskLimits, trees_are_neither_too_deep_nor_too_wide_nor_too_large) {
  TaskServer server;
  TaskId top = server.made({}, {});
  TaskId deepest = top;
  for (std::size_t level = 1; level < task_depth_max; ++level) deepest = server.made(deepest, {});
  EXPECT_TRUE(server.add(deepest, {}).refused_as(RefusalCode::task_limit)) << "too deep";
  std::size_t count = task_depth_max;
  for (; server.add(top, {}).accepted(); ++count) ASSERT_LE(count, task_depth_max + subtasks_max) << "too wide";
  EXPECT_EQ(count, task_depth_max + subtasks_max - 1);
  // By hand: the rule itself.
  EXPECT_FALSE(subtask_problem({.tree = task_tree_tasks_max - 1}));
  EXPECT_TRUE(subtask_problem({.tree = task_tree_tasks_max}));
}

TEST(TaskLimits, of_several_servers_that_add_subtasks_at_once_none_overdraws_the_parent) {
  for (std::uint64_t seed = 1; seed <= race_seeds / 10; ++seed) {
    SCOPED_TRACE(seed);
    Square square(2, seed);
    NewTask top = some_task(square.cluster.tenant);
    top.spec.max_budget = Money{1'000'000};
    Answer<RunAnswer> made;
    square.cluster.at(0).task([&](Engine& engine) { engine.request(top, made.reply()); });
    square.cluster.at(0).turn();
    TaskId parent = task_of_stream(made.value().run);
    std::array<Answer<RunAnswer>, 2> answers;
    for (std::size_t i = 0; i < 2; ++i) {
      NewTask part = some_task(square.cluster.tenant);
      part.spec.parent = parent;
      part.spec.max_budget = Money{600'000};
      square.cluster.at(i).task([&](Engine& engine) { engine.request(part, answers[i].reply()); });
    }
    square.settle();
    Money given;
    for (const auto& answer : answers) {
      if (!answer.accepted()) continue;
      const pawl::Run stream = square.stream(task_of_stream(answer.value().run));
      if (!is_terminal(stream.task->state) && !stream.task->deleted) given = given + *stream.task->spec.max_budget;
    }
    EXPECT_EQ(given, Money{600'000});
  }
}

TEST(Tasks, survive_a_crash_before_they_are_in_the_tables) {
  TestServer server;
  prepare(server);
  TaskId parent = add(server, some_task(server.tenant, "parent"));
  NewTask child = some_task(server.tenant, "child");
  child.spec.parent = parent;
  TaskId part = add(server, child);
  server.engine().request(TaskRequest{server.tenant, parent, RunTask{ada}});
  server.turn();
  server.restart();
  pawl::Run found = server.inspect(stream_of(parent));
  ASSERT_TRUE(found.task);
  EXPECT_EQ(found.task->state, TaskState::queued);
  EXPECT_EQ(found.task->subtasks, std::vector{part});
  EXPECT_EQ(follow(server, parent).state, TaskState::queued);
  EXPECT_EQ(server.inspect(found.task->latest()->run).trigger_ref, parent.str() + "/1");
}

TEST(Tasks, the_run_of_one_was_asked_for_by_everybody_who_had_it_or_its_parents_run) {
  const Actor bob{"person:bob"}, cyd{"person:cyd"}, agent{"lease:run:step"};
  for (bool restarts : {false, true}) {
    TestServer server;
    prepare(server);
    TaskId parent = add(server, some_task(server.tenant, "parent"));
    auto run = [&](TaskId task, const Actor& by) {
      server.engine().request(TaskRequest{server.tenant, task, RunTask{by}});
      server.turn();
      if (restarts) server.restart();
      follow(server, task);
      return server.inspect(server.inspect(stream_of(task)).task->latest()->run);
    };
    pawl::Run first = run(parent, bob);
    EXPECT_EQ(requesters_of(first), (std::vector{ada, bob}));
    NewTask delegated = some_task(server.tenant, "child");
    delegated.spec.parent = parent;
    delegated.by = agent;
    TaskId child = add(server, delegated);
    EXPECT_EQ(requesters_of(run(child, agent)), (std::vector{agent, ada, bob}));
    server.cancel(first.id);
    follow(server, parent);
    ASSERT_EQ(server.inspect(stream_of(parent)).task->state, TaskState::cancelled);
    // Tried again by somebody else, it was asked for by all of them.
    TaskId other = add(server, some_task(server.tenant, "other"));
    pawl::Run failing = run(other, bob);
    Worker& worker = server.worker("w1", 9);
    server.turn();
    Lease lease = worker.take();
    while (lease.run != failing.id) lease = worker.take();
    server.fail(lease, false);
    follow(server, other);
    EXPECT_EQ(requesters_of(run(other, cyd)), (std::vector{ada, bob, cyd}));
  }
}

TEST(Tasks, looking_at_one_that_has_nothing_to_follow_writes_nothing) {
  TestServer server;
  prepare(server);
  TaskId task = add(server, some_task(server.tenant));
  server.engine().request(TaskRequest{server.tenant, task, RunTask{ada}});
  server.turn();
  follow(server, task);
  std::uint64_t events = server.engine().stats().events;
  for (int i = 0; i < 10; ++i) follow(server, task);
  EXPECT_EQ(server.engine().stats().events, events);
}

}  // namespace
}  // namespace pawl::tests
