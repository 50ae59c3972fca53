#include "cli/settings_sections.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/expression.h"

namespace pawl {
namespace {

constexpr std::array<std::string_view, 1> programs_keys{"tenants"};
constexpr std::array<std::string_view, 3> access_keys{"folders", "env", "network"};
constexpr std::array<std::string_view, 1> secrets_keys{"limits"};
constexpr std::array<std::string_view, 3> limit_keys{"tenants", "workflows", "tools"};

bool is_absolute_path(std::string_view text) { return text.starts_with('/'); }

bool is_variable_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && !(text[0] >= '0' && text[0] <= '9') && std::ranges::all_of(text, fits);
}

struct ListOf {
  std::string_view key;
  bool (*is_item)(std::string_view text);
  std::string_view wanted;
};

std::vector<std::string> read_list(SourceReader& reader, const SourceNode& map, const ListOf& list) {
  std::vector<std::string> out;
  const auto* entry = find_entry(map, list.key);
  if (!entry || !reader.is_list(entry->value, list.key)) return out;
  if (entry->value.items.empty()) reader.refuse(entry->value.place, quote(list.key) + " is empty; remove it");
  for (const SourceNode& item : entry->value.items) {
    auto text = reader.text(item, list.key);
    if (text && !list.is_item(*text))
      reader.refuse(item.place, fmt::format("{} must be {}, not {}", quote(list.key), list.wanted, quote(*text)));
    if (text) out.push_back(std::move(*text));
  }
  return out;
}

// `acme:` with nothing behind it is a map without entries.
bool is_map_or_nothing(SourceReader& reader, const SourceNode& node, std::string_view name) {
  return node.kind == SourceNode::Kind::null || reader.is_map(node, name);
}

const SourceNode* section_map(SourceReader& reader, const SourceNode& section, std::string_view name,
                              std::span<const std::string_view> keys) {
  if (!reader.is_map(section, name)) return nullptr;
  const std::string owner = quote(name);
  reader.only_keys(section, {.owner = owner, .here = keys});
  const auto* entry = find_entry(section, keys[0]);
  return entry && reader.is_map(entry->value, keys[0]) ? &entry->value : nullptr;
}

void read_programs(SourceReader& reader, const SourceNode& section, InstallationRules& rules) {
  const SourceNode* tenants = section_map(reader, section, "programs", programs_keys);
  if (!tenants) return;
  for (const auto& [name, place, value] : tenants->entries) {
    if (!is_valid_name(name)) reader.refuse(place, quote(name) + " is no tenant's name: letters, digits, . _ and -");
    if (!is_map_or_nothing(reader, value, name)) continue;
    reader.only_keys(value, {.owner = "a tenant of `programs`", .here = access_keys});
    ProgramAccess& access = rules.programs[name];
    access.folders = read_list(reader, value, {"folders", is_absolute_path, "a list of absolute paths"});
    access.env = read_list(reader, value, {"env", is_variable_name, "a list of names of variables"});
    if (const auto* network = find_entry(value, "network"))
      access.network = reader.boolean(network->value, "network").value_or(false);
  }
}

void read_secrets(SourceReader& reader, const SourceNode& section, InstallationRules& rules) {
  const SourceNode* limits = section_map(reader, section, "secrets", secrets_keys);
  if (!limits) return;
  for (const auto& [name, place, value] : limits->entries) {
    if (!is_secret_name(name))
      reader.refuse(place, quote(name) + " is no secret's name: capitals, digits and _, beginning with a capital");
    if (!reader.is_map(value, name)) continue;
    reader.only_keys(value, {.owner = "a limit of a secret", .here = limit_keys});
    SecretLimit& limit = rules.secrets[name];
    limit.tenants = read_list(reader, value, {"tenants", is_valid_name, "a list of tenants' names"});
    limit.workflows = read_list(reader, value, {"workflows", is_valid_name, "a list of workflows' names"});
    limit.tools = read_list(reader, value, {"tools", is_valid_name, "a list of tools"});
  }
}

// Every text in quotes: that is YAML whatever it holds.
std::string print_list(std::string_view key, const std::vector<std::string>& texts) {
  if (texts.empty()) return {};
  std::string out;
  for (const std::string& text : texts) {
    if (!out.empty()) out += ", ";
    append_json_string(out, text);
  }
  return fmt::format("{}: [{}]", key, out);
}

std::string print_map(std::initializer_list<std::string> members) {
  std::string out;
  for (const std::string& member : members)
    if (!member.empty()) out += (out.empty() ? "" : ", ") + member;
  return "{" + out + "}";
}

std::string print_programs(const InstallationRules& rules) {
  std::string out;
  for (const auto& [tenant, access] : rules.programs)
    out += fmt::format("    {}: {}\n", tenant,
                       print_map({print_list("folders", access.folders), print_list("env", access.env),
                                  access.network ? "network: true" : ""}));
  return out.empty() ? out : "programs:\n  tenants:\n" + out;
}

std::string print_secrets(const InstallationRules& rules) {
  std::string out;
  for (const auto& [secret, limit] : rules.secrets)
    out += fmt::format("    {}: {}\n", secret,
                       print_map({print_list("tenants", limit.tenants), print_list("workflows", limit.workflows),
                                  print_list("tools", limit.tools)}));
  return out.empty() ? out : "secrets:\n  limits:\n" + out;
}

}  // namespace

const std::array<SettingSection, 2> setting_sections{
    SettingSection{"programs", read_programs, print_programs},
    SettingSection{"secrets", read_secrets, print_secrets},
};

}  // namespace pawl
