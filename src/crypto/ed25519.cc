#include "crypto/ed25519.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <memory>

#include "core/invariant.h"
#include "crypto/hmac.h"
#include "crypto/sha256.h"

namespace pawl {
namespace {

struct Free {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Context = std::unique_ptr<EVP_MD_CTX, Free>;

const std::uint8_t* bytes_of(std::string_view text) { return reinterpret_cast<const std::uint8_t*>(text.data()); }

template <std::size_t N>
std::string print_hex(const std::array<std::uint8_t, N>& bytes) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out;
  for (auto byte : bytes) {
    out += digits[byte >> 4];
    out += digits[byte & 15];
  }
  return out;
}

template <std::size_t N>
std::optional<std::array<std::uint8_t, N>> parse_hex(std::string_view text) {
  std::array<std::uint8_t, N> out{};
  if (text.size() != 2 * N) return std::nullopt;
  auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  for (std::size_t i = 0; i < N; ++i) {
    int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    out[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return out;
}

Key private_key(const std::array<std::uint8_t, 32>& seed) {
  Key key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()));
  invariant(key != nullptr, "OpenSSL has no Ed25519");
  return key;
}

}  // namespace

std::string PublicKey::hex() const { return print_hex(bytes); }
std::optional<PublicKey> PublicKey::parse(std::string_view hex) {
  auto bytes = parse_hex<32>(hex);
  return bytes ? std::optional(PublicKey{*bytes}) : std::nullopt;
}
std::string PublicKey::id() const {
  return "ed25519:" + sha256({reinterpret_cast<const char*>(bytes.data()), bytes.size()}).hex();
}

std::string Signature::hex() const { return print_hex(bytes); }
std::optional<Signature> Signature::parse(std::string_view hex) {
  auto bytes = parse_hex<64>(hex);
  return bytes ? std::optional(Signature{*bytes}) : std::nullopt;
}

bool verify_signature(const PublicKey& public_key, std::string_view text, const Signature& signature) {
  Key key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, public_key.bytes.data(), public_key.bytes.size()));
  Context context(EVP_MD_CTX_new());
  if (!key || !context) return false;
  return EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), signature.bytes.data(), signature.bytes.size(), bytes_of(text), text.size()) ==
             1;
}

PrivateKey::PrivateKey(const std::array<std::uint8_t, 32>& seed) : seed_(seed) {
  std::size_t size = public_.bytes.size();
  Key key = private_key(seed_);
  invariant(EVP_PKEY_get_raw_public_key(key.get(), public_.bytes.data(), &size) == 1 && size == public_.bytes.size(),
            "an Ed25519 key has a public half of 32 bytes");
}

PrivateKey::~PrivateKey() { OPENSSL_cleanse(seed_.data(), seed_.size()); }

PrivateKey PrivateKey::make() {
  std::array<std::uint8_t, 32> seed{};
  std::string drawn = random_bytes(seed.size());
  std::ranges::copy(drawn, seed.begin());
  OPENSSL_cleanse(drawn.data(), drawn.size());
  return PrivateKey(seed);
}

std::optional<PrivateKey> PrivateKey::parse(std::string_view seed_hex) {
  auto seed = parse_hex<32>(seed_hex);
  return seed ? std::optional(PrivateKey(*seed)) : std::nullopt;
}

std::string PrivateKey::seed_hex() const { return print_hex(seed_); }

Signature PrivateKey::sign(std::string_view text) const {
  Signature out;
  std::size_t size = out.bytes.size();
  Key key = private_key(seed_);
  Context context(EVP_MD_CTX_new());
  bool signed_it = context && EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
                   EVP_DigestSign(context.get(), out.bytes.data(), &size, bytes_of(text), text.size()) == 1;
  invariant(signed_it && size == out.bytes.size(), "Ed25519 failed");
  return out;
}

}  // namespace pawl
