// The gate that in-process tools pass, on a real engine: what each answer of the policy lets a tool do.
#include "tools/gate.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>

#include "engine/clock.h"
#include "engine/runtime.h"
#include "govern/policies.h"
#include "store/sqlite/sqlite_store.h"
#include "support/waiting.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

class LeaseCollector final : public LeaseSink {
 public:
  void grant(std::vector<Lease> leases) override {
    std::lock_guard lock(mutex_);
    for (Lease& lease : leases) leases_.push_back(std::move(lease));
  }
  void revoke(RunId, const StepId&, std::uint64_t) override {}

  Lease take() {
    EXPECT_TRUE(eventually([&] { return count() > 0; }));
    std::lock_guard lock(mutex_);
    Lease lease = std::move(leases_.back());
    leases_.pop_back();
    return lease;
  }

 private:
  std::size_t count() {
    std::lock_guard lock(mutex_);
    return leases_.size();
  }

  std::mutex mutex_;
  std::vector<Lease> leases_;
};

class PolicyGateTest : public testing::Test {
 protected:
  PolicyGateTest() {
    std::string name = (fs::temp_directory_path() / "pawl-gate-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    folder_ = name;
    tools_.add({.name = {"write"}, .keys = {}, .writes = ToolSpec::Writes::always});
    store_ = std::make_unique<SqliteStore>(SqliteOptions{.folder = folder_, .vfs = {}});
    runtime_ = std::make_unique<Runtime>(*store_, tools_, clock_);
    runtime_->start();
    tenant_ = ask(CreateTenant{"default", admin});
    ask(PublishWorkflow{tenant_, "workflow: w\nsteps: [{id: a, tool: write}]", "test", admin});
    runtime_->post([this](Engine& engine) { engine.add_worker(worker_, {{"write"}}, leases_); });
    gate_ = std::make_unique<PolicyGate>(*runtime_);
  }
  ~PolicyGateTest() override {
    gate_.reset();
    runtime_->stop();
    runtime_.reset();
    store_.reset();
    fs::remove_all(folder_);
  }

  template <class R>
  typename R::Answer ask(R value) {
    return runtime_->ask(std::move(value)).value();
  }
  void policy(const std::string& effect) {
    auto source = PolicySource::read("policy: p\nrules: [{id: rule, effect: " + effect + "}]", "test");
    ask(PublishPolicy{tenant_, std::move(*source), admin});
  }
  Lease lease() {
    ask(NewRun{.tenant = tenant_, .workflow = {"w"}});
    runtime_->offer(worker_, 1);
    return leases_.take();
  }
  GatePass pass(const Lease& lease, const std::string& target = "desk/ticket/1") {
    return gate_->pass(lease,
                       {.action = {.connector = "desk",
                                   .operation = "ticket.update",
                                   .target = target,
                                   .fields = R"({"group":"network"})",
                                   .idempotency_key = lease.idempotency_key}},
                       {});
  }
  std::shared_ptr<const pawl::Run> run_of(const Lease& lease) { return ask(InspectRun{tenant_, lease.run}); }

  inline static const Actor admin{"admin"};
  const WorkerName worker_{"local/1"};
  fs::path folder_;
  ToolCatalog tools_;
  SystemClock clock_;
  LeaseCollector leases_;
  std::unique_ptr<SqliteStore> store_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<PolicyGate> gate_;
  TenantId tenant_;
};

TEST_F(PolicyGateTest, lets_a_tool_do_what_the_policy_allows_once_the_intent_is_recorded) {
  policy("allow");
  Lease taken = lease();
  GatePass passed = pass(taken);
  const auto* allowed = std::get_if<Allowed>(&passed);
  ASSERT_NE(allowed, nullptr);
  EXPECT_FALSE(allowed->is_done);
  auto run = run_of(taken);
  ASSERT_EQ(run->receipts.size(), 1u);
  EXPECT_EQ(run->receipts[0].id, allowed->receipt);
  EXPECT_EQ(run->receipts[0].status, ReceiptStatus::intended);
}

TEST_F(PolicyGateTest, withholds_what_needs_an_approval) {
  policy("needs_approval");
  Lease taken = lease();
  EXPECT_TRUE(std::holds_alternative<Withheld>(pass(taken)));
  auto run = run_of(taken);
  EXPECT_EQ(run->status, RunStatus::waiting);
  EXPECT_TRUE(run->receipts.empty());
}

TEST_F(PolicyGateTest, withholds_what_the_policy_denies) {
  policy("deny");
  Lease taken = lease();
  EXPECT_TRUE(std::holds_alternative<Withheld>(pass(taken)));
  auto run = run_of(taken);
  EXPECT_EQ(run->status, RunStatus::denied);
  EXPECT_TRUE(run->receipts.empty());
}

TEST_F(PolicyGateTest, withholds_everything_from_a_lease_that_is_over) {
  policy("allow");
  Lease taken = lease();
  ask(RunRequest{tenant_, taken.run, CancelRun{admin, ""}});
  EXPECT_TRUE(std::holds_alternative<Withheld>(pass(taken)));
  EXPECT_TRUE(run_of(taken)->receipts.empty());
}

TEST_F(PolicyGateTest, refuses_a_second_action_under_one_key) {
  policy("allow");
  Lease taken = lease();
  ASSERT_TRUE(std::holds_alternative<Allowed>(pass(taken)));
  GatePass second = pass(taken, "desk/ticket/2");
  const auto* failed = std::get_if<Failed>(&second);
  ASSERT_NE(failed, nullptr);
  EXPECT_EQ(failed->error_code, "IDEMPOTENCY_KEY_REUSED");
}

TEST_F(PolicyGateTest, lets_nothing_begin_while_effects_are_frozen) {
  policy("allow");
  Lease taken = lease();
  ask(TenantRequest{tenant_, EffectsFrozen{.scope = FreezeScope::tenant, .connector = "", .reason = "incident"},
                    admin});
  GatePass passed = pass(taken);
  EXPECT_FALSE(std::holds_alternative<Allowed>(passed));
  EXPECT_TRUE(run_of(taken)->receipts.empty());
}

}  // namespace
}  // namespace pawl
