// Test cases of RFC 4231.
#include <gtest/gtest.h>

#include "crypto/hmac.h"

namespace pawl {
namespace {

TEST(KeyedHash, is_hmac_sha_256) {
  EXPECT_EQ(keyed_hash(std::string(20, '\x0b'), "Hi There").hex(),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(keyed_hash("Jefe", "what do ya want for nothing?").hex(),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(keyed_hash(std::string(20, '\xaa'), std::string(50, '\xdd')).hex(),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
}

TEST(KeyedHash, of_a_key_longer_than_a_block_is_that_of_its_hash) {
  EXPECT_EQ(keyed_hash(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First").hex(),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

}  // namespace
}  // namespace pawl
