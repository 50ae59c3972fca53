// Examples of NIST for FIPS 180-4.
#include "crypto/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace pawl {
namespace {

struct Example {
  std::string_view text, digest;
};
constexpr Example examples[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"}};

TEST(Sha256, matches_the_published_examples) {
  for (const Example& example : examples) EXPECT_EQ(sha256(example.text).hex(), example.digest) << example.text;
}

TEST(Sha256, of_two_parts_is_that_of_both_together) {
  for (const Example& example : examples)
    for (std::size_t cut = 0; cut <= example.text.size(); ++cut)
      EXPECT_EQ(sha256(example.text.substr(0, cut), example.text.substr(cut)).hex(), example.digest) << cut;
}

TEST(Sha256, of_a_million_letters_does_not_depend_on_the_size_of_the_pieces) {
  for (std::size_t piece_bytes : {1, 63, 64, 65, 4096, 1'000'000}) {
    const std::string piece(piece_bytes, 'a');
    Sha256Stream stream;
    for (std::size_t left = 1'000'000; left > 0;) {
      const std::string_view next = std::string_view(piece).substr(0, left);
      stream.add(next);
      left -= next.size();
    }
    EXPECT_EQ(stream.finish().hex(), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0") << piece_bytes;
  }
}

TEST(Sha256, of_a_stream_without_pieces_is_that_of_the_empty_text) { EXPECT_EQ(Sha256Stream().finish(), sha256("")); }

}  // namespace
}  // namespace pawl
