#include "tools/worker_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <system_error>

#include "support/depth.h"
#include "tools/try_tool.h"

namespace pawl {
namespace {

// Records what the pool says to the engine, and wakes the test that waits for it.
class RecordingBroker : public LeaseBroker {
 public:
  void offer(const WorkerName&, int slots) override {
    const std::lock_guard lock(mutex_);
    offered_ += slots;
    changed_.notify_all();
  }
  void give_back(const WorkerName& worker, TenantId, int slots) override { offer(worker, slots); }
  void report(std::vector<StepReport> reports) override {
    const std::lock_guard lock(mutex_);
    batches_.push_back(reports.size());
    for (auto& report : reports) reports_.push_back(std::move(report));
    changed_.notify_all();
  }

  std::vector<StepReport> wait_for_reports(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, hang_limit, [&] { return reports_.size() >= count; }))
        << reports_.size() << " of " << count;
    auto known = reports_;
    known.resize(std::max(known.size(), count),
                 {{}, {}, {}, LeaseProof::local(0), Released{}});  // a test that waited in vain goes on, and fails
    return known;
  }
  void wait_for_slots(int count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, hang_limit, [&] { return offered_ >= count; })) << offered_;
    EXPECT_EQ(offered_, count);
  }
  std::vector<std::size_t> batches() const {
    const std::lock_guard lock(mutex_);
    return batches_;
  }
  std::vector<StepReport> reports() const {
    const std::lock_guard lock(mutex_);
    return reports_;
  }
  template <class Condition>
  std::size_t count_reports(Condition condition) const {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count_if(reports_, condition));
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int offered_ = 0;
  std::vector<StepReport> reports_;
  std::vector<std::size_t> batches_;
};

// A tool that does what the test says.
class ScriptedTool : public Tool {
 public:
  using Act = std::function<ToolResult(const Lease&, Instant, std::stop_token)>;
  ScriptedTool(std::string name, Act act, bool quick = false, ToolSpec::Writes writes = ToolSpec::Writes::never)
      : spec_{.name = {std::move(name)}, .keys = {}, .writes = writes}, act_(std::move(act)), quick_(quick) {}
  const ToolSpec& spec() const override { return spec_; }
  bool is_quick() const override { return quick_; }
  ToolResult run(const Lease& lease, Instant now, std::stop_token stop) override {
    return act_(lease, now, std::move(stop));
  }

 private:
  ToolSpec spec_;
  Act act_;
  bool quick_;
};

// Opens once; whoever waits goes on then.
class Signal {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, hang_limit, [&] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

ToolResult until_stopped(const std::stop_token& stop) {
  Signal stopped;
  const std::stop_callback callback(stop, [&] { stopped.open(); });
  stopped.wait();
  return Failed{.error_code = "TOOL_FAILED", .message = "stopped", .retryable = {}, .retry_after = {}, .cost = {}};
}

class WorkerPoolTest : public testing::Test {
 protected:
  static constexpr int slots = 100;

  void add(std::string name, ScriptedTool::Act act, bool quick = false,
           ToolSpec::Writes writes = ToolSpec::Writes::never) {
    tools_.push_back(std::make_unique<ScriptedTool>(std::move(name), std::move(act), quick, writes));
  }
  void start(Gate& gate, int threads_max = 64) {
    pool_ = std::make_unique<WorkerPool>(WorkerPoolOptions{.worker = {"local"},
                                                           .slots = slots,
                                                           .timers_max = timers_max_,
                                                           .threads_max = threads_max,
                                                           .clock = [this] { return Instant{now_ms_}; }},
                                         tools_, gate);
    pool_->start(broker_);
  }
  void start(int threads_max = 64) { start(open_gate_, threads_max); }
  void advance(Duration span) { now_ms_ += span.count(); }

  static Lease lease(std::string tool, std::uint64_t token = 1, JsonText input = "{}") {
    auto made = lease_of(std::move(tool), std::move(input));
    made.token = token;
    return made;
  }
  void revoke(const Lease& lost) { pool_->revoke(lost.run, lost.step, lost.token); }
  static std::string outcome(const StepReport& report) {
    if (std::holds_alternative<Released>(report.outcome)) return "released";
    if (const auto* completed = std::get_if<Completed>(&report.outcome)) return describe(*completed);
    if (const auto* asked = std::get_if<Asked>(&report.outcome)) return "asked " + asked->question;
    return describe(std::get<Failed>(report.outcome));
  }

