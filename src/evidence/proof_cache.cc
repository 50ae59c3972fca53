#include "evidence/proof_cache.h"

#include <algorithm>

namespace pawl {

void ProofCache::add(TenantId tenant, LoggedCheckpoint logged) {
  OfTenant& of = tenants_[tenant];
  const std::uint64_t number = logged.made.checkpoint.number;
  if (of.checkpoints.contains(number)) return;
  auto& entries = logged.made.entries;
  std::vector<Hash> leaves;
  leaves.reserve(entries.size());
  for (std::size_t index = 0; index < entries.size(); ++index) {
    leaves.push_back(merkle_leaf(entries[index]));
    auto [found, is_new] = of.newest.try_emplace(std::string(stream_of(entries[index])), number, index);
    if (is_new) continue;
    // An entry that two checkpoints have is proved by the first, so that a bundle that is made again is the same.
    const Place known = found->second;
    const auto held = of.checkpoints.find(known.checkpoint);
    const bool is_same = held != of.checkpoints.end() && held->second.entries[known.index] == entries[index];
    if (is_same ? number < known.checkpoint : number >= known.checkpoint) found->second = {number, index};
  }
  entries_ += entries.size();
  added_.emplace_back(tenant, number);
  SignedCheckpoint made{tenant, logged.made.checkpoint, Signature::parse(logged.made.signature).value_or(Signature{})};
  of.checkpoints.emplace(
      number, Held{std::move(made), std::move(entries), ProvableBatch(std::move(logged.before), std::move(leaves))});
  while (entries_ > entries_max_ && added_.size() > 1) drop_oldest();
}

void ProofCache::drop_oldest() {
  const auto [tenant, number] = added_.front();
  added_.pop_front();
  OfTenant& of = tenants_[tenant];
  const auto held = of.checkpoints.find(number);
  for (const std::string& entry : held->second.entries) {
    const auto place = of.newest.find(std::string(stream_of(entry)));
    if (place != of.newest.end() && place->second.checkpoint == number) of.newest.erase(place);
  }
  entries_ -= held->second.entries.size();
  of.checkpoints.erase(held);
}

std::uint64_t ProofCache::newest(TenantId tenant) const {
  const auto of = tenants_.find(tenant);
  return of == tenants_.end() || of->second.checkpoints.empty() ? 0 : of->second.checkpoints.rbegin()->first;
}

bool ProofCache::has(TenantId tenant, const LogEntry& entry) const {
  const auto of = tenants_.find(tenant);
  if (of == tenants_.end()) return false;
  const auto place = of->second.newest.find(entry.stream);
  return place != of->second.newest.end() &&
         of->second.checkpoints.at(place->second.checkpoint).entries[place->second.index] == print_entry(entry);
}

std::optional<EntryProof> ProofCache::prove(TenantId tenant, const LogEntry& entry) {
  if (!has(tenant, entry)) return std::nullopt;
  OfTenant& of = tenants_[tenant];
  const Place place = of.newest.at(entry.stream);
  Held& held = of.checkpoints.at(place.checkpoint);
  return EntryProof{held.made, entry, held.tree.prove(place.index)};
}

}  // namespace pawl
