// A program in a sandbox of bubblewrap: processes of its own, no network unless it is given one, a system that it can
// only read, and a few folders. What is not named is not there: the data folder, homes, other programs' processes.
//
//   readable   /usr, /bin, /lib*, /sbin, /opt, and of /etc what programs need to find names, libraries and certificates
//   writable   its folders; /tmp, /run and /var/tmp, which are empty and go with it
//
// bwrap itself runs outside of the sandbox, so no variable of the program is in its environment: the loader would obey
// LD_PRELOAD there. The variables are set inside. They are in no process's arguments either, since they may be secrets.
//
// Everything in it dies with its first process, that with bwrap, that with the thread that started it.
#pragma once

#include <cstddef>
#include <expected>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "process/control_group.h"
#include "process/process.h"

namespace pawl {

struct SandboxPlan {
  std::string directory;  // where it begins: in one of the writable ones
  std::vector<std::string> writable;
  std::vector<std::string> readable;
  std::vector<std::string> hidden;  // of what is readable: these are empty
  bool network = false;
  bool shows_program = true;  // the program itself too, when it lies elsewhere
};

struct SandboxLimits {
  std::size_t memory_bytes_max = std::size_t{4} << 30;
  int processes_max = 512;
  int files_max = 1024;                               // open at once, by one process
  std::size_t file_bytes_max = std::size_t{8} << 30;  // of one file
};

// Of the environment of a program in a sandbox; bwrap takes 9000 arguments, three a variable.
inline constexpr std::size_t sandbox_variables_max = 2000;

// Whether the one path is the other, or lies in it. Links are not followed.
bool is_within(const std::filesystem::path& inner, const std::filesystem::path& outer);

class Sandbox {
 public:
  // The program: a path, or a name that is looked up in our PATH.
  explicit Sandbox(std::string bwrap = "bwrap") : bwrap_(std::move(bwrap)) {}

  // Tries it out, the first time that it is asked; afterwards it knows. Why not, when not.
  const std::expected<void, std::string>& is_available() const;

  // The plan, inside. argv[0] is looked up in there, by the program's PATH. Requires at most sandbox_variables_max.
  ProcessPlan wrap(ProcessPlan plan, const SandboxPlan& sandbox) const;

 private:
  std::expected<void, std::string> look() const;

  std::string bwrap_;
  mutable std::once_flag looked_;
  mutable std::expected<void, std::string> found_;
};

// Of one process; they hold where there is no control group too. Processes are counted by user, which binds nobody who
// is root: see `can_limit_processes`.
std::vector<ProcessPlan::Limit> process_limits(const SandboxLimits& limits, const ControlGroup& group);
// With this group, or for this user.
bool can_limit_processes(const ControlGroup& group);

}  // namespace pawl
