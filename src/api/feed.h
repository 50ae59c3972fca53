// The live feed: every event of a tenant, in order, from any position that is still kept.
//
// A position is "<frame>.<event>": the journal frame and the event's place in it. A message says where it stands, so
// a client that comes back with its last one misses nothing and sees nothing twice. One thread carries events from the
// journal to all channels; a channel that cannot keep up is dropped, and its client resumes.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "http/message.h"
#include "store/store.h"

namespace pawl::api {

using namespace http;

// All up to here has been seen.
struct FeedPosition {
  static constexpr std::uint64_t whole_frame = UINT64_MAX;

  Position frame = 0;
  std::uint64_t event = 0;  // within the frame, from 1

  // The last frame of which nothing more is wanted.
  Position done() const { return event == whole_frame || frame == 0 ? frame : frame - 1; }

  static std::optional<FeedPosition> parse(std::string_view text);
  std::string str() const { return std::to_string(frame) + "." + std::to_string(event); }
  friend auto operator<=>(const FeedPosition&, const FeedPosition&) = default;
};

struct FeedFilter {
  TenantId tenant;
  std::optional<RunId> run;  // this one's only
  bool with_tenant = false;  // also what happens to the tenant itself: keys, caps, workflows
};

class Feed {
 public:
  // Frames that are in memory; older ones are read from the store, as long as that keeps them.
  explicit Feed(Store& store, std::size_t bytes_kept = 16 << 20);
  ~Feed();

  // From the thread that committed it; takes the frame's bytes.
  void publish(Frame& frame);

  // False when what follows `after` is not kept any more. Absent: from now on.
  bool can_resume(std::optional<FeedPosition> after);
  // `allowed` is asked again and again: a key that is revoked ends what was opened with it.
  void subscribe(FeedFilter filter, std::optional<FeedPosition> after, std::shared_ptr<Channel> channel,
                 std::function<bool()> allowed);

  std::size_t subscribers();

  // Told why a client was cut off, on the feed's own thread. Before anybody subscribes.
  void on_cut(std::function<void(std::string_view why, const FeedFilter& filter)> call) { cut_ = std::move(call); }

 private:
  struct Subscriber {
    FeedFilter filter;
    FeedPosition after;
    std::shared_ptr<Channel> channel;
    std::function<bool()> allowed;
  };
  using Bytes = std::shared_ptr<const std::string>;

  void work();
  // The next frame after this one, from memory or the store; nothing when there is none yet.
  std::optional<std::pair<Position, Bytes>> next_frame(Position after);
  bool deliver(Subscriber& subscriber, Position position, const std::string& parts);

  Store& store_;
  const std::size_t bytes_kept_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Position, Bytes>> recent_;
  std::size_t recent_bytes_ = 0;
  Position last_ = 0;
  std::vector<Subscriber> arrived_;
  std::size_t subscribers_ = 0;
  bool ending_ = false;
  std::function<void(std::string_view, const FeedFilter&)> cut_;
  std::thread thread_;
};

}  // namespace pawl::api
