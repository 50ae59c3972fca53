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

struct Sha256Stream::State {
  SHA256_CTX context;
};

Sha256Stream::Sha256Stream() : state_(std::make_unique<State>()) {
  invariant(SHA256_Init(&state_->context) == 1, "SHA-256 failed");
}
Sha256Stream::~Sha256Stream() = default;

void Sha256Stream::add(std::string_view bytes) {
  invariant(SHA256_Update(&state_->context, bytes.data(), bytes.size()) == 1, "SHA-256 failed");
}

Hash Sha256Stream::finish() {
  Hash out;
  invariant(SHA256_Final(out.bytes.data(), &state_->context) == 1, "SHA-256 failed");
  return out;
}

}  // namespace pawl
