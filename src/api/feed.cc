#include "api/feed.h"

#include <pthread.h>

#include <algorithm>
#include <thread>

#include "core/event.h"
#include "core/event_header.h"
#include "core/event_object.h"

namespace pawl::api {
namespace {

constexpr auto round_period = std::chrono::seconds(10);
// How often a shared journal is looked at while nobody says that it grew, and nobody would (SharedStore::reports_all).
constexpr auto look_period = std::chrono::milliseconds(250);
// A transaction that holds the journal back is over within milliseconds, as a rule.
constexpr auto held_back_pause_min = std::chrono::milliseconds(1), held_back_pause_max = std::chrono::milliseconds(64);
// Somebody's transaction that takes longer than this is not waited for.
constexpr auto now_patience = std::chrono::seconds(1);
// Of the journal, for one client before the next one's turn.
constexpr std::size_t visit_bytes_max = 1 << 20;
constexpr std::size_t shared_message_bytes = 1 << 10;
// A smaller frame goes to a client in one piece or two; a larger one would be read anew for each piece.
constexpr std::size_t cached_frame_bytes = 64 << 10;
constexpr std::size_t shared_messages_first = 1024;

// Of an event of a task: what those who watch tasks call it. Empty for one that they do not care about.
std::optional<std::string_view> task_message(const EventHeader& event) {
  const std::string_view type = event.type;
  if (event.subject() != "task") return std::nullopt;
  if (type == "task.asked") return "task_question";
  for (const auto& row : task_table) {
    bool is_news = row.to != TaskState::pending && row.to != TaskState::queued && row.to != TaskState::running;
    if (is_news && event_name(row.trigger) == type) return "task_completed";
  }
  return "";
}

}  // namespace

Feed::Feed(Store& store, std::string position_secret, std::size_t bytes_kept)
    : store_(store), positions_(std::move(position_secret)), shared_(store.shared()), bytes_kept_(bytes_kept) {
  last_ = store.last_position();
  thread_ = std::thread([this] { work(); });
  pthread_setname_np(thread_.native_handle(), "pawl-feed");
}

Feed::~Feed() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Feed::publish(Frame& frame) {
  auto bytes = std::make_shared<const std::string>(std::move(frame.parts));
  {
    std::lock_guard lock(mutex_);
    last_ = frame.position;
    recent_bytes_ += bytes->size();
    recent_.emplace_back(frame.position, std::move(bytes));
    while (recent_bytes_ > bytes_kept_ && recent_.size() > 1) {
      recent_bytes_ -= recent_.front().second->size();
      recent_.pop_front();
    }
    if (!has_readers()) return;
  }
  changed_.notify_one();
}

void Feed::look() {
  {
    std::lock_guard lock(mutex_);
    may_have_grown_ = true;
    if (!has_readers()) return;
  }
  changed_.notify_one();
}

Position Feed::last_now() {
  JournalEnd end;
  if (shared_) end = shared_->journal_end();
  std::lock_guard lock(mutex_);
  last_ = std::max(last_, end.position);
  is_held_back_ = end.is_held_back;
  return last_;
}

// Only on its own thread, with the lock held: whether the store is asked how far the journal is.
bool Feed::is_worth_a_look() const {
  if (!shared_ || !has_readers()) return false;
  return may_have_grown_ || is_held_back_ || !shared_->reports_all();
}

std::optional<std::pair<Position, Feed::Bytes>> Feed::next_frame(Position after) {
  if (!shared_) {
    std::lock_guard lock(mutex_);
    if (after >= last_) return std::nullopt;
    if (!recent_.empty() && recent_.front().first <= after + 1) {
      auto index = static_cast<std::size_t>(after + 1 - recent_.front().first);
      return recent_[index];
    }
  }
  auto kept = store_.frame_after(after);
  if (!kept) return std::nullopt;
  return std::pair(kept->position, std::make_shared<const std::string>(std::move(kept->parts)));
}

std::optional<std::pair<Position, Feed::Bytes>> Feed::next_frame_cached(Position after) {
  for (const auto& frame : fetched_)
    if (frame.first == after + 1) return frame;
  auto frame = next_frame(after);
  if (!frame || frame->second->size() < cached_frame_bytes || frame->second.use_count() > 1) return frame;
  fetched_bytes_ += frame->second->size();
  fetched_.push_back(*frame);
  while (fetched_bytes_ > bytes_kept_ && fetched_.size() > 1) {
    fetched_bytes_ -= fetched_.front().second->size();
    fetched_.pop_front();
  }
  return frame;
}

FeedPosition Feed::now() {
  if (!shared_) return FeedPosition::behind(last_now());
  // Not before what was acknowledged already, nor behind what is under way and will be seen in no table yet: a moment
  // later all of that is there.
  const Position newest = shared_->newest_position();
  const auto patience = std::chrono::steady_clock::now() + now_patience;
  while (last_now() < newest) {
    if (std::chrono::steady_clock::now() > patience) return FeedPosition::behind(last_now());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return FeedPosition::behind(newest);
}

bool Feed::can_resume(std::optional<FeedPosition> after) {
  if (!after) return true;
  Position last = last_now();
  if (*after > FeedPosition::behind(last)) return false;  // not a position of this journal
  if (shared_ || after->done() == last) return true;
  auto next = next_frame(after->done());
  return next && next->first == after->done() + 1;
}

void Feed::subscribe(FeedFilter filter, std::optional<FeedPosition> after, std::shared_ptr<Channel> channel,
                     std::shared_ptr<void> held) {
  Subscriber subscriber{.filter = filter, .channel = std::move(channel), .held = std::move(held)};
  {
    std::lock_guard lock(mutex_);
    subscriber.number = ++numbers_given_;
    subscriber.after = after.value_or(FeedPosition::behind(last_));
    ++subscribers_;
  }
  subscriber.channel->on_room([this, number = subscriber.number] { make_room(number); });
  tell_position(subscriber);
  {
    std::lock_guard lock(mutex_);
    arrived_.push_back(std::move(subscriber));
  }
  changed_.notify_one();
}

void Feed::watch(std::shared_ptr<StreamWatch> watch) {
  {
    std::lock_guard lock(mutex_);
    arrived_watch_ = std::move(watch);
    is_watched_ = true;
  }
  changed_.notify_one();
}

void Feed::make_room(Number number) {
  {
    std::lock_guard lock(mutex_);
    roomy_.insert(number);
  }
  changed_.notify_one();
}

std::size_t Feed::subscribers() {
  std::lock_guard lock(mutex_);
  return subscribers_;
}

bool Feed::tell_position(Subscriber& subscriber) {
  return subscriber.channel->push(std::make_shared<const Channel::Message>(
      Channel::Message{.id = positions_.print_anew(subscriber.filter.tenant, subscriber.after), .data = {}}));
}

Feed::MessagePtr Feed::message_of(FeedPosition at, const StreamPart& part, std::uint64_t seq, std::string_view line,
                                  bool raw) {
  bool shared = line.size() >= shared_message_bytes;
  if (shared)
    if (auto known = shared_messages_.find({at, raw}); known != shared_messages_.end())
      if (auto message = known->second.lock()) return message;
  auto message = std::make_shared<Channel::Message>();
  message->id = positions_.print(part.key.tenant, at);
  message->data.reserve(line.size() + 128);
  message->data = "{\"position\":\"" + message->id + "\",";
  if (auto task = task_message(read_event_header(line))) {
    if (!task->empty()) message->data += "\"type\":\"" + std::string(*task) + "\",";
    message->data += "\"task_id\":\"" + TaskId{part.key.stream}.str() + "\",";
  } else if (!part.key.is_tenant()) {
    message->data += "\"run_id\":\"" + RunId{part.key.stream}.str() + "\",";
  }
  message->data += "\"seq\":" + std::to_string(seq) + ",\"event\":";
  message->data += raw ? std::string(line) : shown_event_text(line);
  message->data += '}';
  if (shared) {
    if (shared_messages_.size() >= shared_messages_max_) {
      std::erase_if(shared_messages_, [](const auto& entry) { return entry.second.expired(); });
      shared_messages_max_ = std::max(shared_messages_first, 2 * shared_messages_.size());
    }
    shared_messages_[{at, raw}] = message;
  }
  return message;
}

bool Feed::deliver(Subscriber& subscriber, Position position, std::string_view parts) {
  auto& place = subscriber.place;
  if (place.frame != position) place = {.frame = position};
  const FeedFilter& filter = subscriber.filter;
  while (place.part < parts.size()) {
    std::string_view rest = parts.substr(place.part);
    StreamPart part = take_part(rest);
    bool concerned = part.key.tenant == filter.tenant && (filter.with_tenant || !part.key.is_tenant()) &&
                     (!filter.run || part.key.stream == filter.run->bits);
    if (!concerned) place.events += static_cast<std::uint64_t>(std::ranges::count(part.lines, '\n'));
    while (concerned && place.line < part.lines.size()) {
      std::string_view lines = part.lines.substr(place.line);
      const std::string_view line = take_line(lines);
      FeedPosition at{position, place.events + 1};
      if (at > subscriber.after) {
        if (!subscriber.channel->has_room()) {
          subscriber.pace = Pace::without_room;
          return true;
        }
        auto message = message_of(at, part, part.first_seq + place.events_of_part, line, filter.raw);
        if (!subscriber.channel->push(std::move(message))) return false;
        subscriber.after = at;
      }
      ++place.events;
      ++place.events_of_part;
      place.line += line.size() + 1;
    }
    place.part = parts.size() - rest.size();
    place.line = 0;
    place.events_of_part = 0;
  }
  subscriber.after = FeedPosition::behind(position);
  return true;
}

bool Feed::visit(Subscriber& subscriber, Position seen) {
  if (!subscriber.channel->is_open()) return false;
  subscriber.pace = Pace::behind;
  // So much at a time: one that is far behind must not hold up the others for long.
  for (std::size_t looked_at = 0; subscriber.after.done() < seen && looked_at < visit_bytes_max;) {
    Position wanted = subscriber.after.done() + 1;
    auto frame = next_frame_cached(wanted - 1);
    if (shared_) {  // positions have gaps there
      if (!frame || frame->first > seen) {
        subscriber.after = FeedPosition::behind(seen);
        break;
      }
      wanted = frame->first;
    } else if (!frame || frame->first != wanted) {
      // Not kept any more: it is told where it was, and when it comes back with that, that it is gone.
      subscriber.channel->cut_off();
      if (cut_) cut_("what comes next is not kept any more", subscriber.filter);
      return false;
    }
    looked_at += frame->second->size();
    if (!deliver(subscriber, wanted, *frame->second)) return false;
    if (subscriber.pace == Pace::without_room) return true;
  }
  if (subscriber.after.done() >= seen) subscriber.pace = Pace::caught_up;
  return true;
}

bool Feed::visit(Watcher& watcher, Position seen) {
  for (std::size_t looked_at = 0; watcher.after < seen && looked_at < visit_bytes_max;) {
    auto frame = next_frame_cached(watcher.after);
    if (!frame || frame->first > seen || (!shared_ && frame->first != watcher.after + 1)) {
      watcher.after = seen;
      if (!shared_) watcher.watch->see_all();
      break;
    }
    watcher.after = frame->first;
    looked_at += frame->second->size();
    if (!watcher.watch->see(*frame->second)) return false;
  }
  return true;
}

void Feed::work() {
  std::vector<Subscriber> subscribers;
  Watcher watcher;
  std::unique_lock lock(mutex_);
  Position seen = last_;
  bool any_behind = false;
  auto next_round = std::chrono::steady_clock::now() + round_period;
  std::chrono::milliseconds held_back_pause{0};
  while (true) {
    auto until = next_round;
    if (shared_ && has_readers()) {
      held_back_pause =
          is_held_back_ ? std::clamp(2 * held_back_pause, held_back_pause_min, held_back_pause_max) : look_period;
      until = std::min(until, std::chrono::steady_clock::now() + held_back_pause);
      if (!is_held_back_) held_back_pause = {};
    }
    changed_.wait_until(lock, until, [&] {
      return ending_ || any_behind || !arrived_.empty() || !roomy_.empty() || arrived_watch_ ||
             ((last_ != seen || may_have_grown_) && has_readers());
    });
    if (ending_) return;
    if (is_worth_a_look()) {
      may_have_grown_ = false;
      lock.unlock();
      try {
        last_now();
      } catch (const StoreFailure&) {
        // The database is away; the feed goes on when it is back.
      }
      lock.lock();
    }
    for (Subscriber& subscriber : arrived_) subscribers.push_back(std::move(subscriber));
    arrived_.clear();
    auto roomy = std::exchange(roomy_, {});
    seen = last_;
    const bool begins = arrived_watch_ != nullptr;
    if (begins) watcher = {std::exchange(arrived_watch_, nullptr), last_};
    lock.unlock();
    any_behind = false;
    if (begins) watcher.watch->see_all();
    if (watcher.watch && !visit(watcher, seen)) watcher = {};
    any_behind = watcher.watch && watcher.after < seen;
    // Now and then everybody's turn: each is told how far the journal is, also when it has not moved on, because
    // whether it has is the business of those whose events these are.
    auto now = std::chrono::steady_clock::now();
    bool round = now >= next_round;
    if (round) next_round = now + round_period;
    std::erase_if(subscribers, [&](Subscriber& subscriber) {
      bool due = round || subscriber.pace == Pace::behind || roomy.contains(subscriber.number) ||
                 (subscriber.pace == Pace::caught_up && subscriber.after.done() < seen);
      if (!due) return false;
      if (!visit(subscriber, seen)) return true;
      if (round && subscriber.channel->has_room()) tell_position(subscriber);
      any_behind = any_behind || subscriber.pace == Pace::behind;
      return false;
    });
    lock.lock();
    subscribers_ = subscribers.size() + arrived_.size();
    is_watched_ = watcher.watch || arrived_watch_;
  }
}

}  // namespace pawl::api