  OpenGate open_gate_;
  int timers_max_ = 1000;
  std::atomic<std::int64_t> now_ms_ = test_now.ms;
  RecordingBroker broker_;
  std::vector<std::unique_ptr<Tool>> tools_;
  std::unique_ptr<WorkerPool> pool_;  // last: it goes before what it uses
};

TEST_F(WorkerPoolTest, offers_all_its_slots_at_the_start) {
  start();
  broker_.wait_for_slots(slots);
}

TEST_F(WorkerPoolTest, reports_what_a_tool_gives_and_offers_the_slot_again) {
  add("slow", [](const Lease&, Instant now, std::stop_token) { return Completed{std::to_string(now.ms), Money{5}}; });
  start();
  const auto granted = lease("slow", 9);
  pool_->grant({granted});
  const auto reports = broker_.wait_for_reports(1);
  EXPECT_EQ(reports[0].run, granted.run);
  EXPECT_EQ(reports[0].step, granted.step);
  EXPECT_EQ(reports[0].tenant, granted.tenant);
  EXPECT_EQ(reports[0].proof.number(), 9u);
  EXPECT_EQ(outcome(reports[0]), std::to_string(test_now.ms));
  EXPECT_EQ(std::get<Completed>(reports[0].outcome).cost, Money{5});
  broker_.wait_for_slots(slots + 1);
}

TEST_F(WorkerPoolTest, reports_a_batch_of_quick_leases_in_one_go) {
  Signal first_runs, rest_is_queued;
  add(
      "quick",
      [&](const Lease& granted, Instant, std::stop_token) {
        if (granted.token == 1) {
          first_runs.open();
          rest_is_queued.wait();
        }
        return Completed{};
      },
      true);
  start();
  pool_->grant({lease("quick", 1)});
  first_runs.wait();
  for (std::uint64_t token = 2; token <= 50; ++token) pool_->grant({lease("quick", token)});
  rest_is_queued.open();
  const auto reports = broker_.wait_for_reports(50);
  for (std::size_t i = 0; i < 50; ++i) EXPECT_EQ(reports[i].proof.number(), i + 1);
  EXPECT_EQ(broker_.batches(), (std::vector<std::size_t>{1, 49}));
  broker_.wait_for_slots(slots + 50);
}

TEST_F(WorkerPoolTest, runs_slow_leases_side_by_side_up_to_its_threads) {
  std::atomic<int> running = 0, most = 0;
  Signal go;
  add("slow", [&](const Lease&, Instant, std::stop_token) {
    const int now = ++running;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    go.wait();
    --running;
    return Completed{};
  });
  start(4);
  std::vector<Lease> leases;
  for (std::uint64_t token = 1; token <= 20; ++token) leases.push_back(lease("slow", token));
  pool_->grant(std::move(leases));
  EXPECT_TRUE(eventually([&] { return running == 4; }));
  go.open();
  broker_.wait_for_reports(20);
  EXPECT_EQ(most, 4);
  broker_.wait_for_slots(slots + 20);
}

TEST_F(WorkerPoolTest, lets_quick_leases_pass_slow_ones) {
  add("slow", [](const Lease&, Instant, std::stop_token stop) { return until_stopped(stop); });
  add(
      "quick",
      [](const Lease&, Instant, std::stop_token) {
        return Completed{"1", {}};
      },
      true);
  start(1);
  pool_->grant({lease("slow", 1), lease("slow", 2), lease("quick", 3)});
  EXPECT_EQ(broker_.wait_for_reports(1)[0].proof.number(), 3u);
}

TEST_F(WorkerPoolTest, completes_what_waits_for_a_moment_in_the_order_of_the_moments) {
  tools_.push_back(make_sleep());
  start();
  pool_->grant({lease("sleep", 1, R"({"duration": "3m"})"), lease("sleep", 2, R"({"duration": "1m"})"),
                lease("sleep", 3, R"({"duration": "2m"})"), lease("sleep", 4, R"({"duration": "1m"})")});
  pool_->grant({lease("sleep", 5, R"({"duration": "0s"})")});
  EXPECT_EQ(broker_.wait_for_reports(1)[0].proof.number(), 5u);
  advance(std::chrono::seconds(60));
  broker_.wait_for_reports(3);
  advance(std::chrono::minutes(10));
  const auto reports = broker_.wait_for_reports(5);
  EXPECT_EQ(outcome(reports[1]), R"({"slept_ms":60000})");
  std::vector<std::uint64_t> order;
  for (const auto& report : reports) order.push_back(report.proof.number());
  EXPECT_EQ(order, (std::vector<std::uint64_t>{5, 2, 4, 3, 1}));
  broker_.wait_for_slots(slots + 5);
}

TEST_F(WorkerPoolTest, keeps_timers_for_slow_tools_too_and_times_them_out) {
  std::atomic<int> called = 0;
  add("later", [&](const Lease&, Instant now, std::stop_token) {
    ++called;
    return CompleteAt{now + std::chrono::hours(1), {"1", {}}};
  });
  start();
  auto patient = lease("later", 1), hasty = lease("later", 2);
  patient.timeout = std::chrono::hours(2);
  hasty.timeout = std::chrono::minutes(1);
  pool_->grant({patient, hasty});
  EXPECT_TRUE(eventually([&] { return called == 2; }));
  advance(std::chrono::minutes(1));
  const auto early = broker_.wait_for_reports(1);
  EXPECT_EQ(early[0].proof.number(), 2u);
  EXPECT_EQ(outcome(early[0]), "TOOL_TIMEOUT: not done within the step's timeout of 1m");
  advance(std::chrono::hours(1));
  EXPECT_EQ(outcome(broker_.wait_for_reports(2)[1]), "1");
}

TEST_F(WorkerPoolTest, stops_a_tool_at_its_time_out_and_says_so) {
  Signal runs;
  add("slow", [&](const Lease&, Instant, std::stop_token stop) { return runs.open(), until_stopped(stop); });
  start();
  pool_->grant({lease("slow")});
  runs.wait();
  advance(std::chrono::minutes(10));
  EXPECT_EQ(outcome(broker_.wait_for_reports(1)[0]), "TOOL_TIMEOUT: not done within the step's timeout of 10m");
  broker_.wait_for_slots(slots + 1);
}

TEST_F(WorkerPoolTest, believes_a_tool_that_finished_while_it_was_being_stopped) {
  Signal runs;
  add("slow", [&](const Lease&, Instant, std::stop_token stop) -> ToolResult {
    runs.open();
    until_stopped(stop);
    return Completed{R"("written")", {}};
  });
  start();
  pool_->grant({lease("slow")});
  runs.wait();
  advance(std::chrono::minutes(10));
  EXPECT_EQ(outcome(broker_.wait_for_reports(1)[0]), R"("written")") << "or the work would be done twice";
}

TEST_F(WorkerPoolTest, reports_a_time_out_without_a_tool_that_does_not_stop) {
  Signal runs, go;
  add("deaf", [&](const Lease&, Instant, std::stop_token) { return runs.open(), go.wait(), Completed{}; });
  start();
  pool_->grant({lease("deaf")});
  runs.wait();
  advance(std::chrono::minutes(10));
  // The grace begins when the keeper has seen the time-out, which it tells nobody: the clock moves on until it has.
  EXPECT_TRUE(eventually([&] { return advance(std::chrono::seconds(1)), !broker_.reports().empty(); }));
  EXPECT_EQ(outcome(broker_.reports()[0]), "TOOL_TIMEOUT: not done within the step's timeout of 10m");
  broker_.wait_for_slots(slots);
  go.open();
  broker_.wait_for_slots(slots + 1);
  EXPECT_EQ(broker_.reports().size(), 1u) << "its result is dropped";
}

TEST_F(WorkerPoolTest, hands_on_what_a_tool_asks_a_person) {
  add("asking", [](const Lease&, Instant, std::stop_token) { return Asked{R"({"text":"sure?"})"}; });
  start();
  pool_->grant({lease("asking")});
  EXPECT_EQ(outcome(broker_.wait_for_reports(1)[0]), R"(asked {"text":"sure?"})");
}

TEST_F(WorkerPoolTest, reports_what_a_tool_has_cost_that_was_stopped_at_its_time_out) {
  Signal runs;
  add("costly", [&](const Lease&, Instant, std::stop_token stop) {
    runs.open();
    until_stopped(stop);
    Failed failed{.error_code = "TOOL_FAILED", .message = "stopped"};
    failed.cost = Money{7};
    return failed;
  });
  start();
  pool_->grant({lease("costly")});
  runs.wait();
  advance(std::chrono::minutes(10));
  const auto report = broker_.wait_for_reports(1)[0];
  EXPECT_EQ(std::get<Failed>(report.outcome).error_code, "TOOL_TIMEOUT");
  EXPECT_EQ(std::get<Failed>(report.outcome).cost, Money{7});
}

TEST_F(WorkerPoolTest, drops_the_result_of_a_lease_that_was_revoked) {
  Signal runs;
  add("slow", [&](const Lease&, Instant, std::stop_token stop) { return runs.open(), until_stopped(stop); });
  start();
  pool_->grant({lease("slow", 1)});
  runs.wait();
  revoke(lease("slow", 1));
  broker_.wait_for_slots(slots + 1);
  EXPECT_TRUE(broker_.reports().empty());
}

TEST_F(WorkerPoolTest, does_not_stop_a_lease_with_another_token) {
  Signal runs, go;
  add("slow", [&](const Lease&, Instant, std::stop_token stop) {
    runs.open();
    go.wait();
    return Completed{stop.stop_requested() ? "true" : "false", {}};
  });
  start();
  pool_->grant({lease("slow", 2)});
  runs.wait();
  revoke(lease("slow", 1));
  go.open();
  EXPECT_EQ(outcome(broker_.wait_for_reports(1)[0]), "false");
}

TEST_F(WorkerPoolTest, never_starts_a_queued_lease_that_was_revoked) {
  std::atomic<int> started = 0;
  Signal runs, go;
  add("slow", [&](const Lease&, Instant, std::stop_token) { return ++started, runs.open(), go.wait(), Completed{}; });
  start(1);
  pool_->grant({lease("slow", 1), lease("slow", 2)});
  runs.wait();
  revoke(lease("slow", 2));
  broker_.wait_for_slots(slots + 1);
  go.open();
  broker_.wait_for_slots(slots + 2);
  EXPECT_EQ(started, 1);
  EXPECT_EQ(broker_.reports().size(), 1u);
}

TEST_F(WorkerPoolTest, lets_others_work_in_the_slots_of_those_who_only_wait) {
  tools_.push_back(make_sleep());
  timers_max_ = 2;
  start();
  std::vector<Lease> leases;
  for (std::uint64_t token = 1; token <= 5; ++token) leases.push_back(lease("sleep", token, R"({"duration": "1m"})"));
  pool_->grant(std::move(leases));
  broker_.wait_for_slots(slots + 2);
  revoke(lease("sleep", 5));
  broker_.wait_for_slots(slots + 3);
  revoke(lease("sleep", 1));
  advance(std::chrono::minutes(1));
  broker_.wait_for_reports(3);
  broker_.wait_for_slots(slots + 5);
}

TEST_F(WorkerPoolTest, forgets_the_timer_of_a_lease_that_was_revoked) {
  tools_.push_back(make_sleep());
  start();
  pool_->grant({lease("sleep", 1, R"({"duration": "1m"})"), lease("sleep", 2, R"({"duration": "1m"})"),
                lease("sleep", 3, R"({"duration": "0s"})")});
  broker_.wait_for_reports(1);  // by now the others have their timers
  revoke(lease("sleep", 1));
  advance(std::chrono::minutes(1));
  EXPECT_EQ(broker_.wait_for_reports(2)[1].proof.number(), 2u);
  broker_.wait_for_slots(slots + 3);
}

TEST_F(WorkerPoolTest, drops_what_was_revoked_while_its_batch_ran) {
  tools_.push_back(make_sleep());
  Signal runs, go;
  add(
      "quick", [&](const Lease&, Instant, std::stop_token) { return runs.open(), go.wait(), Completed{}; }, true);
  start();
  pool_->grant({lease("sleep", 1, R"({"duration": "1m"})"), lease("quick", 2), lease("quick", 3)});
  runs.wait();
  revoke(lease("sleep", 1));
  revoke(lease("quick", 2));
  go.open();
  broker_.wait_for_slots(slots + 3);
  ASSERT_EQ(broker_.reports().size(), 1u);
  EXPECT_EQ(broker_.reports()[0].proof.number(), 3u);
}

TEST_F(WorkerPoolTest, calls_an_exception_an_internal_error) {
  add("slow", [](const Lease&, Instant, std::stop_token) -> ToolResult { throw std::logic_error("oops"); });
  add(
      "quick", [](const Lease&, Instant, std::stop_token) -> ToolResult { throw 1; }, true);
  add("poor", [](const Lease&, Instant, std::stop_token) -> ToolResult {
    throw std::system_error(EMFILE, std::generic_category());
  });
  start();
  pool_->grant({lease("slow")});
  EXPECT_EQ(outcome(broker_.wait_for_reports(1)[0]), "TOOL_INTERNAL_ERROR: slow: oops");
  pool_->grant({lease("quick")});
  EXPECT_EQ(std::get<Failed>(broker_.wait_for_reports(2)[1].outcome).error_code, "TOOL_INTERNAL_ERROR");
  pool_->grant({lease("poor")});
  const auto failed = std::get<Failed>(broker_.wait_for_reports(3)[2].outcome);
  EXPECT_EQ(failed.error_code, "TOOL_INTERNAL_ERROR");
  EXPECT_EQ(failed.retryable, true) << "descriptors may be free again by then";
}

TEST_F(WorkerPoolTest, refuses_an_output_over_the_limit_but_keeps_its_cost) {
  add("wordy", [](const Lease& granted, Instant, std::stop_token) {
    return Completed{std::string(step_output_bytes_max + (granted.token == 2 ? 1 : 0), '1'), Money{7}};
  });
  start();
  pool_->grant({lease("wordy", 1)});
  EXPECT_TRUE(std::holds_alternative<Completed>(broker_.wait_for_reports(1)[0].outcome));
  pool_->grant({lease("wordy", 2)});
  const auto failed = std::get<Failed>(broker_.wait_for_reports(2)[1].outcome);
  EXPECT_EQ(failed.error_code, "TOOL_OUTPUT_TOO_LARGE");
  EXPECT_EQ(failed.cost, Money{7});
}

TEST_F(WorkerPoolTest, says_so_when_it_has_no_such_tool_and_never_executes_an_approval) {
  start();
  pool_->grant({lease("approval", 1), lease("unheard.of", 2)});
  for (const auto& report : broker_.wait_for_reports(2))
    EXPECT_EQ(std::get<Failed>(report.outcome).error_code, "TOOL_NOT_IMPLEMENTED");
}

// Lets nothing through, and remembers who asked.
class ShutGate : public Gate {
 public:
  GatePass pass(const Lease& asking, const Proposal& proposal, const Question&) override {
    if (asking.token == 99) throw std::runtime_error("the policy cannot be read");
    const std::lock_guard lock(mutex_);
    asked_.push_back(proposal.action.target);
    return Failed{.error_code = "TOOL_DENIED", .message = "shut", .retryable = {}, .retry_after = {}, .cost = {}};
  }
  std::vector<std::string> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> asked_;
};

TEST_F(WorkerPoolTest, passes_what_may_write_through_the_gate_and_nothing_else) {
  using Writes = ToolSpec::Writes;
  ShutGate gate;
  const auto act = [](const Lease&, Instant, std::stop_token) { return Completed{"1", {}}; };
  add("reads", act);
  add("writes", act, false, Writes::always);
  add("writes.quickly", act, true, Writes::always);
  add("calls", act, false, Writes::by_method);
  start(gate);
  pool_->grant({lease("reads", 1), lease("calls", 2, R"({"method": "GET"})")});
  for (const auto& report : broker_.wait_for_reports(2)) EXPECT_EQ(outcome(report), "1");
  pool_->grant({lease("writes", 3), lease("writes.quickly", 4), lease("calls", 5, R"({"method": "POST"})")});
  const auto reports = broker_.wait_for_reports(5);
  for (std::size_t i = 2; i < 5; ++i) EXPECT_EQ(outcome(reports[i]), "TOOL_DENIED: shut");
  EXPECT_EQ(gate.asked().size(), 3u);
}

// Every connector but `other` is frozen.
class FrozenGate final : public Gate {
 public:
  GatePass pass(const Lease&, const Proposal&, const Question&) override { return Allowed{}; }
  std::optional<std::string> frozen(const Lease&, std::string_view connector) const override {
    return connector == "other" ? std::nullopt : std::optional(std::string("an incident"));
  }
};

TEST_F(WorkerPoolTest, asks_no_model_while_effects_are_frozen) {
  FrozenGate gate;
  const auto act = [](const Lease&, Instant, std::stop_token) { return Completed{"1", {}}; };
  add("model.chat", act);
  add("http.request", act);
  start(gate);
  pool_->grant({lease("model.chat", 1)});
  EXPECT_EQ(outcome(broker_.wait_for_reports(1)[0]), "EFFECTS_FROZEN: an incident");
  pool_->grant({lease("http.request", 2)});
  EXPECT_EQ(outcome(broker_.wait_for_reports(2)[1]), "1") << "a read is no effect";
}

// Allows everything, under one receipt.
class ReceiptGate final : public Gate {
 public:
  static constexpr ReceiptId receipt{{7, 7}};
  GatePass pass(const Lease&, const Proposal&, const Question&) override { return Allowed{receipt, false, {}}; }
};

TEST_F(WorkerPoolTest, says_of_a_write_what_became_of_it) {
  ReceiptGate gate;
  const auto undo = std::make_shared<const Action>(Action{.connector = "undo"});
  add(
      "done",
      [&](const Lease&, Instant, std::stop_token) {
        return Completed{"\"out\"", {}, R"({"status":200})", undo};
      },
      false, ToolSpec::Writes::always);
  add(
      "refused",
      [](const Lease&, Instant, std::stop_token) {
        return Failed{.error_code = "TOOL_FAILED", .message = "it said no, at length", .is_harmless = true};
      },
      false, ToolSpec::Writes::always);
  add(
      "lost",
      [](const Lease&, Instant, std::stop_token) { return Failed{.error_code = "TOOL_TIMEOUT", .message = "?"}; },
      false, ToolSpec::Writes::always);
  start(gate, 1);
  pool_->grant({lease("done", 1), lease("refused", 2), lease("lost", 3)});
  const auto reports = broker_.wait_for_reports(3);
  ASSERT_TRUE(reports[0].effect && reports[1].effect);
  EXPECT_EQ(outcome(reports[0]), "\"out\"");
  EXPECT_EQ(reports[0].effect->receipt, ReceiptGate::receipt);
  EXPECT_TRUE(reports[0].effect->succeeded);
  EXPECT_EQ(reports[0].effect->response, R"({"status":200})");
  EXPECT_EQ(reports[0].effect->undo, undo);
  EXPECT_FALSE(reports[1].effect->succeeded);
  EXPECT_EQ(reports[1].effect->error_code, "TOOL_FAILED");
  EXPECT_EQ(reports[1].effect->message, "it said no, at length");
  EXPECT_FALSE(reports[2].effect) << "nobody can say: it is in doubt";
}

TEST_F(WorkerPoolTest, writes_nothing_when_the_gate_breaks) {
  ShutGate gate;
  std::atomic<bool> wrote = false;
  add(
      "writes", [&](const Lease&, Instant, std::stop_token) { return wrote = true, Completed{}; }, false,
      ToolSpec::Writes::always);
  start(gate);
  pool_->grant({lease("writes", 99)});
  EXPECT_EQ(std::get<Failed>(broker_.wait_for_reports(1)[0].outcome).error_code, "TOOL_INTERNAL_ERROR");
  EXPECT_FALSE(wrote);
}

TEST_F(WorkerPoolTest, stops_while_busy_gives_everything_back_and_says_nothing_afterwards) {
  std::atomic<int> running = 0;
  add("slow", [&](const Lease&, Instant, std::stop_token stop) { return ++running, until_stopped(stop); });
  tools_.push_back(make_sleep());
  start(8);
  std::vector<Lease> leases;
  for (std::uint64_t token = 1; token <= 50; ++token) leases.push_back(lease("slow", token));
  leases.push_back(lease("sleep", 51, R"({"duration": "1m"})"));
  pool_->grant(std::move(leases));
  EXPECT_TRUE(eventually([&] { return running == 8; }));
  pool_->stop();
  EXPECT_EQ(running, 8) << "what was queued is not begun";
  std::set<std::uint64_t> tokens;
  for (const auto& report : broker_.reports()) {
    EXPECT_EQ(outcome(report), "released");
    tokens.insert(report.proof.number());
  }
  EXPECT_EQ(tokens.size(), 51u) << "once each: running, queued, waiting for a timer";
  EXPECT_EQ(broker_.reports().size(), 51u);
  pool_->grant({lease("slow", 99)});
  pool_->revoke({}, {"one"}, 99);
  pool_->stop();
  EXPECT_EQ(broker_.reports().size(), 51u);
}

TEST_F(WorkerPoolTest, lets_what_has_begun_end_within_the_grace) {
  Signal runs, go;
  add("slow", [&](const Lease&, Instant, std::stop_token stop) {
    runs.open();
    go.wait();
    return Completed{stop.stop_requested() ? "true" : "false", {}};
  });
  tools_.push_back(make_sleep());
  start(1);
  pool_->grant({lease("slow", 1), lease("slow", 2), lease("sleep", 3, R"({"duration": "9m"})")});
  runs.wait();
  std::jthread stopper([&] { pool_->stop(hang_limit); });
  const auto given_back = broker_.wait_for_reports(2);  // at once: neither can end in time
  EXPECT_EQ(outcome(given_back[0]) + outcome(given_back[1]), "releasedreleased");
  pool_->grant({lease("slow", 4)});
  EXPECT_EQ(outcome(broker_.wait_for_reports(3)[2]), "released") << "what still comes is not begun";
  go.open();
  stopper.join();
  EXPECT_EQ(outcome(broker_.reports().at(3)), "false") << "it ended by itself, and nobody hurried it";
}

TEST_F(WorkerPoolTest, believes_a_tool_that_finished_while_the_pool_stopped) {
  Signal runs;
  add("slow", [&](const Lease&, Instant, std::stop_token stop) -> ToolResult {
    runs.open();
    until_stopped(stop);
    return Completed{"\"done all the same\"", {}};
  });
  start();
  pool_->grant({lease("slow", 1)});
  runs.wait();
  pool_->stop(std::chrono::milliseconds(1));
  EXPECT_EQ(outcome(broker_.reports().at(0)), "\"done all the same\"");
}

TEST_F(WorkerPoolTest, never_started_can_go) {
  WorkerPool idle({.worker = {"w"}, .clock = [] { return test_now; }}, tools_, open_gate_);
}

TEST_F(WorkerPoolTest, ends_real_programs_at_their_time_out) {
  tools_.push_back(make_shell({.shell_kill_grace = std::chrono::milliseconds(200)}));
  start();
  auto granted = lease("shell", 1, R"({"argv": ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"]})");
  granted.timeout = std::chrono::seconds(5);
  pool_->grant({granted});
  EXPECT_TRUE(eventually([&] { return advance(std::chrono::milliseconds(50)), !broker_.reports().empty(); }));
  EXPECT_EQ(std::get<Failed>(broker_.wait_for_reports(1)[0].outcome).error_code, "TOOL_TIMEOUT");
  broker_.wait_for_slots(slots + 1);
}

