// API keys: how they look, and who holds which.
//
//   pawl_<id: 26 characters>_<secret: 32 characters, 160 bits><checksum: 6 characters>
//
// The prefix and the checksum let scanners find leaked keys without asking anyone. Stored is HMAC-SHA-256 of the
// secret under a key of this installation, so that neither the journal nor a stolen database lets anyone in.
#pragma once

#include <cstdint>
#include <functional>
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
  std::string secret_id;    // kept beside it: KeyRing::secret_id()
};

// What a lease's own key is good for: this attempt at this step, until it is over.
//
//   pawl_lease_<tenant>~<run>~<step>~<token>~<task>~<HMAC-SHA-256 of what stands before, under the installation's key>
//
// Nothing of it is stored: that it is over follows from the lease, which every use of it asks for.
struct LeaseBinding {
  RunId run;
  StepId step;
  std::uint64_t token = 0;
  std::string task;  // that the step works for; empty when there is none
};

// Who asks.
struct Principal {
  TenantId tenant;
  std::string tenant_name;
  KeyId key;
  std::string key_name;
  Role role = Role::viewer;
  std::optional<LeaseBinding> lease = {};  // of a lease's key, which is no key of a person or a program
  bool suspended = false;                  // its tenant is: the key is right, and may do nothing

  // As the journal names it.
  Actor actor() const { return lease ? lease_actor(lease->run, lease->step) : actor_of(key); }
};

// Thread-safe. Knows the keys of all tenants, as of the last update().
class KeyRing {
 public:
  // `secret` is the installation's own, at least 32 bytes.
  explicit KeyRing(std::string secret);

  // Names the installation's secret, and says nothing else about it.
  std::string secret_id() const;
  NewKey make(Instant now) const;
  // The same, with an id that follows from the request: who makes the same one again finds what it made. Ids of
  // requests with the same name and another content differ in their lower half only.
  NewKey make(std::string_view request_name, std::string_view content) const;
  // For another purpose than keys: a secret that follows from the installation's.
  std::string derive_secret(std::string_view purpose) const;
  // For a program that works on one lease.
  std::string lease_key(TenantId tenant, const LeaseBinding& lease) const;
  void update(const Tenant& tenant);
  // Whether what was begun with the key may go on: it has not expired, and its tenant is not suspended.
  bool is_good(KeyId key, Instant now) const;
  // When it stops being good by itself; nothing when it is not known.
  std::optional<Instant> good_until(KeyId key) const;
  // Called after every update, on its thread: it must return at once. Empty: nobody is told.
  void on_change(std::function<void()> call);
  // Nothing when the key is malformed, unknown, wrong, or past its time: the asker learns no more than that.
  std::optional<Principal> authenticate(std::string_view text, Instant now) const;

 private:
  NewKey make(KeyId id) const;
  std::optional<Principal> authenticate_lease(std::string_view text) const;

  struct Entry {
    Principal principal;
    std::string secret_hash;
    Instant expires_at;
  };

  std::string secret_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<KeyId, Entry> keys_;
  struct TenantEntry {
    std::string name;
    bool suspended = false;
  };
  std::unordered_map<TenantId, TenantEntry> tenants_;
  std::mutex on_change_mutex_;
  std::function<void()> on_change_;
};

}  // namespace pawl::api
