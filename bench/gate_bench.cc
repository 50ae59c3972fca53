// bench/run gate: what the gate costs. The same runs by the same worker, whose steps have an effect: once without a
// word, once with every effect proposed, judged by a policy, allowed, intended and accounted for. Once with effects
// that cost nothing, which is all gate; once with calls to a server, which is what somebody sees who has work done.
#include <fmt/core.h>

#include <array>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <thread>

#include "arguments.h"
#include "bench/disk.h"
#include "bench/figures.h"
#include "bench/fixture.h"
#include "constant.h"
#include "crypto/sha256.h"
#include "engine/gatekeeper.h"
#include "govern/policy.h"
#include "http/server.h"
#include "measure.h"
#include "recorded.h"

namespace {

using namespace pawl;
using namespace pawl::bench;
namespace fs = std::filesystem;

// Few enough for their journal to stay below what is folded early (EngineLimits::unfolded_bytes_max), governed or not.
constexpr int in_flight = 2048;
constexpr std::size_t handful = 256;

// What such policies look like: most rules are about other connectors, and the last allows.
std::string policy_of_rules(int rules) {
  std::string out = "policy: bench\nrules:\n";
  for (int i = 1; i < rules; ++i)
    out += fmt::format("- {{id: r{0}, effect: {1}, when: \"connector = 'other-{0}' AND operation LIKE '%.delete'\"}}\n",
                       i, i % 3 == 0 ? "needs_approval" : "deny");
  return out + "- {id: rest, effect: allow, when: risk = 'low'}\n";
}

// Whose keys its effects have: the run's own, as when nobody gives one, or such as any run could use, as connectors
// give them.
enum class Keys { own, shared };

// What is measured.
struct Kind {
  int rules = 0;  // of the policy; 0: ungoverned
  Keys keys = Keys::own;
};

Action action_of(const Lease& lease, Keys keys) {
  return {.connector = "desk",
          .operation = "ticket.update",
          .target = "desk/ticket/8a5055c9c61122780043563ef53438e3",
          .fields = R"({"assignment_group":"network","priority":"2"})",
          .risk = Tier::low,
          .idempotency_key = (keys == Keys::shared ? "desk:" : "") + lease.idempotency_key};
}

// Has many steps in hand at a time and waits for none of them, as a worker that calls others does.
class Worker final : public LeaseSink {
 public:
  Worker(Fixture& fixture, const Kind& kind) : runtime_(fixture.runtime()), keeper_(runtime_), kind_(kind) {
    runtime_.post([this](Engine& engine) { engine.add_worker(name_, {{"noop"}}, *this); });
    thread_ = std::thread([this] { work(); });
    runtime_.offer(name_, in_flight);
  }
  ~Worker() override {
    {
      std::lock_guard lock(mutex_);
      is_stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void grant(std::vector<Lease> leases) override {
    std::lock_guard lock(mutex_);
    bool was_empty = granted_.empty();
    for (Lease& lease : leases) granted_.push_back(std::move(lease));
    if (was_empty) changed_.notify_one();
  }
  void revoke(RunId, const StepId&, std::uint64_t) override {}

 private:
  // A handful at a time, so that nothing waits for the last of many.
  void work() {
    std::vector<Lease> leases;
    std::vector<StepReport> reports;
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return is_stopping_ || !granted_.empty() || !allowed_.empty(); });
        if (is_stopping_) return;
        for (; !granted_.empty() && leases.size() < handful; granted_.pop_front())
          leases.push_back(std::move(granted_.front()));
        reports.swap(allowed_);
      }
      for (Lease& lease : leases)
        if (kind_.rules > 0)
          propose(lease);
        else
          reports.push_back(report_of(lease));
      leases.clear();
      if (reports.empty()) continue;
      int slots = static_cast<int>(reports.size());
      runtime_.report(std::exchange(reports, {}));
      runtime_.offer(name_, slots);
    }
  }

  static StepReport report_of(const Lease& lease) {
    return {lease.tenant, lease.run, lease.step, lease.proof(), Completed{}};
  }

  void propose(const Lease& lease) {
    auto proposal = std::make_shared<Proposal>();
    proposal->action = action_of(lease, kind_.keys);
    keeper_.propose({.action = {.tenant = lease.tenant,
                                .run = lease.run,
                                .step = lease.step,
                                .proof = lease.proof(),
                                .proposal = std::move(proposal),
                                .verdict = {}},
                     .workspace = lease.workspace,
                     .workflow = lease.workflow},
                    [this, report = report_of(lease)](std::expected<GateAnswer, Refusal> answer) mutable {
                      if (!answer || answer->effect != Effect::allow) std::abort();
                      report.effect = EffectOutcome{.receipt = answer->receipt, .response = R"({"status":200})"};
                      std::lock_guard lock(mutex_);
                      allowed_.push_back(std::move(report));
                      if (allowed_.size() == 1) changed_.notify_one();
                    });
  }

  const WorkerName name_{"local/bench"};
  Runtime& runtime_;
  Gatekeeper keeper_;
  const Kind kind_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  std::deque<Lease> granted_;
  std::vector<StepReport> allowed_;
  std::thread thread_;
};