// Every lease that was granted gives back exactly one slot and at most one report, however grants, revocations and
// time-outs meet.
TEST_F(WorkerPoolTest, loses_and_doubles_nothing_under_load) {
  add(
      "quick", [](const Lease&, Instant, std::stop_token) { return Completed{}; }, true);
  add("slow", [](const Lease& granted, Instant, std::stop_token stop) -> ToolResult {
    if (granted.token % 3 == 0) return until_stopped(stop);
    return Completed{};
  });
  tools_.push_back(make_sleep());
  start(16);
  const std::uint64_t leases_max = repeats(1000, 3000);
  const auto granted = [](std::uint64_t token) {
    const char* tools[] = {"quick", "slow", "sleep"};
    auto made = lease(tools[token % 7 % 3], token, R"({"duration": "1s"})");
    made.timeout = std::chrono::seconds(2);
    return made;
  };
  std::jthread granter([&] {
    for (std::uint64_t token = 0; token < leases_max; ++token) pool_->grant({granted(token)});
  });
  std::jthread revoker([&] {
    for (std::uint64_t token = 0; token < leases_max; token += 5) revoke(granted(token));
  });
  granter.join();
  revoker.join();
  const auto all_are_back = [&] {
    advance(std::chrono::milliseconds(100));
    return broker_.count_reports([](const StepReport& report) { return report.proof.number() % 5 != 0; }) >=
           leases_max - leases_max / 5;
  };
  EXPECT_TRUE(eventually(all_are_back));
  for (std::uint64_t token = 0; token < leases_max; token += 5) revoke(granted(token));
  broker_.wait_for_slots(slots + static_cast<int>(leases_max));
  std::set<std::uint64_t> tokens;
  for (const auto& report : broker_.reports())
    EXPECT_TRUE(tokens.insert(report.proof.number()).second) << report.proof.number();
}

