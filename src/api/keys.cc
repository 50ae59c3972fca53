#include "api/keys.h"

#include <array>
#include <charconv>
#include <vector>

#include "crypto/hmac.h"
#include "crypto/sha256.h"

namespace pawl::api {
namespace {

constexpr std::string_view prefix = "pawl_";
constexpr std::string_view lease_prefix = "pawl_lease_";
constexpr char lease_separator = '~';  // in no id and no name
constexpr std::size_t id_chars = 26;
constexpr std::size_t secret_bytes = 20;
constexpr std::size_t secret_chars = 32;
constexpr std::size_t checksum_chars = 6;
constexpr std::size_t secret_id_chars = 16;
constexpr std::size_t key_chars = prefix.size() + id_chars + 1 + secret_chars + checksum_chars;

// Crockford's, as ids use it: five bits a character.
constexpr std::string_view alphabet = "0123456789abcdefghjkmnpqrstvwxyz";

std::string base32(std::string_view bytes, std::size_t chars) {
  std::string out;
  std::uint32_t bits = 0;
  int held = 0;
  for (unsigned char byte : bytes) {
    bits = bits << 8 | byte;
    held += 8;
    while (held >= 5 && out.size() < chars) {
      held -= 5;
      out += alphabet[bits >> held & 31];
    }
  }
  return out;
}

std::string checksum(std::string_view id_and_secret) { return base32(sha256(id_and_secret).view(), checksum_chars); }

}  // namespace

KeyRing::KeyRing(std::string secret) : secret_(std::move(secret)) {}

std::string KeyRing::secret_id() const { return keyed_hash(secret_, "secret id").hex().substr(0, secret_id_chars); }

NewKey KeyRing::make(Instant now) const {
  std::string random = random_bytes(10);
  IdBits bits;
  bits.high = static_cast<std::uint64_t>(now.ms) << 16 | 0x7000 | (static_cast<unsigned char>(random[0]) << 4 & 0xff0) |
              (static_cast<unsigned char>(random[1]) & 0xf);
  for (std::size_t i = 2; i < random.size(); ++i) bits.low = bits.low << 8 | static_cast<unsigned char>(random[i]);
  bits.low = bits.low >> 2 | 0x8000000000000000ULL;
  return make(KeyId{bits});
}

NewKey KeyRing::make(std::string_view request_name, std::string_view content) const {
  auto half = [&](std::string_view what, std::string_view text) {
    auto hash = keyed_hash(secret_, std::string(what) + "\n" + std::string(text));
    std::uint64_t bits = 0;
    for (char byte : hash.view().substr(0, 8)) bits = bits << 8 | static_cast<unsigned char>(byte);
    return bits;
  };
  return make(KeyId{{half("key by request", request_name), half("key by content", content)}});
}

NewKey KeyRing::make(KeyId id) const {
  std::string secret = base32(random_bytes(secret_bytes), secret_chars);
  std::string body = id.str().substr(KeyTag::prefix.size() + 1) + "_" + secret;
  return {id, std::string(prefix) + body + checksum(body), keyed_hash(secret_, secret).hex(), secret_id()};
}

std::string KeyRing::derive_secret(std::string_view purpose) const {
  return std::string(keyed_hash(secret_, "secret for\n" + std::string(purpose)).view());
}

std::string KeyRing::lease_key(TenantId tenant, const LeaseBinding& lease) const {
  std::string text(lease_prefix);
  for (const std::string& part : {tenant.str(), lease.run.str(), lease.step.str(), std::to_string(lease.token),
                                  is_valid_name(lease.task) ? lease.task : std::string()})
    text += part + lease_separator;
  return text + keyed_hash(secret_, "lease key\n" + text).hex();
}

// Whether the lease is still good is not for this to know.
std::optional<Principal> KeyRing::authenticate_lease(std::string_view text) const {
  const std::size_t end = text.rfind(lease_separator);
  if (end == text.npos) return std::nullopt;
  const std::string signed_part(text.substr(0, end + 1));
  if (!equal_in_constant_time(keyed_hash(secret_, "lease key\n" + signed_part).hex(), text.substr(end + 1)))
    return std::nullopt;
  std::vector<std::string> parts;
  std::string_view rest = std::string_view(signed_part).substr(lease_prefix.size());
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(lease_separator));
    parts.emplace_back(part);
    rest.remove_prefix(part.size() + 1);
  }
  if (parts.size() != 5) return std::nullopt;
  auto tenant = TenantId::parse(parts[0]);
  auto run = RunId::parse(parts[1]);
  std::uint64_t token = 0;
  const char* last = parts[3].data() + parts[3].size();
  if (!tenant || !run || std::from_chars(parts[3].data(), last, token).ptr != last) return std::nullopt;
  std::shared_lock lock(mutex_);
  auto name = tenants_.find(*tenant);
  if (name == tenants_.end()) return std::nullopt;
  return Principal{.tenant = *tenant,
                   .tenant_name = name->second.name,
                   .key = {},
                   .key_name = "lease",
                   .role = Role::worker,
                   .lease = LeaseBinding{*run, StepId{parts[2]}, token, parts[4]},
                   .suspended = name->second.suspended};
}

void KeyRing::update(const Tenant& tenant) {
  {
    std::unique_lock lock(mutex_);
    tenants_[tenant.id] = {tenant.name, tenant.suspended.has_value()};
    for (const auto& [id, key] : tenant.keys)
      keys_[id] = {{tenant.id, tenant.name, id, key.name, key.role, {}, tenant.suspended.has_value()},
                   key.secret_hash,
                   key.expires_at};
  }
  std::lock_guard lock(on_change_mutex_);
  if (on_change_) on_change_();
}

void KeyRing::on_change(std::function<void()> call) {
  std::lock_guard lock(on_change_mutex_);
  on_change_ = std::move(call);
}

std::optional<Instant> KeyRing::good_until(KeyId key) const {
  std::shared_lock lock(mutex_);
  auto found = keys_.find(key);
  if (found == keys_.end()) return std::nullopt;
  return found->second.expires_at;
}

bool KeyRing::is_good(KeyId key, Instant now) const {
  std::shared_lock lock(mutex_);
  auto found = keys_.find(key);
  return found != keys_.end() && found->second.expires_at > now && !found->second.principal.suspended;
}

std::optional<Principal> KeyRing::authenticate(std::string_view text, Instant now) const {
  if (text.starts_with(lease_prefix)) return authenticate_lease(text);
  if (text.size() != key_chars || !text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  std::string_view body = text.substr(0, id_chars + 1 + secret_chars);
  if (body[id_chars] != '_' || checksum(body) != text.substr(body.size())) return std::nullopt;
  auto id = KeyId::parse(std::string(KeyTag::prefix) + "_" + std::string(body.substr(0, id_chars)));
  if (!id) return std::nullopt;
  std::string hash = keyed_hash(secret_, body.substr(id_chars + 1)).hex();
  std::shared_lock lock(mutex_);
  auto found = keys_.find(*id);
  if (found == keys_.end() || !equal_in_constant_time(found->second.secret_hash, hash) ||
      found->second.expires_at <= now)
    return std::nullopt;
  return found->second.principal;
}

}  // namespace pawl::api
