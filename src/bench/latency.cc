#include "bench/latency.h"

#include <fcntl.h>
#include <unistd.h>

#include <stdexcept>
#include <string>

#include "bench/figures.h"
#include "bench/world.h"

namespace pawl::bench {
namespace {

constexpr int runs_to_warm = 200;
constexpr int syncs_of_a_run = 2;

// What one run of one step asks of the disk, and nothing else: as many syncs, each after as many bytes.
class DiskProbe {
 public:
  explicit DiskProbe(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    file_ = open((folder / "probe").c_str(), O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < slots; ++i) write_at(i);
    fsync(file_);
  }
  ~DiskProbe() { close(file_); }

  double seconds(int syncs) {
    double begin = seconds_now();
    for (int i = 0; i < syncs; ++i) {
      write_at(next_++ % slots);
      if (fdatasync(file_) != 0) throw std::runtime_error("the probe could not sync");
    }
    return seconds_now() - begin;
  }

 private:
  static constexpr int slots = 1000;
  void write_at(int slot) {
    if (pwrite(file_, bytes_.data(), bytes_.size(), slot * static_cast<off_t>(bytes_.size())) < 0)
      throw std::runtime_error("the probe could not write");
  }

  std::string bytes_ = std::string(24 << 10, 'x');
  int file_ = -1;
  int next_ = 0;
};

}  // namespace

Latency measure_latency(const std::filesystem::path& folder, const std::function<bool(std::size_t done)>& go_on) {
  DiskProbe disk(folder);
  World world({.folder = folder / "data", .slots = 4});
  WorkflowName one = world.publish(steps_workflow("one", 1));
  for (int i = 0; i < runs_to_warm; ++i) world.run_one(one);
  Latency out;
  while (go_on(out.run_ms.size())) {
    out.run_ms.push_back(world.run_one(one) * 1e3);
    out.disk_ms.push_back(disk.seconds(syncs_of_a_run) * 1e3);
  }
  return out;
}

}  // namespace pawl::bench
