// Folders to measure in, and what the disk does when nobody else asks.
#pragma once

#include <filesystem>
#include <string>

namespace pawl::bench {

// Empty at first, gone at the end.
class Folder {
 public:
  Folder(const std::filesystem::path& parent, const std::string& name);
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Lets what earlier measurements left to be written, or deleted, be over.
void settle_disk();

// What one run of one step asks of the disk, and nothing else: as many syncs, each after as many bytes.
class DiskProbe {
 public:
  explicit DiskProbe(const std::filesystem::path& folder);
  ~DiskProbe();
  DiskProbe(const DiskProbe&) = delete;
  DiskProbe& operator=(const DiskProbe&) = delete;

  double seconds(int syncs);

 private:
  static constexpr int slots = 1000;
  void write_at(int slot);

  std::string bytes_ = std::string(24 << 10, 'x');
  int file_ = -1;
  int next_ = 0;
};

}  // namespace pawl::bench
