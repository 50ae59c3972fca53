// The follower that stores bundles, on an engine with its threads: which come first, and that none is left out.
#include "evidence/evidence_follower.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include "store/sqlite/sqlite_store.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

// Remembers what was put, in order.
class RememberedArtifacts final : public Artifacts {
 public:
  std::string put(const std::string& name, std::string_view) override {
    names.push_back(name);
    return "remembered:" + name;
  }
  std::vector<std::string> names;
};

class EvidenceFollowerTest : public testing::Test {
 protected:
  EvidenceFollowerTest() {
    std::string name = (fs::temp_directory_path() / "pawl-evidence-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    SqliteOptions options;
    options.folder = folder_ / "data";
    store_.emplace(options);
    tools_.expect_remote_tools();
    runtime_.emplace(*store_, tools_, clock_);
    runtime_->start();
    tenant_ = ask<TenantId>([](Engine& e, Reply<TenantId> r) { e.create_tenant("default", {"admin"}, std::move(r)); });
    notary_.emplace(Notary::Parts{*runtime_, *store_, clock_, folder_ / "signing-key.json"});
    publish("workflow: asks\nsteps: [{id: only, tool: approval}]\n");
    publish("workflow: plain\nsteps: [{id: only, tool: test.work}]\n");
  }
  ~EvidenceFollowerTest() override {
    runtime_->stop();
    runtime_.reset();
    store_.reset();
    fs::remove_all(folder_);
  }

  template <class T>
  T ask(std::move_only_function<void(Engine&, Reply<T>)> request) {
    return runtime_->ask<T>(std::move(request)).value();
  }
  void publish(const std::string& source) {
    ask<WorkflowRef>(
        [&](Engine& e, Reply<WorkflowRef> r) { e.publish(tenant_, source, "w", {"admin"}, std::move(r)); });
  }
  // A run that was canceled: it has ended, and needed no worker.
  RunId ended(const std::string& workflow) {
    NewRun request;
    request.tenant = tenant_;
    request.workflow.text = workflow;
    request.by.text = "person:asker";
    const RunId id = ask<RunAnswer>([&](Engine& e, Reply<RunAnswer> r) { e.create_run(request, std::move(r)); }).run;
    ask<RunAnswer>([&](Engine& e, Reply<RunAnswer> r) {
      e.command(tenant_, id, CancelRun{Actor{"person:asker"}, "enough"}, std::move(r));
    });
    return id;
  }

  EvidenceFollower make(EvidenceFollower::Options options) {
    options.on_backlog = [this](std::size_t runs) { backlog_ = runs; };
    return EvidenceFollower(*notary_, *store_, artifacts_, options);
  }
  // Shows it all that the journal has since.
  void show(EvidenceFollower& follower) {
    const Tenant tenant = store_->tenants().at(0);
    while (auto frame = store_->frame_after(shown_)) {
      shown_ = frame->position;
      for_each_part(frame->parts, [&](const StreamPart& part) {
        std::uint64_t seq = part.first_seq;
        for (std::string_view lines = part.lines; !lines.empty(); ++seq) {
          const std::string_view line = lines.substr(0, lines.find('\n'));
          lines.remove_prefix(std::min(line.size() + 1, lines.size()));
          follower.see({.position = frame->position, .stream = part.key, .seq = seq, .line = line, .tenant = tenant});
        }
      });
    }
  }
  std::string name_of(RunId run) const { return tenant_.str() + "/" + run.str() + ".zip"; }

  fs::path folder_;
  SystemClock clock_;
  ToolCatalog tools_;
  std::optional<SqliteStore> store_;
  std::optional<Runtime> runtime_;
  std::optional<Notary> notary_;
  TenantId tenant_;
  RememberedArtifacts artifacts_;
  Position shown_ = 0;
  std::size_t backlog_ = 0;
};

TEST_F(EvidenceFollowerTest, stores_governed_runs_first_while_the_server_is_busy_and_the_others_later) {
  const RunId plain = ended("plain"), governed = ended("asks");
  auto busy = make({.busy_events_per_second = -1, .busy_slice = Duration::zero()});
  show(busy);
  EXPECT_FALSE(busy.settle_some()) << "its place must not move on";
  EXPECT_EQ(artifacts_.names, std::vector{name_of(governed)});
  EXPECT_EQ(backlog_, 1U);
  // The same journal seen again, by a server that has time: nothing is stored twice, and nothing is left out.
  shown_ = 0;
  auto idle = make({});
  idle.took_over();
  show(idle);
  idle.settle();
  EXPECT_EQ(artifacts_.names, (std::vector{name_of(governed), name_of(plain)}));
  EXPECT_EQ(backlog_, 0U);
}

TEST_F(EvidenceFollowerTest, finds_the_runs_of_frames_that_are_gone_in_the_tables) {
  const RunId stored = ended("asks");
  auto first = make({});
  show(first);
  first.settle();
  const RunId plain = ended("plain"), governed = ended("asks");
  auto second = make({});
  second.took_over();
  second.missed(1, 2);
  second.settle();
  std::ranges::sort(artifacts_.names);
  std::vector expected{name_of(stored), name_of(plain), name_of(governed)};
  std::ranges::sort(expected);
  EXPECT_EQ(artifacts_.names, expected);
}

TEST_F(EvidenceFollowerTest, stores_what_was_asked_for_and_no_more) {
  ended("plain");
  const RunId governed = ended("asks");
  for (auto wanted : {BundlesWanted::none, BundlesWanted::governed}) {
    shown_ = 0;
    auto follower = make({.bundles = wanted});
    show(follower);
    follower.settle();
    EXPECT_EQ(artifacts_.names,
              wanted == BundlesWanted::none ? std::vector<std::string>{} : std::vector{name_of(governed)});
  }
}

}  // namespace
}  // namespace pawl