// ---- Secrets

// Sees what is proposed, and allows it.
class NotingGate final : public Gate {
 public:
  GatePass pass(const Lease&, const Proposal& proposal, const Question&) override {
    proposals.push_back(proposal);
    return Allowed{};
  }
  std::vector<Proposal> proposals;
};

class SecretsOfPool : public WorkerPoolTest {
 protected:
  std::string run(const std::string& tool, const JsonText& input, Gate& gate) {
    pool_ = std::make_unique<WorkerPool>(
        WorkerPoolOptions{.worker = {"local"},
                          .slots = slots,
                          .clock = [this] { return Instant{now_ms_}; },
                          .secrets = [](const SecretRequest& request) -> std::expected<std::string, NoSecret> {
                            if (request.secret == "TOKEN") return "s3cr3t-value";
                            return std::unexpected(NoSecret{.message = "there is none",
                                                            .may_pass = request.secret == "LATER",
                                                            .is_forbidden = request.secret == "OWN"});
                          }},
        tools_, gate);
    pool_->start(broker_);
    auto made = lease(tool, 1, input);
    made.keeps_expressions = true;
    pool_->grant({made});
    report_ = broker_.wait_for_reports(1).front();
    return outcome(*report_);
  }
  std::optional<StepReport> report_;
};

