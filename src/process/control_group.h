// A control group of the kernel for one process and all that comes of it, where the machine lets us make one: it bounds
// memory and processes together, which limits of a single process cannot, and nothing escapes from it by forking.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace pawl {

struct ControlLimits {
  std::size_t memory_bytes_max = 0;  // 0 = as much as there is
  int processes_max = 0;             // likewise
};

class ControlGroup {
 public:
  ControlGroup() = default;
  // Of either version of control groups; with as many of the controllers as can be had, possibly none.
  static ControlGroup make(const std::string& name, const ControlLimits& limits);
  // One that somebody else made.
  explicit ControlGroup(std::vector<std::string> folders) : folders_(std::move(folders)) {}
  ControlGroup(ControlGroup&& other) noexcept = default;
  ControlGroup& operator=(ControlGroup&& other) noexcept = default;
  // Must be empty by then; see end().

  bool limits_memory() const { return limits_memory_; }
  bool limits_processes() const { return limits_processes_; }
  const std::vector<std::string>& folders() const { return folders_; }
  // What a process writes 0 to in order to join.
  std::vector<std::string> entrances() const;
  // Kills who is in it, and removes it. How many were.
  int end();

 private:
  std::vector<std::string> folders_;
  bool limits_memory_ = false;
  bool limits_processes_ = false;
};

}  // namespace pawl
