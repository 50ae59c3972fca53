#include "secrets/scrubber.h"

#include <gtest/gtest.h>

namespace pawl {
namespace {

Scrubber with(std::string_view value, std::string_view name = "TOKEN") {
  Scrubber scrubber;
  scrubber.add(name, value);
  return scrubber;
}

TEST(Scrubber, finds_every_spelling) {
  const auto scrubber = with("p/w \"\xC3\xA9?!");
  const char* spellings[] = {
      "p/w \"\xC3\xA9?!",         // as it is
      "p/w \\\"\xC3\xA9?!",       // JSON
      "p\\/w \\\"\xC3\xA9?!",     // JSON as PHP writes it
      "p/w \\\"\\u00e9?!",        // JSON in ASCII
      "p%2Fw%20%22%C3%A9%3F%21",  // RFC 3986
      "p%2fw%20%22%c3%a9%3f%21",  // in lower case
      "p%2Fw%20%22%C3%A9%3F!",    // encodeURIComponent
      "p%2Fw+%22%C3%A9%3F%21",    // a form
      "702f772022c3a93f21",       // hex
  };
  for (const auto* spelling : spellings)
    EXPECT_EQ(scrubber.text("<" + std::string(spelling) + ">"), "<[secret TOKEN]>") << spelling;
}

TEST(Scrubber, finds_every_spelling_in_any_letter_case) {
  const auto scrubber = with("p/w \"\xC3\xA9?!Zq");  // p/w "é?!Zq
  const char* spellings[] = {
      "P/W \"\xC3\x89?!zQ",         // as it is
      "P/w \\\"\xC3\x89?!ZQ",       // JSON
      "P\\/W \\\"\xC3\xA9?!zq",     // JSON as PHP writes it
      "p/w \\\"\\u00E9?!ZQ",        // JSON in ASCII
      "P/W \\\"\\u00c9?!ZQ",        // the same of the value in upper case
      "P%2Fw%20%22%c3%a9%3F%21zq",  // RFC 3986
      "P%2FW%20%22%C3%89%3F%21ZQ",  // the same of the value in upper case
      "P%2Fw+%22%C3%A9%3F%21ZQ",    // a form
      "702F772022C3A93F215A71",     // hex
      "502f572022c3893f215a51",     // hex of the value in upper case
      "702f772022c3a93f217a71",     // hex of the value in lower case
  };
  for (const auto* spelling : spellings)
    EXPECT_EQ(scrubber.text("<" + std::string(spelling) + ">"), "<[secret TOKEN]>") << spelling;
  // CANARY-VALUE-1 and canary-value-1 in base64, of a value that is neither
  for (const auto* text : {"Q0FOQVJZLVZBTFVFLTE=", "Y2FuYXJ5LXZhbHVlLTE="})
    EXPECT_NE(with("Canary-Value-1").text(text).find("[secret TOKEN]"), std::string::npos) << text;
  EXPECT_EQ(with("canary-value-1").text("said CANARY-VAL..."), "said [secret TOKEN]...");
  EXPECT_EQ(with("canary-value-1").text("...Value-1 was wrong"), "...[secret TOKEN] was wrong");
  EXPECT_EQ(with("12AB").json(R"({"k12ab":"12aB"})"), R"({"k[secret TOKEN]":"[secret TOKEN]"})");
}

TEST(Scrubber, leaves_what_is_no_text_as_it_is) {
  for (const std::string_view text : {"\xC3", "\xFF\xC3(", "\x80\xE2\x82", "\xF0\x9F\x98"})
    EXPECT_EQ(with("value").text(text), text);
}

TEST(Scrubber, finds_base64_wherever_the_value_begins) {
  const auto scrubber = with("canary-value-1");
  // echo -n user:canary-value-1 | base64, and with one and two characters fewer before it
  for (const auto* text : {"dXNlcjpjYW5hcnktdmFsdWUtMQ==", "c2VyOmNhbmFyeS12YWx1ZS0x",
                           "ZXI6Y2FuYXJ5LXZhbHVlLTE=", "Y2FuYXJ5LXZhbHVlLTE=", "Y2FuYXJ5LXZhbHVlLTE"}) {
    const auto scrubbed = scrubber.text(text);
    EXPECT_NE(scrubbed.find("[secret TOKEN]"), std::string::npos) << text << " -> " << scrubbed;
  }
}

TEST(Scrubber, keeps_json_what_it_is) {
  EXPECT_EQ(with("12345").json(R"({"a":12345,"b":"x12345y","k12345":[1,true,null]})"),
            R"({"a":"[secret TOKEN]","b":"x[secret TOKEN]y","k[secret TOKEN]":[1,true,null]})");
  EXPECT_EQ(with("\":\"").json(R"({"a":"b","c":"\":\""})"), R"({"a":"b","c":"[secret TOKEN]"})");
  EXPECT_EQ(with("abc").json("not json abc"), "not json [secret TOKEN]");
}

TEST(Scrubber, takes_the_longer_of_two_that_overlap_and_never_reads_its_own_words) {
  Scrubber scrubber;
  scrubber.add("SHORT", "secret");
  scrubber.add("LONG", "secret-and-more");
  EXPECT_EQ(scrubber.text("secret-and-more secret"), "[secret LONG] [secret SHORT]");
}

TEST(Scrubber, finds_what_is_left_of_a_value_that_was_cut) {
  const auto scrubber = with("canary-value-1");
  EXPECT_EQ(scrubber.text("said canary-val..."), "said [secret TOKEN]...");
  EXPECT_EQ(scrubber.text("exited with 1: ...value-1 was wrong"), "exited with 1: ...[secret TOKEN] was wrong");
  EXPECT_EQ(scrubber.text("can..."), "can...");
}

}  // namespace
}  // namespace pawl
