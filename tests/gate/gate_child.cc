// What the tests of the gate kill: store, engine, policy and workers as pawl has them, and two tools whose effects can
// be counted. Commands on a data folder:
//
//   gate_child work DIR TARGET once|each   carries the folder's run on, or makes one, until it ends or waits for a
//   person gate_child answer DIR true|false       says whether the effect that is in doubt happened
//
// TARGET is the other side, a folder: `each` adds a line to TARGET/effects at every call, `once` only at the first call
// under a key, and declares itself idempotent. Both add a line to TARGET/calls.
//
// DIE_AT=POINT ends the process as kill -9 does, at the first time that it comes there: before_intent, after_intent,
// after_call, before_outcome, after_outcome. All of these are outside of what is tested.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/runtime.h"
#include "engine/server.h"
#include "store/sqlite/sqlite_store.h"
#include "tools/tools.h"
#include "tools/worker_pool.h"

namespace pawl {
namespace {

void reach(std::string_view point) {
  const char* wanted = std::getenv("DIE_AT");
  if (wanted && point == wanted) ::kill(::getpid(), SIGKILL);
}

void add_line(const std::filesystem::path& file, const std::string& line) {
  int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  std::string text = line + "\n";
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
  ::close(fd);
}

class CountedTool final : public Tool {
 public:
  CountedTool(std::filesystem::path target, bool idempotent) : target_(std::move(target)), idempotent_(idempotent) {
    spec_.name.text = idempotent ? "once" : "each";
    spec_.writes = ToolSpec::Writes::always;
  }
  const ToolSpec& spec() const override { return spec_; }

  std::expected<Plan, Failed> plan(const Lease& lease, std::stop_token) override {
    return Plan{.action = {.connector = "target",
                           .operation = spec_.name.text,
                           .target = "target/1",
                           .fields = lease.input,
                           .risk = lease.risk},
                .idempotent = idempotent_};
  }

  ToolResult run(const Lease& lease, Instant, std::stop_token) override {
    reach("after_intent");
    add_line(target_ / "calls", lease.idempotency_key);
    if (!idempotent_ || !was_done(lease.idempotency_key)) add_line(target_ / "effects", lease.idempotency_key);
    reach("after_call");
    return Completed{.output = "\"done\""};
  }

 private:
  bool was_done(const std::string& key) const {
    std::ifstream effects(target_ / "effects");
    for (std::string line; std::getline(effects, line);)
      if (line == key) return true;
    return false;
  }

  std::filesystem::path target_;
  bool idempotent_;
  ToolSpec spec_;
};

class DyingGate final : public Gate {
 public:
  explicit DyingGate(Runtime& runtime) : gate_(runtime) {}
  GatePass pass(const Lease& lease, const Proposal& proposal, const Question& question) override {
    reach("before_intent");
    return gate_.pass(lease, proposal, question);
  }

 private:
  PolicyGate gate_;
};

class DyingBroker final : public LeaseBroker {
 public:
  explicit DyingBroker(Runtime& runtime) : runtime_(runtime) {}
  void offer(const WorkerName& worker, int slots) override { runtime_.offer(worker, slots); }
  void give_back(const WorkerName& worker, TenantId tenant, int slots) override {
    runtime_.give_back(worker, tenant, slots);
  }
  void report(std::vector<StepReport> reports) override {
    reach("before_outcome");
    runtime_.report(std::move(reports));
  }

 private:
  Runtime& runtime_;
};

template <class T>
T must(std::expected<T, Refusal> answer) {
  if (!answer) throw std::runtime_error(answer.error().message);
  return *answer;
}

class ChildServer {
 public:
  ChildServer(const char* folder, const char* target)
      : store_(SqliteOptions{.folder = folder, .vfs = {}}), clock_(store_) {
    tools_.push_back(std::make_unique<CountedTool>(target, false));
    tools_.push_back(std::make_unique<CountedTool>(target, true));
    catalog_ = catalog_of(tools_);
    RuntimeOptions options;
    options.on_durable = [](const Frame& frame) {
      for (const RunFold& fold : frame.runs)
        if (is_terminal(fold.row.status)) reach("after_outcome");
    };
    runtime_ = std::make_unique<Runtime>(store_, catalog_, clock_, std::move(options));
    runtime_->start();
    tenant_ = must(runtime_->ask(CreateTenant{"default", Actor{"admin"}}));
  }
  ~ChildServer() { runtime_->stop(); }

  RunId find_or_make_run(const std::string& tool) {
    auto runs = store_.list_runs(tenant_, {});
    if (!runs.empty()) return runs.front().id;
    must(runtime_->ask(PublishWorkflow{
        tenant_,
        "workflow: effect\nsteps:\n- {id: effect, tool: " + tool + ", retry: {max_attempts: 5, base: 1ms, max: 1ms}}\n",
        "gate", Actor{"admin"}}));
    return must(runtime_->ask(
                    NewRun{.tenant = tenant_, .workflow = {"effect"}, .version = {}, .by = Actor{"person:asker"}}))
        .run;
  }

  void carry(RunId run) {
    DyingGate gate(*runtime_);
    DyingBroker broker(*runtime_);
    WorkerName name = local_worker(store_);
    WorkerPool workers({.worker = name, .slots = 4, .threads_max = 2, .clock = [this] { return clock_.now(); }}, tools_,
                       gate);
    runtime_->post([&](Engine& engine) {
      std::vector<ToolName> names;
      for (const auto& tool : tools_) names.push_back(tool->spec().name);
      engine.add_worker(name, names, workers);
    });
    workers.start(broker);
    while (!rests(inspect(run)->status)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    workers.stop();
  }

  void answer(RunId run, bool happened) {
    must(runtime_->ask(RunRequest{
        tenant_, run,
        AnswerQuestion{{"effect"}, happened ? R"({"happened":true})" : R"({"happened":false})", Actor{"person:ada"}}}));
  }

 private:
  static bool rests(RunStatus status) { return is_terminal(status) || status == RunStatus::waiting; }
  std::shared_ptr<const Run> inspect(RunId run) { return must(runtime_->ask(InspectRun{tenant_, run})); }

  SqliteStore store_;
  ServiceClock clock_;
  std::vector<std::unique_ptr<Tool>> tools_;
  ToolCatalog catalog_;
  std::unique_ptr<Runtime> runtime_;
  TenantId tenant_;
};

}  // namespace
}  // namespace pawl

int main(int argc, char** argv) try {
  std::string_view command = argc > 3 ? argv[1] : "";
  if (command == "work" && argc == 5) {
    pawl::ChildServer server(argv[2], argv[3]);
    server.carry(server.find_or_make_run(argv[4]));
    return 0;
  }
  if (command == "answer" && argc == 4) {
    pawl::ChildServer server(argv[2], "");
    server.answer(server.find_or_make_run(""), argv[3] == std::string_view("true"));
    return 0;
  }
  std::fprintf(stderr, "gate_child work DIR TARGET once|each\ngate_child answer DIR true|false\n");
  return 2;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "gate_child: %s\n", failure.what());
  return 1;
}
