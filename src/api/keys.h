// API keys: how they look, and who holds which.
//
//   pawl_<id: 26 characters>_<secret: 32 characters, 160 bits><checksum: 6 characters>
//
// The prefix and the checksum let scanners find leaked keys without asking anyone. Stored is HMAC-SHA-256 of the
// secret under a key of this installation, so that neither the journal nor a stolen database lets anyone in.
#pragma once

#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/tenant.h"

namespace pawl::api {

struct NewKey {
  KeyId id;
  std::string text;         // shown once
  std::string secret_hash;  // kept
};

// Who asks.
struct Principal {
  TenantId tenant;
  std::string tenant_name;
  KeyId key;
  std::string key_name;
  Role role = Role::viewer;

  // As the journal names it.
  Actor actor() const { return actor_of(key); }
};

// Thread-safe. Knows the keys of all tenants, as of the last update().
class KeyRing {
 public:
  // `secret` is the installation's own, at least 32 bytes.
  explicit KeyRing(std::string secret);

  NewKey make(Instant now) const;
  // The same, with an id that follows from the request: who makes the same one again finds what it made. Ids of
  // requests with the same name and another content differ in their lower half only.
  NewKey make(std::string_view request_name, std::string_view content) const;
  void update(const Tenant& tenant);
  // Nothing when the key is malformed, unknown, wrong, or past its time: the asker learns no more than that.
  bool is_good(KeyId key, Instant now) const;
  std::optional<Principal> authenticate(std::string_view text, Instant now) const;

 private:
  NewKey make(KeyId id) const;

  struct Entry {
    Principal principal;
    std::string secret_hash;
    Instant expires_at;
  };

  std::string secret_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<KeyId, Entry> keys_;
};

}  // namespace pawl::api
