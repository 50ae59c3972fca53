#include "notify/signatures.h"

#include <charconv>
#include <cstdlib>

#include "crypto/base64.h"
#include "crypto/hmac.h"

namespace pawl::notify {
namespace {

constexpr std::string_view key_prefix = "whsec_";
constexpr std::size_t key_bytes_min = 24, key_bytes_max = 64;
constexpr std::int64_t window_seconds = 300;
constexpr std::string_view blanks = " \t\r\n";

}  // namespace

std::expected<std::vector<std::string>, std::string> webhook_keys(std::string_view secret) {
  std::vector<std::string> keys;
  while (true) {
    auto begin = secret.find_first_not_of(blanks);
    if (begin == secret.npos) break;
    secret.remove_prefix(begin);
    std::string_view word = secret.substr(0, secret.find_first_of(blanks));
    secret.remove_prefix(word.size());
    if (!word.starts_with(key_prefix))
      return std::unexpected("a webhook's secret is whsec_ and the base64 of 24 to 64 bytes");
    auto key = base64_decode(word.substr(key_prefix.size()));
    if (!key || key->size() < key_bytes_min || key->size() > key_bytes_max)
      return std::unexpected("what follows whsec_ in a webhook's secret must be the base64 of 24 to 64 bytes");
    keys.push_back(*key);
  }
  if (keys.empty()) return std::unexpected("the webhook's secret is empty");
  return keys;
}

std::string webhook_signature(const std::vector<std::string>& keys, const WebhookMessage& message) {
  std::string text;
  text.reserve(message.id.size() + message.timestamp.size() + message.body.size() + 2);
  text.append(message.id).append(".").append(message.timestamp).append(".").append(message.body);
  std::string out;
  for (const std::string& key : keys) {
    if (!out.empty()) out += ' ';
    out += "v1," + base64_encode(keyed_hash(key, text).view());
  }
  return out;
}

bool is_timely(const SlackRequest& request, Instant now) {
  std::int64_t seconds = 0;
  const char* end = request.timestamp.data() + request.timestamp.size();
  auto [read, error] = std::from_chars(request.timestamp.data(), end, seconds);
  if (request.timestamp.empty() || error != std::errc{} || read != end) return false;
  if (!is_possible_time(seconds)) return false;
  return std::abs(now.ms / 1000 - seconds) <= window_seconds;
}

bool is_signed_with(const SlackRequest& request, std::string_view signing_secret) {
  if (signing_secret.empty()) return false;
  std::string text = "v0:";
  text.reserve(request.timestamp.size() + request.body.size() + 4);
  text.append(request.timestamp).append(":").append(request.body);
  return equal_in_constant_time("v0=" + keyed_hash(signing_secret, text).hex(), request.signature);
}

}  // namespace pawl::notify
