#include "simulator/ground.h"

#include "store/sqlite/sqlite_store.h"

namespace pawl::simulator {
namespace {

constexpr std::uint64_t never = std::uint64_t{1} << 60;

SqliteOptions database_options() {
  SqliteOptions options;
  options.folder = "simulation";
  options.single_connection = true;
  options.page_bytes = 4096;
  options.wal_bytes_max = 256 << 10;
  options.wal_bytes_idle = 64 << 10;
  return options;
}

class Disk final : public Ground {
 public:
  Disk(std::uint64_t seed, const test::CrashDisk::Image& image) : disk_(seed, image), options_(database_options()) {
    options_.vfs = disk_.vfs();
  }
  std::unique_ptr<Store> open() override { return std::make_unique<SqliteStore>(options_); }
  void kill_at(std::uint64_t call) override { disk_.kill_at(call); }
  void fail_sync(std::uint64_t call) override { disk_.fail_sync(call); }
  void fail_write(std::uint64_t call) override { disk_.fail_write(call); }
  void disarm() override {
    disk_.kill_at(never);
    disk_.fail_sync(never);
    disk_.fail_write(never);
  }
  void lose_process(bool with_power, std::uint64_t seed) override { with_power ? disk_.crash(seed) : disk_.restart(); }

 private:
  test::CrashDisk disk_;
  SqliteOptions options_;
};

class Database final : public Ground {
 public:
  Database(cluster::Stage& stage, Instant begin) : stage_(stage) { stage_.clear(begin); }
  std::unique_ptr<Store> open() override { return stage_.open(); }
  // Killed before the database has all of it, or before it has said so.
  std::vector<Lost> commit(Store& store, std::span<const Frame> frames) override {
    if (!kills_) return store.commit(frames);
    if (is_late_) store.commit(frames);
    throw StoreFailure("killed");
  }
  void kill_at(std::uint64_t call) override {
    kills_ = true;
    is_late_ = call % 2 == 1;
  }
  void disarm() override { kills_ = false; }
  void lose_process(bool, std::uint64_t) override { kills_ = false; }
  bool is_shared() const override { return true; }
  void set_time(Instant now) override { stage_.set_time(now); }
  std::vector<KeptFrame> read_on() override { return stage_.events_behind(read_); }

 private:
  cluster::Stage& stage_;
  Position read_ = 0;
  bool kills_ = false;
  bool is_late_ = false;
};

}  // namespace

test::CrashDisk::Image make_empty_disk() {
  test::CrashDisk disk(1);
  SqliteOptions options = database_options();
  options.vfs = disk.vfs();
  { SqliteStore store(options); }
  return disk.image();
}

MakeGround disks(test::CrashDisk::Image empty) {
  return [empty = std::move(empty)](Dice& dice) -> std::unique_ptr<Ground> {
    auto seed = dice.next();
    return std::make_unique<Disk>(seed, dice.percent(95) ? empty : test::CrashDisk::Image{});
  };
}

MakeGround databases(cluster::Stage& stage, Instant begin) {
  return [&stage, begin](Dice&) -> std::unique_ptr<Ground> { return std::make_unique<Database>(stage, begin); };
}

}  // namespace pawl::simulator
