#include "api/run_waits.h"

#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <thread>
#include <vector>

#include "api/api.h"
#include "core/event_header.h"

namespace pawl::api {
namespace {

constexpr std::size_t end_waits_max = 1024;
constexpr Duration end_wait_max = std::chrono::seconds(60);
// How soon those are noticed whose client has gone, and that the server stops.
constexpr auto sweep_period = std::chrono::milliseconds(250);

bool has_end(std::string_view lines) {
  return has_event(lines, [](const EventHeader& event) { return ends_run(event.type); });
}

}  // namespace

// Of all tenants and of each. Outlives what holds a place.
struct RunWaits::Taken {
  std::mutex mutex;
  std::size_t all = 0;
  std::map<TenantId, std::size_t> by_tenant;
};

class RunWaits::State final : public StreamWatch, public std::enable_shared_from_this<State> {
 public:
  State(Runtime& runtime, Feed& feed, const std::atomic<bool>& ready) : runtime_(runtime), feed_(feed), ready_(ready) {}

  void add(Wait wait) {
    const StreamKey key = StreamKey::of(wait.tenant, wait.run);
    bool was_watching = true;
    {
      const std::lock_guard lock(mutex_);
      if (ending_) return;
      waits_.emplace(key, std::move(wait));
      was_watching = std::exchange(watching_, true);
      if (!thread_.joinable()) {
        thread_ = std::thread([this] { answer_late(); });
        pthread_setname_np(thread_.native_handle(), "pawl-waits");
      }
    }
    changed_.notify_one();
    // What ended before the feed began to tell of it is found by looking: the feed calls see_all() when it begins.
    if (was_watching)
      look(key);
    else
      feed_.watch(shared_from_this());
  }

  void see_all() override {
    std::vector<StreamKey> keys;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [key, wait] : waits_)
        if (keys.empty() || keys.back() != key) keys.push_back(key);
    }
    for (const StreamKey& key : keys) look(key);
  }

  bool see(std::string_view parts) override {
    std::vector<StreamKey> moved;
    {
      const std::lock_guard lock(mutex_);
      if (waits_.empty()) return watching_ = false;
      for_each_part(parts, [&](const StreamPart& part) {
        if (waits_.contains(part.key) && has_end(part.lines)) moved.push_back(part.key);
      });
    }
    for (const StreamKey& key : moved) look(key);
    return true;
  }

  void end() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      waits_.clear();
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

 private:
  using Found = std::expected<std::shared_ptr<const Run>, Refusal>;

  void look(const StreamKey& key) {
    runtime_.post([self = shared_from_this(), key](Engine& engine) {
      engine.request(InspectRun{key.tenant, RunId{key.stream}}, [self, key](Found found) {
        // A task is no run: its request is answered at once.
        if (found && !(*found)->task && !is_terminal((*found)->status)) return;
        self->finish(self->take(key), found);
      });
    });
  }

  std::vector<Wait> take(const StreamKey& key) {
    const std::lock_guard lock(mutex_);
    std::vector<Wait> out;
    auto [first, last] = waits_.equal_range(key);
    std::transform(first, last, std::back_inserter(out), [](auto& entry) { return std::move(entry.second); });
    waits_.erase(first, last);
    return out;
  }

  void finish(std::vector<Wait> waits, const Found& found) {
    for (Wait& wait : waits)
      if (wait.is_wanted()) wait.done(found);
  }

  void answer_late() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      if (waits_.empty()) {
        changed_.wait(lock, [this] { return ending_ || !waits_.empty(); });
        continue;
      }
      const auto now = std::chrono::steady_clock::now();
      auto next = now + sweep_period;
      std::vector<Wait> late;
      for (auto entry = waits_.begin(); entry != waits_.end();) {
        Wait& wait = entry->second;
        const bool is_late = wait.until <= now || !ready_;
        if (is_late && wait.is_wanted()) late.push_back(std::move(wait));
        next = std::min(next, std::max(wait.until, now));
        entry = is_late || !wait.is_wanted() ? waits_.erase(entry) : std::next(entry);
      }
      lock.unlock();
      for (Wait& wait : late) answer_as_it_is(std::move(wait));
      lock.lock();
      if (late.empty()) changed_.wait_until(lock, next, [this] { return ending_; });
    }
  }

  void answer_as_it_is(Wait wait) {
    runtime_.post([wait = std::move(wait)](Engine& engine) mutable {
      const TenantId tenant = wait.tenant;
      const RunId run = wait.run;
      engine.request(InspectRun{tenant, run},
                     [wait = std::move(wait)](Found found) mutable { wait.done(std::move(found)); });
    });
  }

  Runtime& runtime_;
  Feed& feed_;
  const std::atomic<bool>& ready_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::multimap<StreamKey, Wait> waits_;
  bool watching_ = false;  // the feed tells of what grows, or is about to
  bool ending_ = false;
  std::thread thread_;  // made for the first
};

RunWaits::RunWaits(Runtime& runtime, Feed& feed, const std::atomic<bool>& ready)
    : state_(std::make_shared<State>(runtime, feed, ready)), taken_(std::make_shared<Taken>()) {}
RunWaits::~RunWaits() { state_->end(); }

RunWaits::Place RunWaits::reserve(TenantId tenant) {
  const std::lock_guard lock(taken_->mutex);
  if (taken_->by_tenant[tenant] >= end_waits_max - taken_->all) return nullptr;
  ++taken_->all;
  ++taken_->by_tenant[tenant];
  return Place(taken_.get(), [taken = taken_, tenant](void*) {
    const std::lock_guard release(taken->mutex);
    --taken->all;
    if (--taken->by_tenant[tenant] == 0) taken->by_tenant.erase(tenant);
  });
}

void RunWaits::add(Wait wait) { state_->add(std::move(wait)); }

std::optional<EndWait> read_end_wait(const CallPtr& call) {
  const std::string* text = call->query.find("wait");
  if (!text) return std::nullopt;
  const auto wait = parse_duration(*text);
  if (!wait || *wait > end_wait_max) refuse_input("wait", "It must be a duration like 30s, 60s at most.");
  if (*wait == Duration(0)) return std::nullopt;
  keep_open(call);
  call->waits = true;
  auto place = call->api.run_waits().reserve(call->who.tenant);
  if (!place) throw tenant_limit("Too many requests wait for a run to end. Send fewer at a time, or without wait.");
  return EndWait{std::chrono::steady_clock::now() + *wait, std::move(place)};
}

void wait_for_end(CallPtr call, RunId run, EndWait wait, AnswerWithRun answer) {
  RunWaits& waits = call->api.run_waits();
  waits.add({.tenant = call->who.tenant,
             .run = run,
             .until = wait.until,
             .place = std::move(wait.place),
             .is_wanted =
                 [call] {
                   const auto& gone = call->request.gone;
                   return !call->is_answered && (!gone || !gone->load(std::memory_order_relaxed));
                 },
             .done =
                 [call, answer = std::move(answer)](std::expected<std::shared_ptr<const Run>, Refusal> found) mutable {
                   if (!found) return call->answer(problem_of(found.error()));
                   if ((*found)->task) return call->answer(not_found());
                   call->api.answers().post(
                       call->who.tenant,
                       [call, answer = std::move(answer), run = std::move(*found)]() mutable { answer(*call, *run); });
                 }});
}

}  // namespace pawl::api
