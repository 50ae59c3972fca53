#include "api/feed_position.h"

#include "core/invariant.h"
#include "crypto/hmac.h"

namespace pawl::api {
namespace {

//   high: frame, 56 bits; event, the upper 8 of its 32 bits
//   low:  event, the lower 24 bits; salt, 16 bits; zeros, 24 bits, which only the holder of the key can make
constexpr std::uint64_t frames_max = 1ULL << 56, events_max = 1ULL << 32;
constexpr int zero_bits = 24, salt_bits = 16, event_low_bits = 24, event_high_bits = 8;

}  // namespace

BlockCipher& FeedPositions::cipher_of(TenantId tenant) {
  auto found = ciphers_.find(tenant);
  if (found == ciphers_.end())
    found = ciphers_.emplace(tenant, BlockCipher(keyed_hash(secret_, "feed positions\n" + tenant.str()).view())).first;
  return found->second;
}

std::string FeedPositions::print(TenantId tenant, FeedPosition position, std::uint16_t salt) {
  invariant(position.frame < frames_max && position.event < events_max, "a position of the feed fits its form");
  IdBits bits;
  bits.high = position.frame << event_high_bits | position.event >> event_low_bits;
  bits.low = position.event << (salt_bits + zero_bits) | std::uint64_t{salt} << zero_bits;
  std::lock_guard lock(mutex_);
  return PositionId{cipher_of(tenant).encrypt(bits)}.str();
}

std::string FeedPositions::print(TenantId tenant, FeedPosition position) { return print(tenant, position, 0); }

std::string FeedPositions::print_anew(TenantId tenant, FeedPosition position) {
  const std::string random = random_bytes(2);
  return print(
      tenant, position,
      static_cast<std::uint16_t>(static_cast<unsigned char>(random[0]) << 8 | static_cast<unsigned char>(random[1])));
}

std::optional<FeedPosition> FeedPositions::parse(TenantId tenant, std::string_view text) {
  const auto id = PositionId::parse(text);
  if (!id) return std::nullopt;
  std::unique_lock lock(mutex_);
  const IdBits bits = cipher_of(tenant).decrypt(id->bits);
  lock.unlock();
  if ((bits.low & ((1ULL << zero_bits) - 1)) != 0) return std::nullopt;
  FeedPosition out;
  out.frame = bits.high >> event_high_bits;
  out.event = (bits.high & 0xff) << event_low_bits | bits.low >> (salt_bits + zero_bits);
  return out;
}

}  // namespace pawl::api
