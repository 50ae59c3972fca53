// Bundles in S3, or in what speaks its protocol. libcurl signs the requests.
#include <curl/curl.h>
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>

#include "crypto/sha256.h"
#include "evidence/artifacts.h"

namespace pawl {
namespace {

constexpr long connect_timeout_s = 10;
constexpr long timeout_s = 300;
constexpr std::size_t answer_bytes_max = 2000;
constexpr std::string_view scheme = "s3://";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Of one section of an INI file as AWS's tools write them.
std::map<std::string, std::string> read_profile(const std::string& path, const std::string& section) {
  std::map<std::string, std::string> out;
  std::ifstream in(path);
  bool is_ours = false;
  auto trimmed = [](std::string text) {
    const auto first = text.find_first_not_of(" \t\r");
    return first == text.npos ? std::string() : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
  };
  for (std::string line; std::getline(in, line);) {
    line = trimmed(line);
    if (line.starts_with('['))
      is_ours = line == "[" + section + "]";
    else if (auto equals = line.find('='); is_ours && equals != line.npos && !line.starts_with('#'))
      out[trimmed(line.substr(0, equals))] = trimmed(line.substr(equals + 1));
  }
  return out;
}

std::string file_of(const char* variable, const char* name) {
  const std::string named = environment(variable);
  return named.empty() ? environment("HOME") + "/.aws/" + name : named;
}

std::string first_of(std::initializer_list<std::string> texts) {
  for (const std::string& text : texts)
    if (!text.empty()) return text;
  return {};
}

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
    const std::string signer = fmt::format("aws:amz:{}:s3", options_.region);
    const std::string sum = "x-amz-content-sha256: " + sha256(bytes).hex();
    const std::string token = "x-amz-security-token: " + options_.session_token;
    curl_slist* lines = curl_slist_append(nullptr, sum.c_str());
    lines = curl_slist_append(lines, "content-type: application/zip");
    lines = curl_slist_append(lines, "expect:");
    if (!options_.session_token.empty()) lines = curl_slist_append(lines, token.c_str());
    std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(lines, curl_slist_free_all);
    std::string answer;
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_CUSTOMREQUEST, "PUT");
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(bytes.size()));
    set(CURLOPT_POSTFIELDS, bytes.data());
    set(CURLOPT_HTTPHEADER, headers.get());
    set(CURLOPT_AWS_SIGV4, signer.c_str());
    set(CURLOPT_USERNAME, options_.access_key.c_str());
    set(CURLOPT_PASSWORD, options_.secret_key.c_str());
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_CONNECTTIMEOUT, connect_timeout_s);
    set(CURLOPT_TIMEOUT, timeout_s);
    set(CURLOPT_WRITEFUNCTION, +[](char* data, std::size_t, std::size_t size, void* to) -> std::size_t {
      auto& text = *static_cast<std::string*>(to);
      text.append(data, std::min(size, answer_bytes_max - std::min(text.size(), answer_bytes_max)));
      return size;
    });
    set(CURLOPT_WRITEDATA, &answer);
    const CURLcode done = curl_easy_perform(curl.get());
    if (done != CURLE_OK) throw ArtifactFailure(fmt::format("{} cannot be stored: {}", where, curl_easy_strerror(done)));
    long status = 0;
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
    if (status / 100 != 2) throw ArtifactFailure(fmt::format("{} cannot be stored: {} {}", where, status, answer));
    return where;
  }

 private:
  std::string url_of(const std::string& key) const {
    if (!options_.endpoint.empty()) return fmt::format("{}/{}/{}", options_.endpoint, options_.bucket, key);
    return fmt::format("https://{}.s3.{}.amazonaws.com/{}", options_.bucket, options_.region, key);
  }

  S3Options options_;
};

}  // namespace

S3Options find_s3_options(std::string_view address, std::string endpoint) {
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
  const std::string profile = first_of({environment("AWS_PROFILE"), "default"});
  auto secrets = read_profile(file_of("AWS_SHARED_CREDENTIALS_FILE", "credentials"), profile);
  auto config =
      read_profile(file_of("AWS_CONFIG_FILE", "config"), profile == "default" ? "default" : "profile " + profile);
  const bool by_environment = !environment("AWS_ACCESS_KEY_ID").empty();
  out.access_key = by_environment ? environment("AWS_ACCESS_KEY_ID") : secrets["aws_access_key_id"];
  out.secret_key = by_environment ? environment("AWS_SECRET_ACCESS_KEY") : secrets["aws_secret_access_key"];
  out.session_token = by_environment ? environment("AWS_SESSION_TOKEN") : secrets["aws_session_token"];
  out.region = first_of({environment("AWS_REGION"), environment("AWS_DEFAULT_REGION"), config["region"], "us-east-1"});
  out.endpoint = first_of({std::move(endpoint), environment("AWS_ENDPOINT_URL_S3"), environment("AWS_ENDPOINT_URL")});
  while (out.endpoint.ends_with('/')) out.endpoint.pop_back();
  if (out.access_key.empty() || out.secret_key.empty())
    throw ArtifactFailure(
        fmt::format("there are no credentials for {}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile", address));
  return out;
}

std::unique_ptr<Artifacts> make_s3_artifacts(S3Options options) {
  return std::make_unique<S3Artifacts>(std::move(options));
}

}  // namespace pawl
