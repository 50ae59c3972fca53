// The tokens that remote workers are given with their leases: 128 bits that nobody can guess.
//
// They come from the system's generator, not from Random: ids show what Random gave, and its next value follows from
// that. A simulation gives a source of its own.
#pragma once

#include <functional>
#include <string>

#include "crypto/hmac.h"

namespace pawl {

class LeaseTokens {
 public:
  // Gives that many random bytes.
  using Source = std::function<std::string(std::size_t count)>;
  explicit LeaseTokens(Source source = random_bytes) : source_(std::move(source)) {}

  // 32 characters, hexadecimal.
  std::string make() {
    constexpr std::string_view digits = "0123456789abcdef";
    if (next_ == bytes_.size()) {
      bytes_ = source_(bytes_at_once);
      next_ = 0;
    }
    std::string out(2 * token_bytes, '0');
    for (std::size_t i = 0; i < token_bytes; ++i) {
      auto byte = static_cast<unsigned char>(bytes_[next_]);
      bytes_[next_++] = 0;  // given away once, and kept nowhere
      out[2 * i] = digits[byte >> 4];
      out[2 * i + 1] = digits[byte & 15];
    }
    return out;
  }

 private:
  static constexpr std::size_t token_bytes = 16;
  static constexpr std::size_t bytes_at_once = 256 * token_bytes;  // a call of the system for many tokens

  Source source_;
  std::string bytes_;
  std::size_t next_ = 0;
};

}  // namespace pawl
