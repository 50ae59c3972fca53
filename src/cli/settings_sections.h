// The sections of the settings file that say what tenants may use. They are too deep for a flag or a variable.
//
//   programs: {tenants: {acme: {folders: [/srv/acme], env: [LANG], network: false}}}
//   secrets:  {limits: {GITHUB_TOKEN: {tenants: [acme], workflows: [triage], tools: [github.labels]}}}
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "core/installation_rules.h"
#include "core/source_reader.h"

namespace pawl {

struct SettingSection {
  std::string_view name;
  void (*read)(SourceReader& reader, const SourceNode& node, InstallationRules& rules);
  // As the file has it; empty when it says nothing.
  std::string (*print)(const InstallationRules& rules);
};

extern const std::array<SettingSection, 2> setting_sections;

}  // namespace pawl