struct Measured {
  std::vector<double> steps_per_s, work_us, raw_steps_per_s, bytes, steps_per_sync;

  double reached() const { return percentile(steps_per_s, 0.5); }
  double work() const { return percentile(work_us, 0.5); }
  double raw() const { return percentile(raw_steps_per_s, 0.5); }
};

void add_both(const Report& report, const std::string& name, const Measured& plain, const Measured& governed,
              const char* aim) {
  report.add({name, governed.reached(), "steps/s", governed.reached() / plain.reached(), "ungoverned", aim});
  report.add({"processor time a step", governed.work(), "us", governed.work() / plain.work(), "ungoverned", ""});
}

std::size_t bytes_of(const Frame& frame) {
  std::size_t bytes = frame.parts.size();
  for (const RunFold& fold : frame.runs) bytes += fold.history.lines.size() + fold.row.snapshot.size();
  return bytes;
}

// What the store alone takes for the same commits, and how much they write.
void measure_raw(Measured& out, const fs::path& parent, std::uint64_t runs, const Kind& kind) {
  Record record;
  {
    Folder folder(parent, "record");
    Fixture fixture({.folder = folder.path(), .slots = 0, .between = [&](Store& store) {
                       return std::make_unique<RecordingStore>(store, record);
                     }});
    WorkflowName five = fixture.publish(steps_workflow("five", 5));
    if (kind.rules > 0) fixture.publish_policy(policy_of_rules(kind.rules));
    Worker worker(fixture, kind);
    fixture.run_many(five, runs, in_flight);
  }
  std::size_t bytes = 0;
  for (const auto& group : record)
    for (const Frame& frame : group) bytes += bytes_of(frame);
  out.bytes.push_back(static_cast<double>(bytes) / static_cast<double>(runs * 5));
  out.raw_steps_per_s.push_back(static_cast<double>(runs * 5) / commit_again(parent, record));
}

void measure(Measured& out, const fs::path& parent, std::uint64_t runs, const Kind& kind) {
  Folder folder(parent, "gate");
  Fixture fixture({.folder = folder.path(), .slots = 0});
  WorkflowName five = fixture.publish(steps_workflow("five", 5));
  if (kind.rules > 0) fixture.publish_policy(policy_of_rules(kind.rules));
  Worker worker(fixture, kind);
  fixture.run_many(five, runs / 10, in_flight);
  settle_disk();
  double cpu = cpu_seconds_now();
  std::uint64_t synced = syncs();
  double took = fixture.run_many(five, runs, in_flight);
  double steps = static_cast<double>(runs * 5);
  out.steps_per_s.push_back(steps / took);
  out.work_us.push_back((cpu_seconds_now() - cpu) * 1e6 / steps);
  out.steps_per_sync.push_back(steps / static_cast<double>(syncs() - synced));
}

