// Followers of the journal, on a real folder: each event at least once, in order, whatever happens in between.
#include "engine/follower.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "store/sqlite/sqlite_store.h"
#include "support/waiting.h"

namespace pawl::tests {
namespace {

namespace fs = std::filesystem;

const TenantId acme{{1, 1}}, zeta{{1, 2}};

// Writes down what it sees. What is settled is what would be left of it after a crash.
class Notes : public Follower {
 public:
  std::string name() const override { return "notes"; }
  bool wants(const Tenant& tenant) const override { return tenant.weight > 1; }
  void see(const JournalEvent& event) override { seen.push_back(event.line.empty() ? "" : std::string(event.line)); }
  void settle() override {
    std::lock_guard lock(mutex);
    if (failures_left > 0) {
      --failures_left;
      seen.clear();
      throw std::runtime_error("the world is broken");
    }
    for (std::string& line : seen) settled.push_back(std::move(line));
    seen.clear();
  }
  void missed(Position first, Position last) override {
    std::lock_guard lock(mutex);
    gaps.emplace_back(first, last);
  }
  std::vector<std::string> all() {
    std::lock_guard lock(mutex);
    return settled;
  }

  std::mutex mutex;
  std::vector<std::string> seen;  // the follower's thread's own
  std::vector<std::string> settled;
  std::vector<std::pair<Position, Position>> gaps;
  int failures_left = 0;
};

class FollowerTest : public testing::Test {
 protected:
  FollowerTest() {
    std::string name = (fs::temp_directory_path() / "pawl-follower-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    folder_ = name;
    open();
  }
  ~FollowerTest() override {
    following_.reset();
    store_.reset();
    fs::remove_all(folder_);
  }

  void open(std::size_t followed_bytes_max = 1 << 20) {
    SqliteOptions options;
    options.folder = folder_ / "data";
    options.frame_bytes_kept = 0;
    options.followed_bytes_max = followed_bytes_max;
    store_ = std::make_unique<SqliteStore>(options);
    position_ = store_->last_position();
  }
  void follow() {
    following_ = std::make_unique<Following>(
        *store_, notes_,
        FollowingOptions{.pause = std::chrono::milliseconds(20), .report = [this](const std::string& what) {
                           std::lock_guard lock(notes_.mutex);
                           reports_.push_back(what);
                         }});
    following_->start();
  }
  void stop() { following_.reset(); }
  void crash() {  // nothing more is written, not even where followers are
    stop();
    store_.reset();
  }

  void commit(Frame frame) {
    frame.position = ++position_;
    frame.folded_before = position_;
    store_->commit({&frame, 1});
    if (following_) following_->publish(frame);
  }
  Frame lines(TenantId tenant, const std::vector<std::string>& texts) {
    Frame frame;
    std::string all;
    for (const std::string& text : texts) all += text + "\n";
    append_part(frame.parts, {StreamKey::of(tenant, RunId{{9, ++streams_}}), 1, all});
    return frame;
  }
  void set_weight(TenantId id, int weight) {
    Tenant& tenant = tenants_[id];
    tenant.id = id;
    tenant.name = id.str();
    tenant.weight = weight;
    ++tenant.seq;
    Frame frame;
    History history{StreamKey::of(id), tenant.seq, "{}\n", tenant.seq, Hash{}};
    append_part(frame.parts, {history.key, tenant.seq, "{}\n"});
    frame.tenants.push_back({tenant, history});
    commit(frame);
  }

  fs::path folder_;
  std::unique_ptr<SqliteStore> store_;
  Notes notes_;
  std::vector<std::string> reports_;
  std::unique_ptr<Following> following_;
  Position position_ = 0;
  std::uint64_t streams_ = 0;
  std::map<TenantId, Tenant> tenants_;
};

using Lines = std::vector<std::string>;

TEST_F(FollowerTest, events_of_those_it_wants_are_seen_in_order) {
  follow();
  set_weight(acme, 2);
  set_weight(zeta, 1);
  commit(lines(acme, {"a", "b"}));
  commit(lines(zeta, {"not wanted"}));
  commit(lines(acme, {"c"}));
  Lines expected{"{}", "a", "b", "c"};
  EXPECT_TRUE(eventually([&] { return notes_.all() == expected; }));
  EXPECT_TRUE(eventually([&] { return following_->position() == position_; }));
}

TEST_F(FollowerTest, what_happened_while_nobody_followed_is_seen_later) {
  follow();
  set_weight(acme, 2);
  EXPECT_TRUE(eventually([&] { return notes_.all().size() == 1; }));
  stop();
  for (int i = 0; i < 300; ++i) commit(lines(acme, {std::to_string(i)}));
  crash();
  open();
  follow();
  EXPECT_TRUE(eventually([&] { return notes_.all().size() >= 301; }));
  Lines seen = notes_.all();
  for (int i = 0; i < 300; ++i) EXPECT_EQ(seen[seen.size() - 300 + static_cast<std::size_t>(i)], std::to_string(i));
  EXPECT_TRUE(notes_.gaps.empty());
}

TEST_F(FollowerTest, what_could_not_be_settled_is_seen_again) {
  follow();
  set_weight(acme, 2);
  EXPECT_TRUE(eventually([&] { return notes_.all().size() == 1; }));
  {
    std::lock_guard lock(notes_.mutex);
    notes_.failures_left = 3;
  }
  commit(lines(acme, {"a"}));
  commit(lines(acme, {"b"}));
  Lines expected{"{}", "a", "b"};
  EXPECT_TRUE(eventually([&] { return notes_.all() == expected; }));
  std::lock_guard lock(notes_.mutex);
  ASSERT_EQ(reports_.size(), 1u) << "a failure that lasts is reported once";
  EXPECT_NE(reports_[0].find("the world is broken"), std::string::npos);
}

TEST_F(FollowerTest, a_place_that_was_not_written_in_time_brings_events_again_and_never_skips_one) {
  follow();
  set_weight(acme, 2);
  commit(lines(acme, {"a"}));
  EXPECT_TRUE(eventually([&] { return notes_.all().size() == 2; }));
  crash();  // the place has moved in memory only
  open();
  follow();
  commit(lines(acme, {"b"}));
  EXPECT_TRUE(eventually([&] { return !notes_.all().empty() && notes_.all().back() == "b"; }));
  Lines seen = notes_.all();
  EXPECT_GE(std::ranges::count(seen, "a"), 1);
}

TEST_F(FollowerTest, one_that_wants_nobody_moves_on_without_reading) {
  follow();
  set_weight(zeta, 1);
  for (int i = 0; i < 50; ++i) commit(lines(zeta, {"x"}));
  EXPECT_TRUE(eventually([&] { return following_->position() == position_; }));
  EXPECT_TRUE(notes_.all().empty());
  set_weight(zeta, 2);
  commit(lines(zeta, {"y"}));
  Lines expected{"{}", "y"};
  EXPECT_TRUE(eventually([&] { return notes_.all() == expected; }));
}

TEST_F(FollowerTest, one_that_is_too_far_behind_is_told_what_it_missed) {
  follow();
  set_weight(acme, 2);
  EXPECT_TRUE(eventually([&] { return following_->position() == position_; }));
  commit(lines(acme, {"seen"}));
  EXPECT_TRUE(eventually([&] { return notes_.all().size() == 2; }));
  stop();
  store_.reset();
  open(2000);
  Position before = *store_->follow("notes", {});
  for (int i = 0; i < 400; ++i) commit(lines(acme, {std::to_string(i)}));
  Position oldest = store_->frame_after(0)->position;
  ASSERT_GT(oldest, before + 1);
  follow();
  EXPECT_TRUE(eventually([&] { return !notes_.all().empty() && notes_.all().back() == "399"; }));
  ASSERT_EQ(notes_.gaps.size(), 1u);
  EXPECT_EQ(notes_.gaps[0], std::pair(before + 1, oldest - 1));
  EXPECT_EQ(reports_.size(), 1u);
}

}  // namespace
}  // namespace pawl::tests
