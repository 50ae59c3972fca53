// Time and chance come from here and nowhere else, so that the whole engine runs in a simulator.
#pragma once

#include <chrono>
#include <cstdint>

#include "core/id.h"
#include "core/time.h"

namespace pawl {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const = 0;
};

class SystemClock : public Clock {
 public:
  Instant now() const override {
    auto since = std::chrono::system_clock::now().time_since_epoch();
    return {std::chrono::duration_cast<std::chrono::milliseconds>(since).count()};
  }
};

// One moment for all that happens in one command: reads the time when it is told to.
class StillClock : public Clock {
 public:
  explicit StillClock(const Clock& source) : source_(source), now_(source.now()) {}
  Instant now() const override { return now_; }
  void read() { now_ = source_.now(); }

 private:
  const Clock& source_;
  Instant now_;
};

// splitmix64: small, fast, good enough for ids and jitter, the same on every machine for the same seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
  }
  // In [0, bound).
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  // In [-1, 1).
  double signed_unit() { return static_cast<double>(static_cast<std::int64_t>(next())) / 9223372036854775808.0; }

 private:
  std::uint64_t state_;
};

// UUID version 7: time first, so that ids sort by age; within a millisecond a counter keeps the order of making.
class IdSource {
 public:
  explicit IdSource(Random& random) : random_(random) {}

  template <class AnyId>
  AnyId make(Instant now) {
    auto ms = static_cast<std::uint64_t>(now.ms);
    if (ms > last_ms_) {
      last_ms_ = ms;
      counter_ = 0;
    } else if (++counter_ == 1 << 12) {  // more than 4096 in a millisecond borrow from the next one
      ++last_ms_;
      counter_ = 0;
    }
    return AnyId{{last_ms_ << 16 | 0x7000 | counter_, random_.next() >> 2 | 0x8000000000000000ULL}};
  }

 private:
  Random& random_;
  std::uint64_t last_ms_ = 0;
  std::uint64_t counter_ = 0;
};

}  // namespace pawl
