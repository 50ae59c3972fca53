// Checking a bundle with nothing but the bundle and a key that one trusts: no server, no data folder.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "core/id.h"

namespace pawl {

// Key ids that are trusted: "ed25519:..." itself, a public key in hex, or a file that says either, also as `pawl keys
// signing --json` prints it.
std::expected<std::set<std::string>, std::string> read_trusted_keys(std::string_view text);

struct BundleFinding {
  std::string part;       // a file of the bundle, or "bundle"
  std::uint64_t seq = 0;  // 0 = not one event's
  std::string what;
};

struct BundleSummary {
  std::string run;
  std::string tenant;
  std::string status;
  std::string key;
  std::string mode;
  std::uint64_t events = 0;
  std::uint64_t redacted = 0;  // events whose hash is taken from the signature
  std::uint64_t checkpoint = 0;
};

// Says all that is wrong; goes on past a finding where what follows can still be checked.
BundleSummary check_bundle(std::string_view bytes, const std::set<std::string>& trusted,
                           const std::function<void(const BundleFinding&)>& found);

// The same for a consistency proof between two checkpoints (GET /checkpoints/consistency).
void check_consistency_document(std::string_view text, const std::set<std::string>& trusted,
                                const std::function<void(const BundleFinding&)>& found);

}  // namespace pawl
