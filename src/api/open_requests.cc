#include "api/open_requests.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "api/problem.h"

namespace pawl::api {
namespace {

// Keys expire by the clock of the installation, which may be set meanwhile: it is looked at now and then.
constexpr Duration clock_look_interval = std::chrono::seconds(5);

}  // namespace

OpenRequests::OpenRequests(KeyRing& keys, const Clock& clock, Limits limits)
    : keys_(keys), clock_(clock), limits_(limits) {
  keys_.on_change([state = state_] {
    std::lock_guard lock(state->mutex);
    state->keys_changed = true;
    state->changed.notify_all();
  });
  thread_ = std::thread([this] { watch(); });
  pthread_setname_np(thread_.native_handle(), "pawl-keys");
}

OpenRequests::~OpenRequests() {
  keys_.on_change({});
  {
    std::lock_guard lock(state_->mutex);
    state_->ending = true;
    state_->changed.notify_all();
  }
  thread_.join();
}

void OpenRequests::count(State& state, const Entry& entry, bool opened) {
  const std::size_t change = opened ? 1 : SIZE_MAX;  // adding the largest number takes one away
  Counts& counts = state.by_key[entry.key];
  counts.all += change;
  if (entry.kind == Kind::stream) {
    counts.streams += change;
    if ((state.streams_by_tenant[entry.tenant] += change) == 0) state.streams_by_tenant.erase(entry.tenant);
  }
  if (counts.all == 0) state.by_key.erase(entry.key);
}

OpenRequests::Ticket OpenRequests::open(const Principal& who, Kind kind, std::optional<std::int64_t> tenant_streams_max,
                                        End end) {
  std::lock_guard lock(state_->mutex);
  State& state = *state_;
  const auto counts = state.by_key.find(who.key);
  if (counts != state.by_key.end()) {
    if (kind == Kind::stream && counts->second.streams >= limits_.streams_per_key_max)
      throw tenant_limit("This key follows " + std::to_string(counts->second.streams) +
                         " feeds, and may follow no more. End some, or use one for several.");
    if (counts->second.all >= limits_.all_per_key_max)
      throw tenant_limit("This key has " + std::to_string(counts->second.all) +
                         " requests that wait, and may have no more. Use several keys, or fewer clients.");
  }
  if (const auto streams = state.streams_by_tenant.find(who.tenant); kind == Kind::stream && tenant_streams_max)
    if ((streams == state.streams_by_tenant.end() ? 0 : streams->second) >=
        static_cast<std::size_t>(*tenant_streams_max))
      throw tenant_limit("This tenant follows as many feeds as its limit max_feed_streams allows: " +
                         std::to_string(*tenant_streams_max) + ".");
  const auto entry = state.entries.insert(state.entries.end(), {who.tenant, who.key, kind, std::move(end)});
  count(state, *entry, true);
  // It may expire before all others; and its key may have been revoked since it was looked at.
  state.keys_changed = true;
  state.changed.notify_all();
  return {nullptr, [state = state_, entry](void*) {
            std::list<Entry> gone;  // what its end holds is let go after the lock
            std::lock_guard gone_lock(state->mutex);
            count(*state, *entry, false);
            gone.splice(gone.end(), state->entries, entry);
          }};
}

Instant OpenRequests::end_bad(std::list<End>& ends) {
  const Instant now = clock_.now();
  Instant next = now + clock_look_interval;
  for (Entry& entry : state_->entries) {
    if (!entry.end) continue;
    if (keys_.is_good(entry.key, now))
      next = std::min(next, keys_.good_until(entry.key).value_or(now));
    else
      ends.push_back(std::exchange(entry.end, {}));
  }
  return next;
}

void OpenRequests::watch() {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  while (!state.ending) {
    state.keys_changed = false;
    std::list<End> ends;
    const Instant next = end_bad(ends);
    if (!ends.empty()) {
      lock.unlock();
      for (End& end : ends) end();
      ends.clear();
      lock.lock();
      continue;
    }
    const auto wake = [&] { return state.ending || state.keys_changed; };
    if (state.entries.empty())
      state.changed.wait(lock, wake);
    else
      state.changed.wait_for(lock, std::max<Duration>(next - clock_.now(), std::chrono::milliseconds(1)), wake);
  }
}

}  // namespace pawl::api
