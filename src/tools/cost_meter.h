// Tells the journal what an attempt costs while it runs, so that nothing of it is lost when the attempt cannot report:
// a time-out, a cancel, a worker that dies.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "core/money.h"
#include "engine/lease.h"
#include "engine/runtime.h"

namespace pawl {

// Journals that the lease's attempt has spent this much more. Says whether it was taken, once that is durable, on some
// other thread; it is not when the lease is over.
using Charge = std::function<void(const Lease& lease, Money cost, std::function<void(bool is_taken)> reply)>;

Charge charge_through(Runtime& runtime);

// One charge at a time, and about one a second; none in the first, for most of what is short can report. For one
// thread.
class CostMeter {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Without a charge it tells nothing.
  CostMeter(Charge charge, const Lease& lease);

  void note(Money so_far, Time now);
  // When note() should be called again, though nothing more is spent; Time::max() when it need not.
  Time due() const;
  // At once, of an attempt that ends without a report: it asks somebody.
  void note_last(Money so_far);
  // A charge that has no answer after so long counts as taken: better a cost reported too low than twice.
  static constexpr std::chrono::seconds answer_time_max{5};
  // What of it the journal has. Waits for what is under way.
  Money finish(std::chrono::milliseconds at_most = answer_time_max);

 private:
  struct State;

  const Charge charge_;
  const Lease& lease_;
  const std::shared_ptr<State> state_;
  Money noted_;
  Time next_;
};

}  // namespace pawl