TEST_F(SecretsOfPool, are_in_the_input_and_not_in_what_comes_back) {
  add("read", [](const Lease& lease, Instant, std::stop_token) -> ToolResult {
    EXPECT_EQ(lease.input, R"({"a":"s3cr3t-value","b":"${{ secrets.TOKEN }}"})");
    return Completed{.output = R"({"said":"it was s3cr3t-value"})"};
  });
  EXPECT_EQ(run("read", R"({"a":"${{ secrets.TOKEN }}","b":"$${{ secrets.TOKEN }}"})", open_gate_),
            R"({"said":"it was [secret TOKEN]"})");
}

TEST_F(SecretsOfPool, are_not_in_what_is_proposed) {
  NotingGate gate;
  add(
      "write",
      [](const Lease& lease, Instant, std::stop_token) -> ToolResult {
        EXPECT_EQ(lease.input, R"({"a":"s3cr3t-value"})");
        return Failed{.error_code = "TOOL_FAILED", .message = "no s3cr3t-value here"};
      },
      false, ToolSpec::Writes::always);
  EXPECT_EQ(run("write", R"({"a":"${{ secrets.TOKEN }}"})", gate), "TOOL_FAILED: no [secret TOKEN] here");
  ASSERT_EQ(gate.proposals.size(), 1u);
  EXPECT_EQ(gate.proposals[0].action.fields, R"({"a":"${{ secrets.TOKEN }}"})");
}

