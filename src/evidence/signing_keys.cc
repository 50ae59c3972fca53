#include "evidence/signing_keys.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>

#include "core/checkpoint.h"
#include "evidence/whole_file.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;
using boost::json::array;
using boost::json::object;

[[noreturn]] void fail(const fs::path& path, std::string_view what) {
  throw KeyFileFailure(fmt::format("{}: {}", path.string(), what));
}

std::string print_keys(const SigningKeys& keys) {
  return canonical(object{{"keys", keys_object(keys.known)}, {"secret", keys.secret.seed_hex()}, {"v", 1}}) + "\n";
}

// Rotations of one key come one after the other: two at once would each follow the same key, and one of them be lost.
// Held by the file that is being replaced, so whoever waited looks whether it is still the one.
class RotationLock {
 public:
  explicit RotationLock(const fs::path& path) {
    for (;;) {
      file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (file_ < 0) fail(path, fmt::format("the signing key cannot be read: {}", std::strerror(errno)));
      while (::flock(file_, LOCK_EX) != 0)
        if (errno != EINTR) fail(path, fmt::format("cannot be locked: {}", std::strerror(errno)));
      struct stat locked {
      }, present{};
      if (::fstat(file_, &locked) == 0 && ::stat(path.c_str(), &present) == 0 && locked.st_ino == present.st_ino &&
          locked.st_dev == present.st_dev)
        return;
      ::close(file_);
    }
  }
  ~RotationLock() { ::close(file_); }
  RotationLock(const RotationLock&) = delete;
  RotationLock& operator=(const RotationLock&) = delete;

 private:
  int file_ = -1;
};

KnownKey read_known(const object& in) {
  auto text = [&](std::string_view name) -> std::string {
    const Json* value = in.if_contains(name);
    return value && value->is_string() ? std::string(value->get_string()) : std::string();
  };
  auto moment = [&](std::string_view name, Instant otherwise) -> Instant {
    const Json* value = in.if_contains(name);
    if (!value || value->is_null()) return otherwise;
    auto at = value->is_string() ? parse_time(value->get_string()) : std::nullopt;
    if (!at) throw std::runtime_error("a key with a time that is none");
    return *at;
  };
  auto key = PublicKey::parse(text("public_key"));
  if (!key) throw std::runtime_error("a public key is 64 digits of hex");
  KnownKey out{*key, text("previous"), Signature::parse(text("signature")), moment("from", {}),
               moment("until", end_of_time)};
  if (out.id() != text("id")) throw std::runtime_error("a key's id is not the fingerprint of its public key");
  return out;
}

}  // namespace

array keys_object(const std::vector<KnownKey>& keys) {
  array out;
  for (const KnownKey& key : keys)
    out.push_back(object{{"id", key.id()},
                         {"public_key", key.public_key.hex()},
                         {"previous", key.previous.empty() ? Json(nullptr) : Json(key.previous)},
                         {"signature", key.voucher ? Json(key.voucher->hex()) : Json(nullptr)},
                         {"from", print_time(key.from)},
                         {"until", key.until == end_of_time ? Json(nullptr) : Json(print_time(key.until))}});
  return out;
}

std::expected<std::vector<KnownKey>, std::string> read_keys_object(const Json& value) {
  if (!value.is_array() || value.get_array().empty()) return std::unexpected("there are no keys");
  std::vector<KnownKey> out;
  try {
    for (const Json& each : value.get_array()) {
      if (!each.is_object()) return std::unexpected("a key must be an object");
      out.push_back(read_known(each.get_object()));
    }
  } catch (const std::runtime_error& error) {
    return std::unexpected(error.what());
  }
  return out;
}

std::expected<void, std::string> check_keys(const std::vector<KnownKey>& keys) {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const KnownKey& key = keys[i];
    if (i == 0) {
      if (!key.previous.empty()) return std::unexpected(fmt::format("{} follows a key that is not listed", key.id()));
      continue;
    }
    const KnownKey& before = keys[i - 1];
    if (key.previous != before.id())
      return std::unexpected(fmt::format("{} does not follow {}", key.id(), before.id()));
    if (!key.voucher ||
        !verify_signature(before.public_key, key_statement_of(key.public_key.hex(), key.previous), *key.voucher))
      return std::unexpected(fmt::format("{} is not signed by the key before it", key.id()));
  }
  return {};
}

SigningKeys read_signing_keys(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(path, fmt::format("the signing key cannot be read: {}", std::strerror(errno)));
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0 && (status.st_mode & 077) != 0)
    fail(path, "others may read the signing key; chmod 600 it, and rotate it if they did");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto value = parse_json(text);
  const object* file = value && value->is_object() ? &value->get_object() : nullptr;
  const Json* secret = file ? file->if_contains("secret") : nullptr;
  const Json* keys = file ? file->if_contains("keys") : nullptr;
  auto key = secret && secret->is_string() ? PrivateKey::parse(secret->get_string()) : std::nullopt;
  if (!key || !keys) fail(path, "this is no signing key; restore it from a backup");
  auto known = read_keys_object(*keys);
  if (!known) fail(path, known.error());
  if (auto checked = check_keys(*known); !checked) fail(path, checked.error());
  if (known->back().public_key != key->public_key()) fail(path, "its secret does not belong to its last key");
  return {*key, std::move(*known)};
}

SigningKeys open_signing_keys(const fs::path& path, Instant now) {
  if (!fs::exists(path)) {
    const PrivateKey secret = PrivateKey::make();
    try {
      // Whoever was faster keeps its place, and its key is read below.
      WholeFile(path, print_keys({secret, {{secret.public_key(), {}, {}, now}}})).put();
    } catch (const std::system_error& error) {
      fail(path, fmt::format("cannot be made: {}", error.code().message()));
    }
  }
  return read_signing_keys(path);
}

SigningKeys rotate_signing_key(const fs::path& path, Instant now) {
  const RotationLock lock(path);
  SigningKeys old = read_signing_keys(path);
  SigningKeys next{PrivateKey::make(), old.known};
  next.known.back().until = now;
  const PublicKey& key = next.secret.public_key();
  const std::string previous = old.current().id();
  next.known.push_back({key, previous, old.secret.sign(key_statement_of(key.hex(), previous)), now});
  try {
    WholeFile(path, print_keys(next)).replace();
  } catch (const std::system_error& error) {
    fail(path, fmt::format("cannot be replaced: {}", error.code().message()));
  }
  return next;
}

}  // namespace pawl
