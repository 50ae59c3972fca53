// What the crash tests kill. Two commands on a data folder:
//
//   crash_child work DIR    creates runs and carries them on, until it is killed; prints a line for every run that was
//                           acknowledged and for every end that is durable: "<run id> <seq> <status>"
//   crash_child check DIR   verifies the folder as `pawl verify` does, and that it has every line given on stdin
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <semaphore>
#include <sstream>
#include <thread>

#include "cli/verification.h"
#include "core/decide.h"
#include "core/tool_spec.h"
#include "engine/runtime.h"
#include "engine/workflows.h"
#include "store/sqlite/sqlite_store.h"

namespace pawl {
namespace {

constexpr const char* three_steps = R"(workflow: work
retry: {max_attempts: 5, base: 1ms, max: 5ms}
steps: [{id: a, tool: work}, {id: b, tool: work}, {id: c, tool: work}]
)";
constexpr const char* gated = R"(workflow: gated
steps: [{id: ok, tool: approval}, {id: a, tool: work}]
)";

ToolCatalog one_tool() {
  ToolCatalog tools;
  tools.add({.name = {"work"}, .keys = {}, .writes = ToolSpec::Writes::never});
  return tools;
}

// One write a line: a line is there whole or not at all.
void acknowledge(RunId run, std::uint64_t seq, RunStatus status) {
  std::string line = run.str() + " " + std::to_string(seq) + " " + std::string(to_string(status)) + "\n";
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::_Exit(1);
}

// Completes most, fails some, forgets a few.
class Hasty : public LeaseSink {
 public:
  explicit Hasty(Runtime& runtime) : runtime_(runtime) {}
  void grant(std::vector<Lease> leases) override {
    std::vector<StepReport> reports;
    for (Lease& lease : leases) {
      auto luck = (lease.run.bits.low + lease.token * 7) % 20;
      if (luck == 0 && lease.attempt == 1) continue;
      StepReport report{lease.tenant, lease.run, lease.step, lease.proof(), Completed{"{\"done\":true}", {}}};
      if (luck == 1) report.outcome = Failed{"TOOL_FAILED", "bad luck", true, {}, {}};
      reports.push_back(std::move(report));
    }
    runtime_.offer(name, static_cast<int>(leases.size()));
    runtime_.report(std::move(reports));
  }
  void revoke(RunId, const StepId&, std::uint64_t) override {}

  WorkerName name{"local/hasty"};

 private:
  Runtime& runtime_;
};

template <class T>
T must(std::expected<T, Refusal> answer) {
  if (!answer) throw std::runtime_error(answer.error().message);
  return *answer;
}

class Load {
 public:
  Load(Runtime& runtime, TenantId tenant) : runtime_(runtime), tenant_(tenant) {}

  [[noreturn]] void go_on() {
    for (int i = 0;; ++i) {
      outstanding_.acquire();
      create(i % 4 == 0 ? "gated" : "work");
      // Enough to be in the middle of something, not so much that verifying takes all day.
      if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(16));
    }
  }

 private:
  void create(const char* workflow) {
    runtime_.post([this, workflow](Engine& engine) {
      NewRun request;
      request.tenant = tenant_;
      request.workflow.text = workflow;
      engine.request(std::move(request), [this](std::expected<RunAnswer, Refusal> answer) {
        outstanding_.release();
        RunAnswer made = must(answer);
        acknowledge(made.run, made.seq, made.status);
        approve(made.run);
      });
    });
  }
  // Whatever it says: there may be nothing to approve yet, or ever.
  void approve(RunId run) {
    runtime_.post([this, run](Engine& engine) {
      engine.request(RunRequest{tenant_, run, ResolveApproval{{}, true, Actor{"person:ada"}, {}}},
                     [](std::expected<RunAnswer, Refusal> answer) {
                       if (answer) acknowledge(answer->run, answer->seq, answer->status);
                     });
    });
  }

  Runtime& runtime_;
  TenantId tenant_;
  std::counting_semaphore<64> outstanding_{32};
};

