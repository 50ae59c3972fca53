#include "crypto/certificate.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdio>
#include <memory>

#include "crypto/sha256.h"

namespace pawl {

std::string public_key_pin(const std::filesystem::path& certificate) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(certificate.c_str(), "re"), &std::fclose);
  if (!file) return {};
  std::unique_ptr<X509, void (*)(X509*)> first(PEM_read_X509(file.get(), nullptr, nullptr, nullptr), &X509_free);
  if (!first) return {};
  unsigned char* bytes = nullptr;
  int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(first.get()), &bytes);
  if (size <= 0) return {};
  Hash hash = sha256({reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size)});
  OPENSSL_free(bytes);
  std::string text(4 * ((hash.bytes.size() + 2) / 3) + 1, '\0');
  int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), hash.bytes.data(),
                               static_cast<int>(hash.bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return "sha256//" + text;
}

}  // namespace pawl
