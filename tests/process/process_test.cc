// Child processes: what they get, how they end, and what of that their parent is told.
#include "process/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "support/waiting.h"

namespace pawl {
namespace {

namespace fs = std::filesystem;

const std::string system_path = "PATH=/usr/bin:/bin";

bool becomes_readable(int fd) {
  pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&wait, 1, static_cast<int>(std::chrono::milliseconds(hang_limit).count())) == 1;
}

// A process whose output comes here.
class Child {
 public:
  explicit Child(ProcessPlan plan) : process_(spawn(plan)) { out_.write_end.close(); }

  Process& process() { return *process_; }
  void end() { process_.reset(); }

  // What it says next; empty when nobody is left who could say anything.
  std::string read_some() {
    char buffer[256];
    if (!becomes_readable(out_.read_end.get())) throw std::runtime_error("the child neither ends nor says anything");
    const auto got = ::read(out_.read_end.get(), buffer, sizeof buffer);
    return {buffer, got > 0 ? static_cast<std::size_t>(got) : 0};
  }
  std::string read_line() {
    std::string line;
    while (!line.ends_with('\n')) {
      const std::string more = read_some();
      if (more.empty()) throw std::runtime_error("the child ended within a line: " + line);
      line += more;
    }
    return line;
  }
  std::string read_all() {
    std::string all;
    for (std::string more; !(more = read_some()).empty();) all += more;
    return all;
  }
  // As waitpid gives it.
  int status() {
    if (!becomes_readable(process_->ended_fd())) throw std::runtime_error("the child does not end");
    return process_->kill_and_reap().value();
  }

 private:
  Process spawn(ProcessPlan& plan) {
    plan.stdin_fd = null_.get();
    if (plan.stdout_fd < 0) plan.stdout_fd = out_.write_end.get();
    plan.stderr_fd = null_.get();
    auto process = Process::spawn(plan);
    if (!process) throw std::system_error(process.error().error, std::generic_category(), plan.argv.front());
    return std::move(*process);
  }

