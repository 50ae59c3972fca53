// Merkle trees as RFC 6962 has them, over a log that only grows: a tree's root stands for all entries, an inclusion
// proof shows that an entry is one of them, a consistency proof that an older tree is the beginning of a newer one.
//
//   leaf(entry)       = sha256(0x00, entry)
//   node(left, right) = sha256(0x01, left, right)
//
// A tree of n entries splits at the largest power of two below n. Of a long log only its *peaks* are kept, the roots of
// the whole subtrees that n is made of, largest first: enough to go on, and for proofs of what was added last.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/chain.h"

namespace pawl {

Hash merkle_leaf(std::string_view entry);
Hash merkle_node(const Hash& left, const Hash& right);
// Of no entries: sha256 of nothing.
Hash merkle_root_of_nothing();

// The log as far as it must be known to go on. peaks.size() is the number of ones in `size`.
struct MerkleLog {
  std::uint64_t size = 0;
  std::vector<Hash> peaks;

  void append(const Hash& leaf);
  Hash root() const;
  friend bool operator==(const MerkleLog&, const MerkleLog&) = default;
};

struct InclusionProof {
  std::uint64_t index = 0;  // of the entry, from 0
  std::uint64_t size = 0;   // of the tree
  std::vector<Hash> path;   // from the leaf up
};

// The log that `before` and then `batch` make. Each node is computed once, so many proofs cost O(log n) each.
class ProvableBatch {
 public:
  ProvableBatch(MerkleLog before, std::vector<Hash> batch) : before_(std::move(before)), batch_(std::move(batch)) {}

  // That the entry `batch[which]` is in it.
  InclusionProof prove(std::size_t which);

 private:
  Hash node(std::uint64_t begin, std::uint64_t end);
  Hash peak(std::uint64_t begin, std::uint64_t end) const;

  MerkleLog before_;
  std::vector<Hash> batch_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Hash> nodes_;  // by the entries below them
};
// The root that the proof leads to; nothing when it has not the length that it must have.
std::optional<Hash> root_by(const InclusionProof& proof, const Hash& leaf);

// That the first `older` of these leaves are the beginning of all of them. 0 < older <= leaves.size().
std::vector<Hash> prove_consistency(std::span<const Hash> leaves, std::uint64_t older);
bool check_consistency(std::uint64_t older_size, const Hash& older_root, std::uint64_t newer_size,
                       const Hash& newer_root, std::span<const Hash> proof);

}  // namespace pawl
