// Where a simulation keeps its journal, and what can go wrong there: a disk that can lose power, or a real PostgreSQL.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cluster/stage.h"
#include "core/time.h"
#include "simulator/dice.h"
#include "store/crash_vfs.h"
#include "store/store.h"
#include "store/stream.h"

namespace pawl::simulator {

class Ground {
 public:
  virtual ~Ground() = default;

  // As a new process finds it. StoreFailure when it is killed meanwhile.
  virtual std::unique_ptr<Store> open() = 0;
  // StoreFailure when something was to go wrong: then all of it is there, or nothing.
  virtual std::vector<Lost> commit(Store& store, std::span<const Frame> frames) { return store.commit(frames); }

  // From this call on, counted from the next, nothing works until the process is lost; nought is at once.
  virtual void kill_at(std::uint64_t call) = 0;
  virtual void fail_sync(std::uint64_t) {}
  virtual void fail_write(std::uint64_t) {}
  virtual void disarm() = 0;
  // What the kernel was given stays or, when the power fails with the process, what was synced.
  virtual void lose_process(bool with_power, std::uint64_t seed) = 0;

  // A store that several servers write to goes by its own clock, decides what of a commit holds, and is read back.
  virtual bool is_shared() const { return false; }
  virtual void set_time(Instant) {}
  virtual std::vector<KeptFrame> read_on() { return {}; }
};

using MakeGround = std::function<std::unique_ptr<Ground>(Dice&)>;

// Simulations on disks; `empty` is one with an empty database: making one for every simulation would take longer than
// the simulation.
MakeGround disks(test::CrashDisk::Image empty);
test::CrashDisk::Image make_empty_disk();

// Simulations on one database, one after another.
MakeGround databases(cluster::Stage& stage, Instant begin);

}  // namespace pawl::simulator