// In turns, because what the machine gives changes from one second to the next; the middle one of each is told.
void throughput(const Report& report, const fs::path& parent, std::uint64_t runs) {
  report.heading("5-step runs, each step an effect that costs nothing; one worker in the process, 2048 steps in hand");
  Measured plain, few, shared, many;
  constexpr int rounds = 3;
  for (int round = 0; round < rounds; ++round) {
    measure(plain, parent, runs, {});
    measure(few, parent, runs, {.rules = 3});
    measure(shared, parent, runs, {.rules = 3, .keys = Keys::shared});
    measure(many, parent, runs, {.rules = 100});
    measure_raw(plain, parent, runs / 4, {});
    measure_raw(few, parent, runs / 4, {.rules = 3});
  }
  report.add({"ungoverned", plain.reached(), "steps/s", {}, "", ""});
  report.add({"processor time a step", plain.work(), "us", {}, "", ""});
  add_both(report, "governed, a policy of 3 rules", plain, few, "0.75");
  add_both(report, "the same, keys that any run could use", plain, shared, "");
  add_both(report, "governed, a policy of 100 rules", plain, many, "");
  report.add({"the store alone, the ungoverned commits", plain.raw(), "steps/s", {}, "", ""});
  report.add({"the store alone, the governed commits", few.raw(), "steps/s", few.raw() / plain.raw(), "those", ""});
  double bytes = percentile(plain.bytes, 0.5), governed_bytes = percentile(few.bytes, 0.5);
  report.add({"written a step, ungoverned: journal, history, row", bytes, "bytes", {}, "", ""});
  report.add({"written a step, governed", governed_bytes, "bytes", governed_bytes / bytes, "ungoverned", ""});
  report.add({"steps per sync, ungoverned", percentile(plain.steps_per_sync, 0.5), "steps", {}, "", ""});
  report.add({"steps per sync, governed", percentile(few.steps_per_sync, 0.5), "steps", {}, "", ""});
}

// ---- Effects that are calls

std::string calling_workflow(const std::string& name, int steps, std::uint16_t port) {
  std::string out = "workflow: " + name + "\nsteps:\n";
  for (int i = 1; i <= steps; ++i)
    out += fmt::format(
        "  - {{id: step{}, tool: http.request, with: {{method: POST, url: \"http://127.0.0.1:{}/ticket\", "
        "body: {{assignment_group: network, priority: \"2\"}}}}}}\n",
        i, port);
  return out;
}

// As many threads as `pawl serve` has slots.
constexpr int calls_at_once = 256;

FixtureOptions calling_fixture(const Folder& folder, bool governed) {
  ToolLimits limits;
  limits.http_allow = {parse_http_allow("127.0.0.1").value()};
  return {
      .folder = folder.path(), .slots = calls_at_once, .threads = calls_at_once, .http = limits, .governed = governed};
}

void measure_calls(Measured& out, const fs::path& parent, std::uint64_t runs, bool governed, std::uint16_t port) {
  Folder folder(parent, "calls");
  Fixture fixture(calling_fixture(folder, governed));
  fixture.publish_policy(policy_of_rules(3));
  WorkflowName five = fixture.publish(calling_workflow("five", 5, port));
  fixture.run_many(five, runs / 10, calls_at_once);
  settle_disk();
  double cpu = cpu_seconds_now();
  double took = fixture.run_many(five, runs, calls_at_once);
  out.steps_per_s.push_back(static_cast<double>(runs * 5) / took);
  out.work_us.push_back((cpu_seconds_now() - cpu) * 1e6 / static_cast<double>(runs * 5));
}

