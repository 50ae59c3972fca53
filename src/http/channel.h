// What lies between a channel's holder, on any thread, and the connection that writes it: a bounded queue, and how
// messages look on the wire. Knows no sockets.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace pawl::http {

class Outbox {
 public:
  using MessagePtr = std::shared_ptr<const Channel::Message>;

  // `ring` tells the connection that there is something to take; it must return at once.
  Outbox(std::size_t bytes_max, std::function<void()> ring);

  // The holder's side, any thread. One message past the limit may wait: whoever was told to resume because of it would
  // never get past it.
  bool push(MessagePtr message);
  bool has_room();
  void on_room(std::function<void()> call);
  void cut_off();
  void end(std::string_view code, std::string_view detail);
  bool is_open() const;
  void finish();  // nobody will push any more: what is queued is still delivered

  // The connection's side.
  enum class State {
    open,
    finished,  // and nothing is left to take
    cut_off,   // the same, and the client has to resume
    ended,     // the same, and the client is told why
  };
  struct Reason {
    std::string code;
    std::string detail;
  };
  // Once it has ended.
  const Reason& reason() const { return reason_; }
  // Moves queued messages of about `bytes_max` into `batch`, which it clears first. Once it has given an empty batch,
  // the next push rings.
  State take(std::vector<MessagePtr>& batch, std::size_t bytes_max);
  void close();  // the client is gone: from now on nothing is held, and nobody is rung

 private:
  static std::size_t size_of(const Channel::Message& message);
  bool is_open_locked() const { return !closed_ && !cut_off_ && !finished_ && !ended_; }

  const std::size_t bytes_max_;
  const std::function<void()> ring_;
  mutable std::mutex mutex_;
  std::deque<MessagePtr> queue_;
  std::size_t queued_bytes_ = 0;
  std::function<void()> on_room_;
  bool room_wanted_ = false;
  bool finished_ = false;
  bool cut_off_ = false;
  bool ended_ = false;
  Reason reason_;  // does not change once ended_ is set
  bool closed_ = false;
};

// The channel as its holder sees it. The last holder to let go ends it.
class OutboxChannel final : public Channel {
 public:
  explicit OutboxChannel(std::shared_ptr<Outbox> outbox) : outbox_(std::move(outbox)) {}
  ~OutboxChannel() override { outbox_->finish(); }
  OutboxChannel(const OutboxChannel&) = delete;
  OutboxChannel& operator=(const OutboxChannel&) = delete;

  bool push(std::shared_ptr<const Message> message) override { return outbox_->push(std::move(message)); }
  bool has_room() override { return outbox_->has_room(); }
  void on_room(std::function<void()> call) override { outbox_->on_room(std::move(call)); }
  void cut_off() override { outbox_->cut_off(); }
  void end(std::string_view code, std::string_view detail) override { outbox_->end(code, detail); }
  bool is_open() const override { return outbox_->is_open(); }

 private:
  std::shared_ptr<Outbox> outbox_;
};

enum class Framing { events, websocket };
enum class ChannelEnd { finished, too_slow, stopping };

void append_message(std::string& out, Framing framing, const Channel::Message& message);
// The same in three parts: what this appends, the data as it is, and what this gives. Nothing when the data has to be
// written otherwise than it is.
std::optional<std::string_view> append_message_head(std::string& out, Framing framing, const Channel::Message& message);
void append_heartbeat(std::string& out, Framing framing);
// The last words; unless it has finished, they tell the client to resume after `last_id`.
void append_end(std::string& out, Framing framing, ChannelEnd end, std::string_view last_id);
// The last words to a client that may have nothing more.
void append_end(std::string& out, Framing framing, const Outbox::Reason& reason);

}  // namespace pawl::http
