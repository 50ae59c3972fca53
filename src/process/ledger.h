// What this process has started, kept in a folder, so that the next one finds and ends what a sudden death left behind.
//
//   <folder>/<mark>    one file a process, there for as long as it is:  boot server_pid server_start groups... | pid
//   start
//
// The kernel kills a child together with us (ProcessPlan::dies_with_thread), but not what the child has forked. Those
// are found by what they cannot easily shed: the control group, the process group and session of the child, and a mark
// in the environment that each of them inherited. Numbers are compared with start times, so that nobody dies for having
// been given the number of somebody else.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "process/control_group.h"

namespace pawl {

inline constexpr std::string_view mark_variable = "PAWL_PROCESS";

class ProcessLedger {
 public:
  // Made when it is first needed.
  explicit ProcessLedger(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Ends what processes that are gone have left behind. How many processes that were.
  int end_leftovers() const;

  // One process, from before it begins until nothing is left of it.
  class Entry {
   public:
    Entry(Entry&&) = default;
    Entry& operator=(Entry&&) = delete;
    // Ends whatever bears its mark.
    ~Entry();

    // NAME=value, for the environment of the process.
    std::string variable() const;
    const std::string& mark() const { return mark_; }
    const ControlGroup& group() const { return group_; }
    void began(pid_t pid);

   private:
    friend class ProcessLedger;
    Entry(std::filesystem::path file, std::string mark, ControlGroup group)
        : file_(std::move(file)), mark_(std::move(mark)), group_(std::move(group)) {}
    void write(const std::string& text) const;

    std::filesystem::path file_;
    std::string mark_;
    ControlGroup group_;
    bool has_begun_ = false;
  };
  // Throws std::system_error when the folder cannot be written.
  Entry enter(const ControlLimits& limits) const;

 private:
  std::filesystem::path folder_;
};

}  // namespace pawl
