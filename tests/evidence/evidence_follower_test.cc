// The follower that stores bundles, on an engine with its threads: which come first, and that none is left out.
#include "evidence/evidence_follower.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <latch>
#include <map>

#include "crypto/sha256.h"
#include "store/forwarding_store.h"
#include "store/sqlite/sqlite_store.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

// Remembers what was put, in order; fails once there are so many.
class RememberedArtifacts final : public Artifacts {
 public:
  std::string put(const std::string& name, std::string_view) override {
    if (names.size() == fails_at) throw ArtifactFailure("no room");
    names.push_back(name);
    return "remembered:" + name;
  }
  std::vector<std::string> names;
  std::size_t fails_at = SIZE_MAX;
};

// Counts what is read of tenants' own streams.
class CountingStore final : public ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  Stream history(StreamKey key) override {
    if (key.is_tenant()) ++walks;
    return ForwardingStore::history(key);
  }
  void for_each_piece_back(StreamKey key,
                           const std::function<bool(std::uint64_t first_seq, std::string_view lines)>& visit) override {
    if (key.is_tenant()) ++walks;
    ForwardingStore::for_each_piece_back(key, visit);
  }
  std::size_t walks = 0;
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
    tenant_ = ask(CreateTenant{"default", {"admin"}});
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

  template <class R>
  typename R::Answer ask(R value) {
    return runtime_->ask(std::move(value)).value();
  }
  void publish(const std::string& source) { ask(PublishWorkflow{tenant_, source, "w", {"admin"}}); }
  // A run that was canceled: it has ended, and needed no worker.
  RunId ended(const std::string& workflow) {
    NewRun request;
    request.tenant = tenant_;
    request.workflow.text = workflow;
    request.by.text = "person:asker";
    const RunId id = ask(std::move(request)).run;
    ask(RunRequest{tenant_, id, CancelRun{Actor{"person:asker"}, "enough"}});
    return id;
  }

  // The same of many, in a few commits.
  void end_many(const std::string& workflow, std::size_t count) {
    NewRun request;
    request.tenant = tenant_;
    request.workflow.text = workflow;
    request.by.text = "person:asker";
    std::vector<RunId> runs(count);
    all_of(count, [&](Engine& engine, std::size_t which, Reply<RunAnswer> reply) {
      engine.request(request, [&, which, reply = std::move(reply)](std::expected<RunAnswer, Refusal> made) mutable {
        runs[which] = made.value().run;
        reply(std::move(made));
      });
    });
    all_of(count, [&](Engine& engine, std::size_t which, Reply<RunAnswer> reply) {
      engine.request(RunRequest{tenant_, runs[which], CancelRun{Actor{"person:asker"}, "enough"}}, std::move(reply));
    });
  }
  void all_of(std::size_t count, const std::function<void(Engine&, std::size_t, Reply<RunAnswer>)>& ask_one) {
    std::latch answered(static_cast<std::ptrdiff_t>(count));
    runtime_->post([&](Engine& engine) {
      for (std::size_t which = 0; which < count; ++which)
        ask_one(engine, which, [&](std::expected<RunAnswer, Refusal> answer) {
          EXPECT_TRUE(answer);
          answered.count_down();
        });
    });
    answered.wait();
  }
  // What the tenant's own stream says: how often each run is stored, and how often each entry is covered.
  struct Recorded {
    std::map<RunId, int> stored;
    std::map<std::string, int> covered;
  };
  Recorded recorded() {
    Recorded out;
    const std::string lines = store_->history(StreamKey::of(tenant_)).lines;
    for (std::string_view rest = lines; !rest.empty(); rest.remove_prefix(rest.find('\n') + 1)) {
      const auto event = parse_tenant_event(rest.substr(0, rest.find('\n'))).value();
      if (const auto* bundle = std::get_if<BundleStored>(&event.payload)) ++out.stored[bundle->run];
      if (const auto* made = std::get_if<CheckpointMade>(&event.payload))
        for (const std::string& entry : made->entries)
          if (entry.starts_with("run_")) ++out.covered[entry];
    }
    return out;
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
          const std::string_view line = take_line(lines);
          follower.see({.position = frame->position,
                        .stream = part.key,
                        .seq = seq,
                        .header = read_event_header(line),
                        .line = line,
                        .tenant = tenant});
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

TEST_F(EvidenceFollowerTest, the_runs_that_ended_last_come_first) {
  const RunId first = ended("plain"), second = ended("plain"), third = ended("plain");
  auto follower = make({});
  show(follower);
  follower.settle();
  EXPECT_EQ(artifacts_.names, (std::vector{name_of(third), name_of(second), name_of(first)}));
}

TEST_F(EvidenceFollowerTest, a_backlog_that_is_stopped_twice_is_covered_made_and_recorded_once) {
  constexpr std::size_t runs = 2000, before_a_stop = 650;
  end_many("plain", runs);
  CountingStore counted(*store_);
  for (std::size_t start = 1; start <= 3; ++start) {
    // As after a crash: nothing is remembered, and the journal is seen from its beginning.
    Notary notary({*runtime_, counted, clock_, folder_ / "signing-key.json"});
    EvidenceFollower follower(notary, counted, artifacts_,
                              {.busy_events_per_second = 1e12,
                               .on_backlog = [this](std::size_t left) { backlog_ = std::max(backlog_, left); }});
    shown_ = 0;
    artifacts_.fails_at = start < 3 ? start * before_a_stop : SIZE_MAX;
    counted.walks = 0;
    backlog_ = 0;
    follower.took_over();
    show(follower);
    if (start < 3)
      EXPECT_THROW(follower.settle(), ArtifactFailure);
    else
      follower.settle();
    EXPECT_EQ(backlog_, runs - (start - 1) * before_a_stop) << "what was stored before is no backlog";
    EXPECT_LE(counted.walks, 2U) << "however many bundles there are, the tenant's stream is not read for each";
  }
  EXPECT_EQ(artifacts_.names.size(), runs);
  const Recorded all = recorded();
  EXPECT_EQ(all.stored.size(), runs);
  EXPECT_EQ(all.covered.size(), runs);
  for (const auto& [run, times] : all.stored) EXPECT_EQ(times, 1) << run.str();
  for (const auto& [entry, times] : all.covered) EXPECT_EQ(times, 1) << entry;
}

TEST_F(EvidenceFollowerTest, what_was_stored_last_is_found_by_its_run) {
  const RunId run = ended("plain");
  EXPECT_FALSE(store_->find_bundle(tenant_, run));
  auto follower = make({});
  show(follower);
  follower.settle();
  const auto found = store_->find_bundle(tenant_, run);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->stored.where, "remembered:" + name_of(run));
  EXPECT_EQ(found->stored.seq, store_->load(tenant_, run)->seq);
  EXPECT_EQ(found->stored.sha256, sha256(notary_->bundle(tenant_, run).bytes));
  EXPECT_FALSE(store_->find_bundle(TenantId{}, run)) << "of another tenant";
}

