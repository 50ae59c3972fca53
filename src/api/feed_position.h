// Where a client is in the feed.
//
// Inside it is a place in the journal of the whole installation. Its numbers would tell a tenant how much the others
// do, so a client gets it encrypted, under a key of its tenant: pos_ and 26 characters. It can be given back, and means
// nothing else. One that was changed, or is another tenant's, is not a position.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "crypto/block_cipher.h"
#include "store/store.h"

namespace pawl::api {

// All up to here has been seen.
struct FeedPosition {
  Position frame = 0;
  std::uint64_t event = 0;  // within the frame, from 1

  // The last frame of which nothing more is wanted.
  Position done() const { return frame == 0 ? 0 : frame - 1; }
  static FeedPosition behind(Position frame) { return {frame + 1, 0}; }

  friend auto operator<=>(const FeedPosition&, const FeedPosition&) = default;
};

struct PositionTag {
  static constexpr std::string_view prefix = "pos";
};
using PositionId = Id<PositionTag>;  // a position as clients know it

// Thread-safe.
class FeedPositions {
 public:
  // `secret` is the installation's, and the same on all of its servers.
  explicit FeedPositions(std::string secret) : secret_(std::move(secret)) {}

  // Of an event: the same for all who see it.
  std::string print(TenantId tenant, FeedPosition position);
  // The same position, with other words each time: whether it has moved on without an event is nobody's business.
  std::string print_anew(TenantId tenant, FeedPosition position);
  std::optional<FeedPosition> parse(TenantId tenant, std::string_view text);

 private:
  std::string print(TenantId tenant, FeedPosition position, std::uint16_t salt);
  BlockCipher& cipher_of(TenantId tenant);

  const std::string secret_;
  std::mutex mutex_;
  std::map<TenantId, BlockCipher> ciphers_;
};

}  // namespace pawl::api
