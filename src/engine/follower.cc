#include "engine/follower.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace pawl {
namespace {

// A transaction that holds the journal back is over within milliseconds, as a rule.
constexpr Duration held_back_pause_min = std::chrono::milliseconds(1),
                   held_back_pause_max = std::chrono::milliseconds(64);

}  // namespace

Following::Following(Store& store, Follower& follower, FollowingOptions options)
    : store_(store),
      shared_(store.shared()),
      follower_(follower),
      name_(follower.name()),
      options_(std::move(options)) {}

Following::~Following() { stop(); }

void Following::start() {
  // Before anything else is committed, so that nothing is dropped that it has not seen.
  if (!shared_) {
    position_ = store_.follow(name_, options_.hold).value_or(0);
    last_ = store_.last_position();
    for (const Tenant& tenant : store_.tenants()) learn(tenant);
  }
  thread_ = std::thread([this] { work(); });
  pthread_setname_np(thread_.native_handle(), ("pawl-" + name_).substr(0, 15).c_str());
}

void Following::stop() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Following::learn(const Tenant& tenant) {
  bool wants = follower_.wants(tenant);
  auto copy = wants ? std::make_shared<const Tenant>(tenant) : nullptr;
  std::lock_guard lock(mutex_);
  if (wants)
    wanted_[tenant.id] = std::move(copy);
  else
    wanted_.erase(tenant.id);
}

void Following::publish(const Frame& frame) {
  for (const TenantFold& fold : frame.tenants) learn(fold.tenant);
  {
    std::lock_guard lock(mutex_);
    last_ = frame.position;
    if (wanted_.empty()) return;  // it moves on by itself, now and then
  }
  changed_.notify_one();
}

void Following::look() {
  {
    std::lock_guard lock(mutex_);
    may_have_grown_ = true;
  }
  changed_.notify_one();
}

void Following::learn_tenants() {
  for (const auto& [id, seq] : shared_->tenant_heads()) {
    auto known = known_.find(id);
    if (known != known_.end() && known->second >= seq) continue;
    auto loaded = shared_->load_tenant(id);
    if (!loaded) continue;
    learn(loaded->first);
    known_[id] = loaded->first.seq;
  }
}

JournalEnd Following::find_end() {
  if (shared_) {
    // In this order: a tenant that changed before that end is then known as it was there.
    JournalEnd end = shared_->journal_end();
    learn_tenants();
    return end;
  }
  std::lock_guard lock(mutex_);
  return {.position = last_, .is_held_back = false};
}

void Following::see_frame(const KeptFrame& frame) {
  for_each_part(frame.parts, [&](const StreamPart& part) {
    std::shared_ptr<const Tenant> tenant;
    {
      std::lock_guard lock(mutex_);
      auto found = wanted_.find(part.key.tenant);
      if (found == wanted_.end()) return;
      tenant = found->second;
    }
    std::uint64_t seq = part.first_seq;
    for (std::string_view lines = part.lines; !lines.empty(); ++seq) {
      const std::string_view line = take_line(lines);
      follower_.see({.position = frame.position,
                     .stream = part.key,
                     .seq = seq,
                     .header = read_event_header(line),
                     .line = line,
                     .tenant = *tenant});
    }
  });
}

Following::Progress Following::go_on() {
  auto held = store_.follow(name_, options_.hold);
  if (!held) {
    if (held_at_) follower_.let_go();
    held_at_.reset();
    seen_.reset();
    return Progress::elsewhere;
  }
  const Position before = *held;
  if (held_at_ != before) follower_.took_over();
  held_at_ = before;
  Position position = std::max(before, std::exchange(seen_, {}).value_or(0));
  const auto [end, is_held_back] = find_end();
  end_ = end;
  bool wants_any = false;
  {
    std::lock_guard lock(mutex_);
    wants_any = !wanted_.empty();
  }
  if (!wants_any) position = std::max(position, end);
  for (std::size_t bytes = 0; position < end && bytes < options_.batch_bytes_max;) {
    auto frame = store_.frame_after(position);
    if (!frame || frame->position > end) {
      position = end;
      break;
    }
    // Positions of a shared journal have gaps.
    if (!shared_ && frame->position != position + 1) {
      if (options_.report)
        options_.report("the follower " + name_ + " fell so far behind that events it had not seen are gone: frames " +
                        std::to_string(position + 1) + " to " + std::to_string(frame->position - 1));
      follower_.missed(position + 1, frame->position - 1);
    }
    see_frame(*frame);
    bytes += frame->parts.size();
    position = frame->position;
  }
  position_ = position;
  if (position > before) {
    if (wants_any && (std::chrono::steady_clock::now() < follower_.settles_at() || !follower_.settle_some())) {
      seen_ = position;
      return position < end ? Progress::behind : Progress::waiting;
    }
    store_.followed(name_, position);
    held_at_ = position;
  }
  if (position < end) return Progress::behind;
  return is_held_back ? Progress::held_back : Progress::caught_up;
}

Following::Moment Following::next_try(Progress progress, bool failed) {
  auto now = std::chrono::steady_clock::now();
  // Whose follower it is, or is not, is looked at now and then only.
  if (failed || progress == Progress::elsewhere) return now + options_.pause;
  if (progress != Progress::held_back) {
    held_back_pause_ = {};
  } else {
    held_back_pause_ = std::clamp(2 * held_back_pause_, held_back_pause_min, held_back_pause_max);
    return now + held_back_pause_;
  }
  auto until = now + (shared_ ? options_.look_period : options_.pause);
  return progress == Progress::waiting ? std::min(until, follower_.settles_at()) : until;
}

bool Following::wait_for_work(Progress progress, bool failed) {
  const bool waits_for_time = failed || progress == Progress::elsewhere || progress == Progress::held_back;
  std::unique_lock lock(mutex_);
  while (true) {
    auto is_told = [&] { return progress == Progress::behind || (shared_ ? may_have_grown_ : last_ > position_); };
    bool told = changed_.wait_until(lock, next_try(progress, failed), [&] {
      if (ending_) return true;
      return !waits_for_time && (shared_ || !wanted_.empty()) && is_told();
    });
    if (ending_) return false;
    // Without a word nothing has changed, where everything is told.
    const bool is_quiet = progress == Progress::caught_up || (progress == Progress::elsewhere && !may_have_grown_) ||
                          (progress == Progress::waiting && std::chrono::steady_clock::now() < follower_.settles_at());
    if (!told && !failed && shared_ && is_quiet && shared_->reports_all()) continue;
    may_have_grown_ = false;
    return true;
  }
}

void Following::work() {
  Progress progress = Progress::behind;
  bool failed = false;
  while (wait_for_work(progress, failed)) {
    try {
      progress = go_on();
      failed = false;
    } catch (const std::exception& error) {
      if (!failed && options_.report)
        options_.report(name_ + " (a follower of the journal) failed and will be tried again: " + error.what());
      failed = true;
    }
  }
  try {
    store_.unfollow(name_);
  } catch (const std::exception&) {
    // The next one has it when the hold is over.
  }
}

}  // namespace pawl
