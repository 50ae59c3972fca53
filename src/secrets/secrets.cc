#include "secrets/secrets.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

#include "core/characters.h"
#include "core/expression.h"
#include "core/id.h"
#include "secrets/command.h"

namespace pawl {
namespace {

constexpr std::string_view prefix = "PAWL_SECRET_";

// What is printed or stored with an editor ends with a line's end, which is not part of it.
std::string without_line_end(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

// Secrets travel in JSON, headers and environments.
std::expected<std::string, std::string> checked(std::string value) {
  if (value.empty()) return std::unexpected("is empty");
  if (value.size() > secret_bytes_max) return std::unexpected(fmt::format("is over {} bytes", secret_bytes_max));
  if (value.contains('\0') || find_invalid_utf8(value)) return std::unexpected("is not text (UTF-8)");
  return value;
}

// Lower-case words with single dashes between them: these, in capitals and with underscores, are all different, and
// none of them holds the two underscores that come before the secret's name.
bool is_spelled_by_variables(std::string_view tenant) {
  bool after_word = false;
  for (const char c : tenant) {
    const bool is_word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!is_word && !(c == '-' && after_word)) return false;
    after_word = is_word;
  }
  return after_word;
}

}  // namespace

SecretVariables take_secret_variables() {
  SecretVariables out;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (!text.starts_with(prefix) || equals == text.npos) continue;
    out.emplace(text.substr(0, equals), text.substr(equals + 1));
    // In place: this is the memory that /proc/PID/environ shows.
    ::explicit_bzero(*entry + equals + 1, text.size() - equals - 1);
  }
  for (const auto& [name, value] : out) ::unsetenv(name.c_str());
  return out;
}

std::optional<std::string> secret_variable(std::string_view tenant, std::string_view name) {
  if (!is_secret_name(name)) return std::nullopt;
  if (tenant == "default") return name.contains("__") ? std::nullopt : std::optional(fmt::format("{}{}", prefix, name));
  if (!is_spelled_by_variables(tenant)) return std::nullopt;
  std::string upper(tenant);
  for (char& c : upper) c = c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return fmt::format("{}{}__{}", prefix, upper, name);
}

Secrets::Answer Secrets::ask_command(const std::string& tenant, const std::string& name) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find({tenant, name});
    if (found != kept_.end() && std::chrono::steady_clock::now() < found->second.until) return found->second.value;
  }
  auto said = ask_program({sources_.command, tenant, name}, sources_.command_time_max, secret_bytes_max + 2);
  if (!said) return said;
  auto value = checked(without_line_end(std::move(*said)));
  if (!value) return std::unexpected("printed what " + value.error());
  const std::lock_guard lock(mutex_);
  kept_[{tenant, name}] = {*value, std::chrono::steady_clock::now() + sources_.keep};
  return value;
}

Secrets::Answer Secrets::read_folder(const std::string& tenant, const std::string& name) const {
  const auto path = sources_.folder / tenant / name;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) return std::unexpected("has none");
  if (!std::filesystem::is_regular_file(status)) return std::unexpected("is not a file");
  std::ifstream in(path, std::ios::binary);
  if (!in) return std::unexpected(fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string text(secret_bytes_max + 3, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  return checked(without_line_end(std::move(text)));
}

Secrets::Answer Secrets::read_variable(const std::string& tenant, const std::string& name) const {
  const auto variable = secret_variable(tenant, name);
  if (!variable) return std::unexpected("cannot spell it");
  const auto found = sources_.variables.find(*variable);
  if (found == sources_.variables.end()) return std::unexpected("has no " + *variable);
  return checked(found->second);
}

std::expected<std::string, NoSecret> Secrets::look(std::string_view tenant, std::string_view name) {
  if (!is_secret_name(name))
    return std::unexpected(NoSecret{"a secret's name is capitals, digits and _, and begins with a capital"});
  // It becomes part of a path, and an argument.
  if (!is_valid_name(tenant)) return std::unexpected(NoSecret{"that is no tenant's name"});
  const std::string of(tenant), what(name);
  std::vector<std::string> tried;
  bool may_pass = false;
  if (!sources_.command.empty()) {
    auto value = ask_command(of, what);
    if (value) return std::move(*value);
    tried.push_back("the program " + value.error());
    may_pass = true;
  }
  if (!sources_.folder.empty()) {
    auto value = read_folder(of, what);
    if (value) return std::move(*value);
    tried.push_back(fmt::format("{}/{}/{} {}", sources_.folder.string(), of, what, value.error()));
  }
  auto value = read_variable(of, what);
  if (value) return std::move(*value);
  tried.push_back("the environment " + value.error());
  return std::unexpected(
      NoSecret{fmt::format("there is no secret {} of tenant {}: {}", what, of, fmt::join(tried, "; ")), may_pass});
}

std::expected<std::string, std::string> Secrets::find(std::string_view tenant, std::string_view name) {
  auto value = look(tenant, name);
  if (!value) return std::unexpected(std::move(value.error().message));
  return std::move(*value);
}

}  // namespace pawl
