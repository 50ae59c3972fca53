#include "process/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {  // glibc 2.36 forgets to say so itself
#include <sys/pidfd.h>
}

#include <cerrno>
#include <csignal>
#include <string_view>
#include <thread>

namespace pawl {
namespace {

constexpr std::string_view default_path = "/usr/local/bin:/usr/bin:/bin";

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

std::string_view search_path(const std::vector<std::string>& environment) {
  for (std::string_view entry : environment)
    if (entry.starts_with("PATH=")) return entry.substr(5);
  return default_path;
}

// Where the program may lie, in the order in which execve should try.
std::vector<std::string> candidates(const ProcessPlan& plan) {
  const std::string& name = plan.argv.front();
  if (name.empty()) return {};
  if (name.contains('/')) return {name};
  std::vector<std::string> result;
  std::string_view path = search_path(plan.environment);
  while (!path.empty()) {
    const auto colon = path.find(':');
    const auto directory = path.substr(0, colon);
    // An empty entry means the current directory elsewhere; nobody means it to.
    if (!directory.empty()) result.push_back(std::string(directory) + "/" + name);
    path = colon == std::string_view::npos ? std::string_view{} : path.substr(colon + 1);
  }
  return result;
}

// Everything the child needs, made before it exists: between vfork and exec it may not allocate.
struct Orders {
  std::vector<char*> argv;
  std::vector<char*> environment;
  std::vector<char*> programs;
  const char* directory = nullptr;
  int standard_fds[3] = {-1, -1, -1};
  int failure_fd = -1;
  pid_t parent = 0;
  bool dies_with_thread = false;
  bool ignores_term = false;
  const std::vector<ProcessPlan::Limit>* limits = nullptr;
  std::vector<char*> control_groups;
  std::vector<int> inherited;
};

[[noreturn]] void give_up(const Orders& orders, SpawnError::Stage stage) {
  const SpawnError error{.stage = stage, .error = errno};
  [[maybe_unused]] const auto ignored = ::write(orders.failure_fd, &error, sizeof error);
  ::_exit(127);
}

[[noreturn]] void become(const Orders& orders) {
  using Stage = SpawnError::Stage;
  if (orders.dies_with_thread) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != orders.parent) ::_exit(127);  // the parent died before the line above
  }
  ::setsid();
  for (auto group = orders.control_groups.begin(); *group; ++group) {
    const int fd = ::open(*group, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || ::write(fd, "0", 1) != 1) give_up(orders, Stage::resources);
    ::close(fd);
  }
  for (int fd = 0; fd < 3; ++fd)
    if (::dup2(orders.standard_fds[fd], fd) < 0) give_up(orders, Stage::resources);
  // Close on exec rather than now: the pipe that reports a failure must live until then.
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  for (const int fd : orders.inherited)
    if (::fcntl(fd, F_SETFD, 0) < 0) give_up(orders, Stage::resources);
  if (orders.directory && ::chdir(orders.directory) < 0) give_up(orders, Stage::directory);

  // Ignored signals would stay ignored (SIGPIPE, which every server ignores and every filter needs).
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &by_default, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);

  if (orders.ignores_term) ::signal(SIGTERM, SIG_IGN);
  for (const auto& limit : *orders.limits) {
    // Never more than we have ourselves: only root might raise it.
    rlimit now{};
    if (::getrlimit(static_cast<__rlimit_resource_t>(limit.resource), &now) != 0) continue;
    const rlim_t most = limit.value < now.rlim_max ? limit.value : now.rlim_max;
    const rlimit wanted{.rlim_cur = most, .rlim_max = most};
    if (::setrlimit(static_cast<__rlimit_resource_t>(limit.resource), &wanted) != 0) give_up(orders, Stage::resources);
  }

  int error = ENOENT;
  for (auto program = orders.programs.begin(); *program; ++program) {
    ::execve(*program, orders.argv.data(), orders.environment.data());
    // As a shell does: a match that may not be run is remembered, and the search goes on.
    if (errno == EACCES) error = EACCES;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) give_up(orders, Stage::program);
  }
  errno = error;
  give_up(orders, Stage::program);
}

// vfork: no page tables are copied, so a large pawl spawns as fast as a small one. The child runs in our memory until
// exec, hence all signals are held back meanwhile: a handler of ours must not run in it.
[[gnu::noinline]] pid_t launch(const Orders& orders) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::vfork();
  if (pid == 0) become(orders);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

std::optional<SpawnError> read_failure(int fd) {
  SpawnError error;
  for (;;) {
    const auto got = ::read(fd, &error, sizeof error);
    if (got == sizeof error) return error;
    if (got == 0) return std::nullopt;  // closed by exec
    if (errno == EAGAIN) {
      pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
      ::poll(&wait, 1, -1);
    }
  }
}

std::vector<int> numbers_of(const std::vector<std::shared_ptr<const Descriptor>>& descriptors) {
  std::vector<int> out;
  for (const auto& descriptor : descriptors) out.push_back(descriptor->get());
  return out;
}

pid_t wait_for(pid_t pid, int* status, int options) {
  for (;;) {
    const pid_t got = ::waitpid(pid, status, options);
    if (got >= 0 || errno != EINTR) return got;
  }
}

}  // namespace

std::expected<Process, SpawnError> Process::spawn(const ProcessPlan& plan) {
  const auto programs = candidates(plan);
  Pipe failure = make_pipe();
  const Orders orders{.argv = pointers(plan.argv),
                      .environment = pointers(plan.environment),
                      .programs = pointers(programs),
                      .directory = plan.directory.empty() ? nullptr : plan.directory.c_str(),
                      .standard_fds = {plan.stdin_fd, plan.stdout_fd, plan.stderr_fd},
                      .failure_fd = failure.write_end.get(),
                      .parent = ::getpid(),
                      .dies_with_thread = plan.dies_with_thread,
                      .ignores_term = plan.ignores_term,
                      .limits = &plan.limits,
                      .control_groups = pointers(plan.control_groups),
                      .inherited = numbers_of(plan.inherited)};
  const pid_t pid = launch(orders);
  if (pid < 0) return std::unexpected(SpawnError{.error = errno});
  failure.write_end.close();
  Process process(pid, Descriptor(::pidfd_open(pid, 0)));
  if (!process.ended_.is_open()) return std::unexpected(SpawnError{.error = errno});
  if (const auto error = read_failure(failure.read_end.get())) return std::unexpected(*error);
  return process;
}

Process::~Process() { kill_and_reap(); }

void Process::signal_group(int signal) const {
  if (pid_ > 0) ::kill(-pid_, signal);
}

std::optional<int> Process::kill_and_reap() {
  if (pid_ <= 0) return std::nullopt;
  signal_group(SIGKILL);
  const pid_t pid = std::exchange(pid_, 0);
  int status = 0;
  pollfd wait{.fd = ended_.get(), .events = POLLIN, .revents = 0};
  if (ended_.is_open()) ::poll(&wait, 1, static_cast<int>(reap_time_max.count()));
  if (wait_for(pid, &status, ended_.is_open() ? WNOHANG : 0) == pid) return status;
  std::thread([pid] {
    int ignored;
    wait_for(pid, &ignored, 0);
  }).detach();
  return std::nullopt;
}

}  // namespace pawl
