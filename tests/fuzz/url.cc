// Any text as a URL: what libcurl would connect to and ask for is what was judged.
#include <curl/curl.h>

#include <memory>

#include "fuzz.h"
#include "tools/http_transfer.h"
#include "tools/http_url.h"

namespace pawl::fuzz {
namespace {

std::string url_part(CURLU* url, CURLUPart which, unsigned flags) {
  char* text = nullptr;
  if (curl_url_get(url, which, &text, flags) != CURLUE_OK) return {};
  std::string out(text);
  curl_free(text);
  return out;
}

void check_as_libcurl_reads_it(const std::string& judged) {
  std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), &curl_url_cleanup);
  check(curl_url_set(parsed.get(), CURLUPART_URL, judged.c_str(), CURLU_PATH_AS_IS) == CURLUE_OK,
        "libcurl reads what was judged");
  check(url_part(parsed.get(), CURLUPART_USER, 0).empty(), "nobody logs in through the URL");
  const std::string host = url_part(parsed.get(), CURLUPART_HOST, CURLU_PUNYCODE);
  const std::string port = url_part(parsed.get(), CURLUPART_PORT, CURLU_NO_DEFAULT_PORT);
  const std::string query = url_part(parsed.get(), CURLUPART_QUERY, 0);
  std::string made = url_part(parsed.get(), CURLUPART_SCHEME, 0) + "://" + host + (port.empty() ? "" : ":" + port) +
                     url_part(parsed.get(), CURLUPART_PATH, 0);
  if (judged.contains('?')) made += "?" + query;
  check_equal(made, judged, "libcurl's parts are those of what was judged");
}

}  // namespace

FUZZ_TARGET(url) {
  for (const std::string& text : {std::string(input), "https://host/public/" + std::string(input),
                                  "https://" + std::string(input) + "/public/x"}) {
    const auto judged = normalize_url(text);
    if (!judged) {
      check(!judged.error().empty(), "a refusal has a reason");
      continue;
    }
    const auto again = normalize_url(*judged);
    check(again.has_value(), "what was judged is a URL");
    check_equal(*again, *judged, "a URL has one spelling");
    const std::string path = url_without_query(*judged) + "/";
    check(!path.contains("/../") && !path.contains("/./"), "no dots are left in the path");
    check(origin_of(*judged).has_value(), "it has an origin");
    check_as_libcurl_reads_it(*judged);
  }
}

}  // namespace pawl::fuzz
