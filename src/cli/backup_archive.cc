#include "cli/backup_archive.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <vector>

#include "core/json.h"
#include "crypto/sha256.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;
using boost::json::array;
using boost::json::object;

constexpr std::size_t block_bytes = 512;
constexpr std::size_t piece_bytes = std::size_t{1} << 20;
constexpr std::size_t manifest_bytes_max = std::size_t{1} << 30;
constexpr std::string_view manifest_name = "manifest.json";
constexpr std::string_view evidence_folder = "evidence/";

// The fields of a ustar header that are used here, with their places.
struct Field {
  std::size_t at, bytes;
};
constexpr Field name_field{0, 100}, mode_field{100, 8}, uid_field{108, 8}, gid_field{116, 8}, size_field{124, 12},
    time_field{136, 12}, sum_field{148, 8}, type_field{156, 1}, magic_field{257, 8};
constexpr std::string_view magic("ustar\00000", 8);
constexpr std::uint64_t octal_size_max = 077777777777;  // 8 GiB; larger ones are written in binary, as GNU tar does

using Block = std::array<char, block_bytes>;

[[noreturn]] void fail(const fs::path& file, std::string_view what, int error = errno) {
  throw ArchiveFailure(fmt::format("{}: {}: {}", file.string(), what, std::strerror(error)));
}
[[noreturn]] void refuse(const std::string& what) {
  throw ArchiveFailure(fmt::format("this is not a backup that pawl made, or a damaged one: {}", what));
}

void put_field(Block& block, Field field, std::string_view text) {
  std::copy_n(text.data(), std::min(text.size(), field.bytes), block.data() + field.at);
}

std::string_view text_in(const Block& block, Field field) {
  std::string_view all(block.data() + field.at, field.bytes);
  return all.substr(0, all.find('\0'));
}

// With the field of the sum itself taken as spaces.
std::uint64_t sum_of(const Block& block) {
  std::uint64_t sum = sum_field.bytes * ' ';
  for (std::size_t i = 0; i < block.size(); ++i)
    if (i < sum_field.at || i >= sum_field.at + sum_field.bytes) sum += static_cast<unsigned char>(block[i]);
  return sum;
}

std::uint64_t octal_in(const Block& block, Field field) {
  std::uint64_t out = 0;
  std::string_view text = text_in(block, field);
  text = text.substr(0, text.find(' '));
  if (text.empty()) refuse("a header lacks a number");
  for (char c : text) {
    if (c < '0' || c > '7') refuse("a header has a number that is none");
    out = out * 8 + static_cast<std::uint64_t>(c - '0');
  }
  return out;
}

std::uint64_t size_in(const Block& block) {
  if ((static_cast<unsigned char>(block[size_field.at]) & 0x80) == 0) return octal_in(block, size_field);
  std::uint64_t out = 0;
  for (std::size_t i = size_field.bytes - 8; i < size_field.bytes; ++i)
    out = out << 8 | static_cast<unsigned char>(block[size_field.at + i]);
  return out;
}

Block header_of(const std::string& name, std::uint64_t size) {
  if (name.size() >= name_field.bytes) throw ArchiveFailure(name + " is too long a name for the archive");
  Block block{};
  put_field(block, name_field, name);
  put_field(block, mode_field, "0000600");
  put_field(block, uid_field, "0000000");
  put_field(block, gid_field, "0000000");
  if (size <= octal_size_max) {
    put_field(block, size_field, fmt::format("{:011o}", size));
  } else {
    block[size_field.at] = static_cast<char>(0x80);
    for (std::size_t i = 0; i < 8; ++i)
      block[size_field.at + size_field.bytes - 1 - i] = static_cast<char>(size >> (8 * i));
  }
  put_field(block, time_field, "00000000000");
  put_field(block, type_field, "0");
  put_field(block, magic_field, magic);
  put_field(block, sum_field, fmt::format("{:06o}", sum_of(block)) + std::string("\0 ", 2));
  return block;
}

std::uint64_t padding_of(std::uint64_t size) { return (block_bytes - size % block_bytes) % block_bytes; }

void read_exactly(std::istream& in, char* to, std::size_t bytes) {
  in.read(to, static_cast<std::streamsize>(bytes));
  if (static_cast<std::size_t>(in.gcount()) != bytes) refuse("it was cut short");
}

