#include "crypto/hmac.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <array>
#include <stdexcept>

#include "crypto/sha256.h"

namespace pawl {

// RFC 2104 on top of the direct SHA-256: OpenSSL's own HMAC looks its algorithm up on every call, which costs several
// times what the hashing does, and every request brings a key.
Hash keyed_hash(std::string_view key, std::string_view text) {
  constexpr std::size_t block_bytes = 64;
  Hash short_key;
  if (key.size() > block_bytes) {
    short_key = sha256(key);
    key = short_key.view();
  }
  std::array<char, block_bytes> inner, outer;
  inner.fill(0x36);
  outer.fill(0x5c);
  for (std::size_t i = 0; i < key.size(); ++i) {
    inner[i] = static_cast<char>(inner[i] ^ key[i]);
    outer[i] = static_cast<char>(outer[i] ^ key[i]);
  }
  Hash inside = sha256({inner.data(), inner.size()}, text);
  return sha256({outer.data(), outer.size()}, inside.view());
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_bytes(std::size_t count) {
  std::string out(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(count)) != 1)
    throw std::runtime_error("the system gives no random numbers");
  return out;
}

}  // namespace pawl
