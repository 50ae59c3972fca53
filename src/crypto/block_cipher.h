// A keyed permutation of 128 bits (AES-256), through OpenSSL: for short values that are handed out and come back, and
// that nobody else is to read or to make.
#pragma once

#include <memory>
#include <string_view>

#include "core/id.h"

namespace pawl {

// Not thread-safe.
class BlockCipher {
 public:
  explicit BlockCipher(std::string_view key);  // 32 bytes
  ~BlockCipher();
  BlockCipher(BlockCipher&&) noexcept;
  BlockCipher& operator=(BlockCipher&&) noexcept;

  IdBits encrypt(IdBits plain);
  IdBits decrypt(IdBits sealed);

 private:
  struct Contexts;
  std::unique_ptr<Contexts> contexts_;
};

}  // namespace pawl
