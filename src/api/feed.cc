#include "api/feed.h"

#include <pthread.h>

#include <algorithm>
#include <charconv>

namespace pawl::api {

std::optional<FeedPosition> FeedPosition::parse(std::string_view text) {
  FeedPosition out;
  const char* end = text.data() + text.size();
  auto [dot, error] = std::from_chars(text.data(), end, out.frame);
  if (error != std::errc()) return std::nullopt;
  if (dot == end) return out.frame == 0 ? std::optional(out) : std::nullopt;
  if (*dot != '.') return std::nullopt;
  auto [last, bad] = std::from_chars(dot + 1, end, out.event);
  return bad == std::errc() && last == end ? std::optional(out) : std::nullopt;
}

Feed::Feed(Store& store, std::size_t bytes_kept) : store_(store), bytes_kept_(bytes_kept) {
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
    if (subscribers_ == 0) return;
  }
  changed_.notify_one();
}

std::optional<std::pair<Position, Feed::Bytes>> Feed::next_frame(Position after) {
  {
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

bool Feed::can_resume(std::optional<FeedPosition> after) {
  if (!after) return true;
  {
    std::lock_guard lock(mutex_);
    if (after->frame > last_) return false;  // not a position of this journal
    if (after->done() == last_) return true;
  }
  auto next = next_frame(after->done());
  return next && next->first == after->done() + 1;
}

void Feed::subscribe(FeedFilter filter, std::optional<FeedPosition> after, std::shared_ptr<Channel> channel,
                     std::function<bool()> allowed) {
  {
    std::lock_guard lock(mutex_);
    arrived_.push_back({filter, after.value_or(FeedPosition{last_, FeedPosition::whole_frame}), std::move(channel),
                        std::move(allowed)});
    ++subscribers_;
  }
  changed_.notify_one();
}

std::size_t Feed::subscribers() {
  std::lock_guard lock(mutex_);
  return subscribers_;
}

bool Feed::deliver(Subscriber& subscriber, Position position, const std::string& parts) {
  bool open = true;
  std::uint64_t number = 0;
  for_each_part(parts, [&](const StreamPart& part) {
    const FeedFilter& filter = subscriber.filter;
    bool concerned = part.key.tenant == filter.tenant && (filter.with_tenant || !part.key.is_tenant()) &&
                     (!filter.run || part.key.stream == filter.run->bits);
    std::string_view lines = part.lines;
    for (std::uint64_t seq = part.first_seq; !lines.empty(); ++seq) {
      std::string_view line = lines.substr(0, lines.find('\n'));
      lines.remove_prefix(std::min(lines.size(), line.size() + 1));
      FeedPosition at{position, ++number};
      if (!concerned || !open || at <= subscriber.after) continue;
      auto message = std::make_shared<Channel::Message>();
      message->id = at.str();
      message->data = "{\"position\":\"" + message->id + "\",";
      if (!part.key.is_tenant()) message->data += "\"run_id\":\"" + RunId{part.key.stream}.str() + "\",";
      message->data += "\"seq\":" + std::to_string(seq) + ",\"event\":";
      message->data += line;
      message->data += '}';
      open = subscriber.channel->push(std::move(message));
    }
  });
  subscriber.after = {position, FeedPosition::whole_frame};
  return open;
}

void Feed::work() {
  std::vector<Subscriber> subscribers;
  std::unique_lock lock(mutex_);
  Position seen = last_;
  while (true) {
    // Now and then without news, to let go of channels whose clients went away in silence.
    changed_.wait_for(lock, std::chrono::seconds(10),
                      [&] { return ending_ || !arrived_.empty() || (last_ != seen && !subscribers.empty()); });
    if (ending_) return;
    for (Subscriber& subscriber : arrived_) subscribers.push_back(std::move(subscriber));
    arrived_.clear();
    seen = last_;
    lock.unlock();
    std::erase_if(subscribers, [&](Subscriber& subscriber) {
      if (!subscriber.channel->is_open()) return true;
      auto cut_off = [&](std::string_view why) {
        if (cut_) cut_(why, subscriber.filter);
        return true;
      };
      if (!subscriber.allowed()) return cut_off("its key is not good any more");
      // Up to what was there when this round began: one that is far behind must not hold up the others for long.
      while (subscriber.after.done() < seen) {
        Position wanted = subscriber.after.done() + 1;
        auto frame = next_frame(wanted - 1);
        // Not kept any more: letting go ends the connection, and whoever comes back is told.
        if (!frame || frame->first != wanted) return cut_off("what comes next is not kept any more");
        if (!deliver(subscriber, wanted, *frame->second)) return true;
      }
      return false;
    });
    lock.lock();
    subscribers_ = subscribers.size() + arrived_.size();
  }
}

}  // namespace pawl::api
