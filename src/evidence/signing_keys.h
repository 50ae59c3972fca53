// The installation's signing key: one file, for its owner only, that every server of the installation has.
//
// It holds the secret of the key that signs, and the public halves of all that ever did, oldest first. A key that takes
// over is signed by the one before, so whoever trusts any of them can follow to the present one.
#pragma once

#include <boost/json/array.hpp>
#include <expected>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/time.h"
#include "crypto/ed25519.h"

namespace pawl {

// The file is not there, cannot be read, or is not what it should be.
class KeyFileFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct KnownKey {
  PublicKey public_key;
  std::string previous;              // the id of the one before; empty for the first
  std::optional<Signature> voucher;  // of that one, over key_statement_of()
  Instant from;
  Instant until = end_of_time;

  std::string id() const { return public_key.id(); }
};

struct SigningKeys {
  PrivateKey secret;
  std::vector<KnownKey> known;  // oldest first; the last one signs

  const KnownKey& current() const { return known.back(); }
};

inline constexpr std::string_view signing_key_file = "signing-key.json";

// Both throw KeyFileFailure. The first makes a key when there is no file; of several who do so at once one wins, and
// all have its key.
SigningKeys open_signing_keys(const std::filesystem::path& path, Instant now);
SigningKeys read_signing_keys(const std::filesystem::path& path);
// A new key takes over; the file is replaced whole or not at all.
SigningKeys rotate_signing_key(const std::filesystem::path& path, Instant now);

// Public halves, as bundles and `pawl keys signing` show them.
boost::json::array keys_object(const std::vector<KnownKey>& keys);
std::expected<std::vector<KnownKey>, std::string> read_keys_object(const Json& value);
// Whether each is vouched for by the one before it; the reason names the first that is not.
std::expected<void, std::string> check_keys(const std::vector<KnownKey>& keys);

}  // namespace pawl
