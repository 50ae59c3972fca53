// Ed25519 signatures, through OpenSSL. A key has an id, its fingerprint: "ed25519:" and sha256 of the public half in
// hex.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pawl {

struct PublicKey {
  std::array<std::uint8_t, 32> bytes{};

  std::string hex() const;
  static std::optional<PublicKey> parse(std::string_view hex);
  std::string id() const;
  friend bool operator==(const PublicKey&, const PublicKey&) = default;
};

struct Signature {
  std::array<std::uint8_t, 64> bytes{};

  std::string hex() const;
  static std::optional<Signature> parse(std::string_view hex);
  friend bool operator==(const Signature&, const Signature&) = default;
};

bool verify_signature(const PublicKey& key, std::string_view text, const Signature& signature);

// The secret half. It is overwritten in memory when it goes.
class PrivateKey {
 public:
  // Of 32 bytes; from the system's generator when none are given.
  static PrivateKey make();
  static std::optional<PrivateKey> parse(std::string_view seed_hex);
  PrivateKey(const PrivateKey&) = default;
  PrivateKey& operator=(const PrivateKey&) = default;
  ~PrivateKey();

  std::string seed_hex() const;
  const PublicKey& public_key() const { return public_; }
  // The same text always gives the same signature.
  Signature sign(std::string_view text) const;

 private:
  explicit PrivateKey(const std::array<std::uint8_t, 32>& seed);

  std::array<std::uint8_t, 32> seed_{};
  PublicKey public_;
};

}  // namespace pawl
