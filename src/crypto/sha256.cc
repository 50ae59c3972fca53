#include "crypto/sha256.h"

#include <openssl/evp.h>

#include <memory>

#include "core/invariant.h"

namespace pawl {

Hash sha256(std::string_view a, std::string_view b) {
  // Fetching the algorithm and making a context cost more than hashing an event; both are kept per thread.
  struct Free {
    void operator()(EVP_MD* md) const { EVP_MD_free(md); }
    void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  };
  thread_local std::unique_ptr<EVP_MD, Free> algorithm(EVP_MD_fetch(nullptr, "SHA256", nullptr));
  thread_local std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
  Hash out;
  bool ok = EVP_DigestInit_ex2(context.get(), algorithm.get(), nullptr) == 1 &&
            EVP_DigestUpdate(context.get(), a.data(), a.size()) == 1 &&
            EVP_DigestUpdate(context.get(), b.data(), b.size()) == 1 &&
            EVP_DigestFinal_ex(context.get(), out.bytes.data(), nullptr) == 1;
  invariant(ok, "SHA-256 is not available in this OpenSSL");
  return out;
}

}  // namespace pawl
