// Reads YAML (and JSON, which is YAML) into a SourceNode: every value with its place, nothing interpreted.
//
// Stricter than YAML on purpose: one document, text keys that come once, no merge keys, no tags. Safe on any bytes:
// every limit is checked before the memory is used.
#pragma once

#include <cstddef>
#include <expected>
#include <string_view>

#include "core/source.h"

namespace pawl {

struct YamlLimits {
  std::size_t bytes_max = 1 << 20;
  std::size_t depth_max = 32;
  std::size_t nodes_max = 100'000;  // counted after aliases are replaced by what they name
  std::size_t aliases_max = 100;
};

// Never throws for what the text holds. Columns count characters, not bytes.
std::expected<SourceNode, SourceError> read_yaml(std::string_view text, YamlLimits limits = {});

}  // namespace pawl
