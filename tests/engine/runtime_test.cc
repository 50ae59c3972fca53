// The engine with its threads, on a real folder.
#include "engine/runtime.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "engine/test_server.h"
#include "store/forwarding_store.h"
#include "support/waiting.h"

namespace pawl::tests {
namespace {

namespace fs = std::filesystem;
using RunPointer = std::shared_ptr<const Run>;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "pawl-runtime-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Completes whatever it is given, on the thread that gives it.
class Eager : public LeaseSink {
 public:
  explicit Eager(Runtime& runtime) : runtime_(runtime) {}
  void grant(std::vector<Lease> leases) override {
    std::vector<StepReport> reports;
    for (Lease& lease : leases)
      reports.push_back({lease.tenant, lease.run, lease.step, lease.proof(), Completed{"{}", {}}});
    runtime_.offer(name, static_cast<int>(reports.size()));
    runtime_.report(std::move(reports));
  }
  void revoke(RunId, const StepId&, std::uint64_t) override {}

  WorkerName name{"local/eager"};

 private:
  Runtime& runtime_;
};

class RuntimeTest : public testing::Test {
 protected:
  RuntimeTest() {
    tools_.add({.name = {"work"}, .keys = {}, .writes = ToolSpec::Writes::never});
    open();
    tenant_ = runtime_->ask(CreateTenant{"default", Actor{"admin"}}).value();
    publish("workflow: w\nsteps: [{id: a, tool: work}, {id: b, tool: work}]");
    publish("workflow: gate\nsteps: [{id: ok, tool: approval}]");
  }

  void open(RuntimeOptions options = {}) {
    store_ = std::make_unique<SqliteStore>(SqliteOptions{.folder = folder_.path(), .vfs = {}});
    runtime_ = std::make_unique<Runtime>(*store_, tools_, clock_, std::move(options));
    runtime_->start();
  }
  void close() {
    runtime_->stop();
    runtime_.reset();
    store_.reset();
  }
  void publish(const std::string& source) {
    ASSERT_TRUE(runtime_->ask(PublishWorkflow{tenant_, source, "test", Actor{"admin"}}));
  }
  std::expected<RunAnswer, Refusal> create(const std::string& workflow) {
    return runtime_->ask<RunAnswer>([&, tenant = tenant_](Engine& engine, Reply<RunAnswer> reply) {
      NewRun request;
      request.tenant = tenant;
      request.workflow.text = workflow;
      engine.request(std::move(request), std::move(reply));
    });
  }
  RunStatus status(RunId run) { return runtime_->ask(InspectRun{tenant_, run}).value()->status; }
  void add(Eager& worker) {
    runtime_->post([&worker](Engine& engine) { engine.add_worker(worker.name, {{"work"}}, worker); });
    runtime_->offer(worker.name, 64);
  }

