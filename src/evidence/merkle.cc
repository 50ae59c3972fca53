#include "evidence/merkle.h"

#include <bit>
#include <string>

#include "core/invariant.h"
#include "crypto/sha256.h"

namespace pawl {
namespace {

constexpr std::string_view leaf_prefix("\0", 1);

std::uint64_t split_of(std::uint64_t size) { return std::bit_floor(size - 1); }

Hash root_of(std::span<const Hash> leaves) {
  MerkleLog log;
  for (const Hash& leaf : leaves) log.append(leaf);
  return log.root();
}

// SUBPROOF of RFC 6962, section 2.1.2.
void add_subproof(std::span<const Hash> leaves, std::uint64_t older, bool is_known, std::vector<Hash>& out) {
  if (older == leaves.size()) {
    if (!is_known) out.push_back(root_of(leaves));
    return;
  }
  const std::uint64_t split = split_of(leaves.size());
  if (older <= split) {
    add_subproof(leaves.first(split), older, is_known, out);
    out.push_back(root_of(leaves.subspan(split)));
  } else {
    add_subproof(leaves.subspan(split), older - split, false, out);
    out.push_back(root_of(leaves.first(split)));
  }
}

}  // namespace

Hash merkle_leaf(std::string_view entry) { return sha256(leaf_prefix, entry); }

Hash merkle_node(const Hash& left, const Hash& right) {
  std::string first("\1");
  first += left.view();
  return sha256(first, right.view());
}

Hash merkle_root_of_nothing() { return sha256({}); }

void MerkleLog::append(const Hash& leaf) {
  Hash node = leaf;
  // As in counting: a one that is there already carries over.
  for (std::uint64_t bits = size; bits & 1; bits >>= 1) {
    node = merkle_node(peaks.back(), node);
    peaks.pop_back();
  }
  peaks.push_back(node);
  ++size;
}

Hash MerkleLog::root() const {
  if (peaks.empty()) return merkle_root_of_nothing();
  Hash root = peaks.back();
  for (std::size_t i = peaks.size() - 1; i-- > 0;) root = merkle_node(peaks[i], root);
  return root;
}

// Of the entries from `begin` up to `end`, which are a node of the tree.
Hash ProvableBatch::node(std::uint64_t begin, std::uint64_t end) {
  if (end <= before_.size) return peak(begin, end);
  if (end - begin == 1) return batch_[begin - before_.size];
  const auto known = nodes_.find({begin, end});
  if (known != nodes_.end()) return known->second;
  const std::uint64_t split = begin + split_of(end - begin);
  return nodes_[{begin, end}] = merkle_node(node(begin, split), node(split, end));
}

// The first entries are known by the peaks above them only.
Hash ProvableBatch::peak(std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t at = 0;
  for (const Hash& peak : before_.peaks) {
    const std::uint64_t span = std::bit_floor(before_.size - at);
    if (at == begin && span == end - begin) return peak;
    at += span;
  }
  invariant(false, "a proof needs a node that the log does not keep");
  return {};
}

InclusionProof ProvableBatch::prove(std::size_t which) {
  invariant(which < batch_.size(), "the entry to prove is in the batch");
  InclusionProof proof{before_.size + which, before_.size + batch_.size(), {}};
  std::uint64_t begin = 0, end = proof.size;
  while (end - begin > 1) {
    const std::uint64_t split = begin + split_of(end - begin);
    if (proof.index < split) {
      proof.path.insert(proof.path.begin(), node(split, end));
      end = split;
    } else {
      proof.path.insert(proof.path.begin(), node(begin, split));
      begin = split;
    }
  }
  return proof;
}

std::optional<Hash> root_by(const InclusionProof& proof, const Hash& leaf) {
  if (proof.index >= proof.size) return std::nullopt;
  std::uint64_t index = proof.index, last = proof.size - 1;
  Hash node = leaf;
  for (const Hash& sibling : proof.path) {
    if (last == 0) return std::nullopt;
    if ((index & 1) || index == last) {
      node = merkle_node(sibling, node);
      while (!(index & 1) && index != 0) index >>= 1, last >>= 1;
    } else {
      node = merkle_node(node, sibling);
    }
    index >>= 1, last >>= 1;
  }
  return last == 0 ? std::optional(node) : std::nullopt;
}

std::vector<Hash> prove_consistency(std::span<const Hash> leaves, std::uint64_t older) {
  invariant(older > 0 && older <= leaves.size(), "a tree is consistent with one that is not larger, and not empty");
  std::vector<Hash> out;
  add_subproof(leaves, older, true, out);
  return out;
}

// RFC 9162, section 2.1.4.2.
bool check_consistency(std::uint64_t older_size, const Hash& older_root, std::uint64_t newer_size,
                       const Hash& newer_root, std::span<const Hash> proof) {
  if (older_size == 0 || older_size > newer_size) return false;
  if (older_size == newer_size) return proof.empty() && older_root == newer_root;
  std::vector<Hash> path(proof.begin(), proof.end());
  if (std::has_single_bit(older_size)) path.insert(path.begin(), older_root);
  if (path.empty()) return false;
  std::uint64_t index = older_size - 1, last = newer_size - 1;
  while (index & 1) index >>= 1, last >>= 1;
  Hash older = path[0], newer = path[0];
  for (std::size_t i = 1; i < path.size(); ++i) {
    if (last == 0) return false;
    if ((index & 1) || index == last) {
      older = merkle_node(path[i], older);
      newer = merkle_node(path[i], newer);
      while (!(index & 1) && index != 0) index >>= 1, last >>= 1;
    } else {
      newer = merkle_node(newer, path[i]);
    }
    index >>= 1, last >>= 1;
  }
  return older == older_root && newer == newer_root && last == 0;
}

}  // namespace pawl
