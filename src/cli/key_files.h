// The two key files of an installation, and whether they belong to its journal. API keys are checked with `secret`;
// checkpoints and evidence are signed with the signing key. A journal that lost one of them must not get another in its
// place without anybody noticing.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/settings.h"
#include "core/tenant.h"

namespace pawl {

inline constexpr std::string_view secret_file = "secret";
inline constexpr std::string_view admin_key_file = "admin.key";

struct KeyFiles {
  std::filesystem::path secret;
  std::filesystem::path signing_key;
  std::filesystem::path admin_key;  // if it is there, it shows whether the secret is the right one
};
KeyFiles key_files_of(const EffectiveSettings& settings);
KeyFiles key_files_in(const std::filesystem::path& folder);

// What is missing, or belongs to another journal, and what to do about it; nothing when all fits. A file that is not
// needed yet may be missing.
std::optional<std::string> secret_problem(const std::vector<Tenant>& tenants, const KeyFiles& files);
std::optional<std::string> signing_key_problem(const std::vector<Tenant>& tenants,
                                               const std::filesystem::path& signing_key);
// Keys of an installation whose journal is not there: its database is another one, or is lost. The first start makes
// the signing key and the admin's key only when the first tenant is in the journal.
std::optional<std::string> journal_problem(const std::vector<Tenant>& tenants, const EffectiveSettings& settings);
std::optional<std::string> key_files_problem(const std::vector<Tenant>& tenants, const KeyFiles& files);

// The installation's secret; a new one when there is none.
std::string open_secret(const std::filesystem::path& path);

}  // namespace pawl
