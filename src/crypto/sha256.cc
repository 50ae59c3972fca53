// The direct functions, which OpenSSL calls deprecated and keeps: through EVP the set-up of a digest costs three times
// what hashing an event does, and every event is hashed.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "crypto/sha256.h"

#include <openssl/sha.h>

#include "core/invariant.h"

namespace pawl {

Hash sha256(std::string_view a, std::string_view b) {
  SHA256_CTX context;
  Hash out;
  bool ok = SHA256_Init(&context) == 1 && SHA256_Update(&context, a.data(), a.size()) == 1 &&
            SHA256_Update(&context, b.data(), b.size()) == 1 && SHA256_Final(out.bytes.data(), &context) == 1;
  invariant(ok, "SHA-256 failed");
  return out;
}

}  // namespace pawl
