#include "process/control_group.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "process/descriptor.h"

namespace pawl {
namespace {

constexpr const char* root = "/sys/fs/cgroup";
constexpr int end_rounds_max = 100;
constexpr auto end_round_pause = std::chrono::milliseconds(5);

bool write_value(const std::string& path, const std::string& value) {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file.is_open() && ::write(file.get(), value.data(), value.size()) == static_cast<ssize_t>(value.size());
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// Where we are ourselves: "8:pids:/path" of version 1, "0::/path" of version 2.
std::string own_path(const std::string& controller) {
  std::ifstream lines("/proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == line.npos) continue;
    const auto names = "," + line.substr(first + 1, second - first - 1) + ",";
    if (controller.empty() ? names == ",," : names.contains("," + controller + ",")) {
      auto path = line.substr(second + 1);
      return path == "/" ? "" : path;
    }
  }
  return {};
}

std::vector<pid_t> members(const std::string& folder) {
  std::vector<pid_t> out;
  std::ifstream procs(folder + "/cgroup.procs");
  for (pid_t pid; procs >> pid;)
    if (pid > 0) out.push_back(pid);
  return out;
}

}  // namespace

ControlGroup ControlGroup::make(const std::string& name, const ControlLimits& limits) {
  ControlGroup made;
  const auto add = [&](const std::string& parent) -> std::string {
    const auto folder = parent + "/" + name;
    if (::mkdir(folder.c_str(), 0755) != 0) return {};
    made.folders_.push_back(folder);
    return folder;
  };
  const std::string base = root;
  if (exists(base + "/cgroup.controllers")) {
    const auto parent = base + own_path("");
    // Possible only where whoever started us has given this part of the tree to us; then both, else neither.
    write_value(parent + "/cgroup.subtree_control", "+memory +pids");
    const auto folder = add(parent);
    if (folder.empty()) return made;
    if (limits.memory_bytes_max > 0)
      made.limits_memory_ = write_value(folder + "/memory.max", std::to_string(limits.memory_bytes_max));
    if (limits.processes_max > 0)
      made.limits_processes_ = write_value(folder + "/pids.max", std::to_string(limits.processes_max));
    return made;
  }
  if (exists(base + "/pids")) {
    const auto folder = add(base + "/pids" + own_path("pids"));
    if (!folder.empty() && limits.processes_max > 0)
      made.limits_processes_ = write_value(folder + "/pids.max", std::to_string(limits.processes_max));
  }
  if (limits.memory_bytes_max > 0 && exists(base + "/memory")) {
    const auto folder = add(base + "/memory" + own_path("memory"));
    if (!folder.empty())
      made.limits_memory_ = write_value(folder + "/memory.limit_in_bytes", std::to_string(limits.memory_bytes_max));
  }
  return made;
}

std::vector<std::string> ControlGroup::entrances() const {
  std::vector<std::string> out;
  for (const auto& folder : folders_) out.push_back(folder + "/cgroup.procs");
  return out;
}

int ControlGroup::end() {
  int killed = 0;
  for (const auto& folder : folders_) {
    for (int round = 0; round < end_rounds_max; ++round) {
      // Who forks faster than this is stopped by the limit on processes, and dies in one of the rounds.
      for (const pid_t pid : members(folder)) killed += ::kill(pid, SIGKILL) == 0 ? 1 : 0;
      if (::rmdir(folder.c_str()) == 0 || !exists(folder)) break;
      std::this_thread::sleep_for(end_round_pause);
    }
  }
  folders_.clear();
  return killed;
}

}  // namespace pawl
