// The frames of RFC 6455, as far as a channel needs them: text out, and in only what keeps the connection in order.
// Knows no sockets. Extensions are never agreed to, so there is no compression.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pawl::http {

enum class CloseCode : std::uint16_t {
  normal = 1000,
  protocol_error = 1002,
  policy_violation = 1008,  // the client may have nothing more
  too_big = 1009,
  restart = 1012,    // the server stops: resume
  try_later = 1013,  // the client was too slow: resume
};

bool is_websocket_key(std::string_view key);  // 16 bytes in base64
std::string websocket_accept(std::string_view key);

void append_text_frame(std::string& out, std::string_view text);
void append_text_frame_head(std::string& out, std::size_t text_bytes);  // the text itself follows
void append_ping_frame(std::string& out);
void append_pong_frame(std::string& out, std::string_view payload);
void append_close_frame(std::string& out, CloseCode code, std::string_view reason);  // reason: cut at 123 bytes

// Reads what a client sends. Messages are counted and forgotten; holds one control frame at most.
class FrameReader {
 public:
  explicit FrameReader(std::size_t message_bytes_max) : message_bytes_max_(message_bytes_max) {}

  struct Heard {
    std::optional<std::string> ping;  // the payload of the last one; answering only that is allowed
    std::optional<CloseCode> close;   // the connection has to end, with this
  };
  // After a close everything more is ignored.
  Heard read(std::string_view bytes);

 private:
  std::size_t take_frame(Heard& heard);
  void heed_control(unsigned opcode, Heard& heard);

  const std::size_t message_bytes_max_;
  std::string pending_;  // the beginning of a frame that has not come whole
  std::uint64_t skip_bytes_ = 0;
  std::uint64_t message_bytes_ = 0;
  bool in_message_ = false;
  bool closed_ = false;
};

}  // namespace pawl::http
