#include "cli/key_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>

#include "api/keys.h"
#include "cli/folder.h"
#include "crypto/hmac.h"
#include "evidence/signing_keys.h"
#include "evidence/whole_file.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t secret_bytes = 32;

constexpr std::string_view where_to_find =
    "restore the whole backup (pawl restore), or copy the file from another server of this installation";

std::string content_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::size_t good_keys(const std::vector<Tenant>& tenants) {
  std::size_t count = 0;
  for (const Tenant& tenant : tenants)
    count += static_cast<std::size_t>(
        std::ranges::count_if(tenant.keys, [](const auto& each) { return !each.second.revoked; }));
  return count;
}

// Keys from before they named their secret say nothing by themselves. The first admin's key is in a file as well, and
// its hash can be made again.
bool fits_admin_key(const std::vector<Tenant>& tenants, const api::KeyRing& ring, const fs::path& admin_key) {
  constexpr std::size_t id_begin = std::string_view("pawl_").size(), id_chars = 26;
  std::string text = content_of(admin_key);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.size() < id_begin + id_chars) return true;
  auto id = KeyId::parse(std::string(KeyTag::prefix) + "_" + text.substr(id_begin, id_chars));
  const bool is_known =
      id && std::ranges::any_of(tenants, [&](const Tenant& tenant) { return tenant.keys.contains(*id); });
  return !is_known || ring.authenticate(text, Instant{});
}

}  // namespace

KeyFiles key_files_of(const EffectiveSettings& settings) {
  KeyFiles out = key_files_in(settings.folder);
  if (!settings.values.signing_key.empty()) out.signing_key = settings.values.signing_key;
  return out;
}

KeyFiles key_files_in(const fs::path& folder) {
  return {folder / secret_file, folder / signing_key_file, folder / admin_key_file};
}

std::optional<std::string> secret_problem(const std::vector<Tenant>& tenants, const KeyFiles& files) {
  const std::size_t keys = good_keys(tenants);
  if (keys == 0) return std::nullopt;
  const std::string secret = content_of(files.secret);
  if (secret.empty())
    return fmt::format(
        "{} is missing: the {} API keys of this journal were made with it, and no other accepts them; {}",
        files.secret.string(), keys, where_to_find);
  api::KeyRing ring(secret);
  bool any_named = false, any_fits = false;
  for (const Tenant& tenant : tenants) {
    ring.update(tenant);
    for (const auto& [id, key] : tenant.keys) {
      any_named = any_named || !key.secret_id.empty();
      any_fits = any_fits || key.secret_id == ring.secret_id();
    }
  }
  if (any_fits || (!any_named && fits_admin_key(tenants, ring, files.admin_key))) return std::nullopt;
  return fmt::format("{} is not the one that the API keys of this journal were made with; {}", files.secret.string(),
                     where_to_find);
}

std::optional<std::string> signing_key_problem(const std::vector<Tenant>& tenants, const fs::path& signing_key) {
  auto signs = std::ranges::find_if(tenants, [](const Tenant& tenant) { return !tenant.signing_key.empty(); });
  if (signs == tenants.end()) return std::nullopt;
  std::error_code error;
  if (!fs::exists(signing_key, error))
    return fmt::format(
        "{} is missing: checkpoints and evidence of this journal are signed by {}, and it accepts no key that this one "
        "did not sign; {}",
        signing_key.string(), signs->signing_key, where_to_find);
  const SigningKeys keys = read_signing_keys(signing_key);
  for (const Tenant& tenant : tenants)
    if (!tenant.signing_key.empty() &&
        std::ranges::find(keys.known, tenant.signing_key, &KnownKey::id) == keys.known.end())
      return fmt::format("{} holds {}, and the journal of tenant {} is signed by {}, which it does not know; {}",
                         signing_key.string(), keys.current().id(), tenant.name, tenant.signing_key, where_to_find);
  return std::nullopt;
}

std::optional<std::string> journal_problem(const std::vector<Tenant>& tenants, const EffectiveSettings& settings) {
  const KeyFiles own = key_files_in(settings.folder);
  const bool has_keys =
      !content_of(own.secret).empty() && (!content_of(own.signing_key).empty() || !content_of(own.admin_key).empty());
  if (!tenants.empty() || !has_keys) return std::nullopt;
  if (settings.values.store.empty())
    return fmt::format(
        "{} has the keys of an installation, and its journal is missing: restore pawl.db, or name the database with "
        "--store; for a new installation use an empty folder",
        settings.folder.string());
  return fmt::format(
      "{} has the keys of an installation, and {} is empty: name the database that has its journal, or restore the "
      "backup (pawl restore --store); for a new installation use an empty folder",
      settings.folder.string(), without_password(settings.values.store));
}

std::optional<std::string> key_files_problem(const std::vector<Tenant>& tenants, const KeyFiles& files) try {
  auto secret = secret_problem(tenants, files);
  auto signing_key = signing_key_problem(tenants, files.signing_key);
  if (secret && signing_key) return *secret + ". " + *signing_key;
  return secret ? secret : signing_key;
} catch (const KeyFileFailure& failure) {
  throw Stop(exit_store_failure, failure.what());
}

std::string open_secret(const fs::path& path) {
  std::string secret = content_of(path);
  if (secret.empty()) try {
      WholeFile(path, random_bytes(secret_bytes)).replace();
      secret = content_of(path);
    } catch (const std::system_error& error) {
      throw Stop(exit_store_failure, error.what());
    }
  if (secret.size() != secret_bytes)
    throw Stop(exit_store_failure,
               fmt::format("{} does not hold {} bytes: restore it from a backup", path.string(), secret_bytes));
  return secret;
}

}  // namespace pawl