TEST_F(SecretsOfPool, that_may_not_be_used_fail_the_step_before_the_tool_is_asked) {
  NotingGate gate;
  add(
      "write",
      [](const Lease&, Instant, std::stop_token) -> ToolResult {
        ADD_FAILURE() << "the tool ran";
        return Completed{};
      },
      false, ToolSpec::Writes::always);
  EXPECT_EQ(run("write", R"({"a":"${{ secrets.OWN }}"})", gate), "SECRET_NOT_ALLOWED: there is none");
  EXPECT_TRUE(gate.proposals.empty());
}

TEST_F(SecretsOfPool, are_not_in_what_is_thrown_either) {
  add("throw", [](const Lease&, Instant, std::stop_token) -> ToolResult { throw std::runtime_error("s3cr3t-value!"); });
  EXPECT_EQ(run("throw", R"({"a":"${{ secrets.TOKEN }}"})", open_gate_), "TOOL_INTERNAL_ERROR: throw: [secret TOKEN]!");
}

TEST_F(SecretsOfPool, that_are_missing_fail_the_attempt_before_the_tool_runs) {
  add("read", [](const Lease&, Instant, std::stop_token) -> ToolResult { return Completed{.output = "1"}; });
  EXPECT_EQ(run("read", R"({"a":"${{ secrets.OTHER }}"})", open_gate_), "SECRET_UNAVAILABLE: there is none");
  EXPECT_EQ(std::get<Failed>(report_->outcome).retryable, false);
}

}  // namespace
}  // namespace pawl
