#include "tools/cost_meter.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace pawl {
namespace {

constexpr auto charge_interval = std::chrono::seconds(1);

}  // namespace

Charge charge_through(Runtime& runtime) {
  return [&runtime](const Lease& lease, Money cost, std::function<void(bool)> reply) {
    runtime.post([tenant = lease.tenant, run = lease.run, step = lease.step, proof = lease.proof(), cost,
                  reply = std::move(reply)](Engine& engine) {
      engine.request(RunRequest{tenant, run, ChargeStep{step, proof, cost}},
                     [reply](std::expected<RunAnswer, Refusal> answer) { reply(answer.has_value()); });
    });
  };
}

struct CostMeter::State {
  std::mutex mutex;
  std::condition_variable answered;
  Money taken;
  Money under_way;
  bool is_lost = false;
};

CostMeter::CostMeter(Charge charge, const Lease& lease)
    : charge_(std::move(charge)),
      lease_(lease),
      state_(std::make_shared<State>()),
      next_(std::chrono::steady_clock::now() + charge_interval) {}

void CostMeter::note(Money so_far, Time now) {
  noted_ = std::max(noted_, so_far);
  if (!charge_ || now < next_) return;
  next_ = now + charge_interval;
  Money cost;
  {
    std::lock_guard lock(state_->mutex);
    if (state_->is_lost || state_->under_way != Money{} || noted_ <= state_->taken) return;
    cost = state_->under_way = Money{noted_.micros - state_->taken.micros};
  }
  charge_(lease_, cost, [state = state_](bool is_taken) {
    std::lock_guard lock(state->mutex);
    Money asked = std::exchange(state->under_way, Money{});
    if (is_taken) state->taken = state->taken + asked;
    state->is_lost = !is_taken;
    state->answered.notify_all();
  });
}

void CostMeter::note_last(Money so_far) {
  finish();
  next_ = Time::min();
  note(so_far, std::chrono::steady_clock::now());
}

CostMeter::Time CostMeter::due() const {
  std::lock_guard lock(state_->mutex);
  bool is_behind = charge_ && !state_->is_lost && noted_ > state_->taken + state_->under_way;
  return is_behind ? next_ : Time::max();
}

Money CostMeter::finish(std::chrono::milliseconds at_most) {
  std::unique_lock lock(state_->mutex);
  state_->answered.wait_for(lock, at_most, [this] { return state_->under_way == Money{}; });
  return state_->taken + state_->under_way;
}

}  // namespace pawl
