#include "crypto/block_cipher.h"

#include <openssl/evp.h>

#include <array>
#include <stdexcept>

namespace pawl {
namespace {

using Block = std::array<unsigned char, 16>;
using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

CipherContext make_context(std::string_view key, bool encrypts) {
  CipherContext context(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  if (key.size() != 32 || !context ||
      EVP_CipherInit_ex(context.get(), EVP_aes_256_ecb(), nullptr, reinterpret_cast<const unsigned char*>(key.data()),
                        nullptr, encrypts ? 1 : 0) != 1 ||
      EVP_CIPHER_CTX_set_padding(context.get(), 0) != 1)
    throw std::runtime_error("OpenSSL cannot set up AES-256");
  return context;
}

IdBits pass_through(EVP_CIPHER_CTX* context, IdBits bits) {
  Block in{}, out{};
  for (std::size_t i = 0; i < 8; ++i) {
    in[i] = static_cast<unsigned char>(bits.high >> (56 - 8 * i));
    in[8 + i] = static_cast<unsigned char>(bits.low >> (56 - 8 * i));
  }
  int size = 0;
  if (EVP_CipherUpdate(context, out.data(), &size, in.data(), static_cast<int>(in.size())) != 1 ||
      size != static_cast<int>(out.size()))
    throw std::runtime_error("OpenSSL cannot encrypt a block");
  IdBits result;
  for (std::size_t i = 0; i < 8; ++i) {
    result.high = result.high << 8 | out[i];
    result.low = result.low << 8 | out[8 + i];
  }
  return result;
}

}  // namespace

struct BlockCipher::Contexts {
  CipherContext encrypting;
  CipherContext decrypting;
};

BlockCipher::BlockCipher(std::string_view key)
    : contexts_(std::make_unique<Contexts>(make_context(key, true), make_context(key, false))) {}
BlockCipher::~BlockCipher() = default;
BlockCipher::BlockCipher(BlockCipher&&) noexcept = default;
BlockCipher& BlockCipher::operator=(BlockCipher&&) noexcept = default;

IdBits BlockCipher::encrypt(IdBits plain) { return pass_through(contexts_->encrypting.get(), plain); }
IdBits BlockCipher::decrypt(IdBits sealed) { return pass_through(contexts_->decrypting.get(), sealed); }

}  // namespace pawl