  Pipe out_ = make_pipe();
  Descriptor null_ = open_null_device();
  std::optional<Process> process_;
};

ProcessPlan plan_of(std::vector<std::string> argv) {
  return {.argv = std::move(argv), .environment = {system_path}, .directory = {}};
}
ProcessPlan script(const std::string& text) { return plan_of({"sh", "-c", text}); }

std::string output_of(const ProcessPlan& plan) { return Child(plan).read_all(); }

class ProcessFilesTest : public testing::Test {
 protected:
  ProcessFilesTest() {
    std::string name = (fs::temp_directory_path() / "pawl-process-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~ProcessFilesTest() override { fs::remove_all(folder_); }

  void write_program(const std::string& name, const std::string& text, fs::perms mode) const {
    std::ofstream(folder_ / name) << text;
    fs::permissions(folder_ / name, mode);
  }

  fs::path folder_;
};

SpawnError spawn_error(ProcessPlan plan) {
  const Descriptor null = open_null_device();
  plan.stdin_fd = plan.stdout_fd = plan.stderr_fd = null.get();
  const auto process = Process::spawn(plan);
  EXPECT_FALSE(process.has_value()) << "it was spawned";
  return process ? SpawnError{} : process.error();
}

// --- how it ends ---

TEST(Process, reports_the_exit_code) {
  for (const int code : {0, 1, 7, 255}) {
    const int status = Child(script("exit " + std::to_string(code))).status();
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), code);
  }
}

TEST(Process, reports_the_signal_that_ended_it) {
  const int status = Child(script("kill -TERM $$")).status();
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(Process, a_signal_reaches_all_of_its_group) {
  Child child(script("sleep 1000 & echo ready; wait"));
  EXPECT_EQ(child.read_line(), "ready\n");
  child.process().signal_group(SIGTERM);
  EXPECT_EQ(child.read_all(), "") << "the end of the output: both have ended";
  const int status = child.status();
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGTERM);
}

TEST(Process, what_it_left_running_ends_with_it) {
  Child child(script("sleep 1000 & echo ready; exit 3"));
  EXPECT_EQ(child.read_line(), "ready\n");
  const int status = child.status();
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_EQ(child.read_all(), "");
}

TEST(Process, is_killed_when_its_owner_lets_it_go) {
  Child child(script("trap '' TERM; echo ready; sleep 1000"));
  EXPECT_EQ(child.read_line(), "ready\n");
  child.end();
  EXPECT_EQ(child.read_all(), "");
}

TEST(Process, is_reaped_once) {
  Child child(script("exit 0"));
  child.status();
  EXPECT_EQ(child.process().pid(), 0);
  EXPECT_FALSE(child.process().kill_and_reap());
}

TEST(Process, dies_with_the_thread_that_spawned_it_when_its_plan_says_so) {
  std::optional<Child> child;
  std::thread([&] {
    ProcessPlan plan = script("echo ready; exec sleep 1000");
    plan.dies_with_thread = true;
    child.emplace(plan);
    child->read_line();
  }).join();
  const int status = child->status();
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(Process, survives_sigterm_when_its_plan_says_so) {
  ProcessPlan plan = script("kill -TERM $$; echo still here");
  plan.ignores_term = true;
  EXPECT_EQ(output_of(plan), "still here\n");
}

TEST(Process, obeys_signals_that_its_parent_ignores) {
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  const int status = Child(script("kill -PIPE $$; echo still here")).status();
  std::signal(SIGPIPE, before);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGPIPE);
}

// --- what it gets ---

TEST(Process, has_the_environment_of_its_plan_and_nothing_of_ours) {
  ASSERT_EQ(::setenv("PAWL_TEST_OURS", "1", 1), 0);
  ProcessPlan plan = plan_of({"env"});
  plan.environment.push_back("TEXT=a=b c");
  EXPECT_EQ(output_of(plan), system_path + "\nTEXT=a=b c\n");
  ::unsetenv("PAWL_TEST_OURS");
}

TEST(Process, leads_a_session_and_a_group_of_its_own) {
  Child child(plan_of({"cut", "-d ", "-f1,5,6", "/proc/self/stat"}));
  const std::string pid = std::to_string(child.process().pid());
  EXPECT_EQ(child.read_all(), pid + " " + pid + " " + pid + "\n");
}

TEST(Process, inherits_what_its_plan_names_and_nothing_else) {
  const auto file = std::make_shared<const Descriptor>(file_in_memory("told"));
  const auto other = file_in_memory("not told");
  const auto path_of = [](const Descriptor& descriptor) { return "/proc/self/fd/" + std::to_string(descriptor.get()); };
  ProcessPlan plan = plan_of({"cat", path_of(*file), path_of(other)});
  plan.inherited = {file};
  EXPECT_EQ(output_of(plan), "told");
}

TEST_F(ProcessFilesTest, begins_in_the_directory_of_its_plan) {
  ProcessPlan plan = plan_of({"pwd", "-P"});
  plan.directory = folder_.string();
  EXPECT_EQ(output_of(plan), fs::canonical(folder_).string() + "\n");
}

TEST_F(ProcessFilesTest, its_program_is_looked_up_in_its_own_path) {
  write_program("greet", "#!/bin/sh\necho hello\n", fs::perms::owner_all);
  ProcessPlan plan = plan_of({"greet"});
  EXPECT_EQ(spawn_error(plan).stage, SpawnError::Stage::program);
  plan.environment = {"PATH=/missing::" + folder_.string()};
  EXPECT_EQ(output_of(plan), "hello\n");
}

// --- limits ---

TEST_F(ProcessFilesTest, is_ended_when_it_writes_more_than_its_limit) {
  constexpr rlim_t file_bytes_max = 4096;
  const fs::path file = folder_ / "output";
  const Descriptor output(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ProcessPlan plan = plan_of({"head", "-c", "100000", "/dev/zero"});
  plan.stdout_fd = output.get();
  plan.limits = {{RLIMIT_FSIZE, file_bytes_max}, {RLIMIT_CORE, 0}};
  const int status = Child(plan).status();
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGXFSZ);
  EXPECT_EQ(fs::file_size(file), file_bytes_max);
}

TEST(Process, has_the_limits_of_its_plan_but_never_more_than_we_have) {
  rlimit ours{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &ours), 0);
  ProcessPlan plan = script("ulimit -Hn");
  plan.limits = {{RLIMIT_NOFILE, 16}};
  EXPECT_EQ(output_of(plan), "16\n");
  plan.limits = {{RLIMIT_NOFILE, RLIM_INFINITY}};
  const std::string most = ours.rlim_max == RLIM_INFINITY ? "unlimited" : std::to_string(ours.rlim_max);
  EXPECT_EQ(output_of(plan), most + "\n");
}

// --- why it does not begin ---

TEST_F(ProcessFilesTest, a_program_that_is_missing_or_not_executable_is_reported) {
  write_program("data", "no program\n", fs::perms::owner_read);
  for (const auto& [program, error] : {std::pair<std::string, int>{"no-such-program", ENOENT},
                                       {"/no/such/program", ENOENT},
                                       {"", ENOENT},
                                       {(folder_ / "data").string(), EACCES},
                                       {folder_.string(), EACCES}}) {
    const SpawnError found = spawn_error(plan_of({program}));
    EXPECT_EQ(found.stage, SpawnError::Stage::program) << program;
    EXPECT_EQ(found.error, error) << program;
  }
}

TEST_F(ProcessFilesTest, a_directory_that_is_missing_is_reported) {
  ProcessPlan plan = plan_of({"true"});
  plan.directory = (folder_ / "missing").string();
  const SpawnError found = spawn_error(plan);
  EXPECT_EQ(found.stage, SpawnError::Stage::directory);
  EXPECT_EQ(found.error, ENOENT);
}

TEST_F(ProcessFilesTest, a_control_group_that_is_missing_is_reported) {
  ProcessPlan plan = plan_of({"true"});
  plan.control_groups = {(folder_ / "cgroup.procs").string()};
  EXPECT_EQ(spawn_error(plan).stage, SpawnError::Stage::resources);
}

}  // namespace
}  // namespace pawl
