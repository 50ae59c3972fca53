#include "store/sqlite/log_check.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <string_view>
#include <vector>

namespace pawl::sqlite {
namespace {

// https://www.sqlite.org/fileformat2.html#the_write_ahead_log, https://www.sqlite.org/walformat.html
constexpr std::size_t log_header_bytes = 32;
constexpr std::size_t frame_header_bytes = 24;
constexpr std::size_t index_header_bytes = 48;
constexpr std::uint32_t log_magic = 0x377f0682;  // and 1 when words are summed up as big-endian
constexpr std::uint32_t index_version = 3007000;

std::uint32_t big_endian(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

std::uint32_t native(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

struct Sum {
  std::uint32_t first = 0;
  std::uint32_t second = 0;

  static Sum stored(std::string_view bytes, std::size_t at) {
    return {big_endian(bytes, at), big_endian(bytes, at + 4)};
  }
  void add(std::string_view bytes, bool is_swapped) {
    for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      std::uint32_t x = native(bytes, at), y = native(bytes, at + 4);
      if (is_swapped) x = __builtin_bswap32(x), y = __builtin_bswap32(y);
      first += x + second;
      second += y + first;
    }
  }
  friend bool operator==(const Sum&, const Sum&) = default;
};

bool read_bytes(std::ifstream& in, std::span<char> out) {
  in.read(out.data(), static_cast<std::streamsize>(out.size()));
  return in.gcount() == static_cast<std::streamsize>(out.size());
}

// How many frames of this log the shared memory knows to be on the disk.
std::uint32_t frames_known(const std::string& database, std::string_view salts) {
  std::ifstream in(database + "-shm", std::ios::binary);
  std::array<char, 2 * index_header_bytes> bytes{};
  if (!in || !read_bytes(in, bytes)) return 0;
  const std::string_view both(bytes.data(), bytes.size());
  const std::string_view header = both.substr(0, index_header_bytes);
  const bool is_whole = header == both.substr(index_header_bytes) && native(header, 0) == index_version &&
                        header[12] != 0 && header.substr(32, 8) == salts;
  return is_whole ? native(header, 16) : 0;
}

}  // namespace

std::optional<std::string> damage_in_log(const std::string& database) {
  const std::string path = database + "-wal";
  std::ifstream in(path, std::ios::binary);
  std::array<char, log_header_bytes> header_bytes{};
  if (!in || !read_bytes(in, header_bytes)) return std::nullopt;
  const std::string_view header(header_bytes.data(), header_bytes.size());
  const bool is_swapped = ((big_endian(header, 0) & 1) != 0) != (std::endian::native == std::endian::big);
  const std::uint32_t page_bytes = big_endian(header, 8);
  Sum sum;
  sum.add(header.substr(0, 24), is_swapped);
  // It is synced before the first frame is written.
  if ((big_endian(header, 0) & ~1u) != log_magic || page_bytes < 512 || page_bytes > 65536 ||
      sum != Sum::stored(header, 24))
    return in.peek() == std::ifstream::traits_type::eof()
               ? std::nullopt
               : std::optional(fmt::format("{}: the header of the log is damaged", path));

  const std::string_view salts = header.substr(16, 8);
  const std::uint32_t known = frames_known(database, salts);
  std::vector<char> bytes(frame_header_bytes + page_bytes);
  const std::string_view frame(bytes.data(), bytes.size());
  std::uint32_t first_bad = 0;
  bool has_ended = false;  // the commit that the bad frame belongs to
  std::uint32_t number = 1;
  for (; read_bytes(in, bytes); ++number) {
    const bool is_of_this_log = frame.substr(8, 8) == salts;
    sum.add(frame.substr(0, 8), is_swapped);
    sum.add(frame.substr(frame_header_bytes), is_swapped);
    const Sum stored = Sum::stored(frame, 16);
    const bool is_good = is_of_this_log && sum == stored;
    sum = stored;
    if (is_good && first_bad == 0) continue;
    if (first_bad == 0) first_bad = number;
    if (number <= known || (is_good && has_ended))
      return fmt::format("{}: frame {} of the log is damaged, and holds a commit that was acknowledged", path,
                         first_bad);
    has_ended = has_ended || (is_of_this_log && big_endian(frame, 4) != 0);
  }
  if (number <= known)
    return fmt::format("{}: the log ends after {} frames, and {} were on the disk", path, number - 1, known);
  return std::nullopt;
}

}  // namespace pawl::sqlite
