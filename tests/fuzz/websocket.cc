// WebSocket frames, as a client sends them: what is heard must not depend on how the bytes came in pieces.
#include "http/websocket.h"

#include "fuzz.h"

namespace pawl::fuzz {
namespace {

constexpr std::size_t message_bytes_max = 256;

using http::CloseCode;
using http::FrameReader;

FrameReader::Heard read_in_pieces(std::string_view bytes, std::size_t piece) {
  FrameReader reader(message_bytes_max);
  FrameReader::Heard all;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    auto heard = reader.read(bytes.substr(at, piece));
    check(!all.close || (!heard.ping && !heard.close), "after a close nothing is heard");
    if (heard.ping) all.ping = std::move(heard.ping);
    if (heard.close) all.close = heard.close;
  }
  return all;
}

// A frame as a client would send it: the server's own, with a mask.
std::string masked(std::string frame) {
  constexpr std::string_view mask = "\x12\x34\x56\x78";
  const auto short_size = static_cast<unsigned char>(frame[1]);
  const std::size_t head = short_size == 127 ? 10 : short_size == 126 ? 4 : 2;
  for (std::size_t i = head; i < frame.size(); ++i)
    frame[i] = static_cast<char>(frame[i] ^ mask[(i - head) % mask.size()]);
  frame[1] = static_cast<char>(short_size | 0x80);
  frame.insert(head, mask);
  return frame;
}

void check_own_frames(std::string_view input) {
  std::string text;
  http::append_text_frame(text, input);
  std::string ping;
  http::append_ping_frame(ping);
  const auto heard = read_in_pieces(masked(text) + masked(ping), 7);
  check(
      input.size() <= message_bytes_max ? heard.ping && !heard.close : !heard.ping && heard.close == CloseCode::too_big,
      "a text frame is one frame, of the size it says");
  std::string close;
  http::append_close_frame(close, CloseCode::try_later, input);
  check(close.size() <= 2 + 125, "a control frame is short");
  check(read_in_pieces(masked(close), 1).close == CloseCode::try_later, "a close frame says its code");
}

}  // namespace

FUZZ_TARGET(websocket) {
  const auto whole = read_in_pieces(input, input.size() + 1);
  for (const std::size_t piece : {1, 2, 3, 5, 64}) {
    const auto heard = read_in_pieces(input, piece);
    check(heard.ping == whole.ping && heard.close == whole.close, "pieces change nothing");
  }
  check(!whole.ping || whole.ping->size() <= 125, "a ping is short");
  if (whole.close) {
    std::string answer;
    http::append_close_frame(answer, *whole.close, "");
    check(read_in_pieces(masked(answer), 1).close == whole.close, "a close can be answered with its code");
  }
  if (whole.ping) {
    std::string pong;
    http::append_pong_frame(pong, *whole.ping);
    check(!read_in_pieces(masked(pong), 1).close, "a ping can be answered");
  }
  check_own_frames(input);
  if (http::is_websocket_key(input)) check(http::websocket_accept(input).size() == 28, "a key is accepted");
}

}  // namespace pawl::fuzz
