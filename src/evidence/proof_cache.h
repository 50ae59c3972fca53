// The newest checkpoints of tenants, as they are needed to prove that runs are in them: without it each bundle would
// cost a walk through the tenant's own stream. Bounded by the entries it holds; what was added first goes first.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "evidence/checkpoints.h"

namespace pawl {

class ProofCache {
 public:
  static constexpr std::size_t entries_max_default = 32'000;
  explicit ProofCache(std::size_t entries_max = entries_max_default) : entries_max_(entries_max) {}

  void add(TenantId tenant, LoggedCheckpoint logged);
  // Of the newest checkpoint that it has; 0 = none.
  std::uint64_t newest(TenantId tenant) const;
  bool has(TenantId tenant, const LogEntry& entry) const;
  // By the first checkpoint that has the entry, as far as it knows.
  std::optional<EntryProof> prove(TenantId tenant, const LogEntry& entry);

 private:
  struct Held {
    SignedCheckpoint made;
    std::vector<std::string> entries;
    ProvableBatch tree;
  };
  struct Place {
    std::uint64_t checkpoint = 0;
    std::size_t index = 0;
  };
  struct OfTenant {
    std::map<std::uint64_t, Held> checkpoints;
    std::unordered_map<std::string, Place> newest;  // where the last entry of each stream is
  };
  static std::string_view stream_of(std::string_view entry) { return entry.substr(0, entry.find(' ')); }
  void drop_oldest();

  const std::size_t entries_max_;
  std::size_t entries_ = 0;
  std::map<TenantId, OfTenant> tenants_;
  std::deque<std::pair<TenantId, std::uint64_t>> added_;  // oldest first
};

}  // namespace pawl
