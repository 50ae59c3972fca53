#include "child.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <stdexcept>

#include "bench/figures.h"
#include "measure.h"

extern char** environ;

namespace pawl::bench {
namespace {

namespace fs = std::filesystem;

// Less than this is not worth a word.
constexpr double cores_told_min = 0.01;
constexpr std::string_view own_prefix = "pawl-";

}  // namespace

Child::Child(const std::vector<std::string>& command, const fs::path& errors) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int failed = posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  output_ = ends[0];
  if (failed) throw std::runtime_error(fmt::format("cannot execute {}: {}", command[0], std::strerror(failed)));
}

Child::~Child() {
  close(output_);
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
}

std::string Child::read_line() {
  std::string line;
  for (char c; read(output_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

std::map<std::string, double> Child::cpu_seconds() const {
  std::map<std::string, double> out;
  std::error_code gone;
  for (const auto& thread : fs::directory_iterator(fmt::format("/proc/{}/task", pid_), gone)) {
    std::string name;
    double nanoseconds = 0;
    std::getline(std::ifstream(thread.path() / "comm"), name);
    std::ifstream(thread.path() / "schedstat") >> nanoseconds;
    out[name] += nanoseconds / 1e9;
  }
  return out;
}

Cores::Cores(std::vector<const Child*> children)
    : children_(std::move(children)),
      before_(seconds_by_name()),
      client_before_(cpu_seconds_now()),
      begin_(seconds_now()) {}

std::map<std::string, double> Cores::seconds_by_name() const {
  std::map<std::string, double> out;
  for (const Child* child : children_)
    for (const auto& [name, seconds] : child->cpu_seconds()) out[name] += seconds;
  return out;
}

std::string Cores::text() const {
  double took = seconds_now() - begin_;
  std::string out;
  for (const auto& [name, seconds] : seconds_by_name()) {
    auto before = before_.find(name);
    double cores = (seconds - (before == before_.end() ? 0 : before->second)) / took;
    if (cores < cores_told_min) continue;
    out += fmt::format("{} {:.2f}, ", name.starts_with(own_prefix) ? name.substr(own_prefix.size()) : name, cores);
  }
  return out + fmt::format("client {:.2f}", (cpu_seconds_now() - client_before_) / took);
}

}  // namespace pawl::bench
