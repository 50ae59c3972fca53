#include "http/channel.h"

#include <utility>

#include "http/websocket.h"

namespace pawl::http {
namespace {

// What a message costs beside its text, so that a million empty ones are not free.
constexpr std::size_t message_overhead_bytes = 64;

// A line break in an id would begin another field, and a NUL makes a browser ignore the id.
void append_one_line(std::string& out, std::string_view text) {
  for (const char c : text)
    if (c != '\r' && c != '\n' && c != '\0') out += c;
}

// Two searches for one character each are much faster than one for either.
bool is_one_line(std::string_view text) {
  return text.find('\n') == std::string_view::npos && text.find('\r') == std::string_view::npos;
}

void append_id(std::string& out, std::string_view id) {
  if (id.empty()) return;
  out += "id: ";
  append_one_line(out, id);
  out += '\n';
}

// A reader puts "data:" lines together with line feeds; CR and CRLF end a line just as LF does.
void append_data(std::string& out, std::string_view data) {
  for (;;) {
    const auto end = is_one_line(data) ? std::string_view::npos : data.find_first_of("\r\n");
    out += "data: ";
    out += data.substr(0, end);
    out += '\n';
    if (end == std::string_view::npos) return;
    const bool both = data.substr(end, 2) == "\r\n";
    data.remove_prefix(end + (both ? 2 : 1));
  }
}

}  // namespace

Outbox::Outbox(std::size_t bytes_max, std::function<void()> ring) : bytes_max_(bytes_max), ring_(std::move(ring)) {}

std::size_t Outbox::size_of(const Channel::Message& message) {
  return message.id.size() + message.data.size() + message_overhead_bytes;
}

bool Outbox::push(MessagePtr message) {
  std::lock_guard lock(mutex_);
  if (!is_open_locked()) return false;
  const bool first = queue_.empty();
  if (queued_bytes_ >= bytes_max_) {
    cut_off_ = true;
    return false;
  }
  queued_bytes_ += size_of(*message);
  queue_.push_back(std::move(message));
  if (first) ring_();
  return true;
}

bool Outbox::has_room() {
  std::lock_guard lock(mutex_);
  room_wanted_ = is_open_locked() && queued_bytes_ >= bytes_max_;
  return !room_wanted_;
}

void Outbox::on_room(std::function<void()> call) {
  std::lock_guard lock(mutex_);
  on_room_ = std::move(call);
}

void Outbox::cut_off() {
  std::lock_guard lock(mutex_);
  if (!is_open_locked()) return;
  cut_off_ = true;
  ring_();
}

void Outbox::end(std::string_view code, std::string_view detail) {
  std::deque<MessagePtr> dropped;  // destroyed after the lock
  std::lock_guard lock(mutex_);
  if (closed_ || ended_) return;
  reason_ = {std::string(code), std::string(detail)};
  ended_ = true;
  queue_.swap(dropped);
  queued_bytes_ = 0;
  ring_();
}

bool Outbox::is_open() const {
  std::lock_guard lock(mutex_);
  return is_open_locked();
}

void Outbox::finish() {
  std::lock_guard lock(mutex_);
  if (closed_ || finished_) return;
  finished_ = true;
  ring_();
}

Outbox::State Outbox::take(std::vector<MessagePtr>& batch, std::size_t bytes_max) {
  batch.clear();
  std::unique_lock lock(mutex_);
  std::size_t bytes = 0;
  while (!queue_.empty() && bytes < bytes_max) {
    bytes += size_of(*queue_.front());
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  queued_bytes_ -= bytes;
  const auto state = ended_           ? State::ended
                     : !batch.empty() ? State::open
                     : cut_off_       ? State::cut_off
                     : finished_      ? State::finished
                                      : State::open;
  std::function<void()> call;
  if (queued_bytes_ <= bytes_max_ / 2 && std::exchange(room_wanted_, false)) call = on_room_;
  lock.unlock();
  if (call) call();
  return state;
}

void Outbox::close() {
  std::deque<MessagePtr> dropped;  // destroyed after the lock
  std::unique_lock lock(mutex_);
  closed_ = true;
  queue_.swap(dropped);
  queued_bytes_ = 0;
  const auto call = std::move(on_room_);
  lock.unlock();
  if (call) call();
}

void append_message(std::string& out, Framing framing, const Channel::Message& message) {
  if (framing == Framing::websocket) {
    if (message.data.empty()) return append_text_frame(out, "{\"position\":\"" + message.id + "\"}");
    return append_text_frame(out, message.data);
  }
  append_id(out, message.id);
  // Without data it is no event to a reader, who remembers its id all the same.
  if (!message.data.empty()) append_data(out, message.data);
  out += '\n';
}

std::optional<std::string_view> append_message_head(std::string& out, Framing framing,
                                                    const Channel::Message& message) {
  if (framing == Framing::websocket) {
    append_text_frame_head(out, message.data.size());
    return "";
  }
  if (message.data.empty() || !is_one_line(message.data)) return std::nullopt;
  append_id(out, message.id);
  out += "data: ";
  return "\n\n";
}

void append_heartbeat(std::string& out, Framing framing) {
  if (framing == Framing::websocket) return append_ping_frame(out);
  out += ":\n\n";  // a comment, which readers ignore
}

void append_end(std::string& out, Framing framing, ChannelEnd end, std::string_view last_id) {
  if (framing == Framing::websocket) {
    if (end == ChannelEnd::finished) return append_close_frame(out, CloseCode::normal, "");
    const bool too_slow = end == ChannelEnd::too_slow;
    auto reason = std::string(too_slow ? "too slow" : "stopping") + "; resume after ";
    reason += last_id;
    return append_close_frame(out, too_slow ? CloseCode::try_later : CloseCode::restart, reason);
  }
  if (end == ChannelEnd::finished) return;  // the end of the connection says it
  out += "event: resume\ndata: ";
  append_one_line(out, last_id);
  out += "\n\n";
}

void append_end(std::string& out, Framing framing, const Outbox::Reason& reason) {
  if (framing == Framing::websocket)
    return append_close_frame(out, CloseCode::policy_violation, reason.code + ": " + reason.detail);
  out += "event: end\ndata: {\"code\":\"";
  append_one_line(out, reason.code);
  out += "\",\"detail\":\"";
  append_one_line(out, reason.detail);
  out += "\"}\n\n";
}

}  // namespace pawl::http
