#include "process/sandbox.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>

namespace pawl {
namespace {

namespace fs = std::filesystem;

constexpr int look_time_max_ms = 5000;
constexpr std::size_t reason_bytes_max = 300;
constexpr std::string_view environment_of_bwrap = "PATH=/usr/bin:/bin";

constexpr std::array system_folders{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"};
constexpr std::array system_files{
    "/etc/alternatives", "/etc/ssl",        "/etc/ca-certificates", "/etc/pki",        "/etc/resolv.conf",
    "/etc/hosts",        "/etc/host.conf",  "/etc/nsswitch.conf",   "/etc/gai.conf",   "/etc/services",
    "/etc/protocols",    "/etc/passwd",     "/etc/group",           "/etc/localtime",  "/etc/timezone",
    "/etc/ld.so.cache",  "/etc/ld.so.conf", "/etc/ld.so.conf.d",    "/etc/mime.types", "/etc/gitconfig",
    "/etc/bash.bashrc",  "/etc/profile",    "/etc/environment"};

void add(std::vector<std::string>& argv, std::initializer_list<std::string_view> words) {
  for (const auto word : words) argv.emplace_back(word);
}

// What must not be seen may lie in a folder that is shown.
void hide(std::vector<std::string>& argv, const SandboxPlan& sandbox) {
  for (const auto& path : sandbox.hidden) {
    const auto holds = [&](const std::string& folder) {
      std::error_code error;
      const auto real = fs::canonical(folder, error);
      return is_within(path, folder) || (!error && is_within(path, real));
    };
    if (!std::ranges::any_of(system_folders, holds) && !std::ranges::any_of(sandbox.readable, holds)) continue;
    std::error_code error;
    if (fs::is_directory(path, error))
      add(argv, {"--tmpfs", path});
    else if (fs::exists(path, error))
      add(argv, {"--ro-bind", "/dev/null", path});
  }
}

// A program outside of what is readable anyway is made so: it alone, at the place where it was named, and where a link
// leads to.
void show_program(std::vector<std::string>& argv, const std::string& program) {
  if (!program.starts_with('/')) return;
  const auto is_system = [](const std::string& path) {
    return std::ranges::any_of(system_folders,
                               [&](const std::string folder) { return path.starts_with(folder + "/"); });
  };
  std::error_code error;
  const auto real = fs::canonical(program, error).string();
  if (error) return;
  if (!is_system(program)) add(argv, {"--ro-bind-try", program, program});
  if (real != program && !is_system(real)) add(argv, {"--ro-bind-try", real, real});
}

std::vector<std::string> arguments(const std::string& bwrap, const SandboxPlan& sandbox, const std::string& program) {
  std::vector<std::string> argv{bwrap, "--unshare-all", "--unshare-user"};
  if (sandbox.network) add(argv, {"--share-net"});
  add(argv, {"--die-with-parent", "--cap-drop", "ALL", "--disable-userns", "--hostname", "sandbox"});
  for (const char* folder : system_folders) {
    std::error_code error;
    // Where /bin is a link into /usr it stays one.
    if (fs::is_symlink(folder, error))
      add(argv, {"--symlink", fs::read_symlink(folder, error).string(), folder});
    else
      add(argv, {"--ro-bind-try", folder, folder});
  }
  for (const char* file : system_files) add(argv, {"--ro-bind-try", file, file});
  add(argv, {"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", "/var/tmp"});
  for (const auto& path : sandbox.readable) add(argv, {"--ro-bind-try", path, path});
  hide(argv, sandbox);
  if (sandbox.shows_program) show_program(argv, program);
  for (const auto& path : sandbox.writable) add(argv, {"--bind", path, path});
  add(argv, {"--chdir", sandbox.directory, "--remount-ro", "/"});
  return argv;
}

// As arguments of bwrap, each ended by a NUL.
std::string setting_of(const std::vector<std::string>& environment) {
  std::string out("--clearenv\0", 11);
  for (const auto& entry : environment) {
    const auto equals = entry.find('=');
    for (const auto& word : {std::string("--setenv"), entry.substr(0, equals), entry.substr(equals + 1)})
      out.append(word).push_back('\0');
  }
  return out;
}

std::string first_line(const std::string& text) {
  return text.substr(0, std::min({text.find('\n'), text.size(), reason_bytes_max}));
}

// By our PATH, not by that of the program.
std::string found(const std::string& name) {
  if (name.contains('/')) return name;
  const char* variable = std::getenv("PATH");
  std::string_view path = variable && *variable ? variable : "/usr/local/bin:/usr/bin:/bin";
  while (!path.empty()) {
    const auto folder = path.substr(0, path.find(':'));
    path.remove_prefix(std::min(path.size(), folder.size() + 1));
    const auto candidate = std::string(folder) + "/" + name;
    if (!folder.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return name;
}

}  // namespace

bool is_within(const fs::path& inner, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

ProcessPlan Sandbox::wrap(ProcessPlan plan, const SandboxPlan& sandbox) const {
  auto argv = arguments(bwrap_, sandbox, plan.argv.front());
  argv.front() = found(bwrap_);
  auto variables = std::make_shared<const Descriptor>(file_in_memory(setting_of(plan.environment)));
  // Told to end, bwrap would end at once, and all in it without a chance to tidy up: so it does not listen, and what it
  // runs does.
  add(argv, {"--args", std::to_string(variables->get()), "--", "/usr/bin/env", "--default-signal=TERM", "--"});
  plan.environment = {std::string(environment_of_bwrap)};
  plan.inherited.push_back(std::move(variables));
  std::ranges::move(plan.argv, std::back_inserter(argv));
  plan.argv = std::move(argv);
  plan.directory = {};
  plan.ignores_term = true;
  return plan;
}

std::expected<void, std::string> Sandbox::look() const {
  auto out = make_pipe();
  const auto null = open_null_device();
  auto plan = wrap({.argv = {"true"},
                    .environment = {"PATH=/usr/bin:/bin"},
                    .directory = {},
                    .stdin_fd = null.get(),
                    .stdout_fd = null.get(),
                    .stderr_fd = out.write_end.get()},
                   {.directory = "/tmp", .writable = {}, .readable = {}});
  auto process = Process::spawn(plan);
  if (!process)
    return std::unexpected(bwrap_ + " cannot be run: " + std::generic_category().message(process.error().error) +
                           "; install the package bubblewrap");
  out.write_end.close();
  pollfd wait{.fd = process->ended_fd(), .events = POLLIN, .revents = 0};
  ::poll(&wait, 1, look_time_max_ms);
  const auto status = process->kill_and_reap();
  char buffer[1024];
  const auto got = ::read(out.read_end.get(), buffer, sizeof buffer);
  const std::string said(buffer, got > 0 ? static_cast<std::size_t>(got) : 0);
  if (status && WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return {};
  return std::unexpected(said.empty() ? bwrap_ + " does not work here" : first_line(said));
}

const std::expected<void, std::string>& Sandbox::is_available() const {
  std::call_once(looked_, [this] { found_ = look(); });
  return found_;
}

bool can_limit_processes(const ControlGroup& group) { return group.limits_processes() || ::getuid() != 0; }

std::vector<ProcessPlan::Limit> process_limits(const SandboxLimits& limits, const ControlGroup& group) {
  std::vector<ProcessPlan::Limit> out{{RLIMIT_NOFILE, static_cast<rlim_t>(limits.files_max)},
                                      {RLIMIT_FSIZE, static_cast<rlim_t>(limits.file_bytes_max)},
                                      {RLIMIT_CORE, 0}};
  // What is reserved but never touched does not count here, unlike with RLIMIT_AS: run-times reserve far more than they
  // use.
  if (!group.limits_memory()) out.push_back({RLIMIT_DATA, static_cast<rlim_t>(limits.memory_bytes_max)});
  if (!group.limits_processes()) out.push_back({RLIMIT_NPROC, static_cast<rlim_t>(limits.processes_max)});
  return out;
}

}  // namespace pawl
