// Test vectors of RFC 4648, section 10.
#include "crypto/base64.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace pawl {
namespace {

struct Spelling {
  std::string_view bytes, text;
};
constexpr Spelling spellings[] = {{"", ""},
                                  {"f", "Zg=="},
                                  {"fo", "Zm8="},
                                  {"foo", "Zm9v"},
                                  {"foob", "Zm9vYg=="},
                                  {"fooba", "Zm9vYmE="},
                                  {"foobar", "Zm9vYmFy"}};

TEST(Base64, matches_the_published_vectors_in_both_directions) {
  for (const Spelling& spelling : spellings) {
    EXPECT_EQ(base64_encode(spelling.bytes), spelling.text);
    EXPECT_EQ(base64_decode(spelling.text), spelling.bytes);
  }
}

TEST(Base64, every_byte_survives) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  for (std::size_t begin = 0; begin < 3; ++begin)
    EXPECT_EQ(base64_decode(base64_encode(bytes.substr(begin))), bytes.substr(begin));
  EXPECT_EQ(base64_encode("\xfb\xff"), "+/8=");
}

TEST(Base64, refuses_an_incomplete_group) {
  for (std::string_view bad : {"a", "ab", "abc", "YQ", "YQ=", "Zm9vY", "Zm9vYg="})
    EXPECT_FALSE(base64_decode(bad)) << bad;
}

TEST(Base64, refuses_padding_in_the_wrong_place) {
  for (std::string_view bad : {"=", "====", "Y===", "=YQ=", "Y=Q=", "YQ==YQ==", "YWJj===="})
    EXPECT_FALSE(base64_decode(bad)) << bad;
}

TEST(Base64, refuses_blanks_and_other_alphabets) {
  for (std::string_view bad : {" YQ==", "YQ==\n", "YQ ==", "Y*==", "-_8=", "Zm9\xc3", "    "})
    EXPECT_FALSE(base64_decode(bad)) << bad;
  EXPECT_FALSE(base64_decode(std::string_view("YQ=\0", 4)));
}

TEST(Base64, refuses_a_second_spelling_of_the_same_bytes) {
  for (std::string_view bad : {"Zh==", "Zm9=", "YR=="}) EXPECT_FALSE(base64_decode(bad)) << bad;
}

}  // namespace
}  // namespace pawl
