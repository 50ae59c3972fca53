// bench/run gate: what the gate costs. The same runs by the same worker, whose steps have an effect: once without a
// word, once with every effect proposed, judged by a policy, allowed, intended and accounted for.
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
#include "bench/world.h"
#include "crypto/sha256.h"
#include "engine/gatekeeper.h"
#include "govern/policy.h"
#include "measure.h"

namespace {

using namespace pawl;
using namespace pawl::bench;
namespace fs = std::filesystem;

constexpr int in_flight = 8192;
constexpr std::size_t handful = 256;

// What such policies look like: most rules are about other connectors, and the last allows.
std::string policy_of_rules(int rules) {
  std::string out = "policy: bench\nrules:\n";
  for (int i = 1; i < rules; ++i)
    out += fmt::format("- {{id: r{0}, effect: {1}, when: \"connector = 'other-{0}' AND operation LIKE '%.delete'\"}}\n",
                       i, i % 3 == 0 ? "needs_approval" : "deny");
  return out + "- {id: rest, effect: allow, when: risk = 'low'}\n";
}

Action action_of(const Lease& lease) {
  return {.connector = "desk",
          .operation = "ticket.update",
          .target = "desk/ticket/8a5055c9c61122780043563ef53438e3",
          .fields = R"({"assignment_group":"network","priority":"2"})",
          .risk = Tier::low,
          .idempotency_key = lease.idempotency_key};
}

// Has many steps in hand at a time and waits for none of them, as a worker that calls others does.
class Worker final : public LeaseSink {
 public:
  Worker(World& world, bool governed) : runtime_(world.runtime()), keeper_(runtime_), governed_(governed) {
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
        if (governed_)
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
    return {lease.tenant, lease.run, lease.step, lease.token, Completed{}};
  }

  void propose(const Lease& lease) {
    auto proposal = std::make_shared<Proposal>();
    proposal->action = action_of(lease);
    proposal->digest = digest_of(sha256, proposal->action);
    keeper_.propose({.action = {.tenant = lease.tenant,
                                .run = lease.run,
                                .step = lease.step,
                                .token = lease.token,
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
  const bool governed_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  std::deque<Lease> granted_;
  std::vector<StepReport> allowed_;
  std::thread thread_;
};

struct Measured {
  std::vector<double> steps_per_s, work_us;
};

void measure(Measured& out, const fs::path& parent, std::uint64_t runs, int rules) {
  Folder folder(parent, "gate");
  World world({.folder = folder.path(), .slots = 0});
  WorkflowName five = world.publish(steps_workflow("five", 5));
  if (rules > 0)
    world.runtime()
        .ask<PolicyRef>([&](Engine& engine, Reply<PolicyRef> reply) {
          engine.publish_policy(world.tenant(), PolicySource::read(policy_of_rules(rules), "bench").value(),
                                Actor{"bench"}, std::move(reply));
        })
        .value();
  Worker worker(world, rules > 0);
  world.run_many(five, runs / 10, in_flight);
  settle_disk();
  double cpu = cpu_seconds_now();
  double took = world.run_many(five, runs, in_flight);
  out.steps_per_s.push_back(static_cast<double>(runs * 5) / took);
  out.work_us.push_back((cpu_seconds_now() - cpu) * 1e6 / static_cast<double>(runs * 5));
}

void throughput(const Report& report, const fs::path& parent, std::uint64_t runs) {
  report.heading("5-step runs, each step an effect; one worker in the process, 8192 steps in hand");
  Measured plain, few, many;
  constexpr int rounds = 3;
  for (int round = 0; round < rounds; ++round) {
    measure(plain, parent, runs, 0);
    measure(few, parent, runs, 3);
    measure(many, parent, runs, 100);
  }
  double ungoverned = percentile(plain.steps_per_s, 0.5);
  report.add({"ungoverned", ungoverned, "steps/s", {}, "", ""});
  auto governed = [&](const char* name, const Measured& measured, const char* aim) {
    double reached = percentile(measured.steps_per_s, 0.5);
    report.add({name, reached, "steps/s", reached / ungoverned, "ungoverned", aim});
    double work = percentile(measured.work_us, 0.5);
    report.add({"processor time a step", work, "us", work / percentile(plain.work_us, 0.5), "ungoverned", ""});
  };
  report.add({"processor time a step", percentile(plain.work_us, 0.5), "us", {}, "", ""});
  governed("governed, a policy of 3 rules", few, "0.75");
  governed("governed, a policy of 100 rules", many, "");
}

void policy(const Report& report, int decisions) {
  report.heading("one decision of a policy");
  Lease lease{.idempotency_key = "run_01mcc5rnpne00aar2xh4raz69f:step1"};
  for (int rules : {3, 100}) {
    auto compiled = Policy::compile(policy_of_rules(rules), "bench").value();
    std::vector<double> took;
    for (int i = 0; i < decisions; ++i) {
      Action action = action_of(lease);
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
    "usage: gate_bench [--json] [--quick] [--folder DIR] [throughput|policy]...\n"
    "Without names, both. --quick takes a tenth of the work; its figures are for trying things out.\n";

}  // namespace

int main(int argc, char** argv) {
  constexpr std::array<std::string_view, 2> names{"throughput", "policy"};
  auto arguments = read_arguments(argc, argv, names, usage);
  if (!arguments) return 2;
  fs::create_directories(arguments->parent);
  Report report(arguments->style);
  if (arguments->wants("policy")) policy(report, arguments->quick ? 10'000 : 100'000);
  if (arguments->wants("throughput")) throughput(report, arguments->parent, arguments->quick ? 10'000 : 60'000);
  fs::remove_all(arguments->parent);
}
