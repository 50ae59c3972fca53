// What became of processes that a test's programs have started.
#pragma once

#include <fmt/format.h>
#include <sys/types.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace pawl {

inline bool is_running(pid_t pid) {
  std::ifstream stat(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(stat, text);  // fails, and does not throw, when the process ends meanwhile
  return !text.empty() && !text.contains(") Z ") && !text.contains(") X ");
}

// As they wrote them there.
inline std::vector<pid_t> pids_in(const std::filesystem::path& file) {
  std::ifstream text(file);
  std::vector<pid_t> pids;
  for (pid_t pid; text >> pid;) pids.push_back(pid);
  return pids;
}

}  // namespace pawl
