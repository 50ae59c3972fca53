// A bundle's zip: a few named parts, stored as they are, in one order, with one time. The same parts always give the
// same bytes, and bytes that hold anything beside the parts are told apart.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace pawl {

struct ArchivePart {
  std::string name;
  std::string bytes;
};

inline constexpr std::size_t archive_parts_max = 64;
inline constexpr std::size_t archive_bytes_max = std::size_t{4} << 30;

// Throws std::runtime_error when the parts are too large for a zip.
std::string write_archive(const std::vector<ArchivePart>& parts);
// In the order they stand in. The reason says what is wrong with the archive, and where.
std::expected<std::vector<ArchivePart>, std::string> read_archive(std::string_view bytes);

}  // namespace pawl