void write_all(const Descriptor& out, std::string_view bytes, const fs::path& file) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(out.get(), bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(file, "it cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(done));
  }
}

struct Member {
  std::uint64_t bytes = 0;
  std::string sha256;
};

// Reads a member's bytes, a piece at a time.
template <class Take>
Member read_member(std::istream& in, std::uint64_t size, Take take) {
  Sha256Stream sum;
  std::vector<char> piece(std::min<std::uint64_t>(size, piece_bytes));
  for (std::uint64_t left = size; left > 0;) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(left, piece.size()));
    read_exactly(in, piece.data(), count);
    sum.add({piece.data(), count});
    take(std::string_view(piece.data(), count));
    left -= count;
  }
  Block rest;
  read_exactly(in, rest.data(), padding_of(size));
  return {size, sum.finish().hex()};
}

object read_manifest(std::istream& in, std::uint64_t size) {
  if (size > manifest_bytes_max) refuse("its manifest is too large");
  std::string text;
  read_member(in, size, [&](std::string_view piece) { text += piece; });
  auto value = parse_json(text);
  if (!value || !value->is_object()) refuse("its manifest is not JSON");
  return std::move(value->get_object());
}

void compare(const object& manifest, const std::map<std::string, Member>& members) {
  const Json* files = manifest.if_contains("files");
  if (!files || !files->is_array()) refuse("its manifest names no files");
  std::size_t known = 0;
  for (const Json& each : files->get_array()) {
    if (!each.is_object()) refuse("its manifest names a file that is none");
    const std::string name = pawl::text_in(each.get_object(), "name");
    const Json* bytes = each.get_object().if_contains("bytes");
    auto found = members.find(name);
    if (found == members.end()) refuse(fmt::format("{} is missing", name));
    if (!bytes || !bytes->is_int64() || static_cast<std::uint64_t>(bytes->get_int64()) != found->second.bytes ||
        pawl::text_in(each.get_object(), "sha256") != found->second.sha256)
      refuse(fmt::format("{} is not the file that the manifest names", name));
    ++known;
  }
  if (known != members.size()) refuse("it holds files that its manifest does not name");
}

}  // namespace

ArchiveWriter::ArchiveWriter(fs::path file)
    : file_(std::move(file)), out_(::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
  if (!out_.is_open()) fail(file_, "the archive cannot be made");
}

ArchiveWriter::~ArchiveWriter() {
  if (!is_finished_ && out_.is_open()) ::unlink(file_.c_str());
}

void ArchiveWriter::put(std::string_view bytes) {
  bytes_ += bytes.size();
  write_all(out_, bytes, file_);
}

void ArchiveWriter::put_header(const std::string& name, std::uint64_t size) {
  const Block block = header_of(name, size);
  put({block.data(), block.size()});
}

void ArchiveWriter::pad(std::uint64_t size) {
  const Block zeros{};
  put({zeros.data(), padding_of(size)});
}

void ArchiveWriter::note(const std::string& name, std::uint64_t size, const std::string& sha256) {
  files_.push_back(object{{"name", name}, {"bytes", size}, {"sha256", sha256}});
}

void ArchiveWriter::add(const std::string& name, std::string_view bytes) {
  put_header(name, bytes.size());
  put(bytes);
  pad(bytes.size());
  note(name, bytes.size(), sha256(bytes).hex());
}

void ArchiveWriter::add_file(const std::string& name, const fs::path& from) {
  Descriptor file(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!file.is_open() || ::fstat(file.get(), &status) != 0) fail(from, "it cannot be read");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  put_header(name, size);
  Sha256Stream sum;
  std::vector<char> piece(piece_bytes);
  for (std::uint64_t left = size; left > 0;) {
    const ssize_t done = ::read(file.get(), piece.data(), std::min<std::uint64_t>(left, piece.size()));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(from, "it cannot be read");
    if (done == 0) throw ArchiveFailure(from.string() + " became shorter while it was read");
    std::string_view bytes(piece.data(), static_cast<std::size_t>(done));
    sum.add(bytes);
    put(bytes);
    left -= bytes.size();
  }
  pad(size);
  note(name, size, sum.finish().hex());
}

