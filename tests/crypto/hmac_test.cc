// Test cases of RFC 4231.
#include "crypto/hmac.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace pawl {
namespace {

TEST(KeyedHash, is_hmac_sha_256) {
  EXPECT_EQ(keyed_hash(std::string(20, '\x0b'), "Hi There").hex(),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(keyed_hash("Jefe", "what do ya want for nothing?").hex(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(keyed_hash(std::string(20, '\xaa'), std::string(50, '\xdd')).hex(),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string counting;
  for (char byte = 1; byte <= 25; ++byte) counting += byte;
  EXPECT_EQ(keyed_hash(counting, std::string(50, '\xcd')).hex(),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  // The case of the RFC has only the first 128 bits.
  EXPECT_EQ(keyed_hash(std::string(20, '\x0c'), "Test With Truncation").hex().substr(0, 32),
            "a3b6167473100ee06e0c796c2955552b");
}

TEST(KeyedHash, of_a_key_longer_than_a_block_is_that_of_its_hash) {
  const std::string key(131, '\xaa');
  EXPECT_EQ(keyed_hash(key, "Test Using Larger Than Block-Size Key - Hash Key First").hex(),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(keyed_hash(key,
                       "This is a test using a larger than block-size key and a larger than block-size data. The key "
                       "needs to be hashed before being used by the HMAC algorithm.")
                .hex(),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(ConstantTimeComparison, finds_equal_exactly_what_is_equal) {
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time("secret", "secret"));
  for (std::string_view other : {"", "secre", "secrets", "Secret", "secreT"})
    EXPECT_FALSE(equal_in_constant_time("secret", other)) << other;
  EXPECT_FALSE(equal_in_constant_time(std::string_view("a\0b", 3), std::string_view("a\0c", 3)));
}

TEST(RandomBytes, are_as_many_as_asked_for_and_new_each_time) {
  EXPECT_EQ(random_bytes(0), "");
  EXPECT_EQ(random_bytes(32).size(), 32u);
  EXPECT_NE(random_bytes(32), random_bytes(32));
}

}  // namespace
}  // namespace pawl