TEST(ProofCache, forgets_what_was_added_first_and_proves_the_rest) {
  ProofCache cache(3);
  const auto tenant = TenantId::parse("ten_00000000000000000000000001").value();
  auto entry = [](int number) { return LogEntry{"run_" + std::to_string(number), 1, sha256(std::to_string(number))}; };
  MerkleLog log;
  for (std::uint64_t number = 1; number <= 3; ++number) {
    LoggedCheckpoint logged{{}, log};
    for (int i : {1, 2}) {
      logged.made.entries.push_back(print_entry(entry(static_cast<int>(number) * 10 + i)));
      log.append(merkle_leaf(logged.made.entries.back()));
    }
    logged.made.checkpoint = {number, log.size, log.root(), {}, {}, "key"};
    cache.add(tenant, std::move(logged));
  }
  EXPECT_EQ(cache.newest(tenant), 3U);
  EXPECT_FALSE(cache.prove(tenant, entry(11)));
  for (int number : {31, 32}) {
    const auto proof = cache.prove(tenant, entry(number));
    ASSERT_TRUE(proof);
    EXPECT_TRUE(check_proof(*proof));
  }
  LogEntry later = entry(31);
  later.seq = 2;
  EXPECT_FALSE(cache.has(tenant, later)) << "the run has moved on";
}

}  // namespace
}  // namespace pawl
