// The archive of a backup: a tar file (POSIX ustar) of plain files. Its last member, manifest.json, names every other
// one with its size and SHA-256, so an archive that was cut short or changed is told apart before anything of it is
// used. `tar -tvf` lists it.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <istream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "process/descriptor.h"
#include "store/store.h"

namespace pawl {

inline constexpr std::string_view backup_format = "pawl-backup";
inline constexpr int backup_version = 1;

// The archive cannot be written, or is not one that this class wrote.
class ArchiveFailure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class ArchiveWriter {
 public:
  // Makes the file, for its owner only; throws ArchiveFailure when there is one. It goes with this, unless finished.
  explicit ArchiveWriter(std::filesystem::path file);
  ~ArchiveWriter();
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;

  void add(const std::string& name, std::string_view bytes);
  void add_file(const std::string& name, const std::filesystem::path& from);
  // Adds "files" to the manifest, and the manifest to the archive. Durable when it returns.
  void finish(boost::json::object manifest);

  std::uint64_t bytes() const { return bytes_; }

 private:
  void put_header(const std::string& name, std::uint64_t size);
  void put(std::string_view bytes);
  void pad(std::uint64_t size);
  void note(const std::string& name, std::uint64_t size, const std::string& sha256);

  std::filesystem::path file_;
  Descriptor out_;
  std::uint64_t bytes_ = 0;
  boost::json::array files_;
  bool is_finished_ = false;
};

// Whether a member of this name belongs to a backup: the files of an installation, and what is in its folders.
bool is_backup_name(std::string_view name);

// Takes the bytes of a member piece by piece; an empty piece is its end.
using Sink = std::function<void(std::string_view bytes)>;
// Into a new file, for its owner only; durable at the end.
Sink file_sink(const std::filesystem::path& place);
// The members one after the other; `open` says where the bytes of one go. Gives the manifest, once every member has
// turned out to be what it says. Throws ArchiveFailure.
using OpenMember = std::function<Sink(const std::string& name)>;
boost::json::object extract_archive(std::istream& in, const OpenMember& open);

// What a journal holds, as the manifest says it. Events that are in the journal's frames and not yet in the tables
// count as well.
struct BackupContents {
  std::vector<Tenant> tenants;
  boost::json::array described;  // one object for each tenant, with the head of its own stream
  std::uint64_t runs = 0, events = 0;
  Position position = 0;
};
BackupContents contents_of(Store& store);

}  // namespace pawl
