#include "http/websocket.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <stdexcept>

namespace pawl::http {
namespace {

constexpr unsigned opcode_continuation = 0x0;
constexpr unsigned opcode_text = 0x1;
constexpr unsigned opcode_binary = 0x2;
constexpr unsigned opcode_close = 0x8;
constexpr unsigned opcode_ping = 0x9;
constexpr unsigned opcode_pong = 0xa;
constexpr unsigned final_bit = 0x80;
constexpr unsigned reserved_bits = 0x70;
constexpr unsigned mask_bit = 0x80;
constexpr std::size_t control_bytes_max = 125;
constexpr std::size_t mask_bytes = 4;

unsigned byte_at(std::string_view text, std::size_t at) { return static_cast<unsigned char>(text[at]); }

void append_frame_head(std::string& out, unsigned opcode, std::size_t size) {
  out += static_cast<char>(final_bit | opcode);
  const auto append_number = [&](int bytes) {
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out += static_cast<char>((size >> shift) & 0xff);
  };
  if (size <= 125) {
    append_number(1);
  } else if (size <= 0xffff) {
    out += static_cast<char>(126);
    append_number(2);
  } else {
    out += static_cast<char>(127);
    append_number(8);
  }
}

void append_frame(std::string& out, unsigned opcode, std::string_view payload) {
  append_frame_head(out, opcode, payload.size());
  out += payload;
}

// The codes that may stand in a frame; the others only name what happened to a connection.
bool may_be_sent(unsigned code) {
  return (code >= 1000 && code <= 1014 && code != 1004 && code != 1005 && code != 1006) ||
         (code >= 3000 && code <= 4999);
}

}  // namespace

bool is_websocket_key(std::string_view key) {
  if (key.size() != 24 || !key.ends_with("==")) return false;
  return std::ranges::all_of(key.substr(0, 22), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
  });
}

std::string websocket_accept(std::string_view key) {
  const auto text = std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1)
    throw std::runtime_error("OpenSSL has no SHA-1, which a WebSocket's handshake needs");
  std::array<unsigned char, 64> base64{};
  const int length = EVP_EncodeBlock(base64.data(), digest.data(), static_cast<int>(size));
  return {base64.begin(), base64.begin() + length};
}

void append_text_frame(std::string& out, std::string_view text) { append_frame(out, opcode_text, text); }

void append_text_frame_head(std::string& out, std::size_t text_bytes) {
  append_frame_head(out, opcode_text, text_bytes);
}

void append_ping_frame(std::string& out) { append_frame(out, opcode_ping, {}); }

void append_pong_frame(std::string& out, std::string_view payload) { append_frame(out, opcode_pong, payload); }

void append_close_frame(std::string& out, CloseCode code, std::string_view reason) {
  const auto number = static_cast<unsigned>(code);
  std::string payload{static_cast<char>(number >> 8), static_cast<char>(number & 0xff)};
  payload += reason.substr(0, control_bytes_max - payload.size());
  append_frame(out, opcode_close, payload);
}

FrameReader::Heard FrameReader::read(std::string_view bytes) {
  Heard heard;
  while (!bytes.empty() && !closed_) {
    if (skip_bytes_ > 0) {
      const auto skipped = std::min<std::uint64_t>(skip_bytes_, bytes.size());
      skip_bytes_ -= skipped;
      bytes.remove_prefix(skipped);
      continue;
    }
    // A frame's head and a control frame's payload are short: byte by byte into `pending_` is no cost worth avoiding.
    pending_ += bytes.front();
    bytes.remove_prefix(1);
    if (take_frame(heard) > 0) pending_.clear();
  }
  if (heard.close) closed_ = true;
  return heard;
}

// Zero while more is needed; else the size of what was understood.
std::size_t FrameReader::take_frame(Heard& heard) {
  const std::string_view frame = pending_;
  if (frame.size() < 2) return 0;
  const auto fail = [&](CloseCode code) {
    heard.close = code;
    closed_ = true;
    return frame.size();
  };

  const unsigned opcode = byte_at(frame, 0) & 0x0f;
  const bool final = byte_at(frame, 0) & final_bit;
  const bool control = opcode >= opcode_close;
  const unsigned short_length = byte_at(frame, 1) & 0x7f;
  // A client's frames are masked, so that no proxy takes their content for HTTP.
  if ((byte_at(frame, 0) & reserved_bits) || !(byte_at(frame, 1) & mask_bit)) return fail(CloseCode::protocol_error);
  if (control ? (!final || short_length > control_bytes_max || opcode > opcode_pong) : opcode > opcode_binary)
    return fail(CloseCode::protocol_error);

  const std::size_t length_bytes = short_length == 127 ? 8 : short_length == 126 ? 2 : 0;
  const std::size_t head_bytes = 2 + length_bytes + mask_bytes;
  if (frame.size() < head_bytes) return 0;
  std::uint64_t length = length_bytes ? 0 : short_length;
  for (std::size_t i = 0; i < length_bytes; ++i) length = length << 8 | byte_at(frame, 2 + i);

  if (control) {
    if (frame.size() < head_bytes + length) return 0;
    for (std::size_t i = 0; i < length; ++i)
      pending_[head_bytes + i] =
          static_cast<char>(byte_at(frame, head_bytes + i) ^ byte_at(frame, head_bytes - mask_bytes + i % mask_bytes));
    pending_.erase(0, head_bytes);
    heed_control(opcode, heard);
    return head_bytes + length;
  }

  if ((opcode == opcode_continuation) != in_message_) return fail(CloseCode::protocol_error);
  if (length > message_bytes_max_ - message_bytes_) return fail(CloseCode::too_big);
  message_bytes_ = final ? 0 : message_bytes_ + length;
  in_message_ = !final;
  skip_bytes_ = length;
  return head_bytes;
}

void FrameReader::heed_control(unsigned opcode, Heard& heard) {
  if (opcode == opcode_ping) heard.ping = pending_;
  if (opcode != opcode_close) return;
  closed_ = true;
  heard.close = CloseCode::normal;
  if (pending_.empty()) return;
  const unsigned code = pending_.size() < 2 ? 0 : byte_at(pending_, 0) << 8 | byte_at(pending_, 1);
  heard.close = may_be_sent(code) ? static_cast<CloseCode>(code) : CloseCode::protocol_error;
}

}  // namespace pawl::http