void ArchiveWriter::finish(object manifest) {
  manifest["files"] = std::move(files_);
  const std::string text = canonical(manifest) + "\n";
  put_header(std::string(manifest_name), text.size());
  put(text);
  pad(text.size());
  const Block zeros{};
  for (int i = 0; i < 2; ++i) put({zeros.data(), zeros.size()});
  if (::fsync(out_.get()) != 0) fail(file_, "the archive cannot be written");
  is_finished_ = true;
}

bool is_backup_name(std::string_view name) {
  constexpr std::array files{std::string_view("pawl.db"), std::string_view("secret"),
                             std::string_view("signing-key.json"), std::string_view("admin.key"),
                             std::string_view("pawl.yaml")};
  if (std::ranges::find(files, name) != files.end()) return true;
  // evidence/<tenant>/<run>.zip
  if (!name.starts_with(evidence_folder)) return false;
  name.remove_prefix(evidence_folder.size());
  const auto slash = name.find('/');
  auto is_plain = [](std::string_view part) {
    return !part.empty() && part[0] != '.' &&
           part.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_.") == part.npos;
  };
  return slash != name.npos && is_plain(name.substr(0, slash)) && is_plain(name.substr(slash + 1));
}

Sink file_sink(const fs::path& place) {
  auto out = std::make_shared<Descriptor>(::open(place.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!out->is_open()) fail(place, "it cannot be made");
  return [out, place](std::string_view bytes) {
    write_all(*out, bytes, place);
    if (bytes.empty() && ::fsync(out->get()) != 0) fail(place, "it cannot be written");
  };
}

object extract_archive(std::istream& in, const OpenMember& open) {
  std::map<std::string, Member> members;
  while (true) {
    Block block;
    read_exactly(in, block.data(), block.size());
    if (text_in(block, magic_field) != "ustar" || sum_of(block) != octal_in(block, sum_field))
      refuse(members.empty() ? "it does not begin like one" : "a header is damaged");
    const std::string name(text_in(block, name_field));
    const std::uint64_t size = size_in(block);
    if (block[type_field.at] != '0') refuse(fmt::format("{} is not a plain file", name));
    if (name == manifest_name) {
      object manifest = read_manifest(in, size);
      compare(manifest, members);
      return manifest;
    }
    if (!is_backup_name(name)) refuse("it holds a file that does not belong to a backup");
    if (members.contains(name)) refuse(fmt::format("it holds {} twice", name));
    const Sink sink = open(name);
    members[name] = read_member(in, size, sink);
    sink({});
  }
}

BackupContents contents_of(Store& store) {
  BackupContents out;
  out.position = store.last_position();
  std::map<StreamKey, std::uint64_t> ends;  // of streams that move in frames which are not in the tables
  store.for_each_frame([&](Position, std::string_view parts) {
    for_each_part(parts, [&](const StreamPart& part) {
      const auto lines = static_cast<std::uint64_t>(std::ranges::count(part.lines, '\n'));
      std::uint64_t& end = ends[part.key];
      end = std::max(end, part.first_seq + lines - 1);
    });
  });
  auto end_of = [&](StreamKey key, std::uint64_t in_tables) {
    const auto found = ends.find(key);
    const std::uint64_t end = found == ends.end() ? in_tables : std::max(in_tables, found->second);
    if (found != ends.end()) ends.erase(found);
    return end;
  };
  for (const Tenant& tenant : out.tenants = store.tenants()) {
    // A tenant's own stream is in the tables as soon as it is in a frame.
    auto stream = store.history(StreamKey::of(tenant.id));
    out.events += end_of(StreamKey::of(tenant.id), stream.last_seq);
    out.described.push_back(boost::json::object{{"id", tenant.id.str()},
                                                {"name", tenant.name},
                                                {"seq", static_cast<std::int64_t>(stream.last_seq)},
                                                {"head", stream.head.hex()}});
    constexpr std::size_t rows_a_look = 500;
    for (RunId place{};;) {
      auto rows = store.load_from(tenant.id, place, rows_a_look);
      for (const RunRow& row : rows) out.events += end_of(StreamKey::of(tenant.id, row.id), row.seq);
      out.runs += rows.size();
      if (rows.size() < rows_a_look) break;
      place = rows.back().id;
      ++place.bits.low;
    }
  }
  // Runs that no table knows yet.
  for (const auto& [key, end] : ends) {
    out.events += end;
    ++out.runs;
  }
  return out;
}

}  // namespace pawl
