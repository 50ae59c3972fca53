// A child process in a session of its own: without our terminal, our descriptors, our environment or our signals, and
// never outliving whoever asked for it.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "process/descriptor.h"

namespace pawl {

struct ProcessPlan {
  // argv[0] is looked up in the PATH of `environment`, not in ours, unless it has a slash.
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // NAME=value; all that the child gets
  std::string directory;                 // empty = ours
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  // The kernel kills the child when the thread that spawned it ends, however it ends. For children that the same
  // thread also waits for.
  bool dies_with_thread = false;
  // It, and what it becomes, does not end by SIGTERM: for a wrapper whose inner program is to be told alone.
  bool ignores_term = false;
  struct Limit {
    int resource = 0;  // RLIMIT_...
    rlim_t value = 0;
  };
  std::vector<Limit> limits = {};
  // It puts itself in here before it becomes the program: paths of cgroup.procs.
  std::vector<std::string> control_groups = {};
  // They stay open in the child, under the same numbers: for a plan that names a number in argv.
  std::vector<std::shared_ptr<const Descriptor>> inherited = {};
};

struct SpawnError {
  enum class Stage { resources, directory, program } stage = Stage::resources;
  int error = 0;  // an errno
};

// The leader of its own process group. Signals go to the whole group. A leader that has ended is not reaped before the
// rest of its group is killed: until then its number cannot be given to anyone else.
class Process {
 public:
  static std::expected<Process, SpawnError> spawn(const ProcessPlan& plan);

  Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, 0)), ended_(std::move(other.ended_)) {}
  Process& operator=(Process&& other) noexcept {
    std::swap(pid_, other.pid_);
    std::swap(ended_, other.ended_);
    return *this;
  }
  // Kills and reaps what is left.
  ~Process();

  pid_t pid() const { return pid_; }
  // Readable once the leader has ended.
  int ended_fd() const { return ended_.get(); }
  void signal_group(int signal) const;
  // Kills the group, then waits for the leader. Its status as waitpid gives it; nothing when it does not die in time
  // (stuck in the kernel): it is then reaped in the background.
  std::optional<int> kill_and_reap();

 private:
  Process(pid_t pid, Descriptor ended) : pid_(pid), ended_(std::move(ended)) {}

  pid_t pid_ = 0;  // 0 = reaped
  Descriptor ended_;
};

inline constexpr std::chrono::milliseconds reap_time_max{2000};

}  // namespace pawl
