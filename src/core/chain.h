// Streams are hash-chained: hash = sha256(previous hash, the event's canonical text). The first event's predecessor
// is a hash of the stream's own name, so that no stream can be passed off as another.
//
// The hash function comes in from outside (src/crypto): core computes nothing but its own rules.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/id.h"

namespace pawl {

struct Hash {
  std::array<std::uint8_t, 32> bytes{};

  std::string_view view() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
  std::string hex() const;
  static std::optional<Hash> parse(std::string_view hex);
  friend bool operator==(const Hash&, const Hash&) = default;
};

// sha256 over a followed by b.
using Sha256 = Hash (*)(std::string_view a, std::string_view b);

Hash stream_genesis(Sha256 sha256, TenantId tenant, std::string_view stream);

inline Hash chain_next(Sha256 sha256, const Hash& previous, std::string_view event) {
  return sha256(previous.view(), event);
}

}  // namespace pawl
