#include "bench/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

#include "bench/figures.h"

namespace pawl::bench {

namespace fs = std::filesystem;

Folder::Folder(const fs::path& parent, const std::string& name) : path_(parent / name) { fs::remove_all(path_); }

Folder::~Folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void settle_disk() {
  sync();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
}

DiskProbe::DiskProbe(const fs::path& folder) {
  fs::create_directories(folder);
  file_ = open((folder / "probe").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  for (int i = 0; i < slots; ++i) write_at(i);
  fsync(file_);
}

DiskProbe::~DiskProbe() { close(file_); }

double DiskProbe::seconds(int syncs) {
  double begin = seconds_now();
  for (int i = 0; i < syncs; ++i) {
    write_at(next_++ % slots);
    if (fdatasync(file_) != 0) throw std::runtime_error("the probe could not sync");
  }
  return seconds_now() - begin;
}

void DiskProbe::write_at(int slot) {
  if (pwrite(file_, bytes_.data(), bytes_.size(), slot * static_cast<off_t>(bytes_.size())) < 0)
    throw std::runtime_error("the probe could not write");
}

}  // namespace pawl::bench
