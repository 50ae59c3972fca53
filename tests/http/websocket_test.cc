#include "http/websocket.h"

#include <gtest/gtest.h>

#include <vector>

namespace pawl::http {
namespace {

// A frame as a client sends it.
std::string masked(unsigned first_byte, std::string_view payload) {
  std::string frame{static_cast<char>(first_byte)};
  if (payload.size() < 126) {
    frame += static_cast<char>(0x80 | payload.size());
  } else {
    frame += static_cast<char>(0x80 | 126);
    frame += static_cast<char>(payload.size() >> 8);
    frame += static_cast<char>(payload.size() & 0xff);
  }
  const std::string mask = "\x11\x22\x33\x44";
  frame += mask;
  for (std::size_t i = 0; i < payload.size(); ++i) frame += static_cast<char>(payload[i] ^ mask[i % 4]);
  return frame;
}

TEST(WebSocketHandshake, accepts_the_key_of_the_standards_example) {
  EXPECT_EQ(websocket_accept("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(WebSocketHandshake, knows_a_key_when_it_sees_one) {
  EXPECT_TRUE(is_websocket_key("dGhlIHNhbXBsZSBub25jZQ=="));
  for (const char* key : {"", "short==", "dGhlIHNhbXBsZSBub25jZQ=A", "dGhlIHNhbXBsZSBub25jZ\r=="})
    EXPECT_FALSE(is_websocket_key(key)) << key;
}

TEST(WebSocketFrames, say_their_length_in_one_two_or_eight_bytes) {
  std::string out;
  append_text_frame(out, "hi");
  EXPECT_EQ(out, "\x81\x02hi");
  out.clear();
  append_text_frame(out, std::string(300, 'x'));
  EXPECT_EQ(out.substr(0, 4), std::string("\x81\x7e\x01\x2c"));
  EXPECT_EQ(out.size(), 304u);
  out.clear();
  append_text_frame(out, std::string(70'000, 'x'));
  EXPECT_EQ(out.substr(0, 10), std::string("\x81\x7f\0\0\0\0\0\x01\x11\x70", 10));
}

TEST(WebSocketFrames, of_control_are_short) {
  std::string out;
  append_close_frame(out, CloseCode::try_later, std::string(200, 'r'));
  EXPECT_EQ(out.size(), 2u + 125u);
  EXPECT_EQ(out.substr(0, 4), "\x88\x7d\x03\xf5");
}

TEST(WebSocketFrames, that_a_client_sends_are_ignored_up_to_the_limit) {
  FrameReader reader(4096);
  for (const auto& frame : {masked(0x81, "text"), masked(0x82, std::string(4096, 'b')), masked(0x8a, "pong"),
                            masked(0x01, "one ") + masked(0x80, "message"), masked(0x81, "")}) {
    const auto heard = reader.read(frame);
    EXPECT_FALSE(heard.close);
    EXPECT_FALSE(heard.ping);
  }
}

TEST(WebSocketFrames, are_understood_however_they_are_cut) {
  FrameReader reader(4096);
  const auto bytes = masked(0x81, std::string(500, 'x')) + masked(0x89, "are you there") + masked(0x88, "\x03\xe9 bye");
  FrameReader::Heard all;
  for (const char c : bytes) {
    auto heard = reader.read({&c, 1});
    if (heard.ping) all.ping = heard.ping;
    if (heard.close) all.close = heard.close;
  }
  EXPECT_EQ(all.ping, "are you there");
  EXPECT_EQ(all.close, static_cast<CloseCode>(1001));
}

TEST(WebSocketFrames, that_are_too_big_end_the_connection) {
  EXPECT_EQ(FrameReader(4096).read(masked(0x81, std::string(4097, 'x'))).close, CloseCode::too_big);
  EXPECT_EQ(FrameReader(4096).read(masked(0x01, std::string(4000, 'x')) + masked(0x80, std::string(97, 'x'))).close,
            CloseCode::too_big)
      << "fragments count together";
  EXPECT_EQ(FrameReader(4096)
                .read(std::string("\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff"
                                  "mask",
                                  14))
                .close,
            CloseCode::too_big);
}

TEST(WebSocketFrames, that_break_the_rules_end_the_connection) {
  const std::vector<std::string> wrong = {
      std::string("\x81\x02hi"),              // not masked
      masked(0xc1, "compressed"),             // an extension nobody agreed to
      masked(0x80, "continues nothing"),      // no message has begun
      masked(0x01, "a") + masked(0x81, "b"),  // a message within a message
      masked(0x09, "ping"),                   // a control frame in fragments
      masked(0x89, std::string(126, 'x')),    // a control frame that is too long
      masked(0x83, "x"),                      // opcodes nobody has defined
      masked(0x8b, "x"),
      masked(0x88, "x"),         // half a code
      masked(0x88, "\x03\xed"),  // 1005 must not be sent
  };
  for (std::size_t i = 0; i < wrong.size(); ++i)
    EXPECT_EQ(FrameReader(4096).read(wrong[i]).close, CloseCode::protocol_error) << i;
}

}  // namespace
}  // namespace pawl::http
