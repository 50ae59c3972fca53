#include "tools/http_address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

namespace pawl {
namespace {

IpAddress address(std::string_view text) {
  const auto parsed = parse_address(text);
  EXPECT_TRUE(parsed.has_value()) << text;
  return parsed.value_or(IpAddress{});
}

std::vector<HttpAllow> allowing(std::initializer_list<std::string_view> entries) {
  std::vector<HttpAllow> list;
  for (const auto entry : entries) {
    auto parsed = parse_http_allow(entry);
    EXPECT_TRUE(parsed.has_value()) << entry;
    if (parsed) list.push_back(std::move(*parsed));
  }
  return list;
}

class PublicAddress : public testing::TestWithParam<const char*> {};
TEST_P(PublicAddress, may_be_reached_by_anyone) { EXPECT_TRUE(is_public(address(GetParam()))); }
INSTANTIATE_TEST_SUITE_P(All, PublicAddress,
                         testing::Values("1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255",
                                         "100.128.0.0", "172.15.255.255", "172.32.0.0", "192.167.255.255",
                                         "223.255.255.255", "168.63.129.15", "2606:4700:4700::1111", "2a00:1450::1",
                                         "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"));

class SpecialAddress : public testing::TestWithParam<const char*> {};
TEST_P(SpecialAddress, is_refused) { EXPECT_FALSE(is_public(address(GetParam()))); }
INSTANTIATE_TEST_SUITE_P(All, SpecialAddress,
                         testing::Values("0.0.0.0", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200",
                                         "100.127.255.255", "127.0.0.1", "127.255.255.254", "168.63.129.16",
                                         "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1",
                                         "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.1",
                                         "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
                                         // IPv6 of its own
                                         "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "fd20:ce::254",
                                         "ff02::1", "100::1", "2001::1", "2001:db8::1", "3fff::1", "5f00::1",
                                         // IPv4 in disguise
                                         "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:a9fe:a9fe", "64:ff9b::7f00:1",
                                         "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808", "2002:7f00:1::", "2002:a00:1::1",
                                         "2002:c0a8:101::1"));

TEST(HttpAllowList, opens_a_range) {
  const auto list = allowing({"10.1.0.0/16", "fd00::/8", "192.168.0.7"});
  const HostPort server{.host = "x", .port = 80};
  EXPECT_TRUE(may_connect(address("10.1.2.3"), server, list));
  EXPECT_TRUE(may_connect(address("::ffff:10.1.2.3"), server, list)) << "the same address in another form";
  EXPECT_FALSE(may_connect(address("10.2.0.1"), server, list));
  EXPECT_TRUE(may_connect(address("fd12::1"), server, list));
  EXPECT_FALSE(may_connect(address("fe80::1"), server, list));
  EXPECT_TRUE(may_connect(address("192.168.0.7"), server, list));
  EXPECT_FALSE(may_connect(address("192.168.0.8"), server, list));
  EXPECT_TRUE(may_connect(address("8.8.8.8"), server, list)) << "public ones need no entry";
}

TEST(HttpAllowList, opens_odd_prefixes_to_the_bit) {
  const auto list = allowing({"10.128.0.0/9", "0.0.0.0/0"});
  EXPECT_TRUE(may_connect(address("10.200.0.1"), {}, {list[0]}));
  EXPECT_FALSE(may_connect(address("10.127.255.255"), {}, {list[0]}));
  EXPECT_TRUE(may_connect(address("127.0.0.1"), {}, {list[1]}));
  EXPECT_FALSE(may_connect(address("::1"), {}, {list[1]})) << "all of IPv4 is not IPv6";
}

TEST(HttpAllowList, opens_one_server_by_its_name_and_port) {
  const auto list = allowing({"Intranet.example:8080", "[::1]:80"});
  EXPECT_TRUE(may_connect(address("10.0.0.1"), {.host = "intranet.example", .port = 8080}, list));
  EXPECT_FALSE(may_connect(address("10.0.0.1"), {.host = "intranet.example", .port = 22}, list));
  EXPECT_FALSE(may_connect(address("10.0.0.1"), {.host = "other.example", .port = 8080}, list));
  EXPECT_TRUE(may_connect(address("::1"), {.host = "[::1]", .port = 80}, list));
}

TEST(HttpAllowList, refuses_entries_that_make_no_sense) {
  for (const char* text : {"", "intranet", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0/8", "::/129", "host:0",
                           "host:65536", "host:http", ":80", "fe80::1:80000:x"})
    EXPECT_FALSE(parse_http_allow(text).has_value()) << text;
}

TEST(SocketAddress, of_no_known_family_is_no_address) {
  sockaddr other{};
  other.sa_family = AF_UNIX;
  EXPECT_EQ(address_of(other), std::nullopt);
}

}  // namespace
}  // namespace pawl
