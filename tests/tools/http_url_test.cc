#include "tools/http_url.h"

#include <curl/curl.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace pawl {
namespace {

std::string normal(std::string_view url) { return normalize_url(url).value_or("refused"); }

TEST(Url, has_one_spelling) {
  for (const auto& [url, expected] : std::vector<std::pair<const char*, const char*>>{
           {"http://host", "http://host/"},
           {"HTTPS://HOST.Example/", "https://host.example/"},
           {"https://host.example./a", "https://host.example/a"},
           {"https://host:443/", "https://host/"},
           {"http://host:80", "http://host/"},
           {"http://host:/", "http://host/"},
           {"http://host:00080/", "http://host/"},
           {"http://host:443/", "http://host:443/"},
           {"https://b\xc3\xbc"
            "cher.example/",
            "https://xn--bcher-kva.example/"},
           {"http://[0:0:0:0:0:0:0:1]:8080/", "http://[::1]:8080/"},
           {"http://[::FFFF:7f00:1]/", "http://[::ffff:127.0.0.1]/"},
           {"http://h/a/./b/../c", "http://h/a/c"},
           {"http://h/public/../admin/delete", "http://h/admin/delete"},
           {"http://h/public/%2e%2e/admin", "http://h/admin"},
           {"http://h/public/.%2E/admin", "http://h/admin"},
           {"http://h/../../..", "http://h/"},
           {"http://h/a/..", "http://h/"},
           {"http://h/a/b/.", "http://h/a/b/"},
           {"http://h//a", "http://h//a"},
           {"http://h/%7euser/%c3%bc", "http://h/~user/%C3%BC"},
           {"http://h/\xc3\xbc b", "http://h/%C3%BC%20b"},
           {"http://h/50%", "http://h/50%25"},
           {"http://h/a%2Fb", "http://h/a%2Fb"},
           {"http://h/a?b=c d&e[]=%41#fragment", "http://h/a?b=c%20d&e[]=A"},
           {"http://h?x=../..", "http://h/?x=../.."},
           {"http://h#@other/", "http://h/"}})
    EXPECT_EQ(normal(url), expected) << url;
}

TEST(Url, is_refused_when_it_could_be_read_in_two_ways) {
  for (const char* url : {"",
                          "host",
                          "//host/",
                          "ftp://host/",
                          "file:///etc/passwd",
                          "http:/host",
                          "http:host",
                          "http:///host",
                          "http://",
                          "http:// host/",
                          "http://user@host/",
                          "http://user:word@host/",
                          "http://good.example@evil.example/",
                          "http://host\\@evil/",
                          "http://host/a\\..\\b",
                          "http://ho%73t/",
                          "http://a..b/",
                          "http://.host/",
                          "http://ho st/",
                          "http://127.1/",
                          "http://0x7f000001/",
                          "http://2130706433/",
                          "http://0177.0.0.1/",
                          "http://1.2.3.4.5/",
                          "http://host:0/",
                          "http://host:65536/",
                          "http://host:8a/",
                          "http://host:+80/",
                          "http://host:80:80/",
                          "http://[::1",
                          "http://[::1%25eth0]/",
                          "http://[v1.a]/",
                          "http://[::1]x/",
                          "http://h/a\tb",
                          "http://h/a\nb",
                          "http://h/a/..%2fadmin",
                          "http://h/a/%2e%2e%2fadmin",
                          "http://h/a/..%c0%afadmin",
                          "http://h/a/..%C0%AF..",
                          "http://h/a/%c0%ae%c0%ae/admin",
                          "http://h/a/%25c0%25ae./admin",
                          "http://h/a/..%e0%80%afadmin",
                          "http://h/a/..%c1%9cadmin",
                          "http://h/a/%uff0e./admin",
                          "http://h/a/..%u002Fadmin",
                          "http://h/a/%ef%bc%8e%ef%bc%8e/admin",
                          "http://h/a/..%5cadmin",
                          "http://h/a/%252e%252e/admin",
                          "http://h/a/%25252e%25252e/admin",
                          "http://h/a/..;x/admin",
                          "http://h/a/%2e%2e;/admin",
                          "http://h/a/..%20/admin",
                          "http://h/a/%09../admin",
                          "http://h/a/. /admin",
                          "http://h/a/..%3f/admin",
                          "http://h/a/..%23/admin",
                          "http://h/a/%2e%2e%253fx/admin",
                          "http://h/a/x%2f../b",
                          "http://h/a/%2F..%2Fb",
                          "http://h/a%00b"})
    EXPECT_EQ(normal(url), "refused") << url << " is " << normal(url);
  EXPECT_FALSE(normalize_url(std::string("http://h/a\0b", 12)));
  EXPECT_FALSE(normalize_url("http://h/" + std::string(20'000, 'a')));
}

TEST(Url, says_why_it_is_refused) {
  EXPECT_EQ(normalize_url("http://ada:pw@host/").error(),
            "must not have a user name or password; send them in the header Authorization");
  EXPECT_EQ(normalize_url("http://127.1/").error(),
            "has a host that is a number; write an IPv4 address as four decimal numbers");
}

TEST(Url, keeps_secrets_that_stand_behind_the_host) {
  const auto as = [](std::string_view url) { return normalize_url_template(url).value_or("refused"); };
  EXPECT_EQ(as("HTTPS://H/x/../${{ secrets.A }}/b?k=${{secrets.B}}"),
            "https://h/${{ secrets.A }}/b?k=${{ secrets.B }}");
  EXPECT_EQ(as("${{ secrets.HOOK }}"), "${{ secrets.HOOK }}");
  EXPECT_EQ(as("https://h/a?x=$${{ y }}"), "https://h/a?x=$%7B%7B%20y%20%7D%7D");
  for (const char* url : {"https://${{ secrets.A }}/", "https://h${{ secrets.A }}/", "${{ secrets.A }}://h/",
                          "https://h:${{ secrets.A }}/", "https://h/${{ secrets.A }}/../x",
                          "https://h/#${{ secrets.A }}", "https://${{ secrets.A }}@h/"})
    EXPECT_EQ(as(url), "refused") << url;
}

TEST(Url, is_read_by_libcurl_as_it_is_judged) {
  for (const char* url :
       {"HTTP://Host.:80/a/./../b%2f?q#f", "https://[::1]:1/%7e", "http://b\xc3\xbc.example:8/x?y=z"}) {
    const std::string judged = normal(url);
    ASSERT_NE(judged, "refused");
    EXPECT_EQ(normal(judged), judged);
    std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), &curl_url_cleanup);
    ASSERT_EQ(curl_url_set(parsed.get(), CURLUPART_URL, judged.c_str(), CURLU_PATH_AS_IS), CURLUE_OK);
    char* text = nullptr;
    ASSERT_EQ(curl_url_get(parsed.get(), CURLUPART_URL, &text, CURLU_NO_DEFAULT_PORT), CURLUE_OK);
    EXPECT_EQ(text, judged);
    curl_free(text);
  }
}

}  // namespace
}  // namespace pawl