  Folder folder_;
  ToolCatalog tools_;
  SystemClock clock_;
  std::unique_ptr<SqliteStore> store_;
  std::unique_ptr<Runtime> runtime_;
  TenantId tenant_;
};

TEST_F(RuntimeTest, answers_a_thousand_callers_at_once) {
  std::mutex mutex;
  std::set<RunId> made;
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i)
    callers.emplace_back([&] {
      for (int j = 0; j < 125; ++j) {
        auto answer = create("gate");
        std::lock_guard lock(mutex);
        if (answer) made.insert(answer->run);
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(made.size(), 1000u);
  close();
  open();
  for (RunId run : made) EXPECT_EQ(status(run), RunStatus::waiting);
}

TEST_F(RuntimeTest, carries_runs_to_their_end_while_it_is_asked_for_more) {
  Eager worker(*runtime_);
  add(worker);
  std::vector<RunId> runs;
  for (int i = 0; i < 200; ++i) runs.push_back(create("w").value().run);
  for (RunId run : runs) ASSERT_TRUE(eventually([&] { return status(run) == RunStatus::success; }));
  close();
  open();
  for (RunId run : runs) EXPECT_EQ(status(run), RunStatus::success);
}

TEST_F(RuntimeTest, stopped_while_busy_has_lost_nothing_that_it_acknowledged) {
  for (int round = 0; round < 5; ++round) {
    Eager worker(*runtime_);
    add(worker);
    std::mutex mutex;
    std::map<RunId, std::uint64_t> acknowledged;  // with the seq that was told
    std::atomic<bool> stopping = false;
    std::vector<std::thread> callers;
    for (int i = 0; i < 4; ++i)
      callers.emplace_back([&] {
        while (!stopping) {
          try {
            auto answer = create("w");
            std::lock_guard lock(mutex);
            if (answer) acknowledged[answer->run] = answer->seq;
          } catch (const std::runtime_error&) {
            return;  // it stopped before it could answer
          }
        }
      });
    EXPECT_TRUE(eventually([&] {
      std::lock_guard lock(mutex);
      return acknowledged.size() >= 20;
    }));
    runtime_->stop();
    stopping = true;
    for (auto& caller : callers) caller.join();
    runtime_.reset();
    for (const auto& [run, seq] : acknowledged) {
      auto row = store_->load(tenant_, run);
      ASSERT_TRUE(row) << "stop() folds everything into the tables";
      EXPECT_GE(row->seq, seq);
    }
    store_.reset();
    open();
    for (const auto& [run, seq] : acknowledged)
      EXPECT_GE(runtime_
                    ->ask<RunPointer>([&, id = run](Engine& engine, Reply<RunPointer> reply) {
                      engine.request(InspectRun{tenant_, id}, std::move(reply));
                    })
                    .value()
                    ->seq,
                seq);
  }
}

// Keeps what it is given.
class Keeping : public LeaseSink {
 public:
  void grant(std::vector<Lease> leases) override {
    std::lock_guard lock(mutex_);
    std::ranges::move(leases, std::back_inserter(held_));
  }
  void revoke(RunId, const StepId&, std::uint64_t) override {}
  std::vector<Lease> held() {
    std::lock_guard lock(mutex_);
    return held_;
  }

 private:
  std::mutex mutex_;
  std::vector<Lease> held_;
};

TEST_F(RuntimeTest, wound_down_has_handed_over_all_that_it_will_and_takes_it_back_for_the_next_start) {
  Keeping worker;
  std::vector<RunId> runs;
  for (int i = 0; i < 50; ++i) runs.push_back(create("w").value().run);
  WorkerName name{"local/keeping"};
  runtime_->post([&](Engine& engine) { engine.add_worker(name, {{"work"}}, worker); });
  runtime_->offer(name, 1000);
  runtime_->wind_down();
  auto held = worker.held();
  auto later = create("w");
  EXPECT_TRUE(later);
  std::vector<StepReport> reports;
  for (const Lease& lease : held) reports.push_back({lease.tenant, lease.run, lease.step, lease.proof(), Released{}});
  runtime_->report(std::move(reports));
  close();
  EXPECT_EQ(worker.held().size(), held.size()) << "nothing came after wind_down() returned";
  open();
  for (RunId run : runs) {
    auto state = runtime_->ask(InspectRun{tenant_, run});
    EXPECT_EQ(state.value()->steps[0].status, StepStatus::ready);
    EXPECT_EQ(state.value()->steps[0].attempts, 0);
  }
  Eager again(*runtime_);
  add(again);
  for (RunId run : runs) ASSERT_TRUE(eventually([&] { return status(run) == RunStatus::success; }));
}

TEST_F(RuntimeTest, a_question_after_the_end_is_not_waited_for) {
  runtime_->stop();
  EXPECT_THROW(create("w"), std::runtime_error);
  runtime_->stop();
}

TEST_F(RuntimeTest, wakes_by_itself_when_something_is_due) {
  publish("workflow: short\nsteps: [{id: ok, tool: approval, expires: 30ms}]");
  RunId run = create("short").value().run;
  EXPECT_TRUE(eventually([&] { return status(run) == RunStatus::denied; }));
}

// A store that stops working after a number of commits.
class Failing : public ForwardingStore {
 public:
  Failing(Store& store, int commits) : ForwardingStore(store), left_(commits) {}
  std::vector<Lost> commit(std::span<const Frame> frames) override {
    if (left_-- <= 0) throw StoreFailure("the disk is gone");
    return store_.commit(frames);
  }
  void tidy() override {}

 private:
  std::atomic<int> left_;
};

TEST_F(RuntimeTest, says_once_that_its_store_failed_and_answers_nobody_after_it) {
  close();
  store_ = std::make_unique<SqliteStore>(SqliteOptions{.folder = folder_.path(), .vfs = {}});
  Failing failing(*store_, 3);
  std::atomic<int> failures = 0;
  RuntimeOptions options;
  options.on_failure = [&](const std::string& reason) {
    ++failures;
    EXPECT_EQ(reason, "the disk is gone");
  };
  runtime_ = std::make_unique<Runtime>(failing, tools_, clock_, std::move(options));
  runtime_->start();
  int answered = 0;
  EXPECT_THROW(
      for (int i = 0; i < 100; ++i) {
        create("w");
        ++answered;
      },
      std::runtime_error);
  EXPECT_LE(answered, 3);
  runtime_->stop();
  EXPECT_EQ(failures, 1);
}

}  // namespace
}  // namespace pawl::tests