// Of one run of one step, milliseconds, nothing else going on.
void measure_latency(std::vector<double>& out, const fs::path& parent, int runs, bool governed, std::uint16_t port) {
  Folder folder(parent, "latency");
  Fixture fixture(calling_fixture(folder, governed));
  fixture.publish_policy(policy_of_rules(3));
  WorkflowName one = fixture.publish(calling_workflow("one", 1, port));
  for (int i = 0; i < runs / 10; ++i) fixture.run_one(one);
  for (int i = 0; i < runs; ++i) out.push_back(fixture.run_one(one) * 1e3);
}

void calls(const Report& report, const fs::path& parent, std::uint64_t runs) {
  report.heading("5-step runs, each step a POST over loopback by the workers in the process, 256 at once");
  Constant constant(R"({"result":{"number":"INC0010001","state":"2"}})");
  http::Server server({.port = 0}, constant);
  server.start();
  Measured plain, governed;
  std::vector<double> plain_ms, governed_ms;
  constexpr int rounds = 5;
  for (int round = 0; round < rounds; ++round) {
    measure_calls(plain, parent, runs, false, server.port());
    measure_calls(governed, parent, runs, true, server.port());
    measure_latency(plain_ms, parent, static_cast<int>(runs / 10), false, server.port());
    measure_latency(governed_ms, parent, static_cast<int>(runs / 10), true, server.port());
  }
  report.add({"ungoverned", plain.reached(), "steps/s", {}, "", ""});
  report.add({"processor time a step, both ends of the call", plain.work(), "us", {}, "", ""});
  add_both(report, "governed, a policy of 3 rules", plain, governed, "0.75");
  double p50 = percentile(plain_ms, 0.5), governed_p50 = percentile(governed_ms, 0.5);
  report.add({"one run of one step alone, ungoverned: p50", p50, "ms", {}, "", ""});
  report.add({"one run of one step alone, governed: p50", governed_p50, "ms", governed_p50 / p50, "ungoverned", ""});
}

void policy(const Report& report, int decisions) {
  report.heading("one decision of a policy");
  Lease lease{.idempotency_key = "run_01mcc5rnpne00aar2xh4raz69f:step1"};
  for (int rules : {3, 100}) {
    auto compiled = Policy::compile(policy_of_rules(rules), "bench").value();
    std::vector<double> took;
    for (int i = 0; i < decisions; ++i) {
      Action action = action_of(lease, Keys::own);
      action.idempotency_key += std::to_string(i);
      double begin = seconds_now();
      Verdict verdict = compiled.evaluate(action, {"default", "default", "five"});
      took.push_back((seconds_now() - begin) * 1e6);
      if (verdict.effect != Effect::allow) throw std::runtime_error("the policy does not allow: " + verdict.reason);
    }
    auto name = fmt::format("{} rules, of which the last speaks", rules);
    report.add({name + ": p50", percentile(took, 0.5), "us", {}, "", rules == 100 ? "at most 20" : ""});
    report.add({name + ": p99", percentile(took, 0.99), "us", {}, "", ""});
  }
}

constexpr const char* usage =
    "usage: gate_bench [--json] [--quick] [--folder DIR] [throughput|calls|policy]...\n"
    "Without names, all of them. --quick takes a tenth of the work; its figures are for trying things out.\n";

}  // namespace

int main(int argc, char** argv) {
  constexpr std::array<std::string_view, 3> names{"throughput", "calls", "policy"};
  auto arguments = read_arguments(argc, argv, names, usage);
  if (!arguments) return 2;
  fs::create_directories(arguments->parent);
  Report report(arguments->style);
  if (arguments->wants("policy")) policy(report, arguments->quick ? 10'000 : 100'000);
  if (arguments->wants("throughput")) throughput(report, arguments->parent, arguments->quick ? 10'000 : 60'000);
  if (arguments->wants("calls")) calls(report, arguments->parent, arguments->quick ? 200 : 2'000);
  fs::remove_all(arguments->parent);
}
