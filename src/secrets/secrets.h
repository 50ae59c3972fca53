// Where ${{ secrets.NAME }} comes from. A secret belongs to a tenant and is asked for at the moment of its use; three
// sources are tried, in this order:
//
//   a program      called with the tenant's name and the secret's; the value is what it prints
//   a folder       <folder>/<tenant>/<NAME>
//   the environment  PAWL_SECRET_<NAME> of the tenant `default`, PAWL_SECRET_<TENANT>__<NAME> of any other
//
// No two tenants share a spelling in any of them, so that none reads what is another's: a tenant whose name the
// environment cannot spell has no secrets there.
#pragma once

#include <chrono>
#include <expected>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace pawl {

inline constexpr std::size_t secret_bytes_max = 64 * 1024;

using SecretVariables = std::map<std::string, std::string, std::less<>>;

// Every PAWL_SECRET_... of this process, which has none of them afterwards: neither a child nor whoever may read its
// environment through /proc sees them any more. Once, before there are threads.
SecretVariables take_secret_variables();

struct SecretSources {
  std::string command = {};           // a program; empty: none
  std::filesystem::path folder = {};  // empty: none
  SecretVariables variables = {};
  std::chrono::milliseconds command_time_max = std::chrono::seconds(10);
  // What the program said is good for this long: a run of many steps asks a vault once, a changed secret is soon known.
  std::chrono::milliseconds keep = std::chrono::seconds(30);
};

struct NoSecret {
  std::string message;        // which sources were tried, and what each lacks; never a value
  bool may_pass = false;      // the program failed: it need not be so the next time
  bool is_forbidden = false;  // there may be one, but not for this use
};

class Secrets {
 public:
  explicit Secrets(SecretSources sources = {}) : sources_(std::move(sources)) {}

  // Blocks for as long as the program takes. Called from many threads at once. `tenant` is its name.
  std::expected<std::string, NoSecret> look(std::string_view tenant, std::string_view name);
  // The same, for those who need no more than the words.
  std::expected<std::string, std::string> find(std::string_view tenant, std::string_view name);

 private:
  struct Kept {
    std::string value;
    std::chrono::steady_clock::time_point until;
  };
  using Answer = std::expected<std::string, std::string>;
  Answer ask_command(const std::string& tenant, const std::string& name);
  Answer read_folder(const std::string& tenant, const std::string& name) const;
  Answer read_variable(const std::string& tenant, const std::string& name) const;

  const SecretSources sources_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, Kept> kept_;
};

// The variable that holds the secret; nothing when no variable does without being another's too.
std::optional<std::string> secret_variable(std::string_view tenant, std::string_view name);

}  // namespace pawl
