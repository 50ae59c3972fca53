// The live feed: every event of a tenant, in order, from any position that is still kept.
//
// A message says where it stands (see feed_position.h), so a client that comes back with its last one misses nothing
// and sees nothing twice. The first message has a position and nothing else, and so has one every few seconds, whatever
// others do.
//
// One thread carries events from the journal to all channels, each at its own pace: one whose queue is full is left
// alone until it has room, and goes on from the frames that are kept. Only who falls behind those is cut off. So a slow
// client costs its queue, and no more.
//
// With several servers the journal is read from the store, where those of all servers are, and all of them are kept.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "api/feed_position.h"
#include "http/message.h"
#include "store/shared_store.h"

namespace pawl::api {

using namespace http;

struct FeedFilter {
  TenantId tenant;
  std::optional<RunId> run;  // this one's only
  bool with_tenant = false;  // also what happens to the tenant itself: keys, caps, workflows
  bool raw = false;          // events as they are stored and hashed (core/event_object.h)
};

// Is told which streams of the journal have grown, whoever's they are. Called on the feed's own thread: it must return
// at once.
class StreamWatch {
 public:
  virtual ~StreamWatch() = default;
  // Any of them may have: the watch begins here, or what comes next is not kept any more.
  virtual void see_all() = 0;
  // The parts of a frame (for_each_part). False ends the watch.
  virtual bool see(std::string_view parts) = 0;
};

class Feed {
 public:
  // Frames that are in memory; older ones are read from the store, as long as that keeps them.
  Feed(Store& store, std::string position_secret, std::size_t bytes_kept = 16 << 20);
  ~Feed();

  // From the thread that committed it; takes the frame's bytes.
  void publish(Frame& frame);
  // With several servers: the store's journal may have grown. From any thread.
  void look();

  // What is published from now on follows it.
  FeedPosition now();
  // False when what follows `after` is not kept any more. Absent: from now on.
  bool can_resume(std::optional<FeedPosition> after);
  // `held` is let go when the channel has ended.
  void subscribe(FeedFilter filter, std::optional<FeedPosition> after, std::shared_ptr<Channel> channel,
                 std::shared_ptr<void> held);

  // One watch at a time: the last one given replaces the one before.
  void watch(std::shared_ptr<StreamWatch> watch);

  FeedPositions& positions() { return positions_; }
  std::size_t subscribers();

  // Told why a client was cut off, on the feed's own thread. Before anybody subscribes.
  void on_cut(std::function<void(std::string_view why, const FeedFilter& filter)> call) { cut_ = std::move(call); }

 private:
  using Bytes = std::shared_ptr<const std::string>;
  using MessagePtr = std::shared_ptr<const Channel::Message>;
  using Number = std::uint64_t;
  enum class Pace { caught_up, behind, without_room };

  struct Subscriber {
    Number number = 0;
    FeedFilter filter;
    FeedPosition after;
    std::shared_ptr<Channel> channel;
    std::shared_ptr<void> held;
    Pace pace = Pace::behind;
    // How far it is in a frame that was more than it had room for.
    struct {
      Position frame = 0;
      std::size_t part = 0;      // offset of the part it is in
      std::size_t line = 0;      // offset in that part's lines
      std::uint64_t events = 0;  // of the frame, before that line
      std::uint64_t events_of_part = 0;
    } place;
  };

  struct Watcher {
    std::shared_ptr<StreamWatch> watch;  // null: nobody watches
    Position after = 0;
  };

  // The last position of the journal, asked for when it is in a store with several servers.
  Position last_now();
  bool is_worth_a_look() const;
  void work();
  void make_room(Number number);
  bool has_readers() const { return subscribers_ > 0 || is_watched_; }  // with the mutex
  // The next frame after this one, from memory or the store; nothing when there is none yet.
  std::optional<std::pair<Position, Bytes>> next_frame(Position after);
  // The same for the feed's own thread, which may want a frame many times over.
  std::optional<std::pair<Position, Bytes>> next_frame_cached(Position after);
  // Brings it as far as `seen`, or as it has room; false when it is over.
  bool visit(Subscriber& subscriber, Position seen);
  // The same for the watch.
  bool visit(Watcher& watcher, Position seen);
  // False when the client is gone. Sets the pace when there was no room for all of it.
  bool deliver(Subscriber& subscriber, Position position, std::string_view parts);
  bool tell_position(Subscriber& subscriber);
  MessagePtr message_of(FeedPosition at, const StreamPart& part, std::uint64_t seq, std::string_view line, bool raw);

  Store& store_;
  FeedPositions positions_;
  SharedStore* const shared_;
  const std::size_t bytes_kept_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<Position, Bytes>> recent_;
  std::size_t recent_bytes_ = 0;
  Position last_ = 0;
  std::vector<Subscriber> arrived_;
  std::set<Number> roomy_;  // those that have room again, or are gone
  std::size_t subscribers_ = 0;
  std::shared_ptr<StreamWatch> arrived_watch_;
  bool is_watched_ = false;
  Number numbers_given_ = 0;
  bool may_have_grown_ = false;
  bool is_held_back_ = false;
  bool ending_ = false;
  std::function<void(std::string_view, const FeedFilter&)> cut_;

  // The feed's own thread's.
  std::deque<std::pair<Position, Bytes>> fetched_;  // large ones from the store, latest last
  std::size_t fetched_bytes_ = 0;
  // Made once for all who wait: by position, and whether raw.
  std::map<std::pair<FeedPosition, bool>, std::weak_ptr<const Channel::Message>> shared_messages_;
  std::size_t shared_messages_max_ = 0;  // before the next look for those that nobody waits for any more
  std::thread thread_;
};

}  // namespace pawl::api
