#include "api/away_watch.h"

#include <pthread.h>

#include <utility>
#include <vector>

namespace pawl::api {
namespace {

constexpr auto look_every = std::chrono::milliseconds(250);

}  // namespace

AwayWatch::AwayWatch(std::function<bool()> is_away) : is_away_(std::move(is_away)) {
  thread_ = std::thread([this] { work(); });
  pthread_setname_np(thread_.native_handle(), "pawl-away");
}

AwayWatch::~AwayWatch() {
  {
    std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_one();
  thread_.join();
}

AwayWatch::Ticket AwayWatch::watch(GiveUp give_up) {
  std::lock_guard lock(state_->mutex);
  state_->entries.push_back({std::chrono::steady_clock::now(), std::move(give_up)});
  auto entry = std::prev(state_->entries.end());
  return {nullptr, [state = state_, entry](void*) {
            std::list<Entry> ended;  // destroyed without the lock
            std::lock_guard guard(state->mutex);
            ended.splice(ended.begin(), state->entries, entry);
          }};
}

void AwayWatch::work() {
  std::chrono::steady_clock::time_point away_since{};
  std::unique_lock lock(state_->mutex);
  while (!state_->changed.wait_for(lock, look_every, [&] { return state_->ending; })) {
    lock.unlock();
    const bool is_away = is_away_();
    lock.lock();
    auto now = std::chrono::steady_clock::now();
    if (!is_away) away_since = {};
    if (is_away && away_since.time_since_epoch().count() == 0) away_since = now;
    if (!is_away || now - away_since < patience) continue;
    std::vector<GiveUp> late;
    for (Entry& entry : state_->entries) {
      if (now - entry.since < patience) break;  // oldest first
      if (entry.give_up) late.push_back(std::exchange(entry.give_up, {}));
    }
    lock.unlock();
    for (GiveUp& give_up : late) give_up();
    late.clear();
    lock.lock();
  }
}

}  // namespace pawl::api
