#include "evidence/archive.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>

namespace pawl {
namespace {

// A zip's first day: it knows no earlier one.
constexpr zip_uint16_t fixed_date = (1 << 5) | 1, fixed_time = 0;
// An ordinary file with mode 0644, in the words of Unix.
constexpr zip_uint32_t part_attributes = 0100644U << 16;
// What a zip of stored parts needs beside their names and bytes.
constexpr std::size_t local_header_bytes = 30, directory_entry_bytes = 46, directory_end_bytes = 22;

struct Discard {
  void operator()(zip_t* zip) const { zip_discard(zip); }
  void operator()(zip_source_t* source) const { zip_source_free(source); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Zip = std::unique_ptr<zip_t, Discard>;
using Source = std::unique_ptr<zip_source_t, Discard>;
using File = std::unique_ptr<zip_file_t, Discard>;

std::string message_of(zip_error_t& error) {
  std::string out = zip_error_strerror(&error);
  zip_error_fini(&error);
  return out;
}

[[noreturn]] void fail(zip_t* zip) {
  throw std::runtime_error(fmt::format("the archive cannot be written: {}", zip_strerror(zip)));
}

void add_part(zip_t* zip, const ArchivePart& part) {
  zip_source_t* source = zip_source_buffer(zip, part.bytes.data(), part.bytes.size(), 0);
  if (!source) fail(zip);
  const zip_int64_t index = zip_file_add(zip, part.name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    zip_source_free(source);
    fail(zip);
  }
  const auto place = static_cast<zip_uint64_t>(index);
  if (zip_set_file_compression(zip, place, ZIP_CM_STORE, 0) != 0 ||
      zip_file_set_dostime(zip, place, fixed_time, fixed_date, 0) != 0 ||
      zip_file_set_external_attributes(zip, place, 0, ZIP_OPSYS_UNIX, part_attributes) != 0)
    fail(zip);
}

std::string read_all(zip_source_t* source) {
  zip_stat_t status;
  if (zip_source_stat(source, &status) != 0 || zip_source_open(source) != 0)
    throw std::runtime_error("the archive cannot be read back");
  std::string out(status.size, '\0');
  const zip_int64_t got = zip_source_read(source, out.data(), out.size());
  zip_source_close(source);
  if (got != static_cast<zip_int64_t>(out.size())) throw std::runtime_error("the archive cannot be read back");
  return out;
}

std::expected<ArchivePart, std::string> read_part(zip_t* zip, zip_uint64_t index) {
  zip_stat_t status;
  if (zip_stat_index(zip, index, 0, &status) != 0 || !(status.valid & ZIP_STAT_NAME) || !(status.valid & ZIP_STAT_SIZE))
    return std::unexpected(fmt::format("entry {} of the archive cannot be read: {}", index + 1, zip_strerror(zip)));
  ArchivePart out{status.name, {}};
  if (status.comp_method != ZIP_CM_STORE || status.encryption_method != ZIP_EM_NONE)
    return std::unexpected(
        fmt::format("{} is compressed or encrypted; a bundle's parts are stored as they are", out.name));
  File file(zip_fopen_index(zip, index, 0));
  if (!file || status.size > archive_bytes_max) return std::unexpected(fmt::format("{} cannot be read", out.name));
  out.bytes.resize(status.size);
  // Reading to the end also checks the sum that the zip itself has of the part.
  char beyond = 0;
  if (zip_fread(file.get(), out.bytes.data(), status.size) != static_cast<zip_int64_t>(status.size) ||
      zip_fread(file.get(), &beyond, 1) != 0)
    return std::unexpected(fmt::format("{} cannot be read: {}", out.name, zip_file_strerror(file.get())));
  return out;
}

zip_uint32_t number_at(std::string_view bytes, std::size_t at) {
  zip_uint32_t out = 0;
  for (std::size_t i = 4; i-- > 0;) out = out << 8 | static_cast<unsigned char>(bytes[at + i]);
  return out;
}

// A zip describes each part twice, before it and in the directory at the end: version, flags, method, time, sum, sizes.
// Parts follow each other without a gap, so the places are known.
bool headers_agree(std::string_view bytes, const std::vector<ArchivePart>& parts) {
  constexpr std::size_t described_bytes = 26, described_at = 4, described_at_in_directory = 6, place_at = 42;
  std::size_t at = 0, entry_at = bytes.size() - directory_end_bytes;
  for (const ArchivePart& part : parts) entry_at -= directory_entry_bytes + part.name.size();
  for (const ArchivePart& part : parts) {
    const std::string_view header = bytes.substr(at), entry = bytes.substr(entry_at);
    if (number_at(entry, place_at) != at || !entry.substr(directory_entry_bytes).starts_with(part.name) ||
        !header.substr(local_header_bytes).starts_with(part.name) ||
        header.substr(described_at, described_bytes) != entry.substr(described_at_in_directory, described_bytes))
      return false;
    at += local_header_bytes + part.name.size() + part.bytes.size();
    entry_at += directory_entry_bytes + part.name.size();
  }
  return true;
}

// The rest of what the directory says of a part: its disk and internal attributes, which are 0, and those that a
// program that unpacks it may follow, for example to make a link of it.
bool are_ordinary_files(std::string_view bytes, const std::vector<ArchivePart>& parts) {
  constexpr std::size_t disk_at = 34, attributes_at = 38;
  std::size_t entry_at = bytes.size() - directory_end_bytes;
  for (const ArchivePart& part : parts) entry_at -= directory_entry_bytes + part.name.size();
  return std::ranges::all_of(parts, [&](const ArchivePart& part) {
    const std::string_view entry = bytes.substr(entry_at);
    entry_at += directory_entry_bytes + part.name.size();
    return number_at(entry, disk_at) == 0 && number_at(entry, attributes_at) == part_attributes;
  });
}

}  // namespace

std::string write_archive(const std::vector<ArchivePart>& parts) {
  std::size_t total = 0;
  for (const ArchivePart& part : parts) total += part.bytes.size();
  if (total > archive_bytes_max - (1 << 20)) throw std::runtime_error("the run is too large for one archive");
  zip_error_t error;
  zip_error_init(&error);
  Source source(zip_source_buffer_create(nullptr, 0, 0, &error));
  if (!source) throw std::runtime_error("the archive cannot be made: " + message_of(error));
  zip_t* opened = zip_open_from_source(source.get(), ZIP_TRUNCATE, &error);
  if (!opened) throw std::runtime_error("the archive cannot be made: " + message_of(error));
  Zip zip(opened);
  // Closing the archive would free its source, which is read afterwards.
  zip_source_keep(source.get());
  for (const ArchivePart& part : parts) add_part(zip.get(), part);
  if (zip_close(zip.get()) != 0) fail(zip.get());
  (void)zip.release();
  return read_all(source.get());
}

std::expected<std::vector<ArchivePart>, std::string> read_archive(std::string_view bytes) {
  if (bytes.empty()) return std::unexpected("the file is empty");
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (!source) return std::unexpected("the archive cannot be read: " + message_of(error));
  zip_t* opened = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
  if (!opened) {
    zip_source_free(source);
    // An archive lists its parts at its end, so one that was cut off cannot be opened at all.
    constexpr std::string_view first_part = "PK\x03\x04", end_of_list = "PK\x05\x06";
    if (bytes.starts_with(first_part) && bytes.find(end_of_list) == bytes.npos)
      return std::unexpected(
          fmt::format("it was cut off: {} bytes of a zip archive are here, and its end is missing", bytes.size()));
    return std::unexpected("this is no zip archive, or a damaged one: " + message_of(error));
  }
  Zip zip(opened);
  const zip_int64_t count = zip_get_num_entries(zip.get(), 0);
  if (count < 0 || count > static_cast<zip_int64_t>(archive_parts_max))
    return std::unexpected(
        fmt::format("the archive has {} entries; a bundle has at most {}", count, archive_parts_max));
  std::vector<ArchivePart> parts;
  std::set<std::string> names;
  std::size_t expected = directory_end_bytes;
  for (zip_int64_t i = 0; i < count; ++i) {
    auto part = read_part(zip.get(), static_cast<zip_uint64_t>(i));
    if (!part) return std::unexpected(std::move(part.error()));
    if (!names.insert(part->name).second) return std::unexpected(fmt::format("{} is in the archive twice", part->name));
    expected += local_header_bytes + directory_entry_bytes + 2 * part->name.size() + part->bytes.size();
    parts.push_back(std::move(*part));
  }
  if (expected != bytes.size())
    return std::unexpected(fmt::format("the archive holds {} bytes that belong to none of its parts",
                                       bytes.size() > expected ? bytes.size() - expected : 0));
  if (!headers_agree(bytes, parts)) return std::unexpected("the two headers of a part do not agree");
  if (!are_ordinary_files(bytes, parts))
    return std::unexpected("a part has other attributes than those of an ordinary file");
  return parts;
}

}  // namespace pawl
