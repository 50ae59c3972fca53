// Compact bytes: varints, zigzag, length-prefixed texts. Reading never goes past the end: a short or damaged text
// turns the reader bad, and everything read from a bad reader is zero or empty.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/id.h"

namespace pawl {

class ByteWriter {
 public:
  explicit ByteWriter(std::string& out) : out_(out) {}

  void u64(std::uint64_t value) {
    char bytes[10];
    std::size_t size = 0;
    while (value >= 0x80) {
      bytes[size++] = static_cast<char>(value | 0x80);
      value >>= 7;
    }
    bytes[size++] = static_cast<char>(value);
    out_.append(bytes, size);
  }
  void i64(std::int64_t value) {
    u64((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }
  void text(std::string_view value) {
    u64(value.size());
    out_ += value;
  }
  void id(IdBits bits) {
    fixed64(bits.high);
    fixed64(bits.low);
  }

 private:
  // Big-endian, so that bytes sort as ids do.
  void fixed64(std::uint64_t value) {
    char bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(value >> (56 - 8 * i));
    out_.append(bytes, 8);
  }

  std::string& out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view in) : in_(in) {}

  bool bad() const { return bad_; }
  bool at_end() const { return in_.empty(); }
  std::string_view rest() const { return in_; }

  std::uint64_t u64() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (in_.empty()) break;
      auto byte = static_cast<std::uint8_t>(in_[0]);
      in_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte >= 0x80) continue;
      // A number has one spelling: no empty end, and no bit that is lost.
      if ((byte == 0 && shift > 0) || (shift == 63 && byte > 1)) break;
      return value;
    }
    return fail(), 0;
  }
  bool flag() {
    std::uint64_t value = u64();
    if (value > 1) fail();
    return value == 1;
  }
  std::int64_t i64() {
    std::uint64_t raw = u64();
    return static_cast<std::int64_t>(raw >> 1) ^ -static_cast<std::int64_t>(raw & 1);
  }
  int i32() {
    std::int64_t value = i64();
    if (value != static_cast<int>(value)) return fail(), 0;
    return static_cast<int>(value);
  }
  std::string_view text() {
    std::uint64_t size = u64();
    if (size > in_.size()) return fail(), std::string_view();
    auto out = in_.substr(0, size);
    in_.remove_prefix(size);
    return out;
  }
  IdBits id() {
    std::uint64_t high = fixed64();
    return {high, fixed64()};
  }

 private:
  void fail() {
    bad_ = true;
    in_ = {};
  }
  std::uint64_t fixed64() {
    if (in_.size() < 8) return fail(), 0;
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | static_cast<std::uint8_t>(in_[static_cast<std::size_t>(i)]);
    in_.remove_prefix(8);
    return value;
  }

  std::string_view in_;
  bool bad_ = false;
};

}  // namespace pawl