int work(const char* folder) try {
  ToolCatalog tools = one_tool();
  SystemClock clock;
  SqliteStore store(SqliteOptions{.folder = folder, .vfs = {}, .wal_bytes_max = 1 << 20, .wal_bytes_idle = 1 << 18});
  RuntimeOptions options;
  options.limits = {
      .working_set_bytes_max = 400'000, .unfolded_bytes_max = 100'000, .timer_horizon = std::chrono::seconds(10)};
  options.on_durable = [](const Frame& frame) {
    for (const RunFold& fold : frame.runs)
      if (is_terminal(fold.row.status)) acknowledge(fold.row.id, fold.row.seq, fold.row.status);
  };
  Runtime runtime(store, tools, clock, std::move(options));
  runtime.start();
  TenantId tenant = must(runtime.ask(CreateTenant{"default", Actor{"admin"}}));
  for (const char* source : {three_steps, gated})
    must(runtime.ask(PublishWorkflow{tenant, source, "crash", Actor{"admin"}}));
  Hasty worker(runtime);
  runtime.post([&](Engine& engine) { engine.add_worker(worker.name, {{"work"}}, worker); });
  runtime.offer(worker.name, 32);
  Load(runtime, tenant).go_on();
} catch (const std::exception& failure) {
  // What stops a runtime says so itself and ends the process; this is what comes before one runs.
  std::fprintf(stderr, "pawl: %s\n", failure.what());
  return 74;
}

class Check {
 public:
  explicit Check(const char* folder) : store_(SqliteStore::open_reader(folder)) {}

  int run() {
    auto problem = [&](const Problem& found) {
      complain(found.subject + " " + std::to_string(found.seq) + ": " + found.what);
    };
    auto counts = Verification(*store_, problem, [](const VerifyCounts&) {}).check();
    for (const Tenant& tenant : store_->tenants()) tenant_ = tenant.id;
    store_->for_each_workflow([&](const WorkflowRow& row) {
      auto workflow = compile_workflow(row.source, row.name.text, nullptr);
      workflow->version = row.version;
      workflows_.add(row.tenant, std::move(*workflow));
    });
    StreamReader streams(*store_);
    std::string id, status;
    std::uint64_t seq = 0, acknowledged = 0;
    while (std::cin >> id >> seq >> status) {
      ++acknowledged;
      check(streams, *RunId::parse(id), seq, status);
    }
    std::printf("%llu runs, %llu events, %llu acknowledgements, %d problems\n",
                static_cast<unsigned long long>(counts.runs), static_cast<unsigned long long>(counts.events),
                static_cast<unsigned long long>(acknowledged), problems_);
    return problems_ == 0 ? 0 : 1;
  }

 private:
  void complain(const std::string& what) {
    ++problems_;
    std::fprintf(stderr, "%s\n", what.c_str());
  }

  // The run was told to be in this status after this many events: so its journal says.
  void check(StreamReader& streams, RunId run, std::uint64_t seq, const std::string& status) {
    auto stream = streams.read(StreamKey::of(tenant_, run));
    if (stream.lines.size() < seq)
      return complain(run.str() + " was acknowledged with " + std::to_string(seq) + " events and has " +
                      std::to_string(stream.lines.size()));
    std::string lines;
    for (std::uint64_t i = 0; i < seq; ++i) lines += stream.lines[i].text + "\n";
    auto created = std::get<RunCreated>(parse_run_event(stream.lines[0].text)->payload);
    auto folded = fold_lines(tenant_, run, *workflows_.find(tenant_, created.workflow, created.version), lines);
    if (!folded) return complain(folded.error());
    if (to_string(folded->status) != status)
      complain(run.str() + " was acknowledged as " + status + " and is " + std::string(to_string(folded->status)));
  }

  std::unique_ptr<SqliteStore> store_;
  TenantId tenant_;
  Workflows workflows_;
  int problems_ = 0;
};

}  // namespace
}  // namespace pawl

int main(int argc, char** argv) {
  std::string_view command = argc == 3 ? argv[1] : "";
  if (command == "work") return pawl::work(argv[2]);
  if (command == "check") return pawl::Check(argv[2]).run();
  std::fprintf(stderr, "crash_child work|check DIR\n");
  return 2;
}
