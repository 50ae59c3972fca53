#include "crypto/block_cipher.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace pawl {
namespace {

// 00 01 02 ... 1f
std::string some_key() {
  std::string key;
  for (char byte = 0; byte < 32; ++byte) key += byte;
  return key;
}

TEST(BlockCipher, matches_the_example_of_fips_197) {
  BlockCipher cipher(some_key());
  const IdBits plain{0x0011223344556677, 0x8899aabbccddeeff}, sealed{0x8ea2b7ca516745bf, 0xeafc49904b496089};
  EXPECT_EQ(cipher.encrypt(plain), sealed);
  EXPECT_EQ(cipher.decrypt(sealed), plain);
}

TEST(BlockCipher, is_a_permutation_whose_inverse_is_decrypt) {
  BlockCipher cipher(some_key());
  std::set<IdBits> sealed, opened;
  for (std::uint64_t i = 0; i < 1000; ++i)
    for (const IdBits bits : {IdBits{0, i}, IdBits{i + 1, 0}}) {
      EXPECT_EQ(cipher.decrypt(cipher.encrypt(bits)), bits);
      EXPECT_EQ(cipher.encrypt(cipher.decrypt(bits)), bits);
      sealed.insert(cipher.encrypt(bits));
      opened.insert(cipher.decrypt(bits));
    }
  EXPECT_EQ(sealed.size(), 2000u);
  EXPECT_EQ(opened.size(), 2000u);
}

TEST(BlockCipher, another_key_gives_another_permutation) {
  std::string other = some_key();
  other.back() = static_cast<char>(other.back() ^ 1);
  const IdBits sealed = BlockCipher(some_key()).encrypt({1, 2});
  EXPECT_NE(BlockCipher(other).encrypt({1, 2}), sealed);
  EXPECT_NE(BlockCipher(other).decrypt(sealed), (IdBits{1, 2}));
}

TEST(BlockCipher, keeps_its_key_when_it_is_moved) {
  BlockCipher first(some_key());
  const IdBits sealed = first.encrypt({1, 2});
  BlockCipher second(std::move(first));
  EXPECT_EQ(second.decrypt(sealed), (IdBits{1, 2}));
}

TEST(BlockCipher, wants_a_key_of_32_bytes) {
  for (const std::size_t bytes : {0, 16, 31, 33})
    EXPECT_THROW(BlockCipher(std::string(bytes, 'k')), std::runtime_error);
}

}  // namespace
}  // namespace pawl
