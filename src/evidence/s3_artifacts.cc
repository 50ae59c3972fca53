// Bundles in S3, or in what speaks its protocol. libcurl signs the requests.
#include <curl/curl.h>
#include <fmt/format.h>

#include <mutex>

#include "crypto/sha256.h"
#include "evidence/artifacts.h"

namespace pawl {
namespace {

constexpr long connect_timeout_s = 10;
constexpr long timeout_s = 300;
constexpr std::size_t answer_bytes_max = 2000;
constexpr std::string_view scheme = "s3://";

class S3Artifacts final : public Artifacts {
 public:
  explicit S3Artifacts(S3Options options) : options_(std::move(options)) {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  }

  std::string put(const std::string& name, std::string_view bytes) override {
    const std::string key = options_.prefix.empty() ? name : options_.prefix + "/" + name;
    std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), curl_easy_cleanup);
    auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl.get(), option, value); };
    const std::string url = url_of(key);
    const std::string where = fmt::format("s3://{}/{}", options_.bucket, key);
    const std::string signer = fmt::format("aws:amz:{}:s3", options_.access.region);
    const std::string sum = "x-amz-content-sha256: " + sha256(bytes).hex();
    const std::string token = "x-amz-security-token: " + options_.access.session_token;
    curl_slist* lines = curl_slist_append(nullptr, sum.c_str());
    // No "expect:", which would keep libcurl from waiting for a "100 Continue": it signs that line and does not send
    // it.
    lines = curl_slist_append(lines, "content-type: application/zip");
    if (!options_.access.session_token.empty()) lines = curl_slist_append(lines, token.c_str());
    std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(lines, curl_slist_free_all);
    std::string answer;
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_CUSTOMREQUEST, "PUT");
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(bytes.size()));
    set(CURLOPT_POSTFIELDS, bytes.data());
    set(CURLOPT_HTTPHEADER, headers.get());
    set(CURLOPT_AWS_SIGV4, signer.c_str());
    set(CURLOPT_USERNAME, options_.access.access_key.c_str());
    set(CURLOPT_PASSWORD, options_.access.secret_key.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, connect_timeout_s);
    set(CURLOPT_TIMEOUT, timeout_s);
    set(
        CURLOPT_WRITEFUNCTION, +[](char* data, std::size_t, std::size_t size, void* to) -> std::size_t {
          auto& text = *static_cast<std::string*>(to);
          text.append(data, std::min(size, answer_bytes_max - std::min(text.size(), answer_bytes_max)));
          return size;
        });
    set(CURLOPT_WRITEDATA, &answer);
    const CURLcode done = curl_easy_perform(curl.get());
    if (done != CURLE_OK)
      throw ArtifactFailure(fmt::format("{} cannot be stored: {}", where, curl_easy_strerror(done)));
    long status = 0;
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status / 100 != 2) throw ArtifactFailure(fmt::format("{} cannot be stored: {} {}", where, status, answer));
    return where;
  }

 private:
  std::string url_of(const std::string& key) const {
    if (!options_.endpoint.empty()) return fmt::format("{}/{}/{}", options_.endpoint, options_.bucket, key);
    return fmt::format("https://{}.s3.{}.amazonaws.com/{}", options_.bucket, options_.access.region, key);
  }

  S3Options options_;
};

}  // namespace

S3Options find_s3_options(std::string_view address, const std::string& endpoint) {
  std::string_view rest = address.substr(std::min(scheme.size(), address.size()));
  const auto slash = rest.find('/');
  S3Options out;
  out.bucket = rest.substr(0, slash);
  if (slash != rest.npos) out.prefix = rest.substr(slash + 1);
  while (out.prefix.ends_with('/')) out.prefix.pop_back();
  if (!address.starts_with(scheme) || out.bucket.empty())
    throw ArtifactFailure(fmt::format("{} is not s3://bucket/prefix", address));
  // What signs a request and what stands in its address must be the same text.
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";
  if (out.bucket.find_first_not_of(plain) != out.bucket.npos || out.prefix.find_first_not_of(plain) != out.prefix.npos)
    throw ArtifactFailure("a bucket and its prefix are letters, digits, . _ - and / here");
  out.access = find_aws_access();
  out.endpoint = find_aws_endpoint(endpoint, "S3");
  if (!out.access.is_complete())
    throw ArtifactFailure(fmt::format(
        "there are no credentials for {}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile", address));
  return out;
}

std::unique_ptr<Artifacts> make_s3_artifacts(S3Options options) {
  return std::make_unique<S3Artifacts>(std::move(options));
}

}  // namespace pawl
