// Test vectors of RFC 8032, section 7.1.
#include "crypto/ed25519.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace pawl {
namespace {

struct Vector {
  std::string_view seed, public_key, message, signature;
};
// The message of the last one is the SHA-512 of "abc".
const Vector vectors[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe246"
     "55141438e7a100b"},
    {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
     "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "\x72",
     "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb"
     "00d291612bb0c00"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "\xaf\x82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc"
     "027beceea1ec40a"},
    {"833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
     "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
     "\xdd\xaf\x35\xa1\x93\x61\x7a\xba\xcc\x41\x73\x49\xae\x20\x41\x31\x12\xe6\xfa\x4e\x89\xa9\x7e\xa2\x0a\x9e\xee\xe6"
     "\x4b\x55\xd3\x9a\x21\x92\x99\x2a\x27\x4f\xc1\xa8\x36\xba\x3c\x23\xa3\xfe\xeb\xbd\x45\x4d\x44\x23\x64\x3c\xe8\x0e"
     "\x2a\x9a\xc9\x4f\xa5\x4c\xa4\x9f",
     "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad"
     "9bef1177331a704"}};

TEST(Ed25519, signs_the_published_messages_with_the_published_signatures) {
  for (const Vector& vector : vectors) {
    const auto key = PrivateKey::parse(vector.seed);
    ASSERT_TRUE(key) << vector.seed;
    EXPECT_EQ(key->public_key().hex(), vector.public_key);
    EXPECT_EQ(key->seed_hex(), vector.seed);
    EXPECT_EQ(key->sign(vector.message).hex(), vector.signature);
  }
}

TEST(Ed25519, verifies_the_published_signatures) {
  for (const Vector& vector : vectors)
    EXPECT_TRUE(
        verify_signature(*PublicKey::parse(vector.public_key), vector.message, *Signature::parse(vector.signature)))
        << vector.seed;
}

TEST(Ed25519, a_changed_bit_in_the_message_the_signature_or_the_key_is_refused) {
  for (const Vector& vector : vectors) {
    const PublicKey key = *PublicKey::parse(vector.public_key);
    const Signature signature = *Signature::parse(vector.signature);
    for (std::size_t bit = 0; bit < 8 * vector.message.size(); ++bit) {
      std::string changed(vector.message);
      changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
      EXPECT_FALSE(verify_signature(key, changed, signature)) << "bit " << bit << " of the message";
    }
    for (std::size_t bit = 0; bit < 8 * signature.bytes.size(); ++bit) {
      Signature changed = signature;
      changed.bytes[bit / 8] = static_cast<std::uint8_t>(changed.bytes[bit / 8] ^ 1 << bit % 8);
      EXPECT_FALSE(verify_signature(key, vector.message, changed)) << "bit " << bit << " of the signature";
    }
    for (std::size_t bit = 0; bit < 8 * key.bytes.size(); ++bit) {
      PublicKey changed = key;
      changed.bytes[bit / 8] = static_cast<std::uint8_t>(changed.bytes[bit / 8] ^ 1 << bit % 8);
      EXPECT_FALSE(verify_signature(changed, vector.message, signature)) << "bit " << bit << " of the key";
    }
  }
}

TEST(Ed25519, a_message_that_is_longer_or_shorter_is_refused) {
  const Vector& vector = vectors[2];
  const PublicKey key = *PublicKey::parse(vector.public_key);
  const Signature signature = *Signature::parse(vector.signature);
  EXPECT_FALSE(verify_signature(key, std::string(vector.message) + '\0', signature));
  EXPECT_FALSE(verify_signature(key, vector.message.substr(1), signature));
}

TEST(Ed25519, reads_lower_case_hex_of_the_right_length_and_nothing_else) {
  const std::string key(vectors[0].public_key), signature(vectors[0].signature);
  for (const std::string& bad : {std::string(), key.substr(2), key + "00", "D" + key.substr(1), "g" + key.substr(1)}) {
    EXPECT_FALSE(PublicKey::parse(bad)) << bad;
    EXPECT_FALSE(PrivateKey::parse(bad)) << bad;
  }
  for (const std::string& bad : {std::string(), key, signature + "00", "E" + signature.substr(1)})
    EXPECT_FALSE(Signature::parse(bad)) << bad;
}

TEST(Ed25519, a_key_is_known_by_the_hash_of_its_public_half) {
  // printf d75a... | xxd -r -p | sha256sum
  EXPECT_EQ(PublicKey::parse(vectors[0].public_key)->id(),
            "ed25519:21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9");
}

TEST(Ed25519, a_new_key_is_another_one_each_time_and_survives_printing) {
  const PrivateKey key = PrivateKey::make();
  EXPECT_NE(key.public_key(), PrivateKey::make().public_key());
  const auto again = PrivateKey::parse(key.seed_hex());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->public_key(), key.public_key());
  EXPECT_TRUE(verify_signature(key.public_key(), "text", again->sign("text")));
}

}  // namespace
}  // namespace pawl
