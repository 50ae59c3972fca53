#include "evidence/merkle.h"

#include <gtest/gtest.h>

#include <string>

namespace pawl {
namespace {

std::vector<Hash> leaves(std::size_t count) {
  std::vector<Hash> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(merkle_leaf("entry " + std::to_string(i)));
  return out;
}

Hash root_of(std::span<const Hash> entries) {
  MerkleLog log;
  for (const Hash& each : entries) log.append(each);
  return log.root();
}

// RFC 6962's own examples, as its reference implementation has them.
TEST(Merkle, the_known_roots) {
  EXPECT_EQ(MerkleLog{}.root().hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  MerkleLog log;
  log.append(merkle_leaf(""));
  EXPECT_EQ(log.root().hex(), "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d");
  log.append(merkle_leaf(std::string_view("\0", 1)));
  EXPECT_EQ(log.root().hex(), "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125");
  log.append(merkle_leaf("\x10"));
  EXPECT_EQ(log.root().hex(), "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77");
}

TEST(Merkle, every_entry_of_a_batch_is_proved_from_the_peaks_alone) {
  for (std::size_t before = 0; before < 20; ++before)
    for (std::size_t count = 1; count < 12; ++count) {
      auto all = leaves(before + count);
      MerkleLog log;
      for (std::size_t i = 0; i < before; ++i) log.append(all[i]);
      std::span<const Hash> batch = std::span(all).subspan(before);
      ProvableBatch provable(log, {batch.begin(), batch.end()});
      for (std::size_t which = 0; which < count; ++which) {
        InclusionProof proof = provable.prove(which);
        EXPECT_EQ(root_by(proof, batch[which]), root_of(all)) << before << "+" << count << " " << which;
        EXPECT_NE(root_by(proof, merkle_leaf("another")), root_of(all));
        if (proof.path.empty()) continue;
        proof.path.pop_back();
        EXPECT_NE(root_by(proof, batch[which]), root_of(all));
      }
    }
}

TEST(Merkle, an_older_tree_is_the_beginning_of_a_newer_one_or_is_not) {
  for (std::size_t newer = 1; newer < 40; ++newer) {
    auto all = leaves(newer);
    for (std::size_t older = 1; older <= newer; ++older) {
      auto proof = prove_consistency(all, older);
      Hash first = root_of(std::span(all).first(older));
      EXPECT_TRUE(check_consistency(older, first, newer, root_of(all), proof)) << older << " " << newer;
      auto changed = all;
      changed[0] = merkle_leaf("rewritten");
      EXPECT_FALSE(check_consistency(older, root_of(std::span(changed).first(older)), newer, root_of(all), proof));
      EXPECT_FALSE(check_consistency(older, first, newer, root_of(changed), prove_consistency(changed, older)));
    }
  }
}

}  // namespace
}  // namespace pawl
